/* Planning: see plan.h. make() does the work in order: the graph of a micro-batch, the cut into
 * stages, the buckets, the program of all ranks; then plan_rank() does the part of this rank: its
 * other graphs, its memory, its estimate. */
#include "plan/plan.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/sampler.h"
#include "graph/needs.h"
#include "plan/activations.h"
#include "plan/course.h"
#include "plan/cut.h"
#include "plan/given.h"
#include "plan/graphs.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"
#include "plan/stages.h"
#include "plan/staging.h"
#include "program/schedule.h"
#include "sync/sync.h"

static bool has_stage(const struct plan *plan) {
    return plan->config.cell.role == GRID_STAGE;
}

/* Kernels of the whole graph are this rank's. */
static bool holds_all(const struct plan *plan) {
    return has_stage(plan) && plan_stages(plan) == 1;
}

static bool list_has(const struct plan *plan, enum list_name name, enum instr_op op,
                     unsigned without_flags) {
    const struct instr_list *list = program_list(plan->program, plan->config.rank, name);
    for (int i = 0; i < list->count; i++) {
        if (list->items[i].op == op && !(list->items[i].flags & without_flags)) return true;
    }
    return false;
}

static bool steps_have(const struct plan *plan, enum instr_op op, unsigned without_flags) {
    return list_has(plan, LIST_BODY, op, without_flags) ||
           list_has(plan, LIST_LAST, op, without_flags);
}

/* Does a pass of another slot run between two segments of a pass? */
static bool is_interrupted(const struct plan *plan, enum list_name name) {
    const struct instr_list *list = program_list(plan->program, plan->config.rank, name);
    const struct chunk_sizes *sizes = program_of(plan->program, plan->config.rank)->chunk;
    int open = -1; /* the slot of the last pass, where that was a segment with others to come */
    for (int i = 0; i < list->count; i++) {
        const struct instr *instr = &list->items[i];
        if (!instr_runs_nodes(instr)) continue;
        int chunk = grid_chunk(&plan->program->grid, instr->stage),
            slot = sizes_slot(sizes, chunk, instr->slot);
        if (open >= 0 && slot != open) return true;
        int last = instr_is_forward(instr) ? 0 : sizes[chunk].buckets - 1;
        open = instr_is_segment(instr) && instr->segment != last ? slot : -1;
    }
    return false;
}

static struct placement_config placement_of(const struct plan *plan) {
    bool adds = steps_have(plan, INSTR_B, INSTR_NEW) || steps_have(plan, INSTR_W, INSTR_NEW);
    bool split = steps_have(plan, INSTR_W, 0);
    return (struct placement_config){
        .life = {.split = split,
                 .mixed = split && steps_have(plan, INSTR_B, 0),
                 .segments_apart =
                     is_interrupted(plan, LIST_BODY) || is_interrupted(plan, LIST_LAST),
                 .lockstep = plan->config.sync_bn && plan->config.cell.replica_count > 1,
                 .inputs = plan->device->backend->apart},
        .gradients_outside = !adds && !split};
}

static enum status add_micro(struct plan *plan, int64_t samples, bool training) {
    if (samples == 0 || plan_micro(plan, samples, training)) return STATUS_OK;
    CHECK(plan->micro_count < PLAN_MAX_MICRO, "more than %d sizes of micro-batches",
          PLAN_MAX_MICRO);
    struct micro_plan *micro = &plan->micro[plan->micro_count];
    TRY(graphs_make(plan, samples, training, &micro->graph));
    micro->samples = samples;
    micro->training = training;
    plan->micro_count++;
    return STATUS_OK;
}

/* --- stages --- */

/* A rank makes the kernels of its own stages; of the others it knows the layouts. */
static enum status make_kernels(const struct plan *plan, const struct micro_plan *micro) {
    const struct run_config *config = &plan->config;
    plan->device->dry = config->dry;
    for (int c = 0; has_stage(plan) && c < config->grid.chunks && !config->dry; c++) {
        int stage = grid_stage(&config->grid, config->cell.position, c);
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct node_range nodes =
                ranges_find(&micro->ranges, stage, SEGMENT_ALL, (enum phase)phase);
            TRY(graph_make_kernels(micro->graph, nodes.begin, nodes.end));
        }
    }
    return STATUS_OK;
}

static enum status cut_micro(struct plan *plan, struct micro_plan *micro) {
    TRY(graphs_cut(plan, micro));
    return holds_all(plan) || !plan_runs(plan, micro) ? STATUS_OK : make_kernels(plan, micro);
}

/* A rank adds its micro-batches in index order then, each summed over the replicas before. */
static enum sum_order own_order(const struct run_config *config) {
    bool scatters = config->sliced & SLICED_GRADIENTS && config->micro_batches > 1;
    return scatters ? SUM_REPLICA : config->sum;
}

/* All stages. */
static enum status plan_buckets(struct plan *plan) {
    const struct run_config *config = &plan->config;
    const struct ranges *ranges = &plan->micro[0].ranges;
    TRY(ties_of(ranges, &config->grid, own_order(config), &plan->ties));
    if (config->overlaps) TRY(ties_refuse(&plan->ties, ranges->graph, config->schedule));
    plan->rules = stages_rules(config);
    plan->buckets = holdings_count_buckets(ranges, &config->grid, &plan->ties, &plan->rules);
    return STATUS_OK;
}

/* Of this rank. */
static void plan_chunks(struct plan *plan) {
    const struct run_config *config = &plan->config;
    const struct grid *grid = &config->grid;
    const struct ranges *ranges = &plan->micro[0].ranges;
    plan->holdings = holdings_of(ranges, grid, &plan->ties, config->cell.position, &plan->rules);
    plan->chunk_count = has_stage(plan) ? grid->chunks : 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        int stage = grid_stage(grid, config->cell.position, c);
        struct bucket_source source = holdings_source(&plan->holdings, ranges, c, stage);
        plan->chunk[c] = (struct chunk_plan){.stage = stage, .buckets = buckets_of(&source)};
    }
}

static void cut_segments(struct plan *plan) {
    for (int i = 0; i < plan->micro_count; i++) {
        struct micro_plan *micro = &plan->micro[i];
        for (int c = 0; c < plan->chunk_count; c++) {
            int stage = plan->chunk[c].stage;
            if ((!micro->training && !plan->rules.apart) || plan->sizes[c].buckets <= 1) continue;
            struct bucket_source source =
                holdings_source(&plan->holdings, &micro->ranges, c, stage);
            buckets_cut(&plan->chunk[c].buckets, &source, &micro->ranges, stage);
        }
    }
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

const struct micro_plan *plan_micro(const struct plan *plan, int64_t samples, bool training) {
    for (int i = 0; i < plan->micro_count; i++) {
        if (plan->micro[i].samples == samples && plan->micro[i].training == training)
            return &plan->micro[i];
    }
    return NULL;
}

bool plan_runs(const struct plan *plan, const struct micro_plan *micro) {
    return !micro->training || !plan->config.forward;
}

/* How an epoch's short last step is dealt over all micro-batches; NULL where there is none. */
static int64_t *last_step_samples(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    int64_t total = (int64_t)config->replicas * config->micro_batches;
    struct sampler sampler = {.samples = config->dataset->count[SPLIT_TRAIN],
                              .batch = config->batch,
                              .replicas = config->replicas,
                              .micro_batches = config->micro_batches,
                              .unpadded = config->unpadded,
                              .drop_last = config->drop_last};
    int64_t last = plan->config.steps_per_epoch - 1;
    if (config->forward) return NULL;
    if (sampler_step_samples(&sampler, last) == config->batch) return NULL;
    int64_t *samples = MEM_ARRAY(int64_t, total);
    for (int64_t g = 0; g < total; g++) samples[g] = sampler_micro_samples(&sampler, last, (int)g);
    return samples;
}

/* Pipelines share the test samples. A rank without a stage runs as many rounds as the others,
 * and loads nothing. */
struct eval_share {
    int pipelines, index;
};

static struct eval_share eval_share(const struct run_config *config) {
    int own = group_of(&config->grid, GROUP_PIPELINE, config->rank);
    return (struct eval_share){group_count(&config->grid, GROUP_PIPELINE), own < 0 ? 0 : own};
}

/* The loaders' view of the run. */
static void plan_loaders(struct plan *plan) {
    const struct run_config *config = &plan->config;
    plan->train_loader =
        (struct loader_config){.split = SPLIT_TRAIN,
                               .batch = config->batch,
                               .replicas = config->replicas,
                               .micro_batches = config->micro_batches,
                               .first_micro = config->cell.first_replica * config->micro_batches,
                               .micro_count = config->cell.replica_count * config->micro_batches,
                               .seed = config->seed,
                               .unpadded = config->unpadded,
                               .drop_last = config->drop_last,
                               .workers = config->workers};
    if (plan->device->backend->apart && config->ranks == 1)
        plan->train_loader.depth = LOADER_DEPTH + PLAN_STEPS_AHEAD;
    if (config->overlaps) plan->train_loader.depth = LOADER_DEPTH + config->grid.stages;
    int64_t test = config->dataset->count[config->eval_split];
    struct eval_share eval = eval_share(config);
    plan->eval_batch = config->eval_batch;
    if (config->forward && config->forward_batch > 0) plan->eval_batch = config->forward_batch;
    if (plan->eval_batch > test) plan->eval_batch = test;
    plan->eval_loader = (struct loader_config){.split = config->eval_split,
                                               .evaluate = true,
                                               .batch = plan->eval_batch * eval.pipelines,
                                               .replicas = eval.pipelines,
                                               .micro_batches = 1,
                                               .first_micro = eval.index,
                                               .micro_count = 1,
                                               .workers = config->forward ? config->workers : 1,
                                               .depth = 2};
    plan->eval_rounds = loader_steps(config->dataset, &plan->eval_loader);
}

static enum status build_program(const struct plan *plan, const struct run_config *config,
                                 const int64_t *samples, struct program **out) {
    struct schedule_config schedule = {
        .grid = config->grid,
        .micro_batches = config->forward ? 0 : config->micro_batches,
        .behind_output = plan_stages(plan) - 1 - ranges_output_stage(&plan->micro[0].ranges),
        .sum = own_order(config),
        .samples = samples,
        .frozen = graphs_frozen_stages(plan),
        .clips =
            plan->program ? program_clips(plan->program) && !config->overlaps : plan_clips(config),
        .shares = config->sync_bn,
        .vertical_sync = config->vertical_sync,
        .ties = plan->ties.item,
        .tie_count = plan->ties.count,
        .buckets = plan->buckets.count,
        .recompute = config->recompute,
        .orders = plan_orders(plan)};
    TRY(schedule_build(config->schedule, &schedule, out));
    struct sync_config sync = {.buckets = plan->buckets.count,
                               .kept = plan->buckets.kept,
                               .sliced = config->sliced,
                               .prefetch = plan->buckets.ahead,
                               .every = config->sync_every,
                               .by_stage = config->groups_by_stage};
    return sync_insert(config->sync, *out, &sync);
}

enum status plan_other_program(const struct plan *plan, const struct run_config *config,
                               struct program **out) {
    return build_program(plan, config, NULL, out);
}

/* The short last step, where the run has one and a given program leaves it out. */
static enum status add_last(struct plan *plan, const char *name) {
    SCOPED(program_free) struct program *last = NULL;
    if (plan->program->every > 0) return STATUS_OK; /* no step is short */
    if (!plan->last_samples == !program_has_last(plan->program)) return STATUS_OK;
    TRY(plan->last_samples ? build_program(plan, &plan->config, plan->last_samples, &last)
                           : STATUS_OK);
    if (last) TRY(given_check_last(plan, last, name));
    program_set_last(plan->program, last);
    return STATUS_OK;
}

/* The most that any list needs. */
static void take_sizes(struct plan *plan) {
    const struct rank_program *own = program_of(plan->program, plan->config.rank);
    if (has_stage(plan)) plan->grads = own->grads;
    for (int c = 0; c < plan->chunk_count; c++) {
        plan->sizes[c] = own->chunk[c];
        if (plan->sizes[c].buckets == 1) buckets_join(&plan->chunk[c].buckets); /* segment 0: all */
    }
}

/* NCCL's operations have one order. A program that does not allow it takes another plane. */
static enum status check_order(struct plan *plan) {
    const struct run_config *config = &plan->config;
    char unheard[1024];
    plan->plane = config->plane;
    if (!plan->plane || strcmp(plan->plane, "nccl") != 0) return STATUS_OK;
    if (config->plane_named) return program_verify_in_order(plan->program, plan->last_samples);
    log_capture(unheard, sizeof unheard);
    enum status status = program_verify_in_order(plan->program, plan->last_samples);
    log_capture(NULL, 0);
    if (status != STATUS_OK) plan->plane = config->spread ? NULL : "peer";
    return STATUS_OK;
}

static enum status plan_program(struct plan *plan) {
    const char *name = plan->given.name ? plan->given.name : "program";
    const struct bytes *text = plan->given.program;
    if (plan->given.agreed) {
        TRY(plan_check_agreed(plan));
    } else if (text) {
        TRY(program_parse(name, (const char *)text->data, text->count, &plan->program));
        TRY(given_check(plan, name));
    } else {
        TRY(build_program(plan, &plan->config, NULL, &plan->program));
    }
    TRY(add_last(plan, name));
    TRY(program_verify(plan->program, plan->last_samples));
    TRY(check_order(plan));
    if (plan->given.agreed) return given_check_buckets(plan, PLAN_AGREED);
    return text ? given_check_buckets(plan, name) : STATUS_OK;
}

/* The batch norm that would have one value per channel over all ranks, were there one sample; or
 * NULL. */
static const struct node *one_value_batch_norm(const struct graph *graph) {
    for (int n = 0; n < graph->forward_count; n++) {
        const struct node *node = &graph->nodes[n];
        const struct shape *x = &graph->values[node->in[0]].type.shape;
        if (node->op == OP_BATCH_NORM_STATS && shape_count(x) == x->dim[0] * x->dim[1]) return node;
    }
    return NULL;
}

/* A whole step has a sample a rank at least; the short last one may leave a single one to them all.
 */
static enum status check_statistics(const struct plan *plan) {
    const struct run_config *config = &plan->config;
    const struct node *node = one_value_batch_norm(plan->micro[0].graph);
    if (!config->sync_bn || !plan->last_samples || !node) return STATUS_OK;
    for (int m = 0; m < config->micro_batches; m++) {
        int64_t samples = 0;
        for (int r = 0; r < config->replicas; r++)
            samples += plan->last_samples[r * config->micro_batches + m];
        if (samples != 1) continue;
        return fail(STATUS_USAGE,
                    "node %s: one value per channel over all ranks has no variance: micro-batch %d "
                    "of an epoch's last step has one sample\n  another --batch, or --drop-last",
                    node->name, m);
    }
    return STATUS_OK;
}

/* The other sizes of micro-batches that this rank meets. */
static enum status plan_other_graphs(struct plan *plan) {
    const struct run_config *config = &plan->config;
    int own = config->cell.replica_count * config->micro_batches,
        first = config->cell.first_replica * config->micro_batches;
    for (int g = first; plan->last_samples && g < first + own; g++)
        TRY(add_micro(plan, plan->last_samples[g], true));
    TRY(add_micro(plan, plan->eval_batch, false));
    if (config->forward_batch > 0) TRY(add_micro(plan, config->forward_batch, false));
    struct eval_share eval = eval_share(config);
    int64_t rest = config->dataset->count[config->eval_split] % (plan->eval_batch * eval.pipelines),
            own_rest = rest - eval.index * plan->eval_batch;
    bool is_short = own_rest > 0 && own_rest < plan->eval_batch;
    return is_short ? add_micro(plan, own_rest, false) : STATUS_OK;
}

static size_t most_of_kernels(const struct plan *plan,
                              size_t (*bytes)(const struct graph *, int begin, int end)) {
    size_t most = 0;
    for (int i = 0; i < plan->micro_count * plan->chunk_count * PHASE_COUNT; i++) {
        const struct micro_plan *micro = &plan->micro[i / PHASE_COUNT / plan->chunk_count];
        if (!plan_runs(plan, micro)) continue;
        int stage = plan->chunk[i / PHASE_COUNT % plan->chunk_count].stage;
        struct node_range nodes =
            ranges_find(&micro->ranges, stage, SEGMENT_ALL, (enum phase)(i % PHASE_COUNT));
        most = larger(most, bytes(micro->graph, nodes.begin, nodes.end));
    }
    return most;
}

static void want_inputs(const struct plan *plan, const struct micro_plan *micro, int stage,
                        uint32_t *wanted) {
    SCOPED(needs_free) struct needs needs = needs_of(&micro->ranges, stage);
    for (int i = 0; i < needs.input_count; i++) {
        int value = micro->graph->inputs[needs.inputs[i]];
        int field = dataset_field(plan->config.dataset, micro->graph->values[value].name);
        if (field >= 0) *wanted |= 1u << field;
    }
}

/* Labels go out with the output: those of a sample that could not be read say so. */
static void want_labels(const struct plan *plan, int stage, uint32_t *wanted) {
    const struct micro_plan *micro = &plan->micro[0];
    if (!plan->config.forward || stage != ranges_output_stage(&micro->ranges)) return;
    *wanted |= 1u << dataset_field(plan->config.dataset, micro->graph->losses[0].label);
}

/* Images are read by the first stage alone, as a rule: the others need not make them. */
static void plan_fields(struct plan *plan) {
    uint32_t wanted = 0;
    for (int i = 0; i < plan->micro_count; i++)
        for (int c = 0; c < plan->chunk_count; c++)
            want_inputs(plan, &plan->micro[i], plan->chunk[c].stage, &wanted);
    for (int c = 0; c < plan->chunk_count; c++) want_labels(plan, plan->chunk[c].stage, &wanted);
    plan->train_loader.asked = plan->config.chooses;
    plan->train_loader.unwanted = plan->eval_loader.unwanted = ~wanted;
}

static void plan_estimate(struct plan *plan) {
    struct memory_estimate *estimate = &plan->memory;
    estimate->apart = plan->device->backend->apart;
    estimate->params = state_param_bytes(plan->store);
    estimate->versions = state_kind_bytes(plan->store, ARRAY_VERSION);
    estimate->common =
        state_kind_bytes(plan->store, ARRAY_COMMON) + state_kind_bytes(plan->store, ARRAY_OUTER);
    estimate->gradients = state_kind_bytes(plan->store, ARRAY_GRAD);
    estimate->in_flight = state_kind_bytes(plan->store, ARRAY_GRAD_WINDOW);
    estimate->gathered = state_kind_bytes(plan->store, ARRAY_PARAM_WINDOW);
    estimate->state = state_kind_bytes(plan->store, ARRAY_STATE);
    estimate->buffers = state_kind_bytes(plan->store, ARRAY_BUFFER);
    estimate->messages = plan_mail_bytes(plan);
    estimate->scratch = most_of_kernels(plan, graph_scratch_bytes);
    estimate->packed = most_of_kernels(plan, graph_packed_bytes);
    if (has_stage(plan))
        estimate->loader =
            (plan->config.forward ? 0 : loader_bytes(plan->config.dataset, &plan->train_loader)) +
            loader_bytes(plan->config.dataset, &plan->eval_loader);
    estimate->staging = staging_bytes(plan);
    struct device_bytes bytes = {0};
    if (estimate->apart) plan->device->backend->memory_bytes(plan->device, &bytes);
    estimate->device_library = bytes.expected;
}

/* --- this rank's part --- */

/* Its program is there. */
static enum status plan_rank(struct plan *plan) {
    const struct run_config *config = &plan->config;
    take_sizes(plan);
    TRY(plan_other_graphs(plan));
    for (int i = 1; i < plan->micro_count; i++) TRY(cut_micro(plan, &plan->micro[i]));
    cut_segments(plan);
    plan_fields(plan);
    struct placement_config placement = placement_of(plan);
    plan_activations(plan, &placement);
    struct rank_program sizes = {.grads = plan->grads, .chunks = plan->chunk_count};
    memcpy(sizes.chunk, plan->sizes, sizeof plan->sizes);
    plan->store = stages_layout(plan, &plan->holdings, &sizes, config->cell.position,
                                config->cell.first_replica);
    plan_estimate(plan);
    plan_use_comm(plan, plan->comm);
    return STATUS_OK;
}

static void free_rank(struct plan *plan) {
    for (int i = 0; i < plan->micro_count; i++) graphs_free(plan, &plan->micro[i]);
    for (int c = 0; c < plan->chunk_count; c++) free(plan->chunk[c].buckets.items);
    holdings_free(&plan->holdings);
    forms_free(&plan->forms);
    state_layout_free(&plan->store);
}

/* Another rank's part, which borrows what all ranks have in common. */
static struct plan *plan_beside(const struct plan *plan, const struct run_config *config) {
    struct plan *other = MEM_NEW(struct plan);
    memcpy(other, plan, sizeof *plan);
    plan_configure(other, config);
    other->store = NULL;
    other->holdings = (struct holdings){0};
    other->forms = (struct slot_forms){0};
    other->memory = (struct memory_estimate){0};
    other->grads = other->chunk_count = 0;
    memset(other->sizes, 0, sizeof other->sizes);
    for (int i = 0; i < plan->micro_count; i++)
        other->micro[i] = (struct micro_plan){.samples = plan->micro[i].samples,
                                              .training = plan->micro[i].training,
                                              .graph = plan->micro[i].graph};
    plan_loaders(other);
    return other;
}

static enum status plan_other_rank(struct plan *plan) {
    TRY(cut_micro(plan, &plan->micro[0]));
    plan_chunks(plan);
    if (plan->given.name) TRY(given_check_buckets(plan, plan->given.name));
    return plan_rank(plan);
}

enum status plan_memory_of(const struct plan *plan, int rank, struct memory_estimate *out) {
    struct run_config config = resolve_for_rank(&plan->config, rank, true);
    struct plan *other = plan_beside(plan, &config);
    enum status status = plan_other_rank(other);
    if (status == STATUS_OK) *out = other->memory;
    for (int i = 0; i < plan->micro_count; i++) other->micro[i].graph = NULL;
    free_rank(other);
    free(other);
    plan->device->dry = plan->config.dry;
    return status;
}

/* --- the whole --- */

static atomic_int made;

int plan_count(void) {
    return made;
}

void plan_configure(struct plan *plan, const struct run_config *config) {
    memcpy((struct run_config *)&plan->config, config, sizeof *config);
}

static enum status open_device(struct plan *plan) {
    const struct run_config *config = &plan->config;
    if (!plan->pool)
        return device_open(config->device, config->device_index, config->threads, &plan->device);
    CHECK(config->dry, "a plan with shared graphs would make kernels");
    plan->device = plan_pool_device(plan->pool);
    return STATUS_OK;
}

static enum status make(struct plan *plan) {
    const struct run_config *config = &plan->config;
    TRY(open_device(plan));
    TRY(plan->device->backend->takes(plan->device, config->dtype));
    plan->device->dry = config->dry;
    plan->device->conv = config->conv;
    plan->device->tf32 = config->tf32;
    plan_loaders(plan);
    plan->last_samples = last_step_samples(plan);
    int64_t micro = config->batch / config->replicas / config->micro_batches;
    TRY(add_micro(plan, micro, true));
    plan->flop_ns =
        cost_at_rate(config->costs, plan->micro[0].graph, config->micro_batches).flop_ns;
    TRY(plan_choose(plan));
    TRY(plan_cut(plan));
    TRY(cut_micro(plan, &plan->micro[0]));
    TRY(plan_buckets(plan));
    plan_chunks(plan);
    TRY(check_statistics(plan));
    TRY(plan_program(plan));
    return plan_rank(plan);
}

enum status plan_new(const struct run_config *config, const struct plan_given *given,
                     struct plan **out) {
    struct plan *plan = MEM_NEW(struct plan);
    plan_configure(plan, config);
    if (given) plan->given = *given;
    plan->comm = config->comm;
    plan->pool = plan->given.pool;
    made++;
    enum status status = make(plan);
    const char *name = plan->given.agreed ? PLAN_AGREED : plan->given.program ? given->name : NULL;
    plan->given = (struct plan_given){.name = name};
    if (status == STATUS_OK)
        *out = plan;
    else
        plan_free(&plan);
    return status;
}

void plan_free(struct plan **plan) {
    if (!*plan) return;
    free_rank(*plan);
    choice_free(&(*plan)->choice);
    if (!(*plan)->pool) partition_free(&(*plan)->partition);
    ties_free(&(*plan)->ties);
    stage_buckets_free(&(*plan)->buckets);
    program_free(&(*plan)->program);
    if (!(*plan)->pool) device_close(&(*plan)->device);
    free((*plan)->last_samples);
    free(*plan);
    *plan = NULL;
}

size_t plan_heap_bytes(const struct plan *plan) {
    return state_heap_bytes(plan->store) + plan_move_bytes(&plan->config);
}

void plan_most_shared_bytes(const struct plan *plan, size_t *heap, size_t *channels) {
    *heap = *channels = 0;
    for (int p = 0; p < plan->config.grid.stages; p++) {
        *heap = larger(*heap, stages_heap_bytes(plan, p) + plan_move_bytes(&plan->config));
        *channels = larger(*channels, plan_channel_bytes_at(plan, p));
    }
}

size_t plan_bytes(const struct plan *plan) {
    return memory_sum(&plan->memory);
}
