/* Setting up and driving the executor: see exec.h. */
#include "exec/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"
#include "exec/tally.h"

static enum status find_input(const struct plan *plan, const struct graph *graph, const char *name,
                              struct input_binding *out) {
    int field = dataset_field(plan->config.dataset, name);
    if (field >= 0) {
        *out = (struct input_binding){INPUT_FIELD, field};
        return STATUS_OK;
    }
    if (strcmp(name, "sample_key") == 0) {
        *out = (struct input_binding){INPUT_KEY, 0};
        return STATUS_OK;
    }
    for (int i = 0; i < graph->loss_count; i++) {
        if (graph->losses[i].seed == NO_VALUE ||
            strcmp(graph->values[graph->losses[i].seed].name, name) != 0)
            continue;
        *out = (struct input_binding){INPUT_SEED, i};
        return STATUS_OK;
    }
    return fail(STATUS_USAGE, "model %s needs an input \"%s\" that data %s does not have",
                plan->config.model->name, name, plan->config.dataset->spec);
}

/* A field must have the type the graph was built for, batch dimension apart. */
static enum status check_field(const struct plan *plan, const struct value *value,
                               int field_index) {
    const struct field *field = &plan->config.dataset->field[field_index];
    const struct shape *want = &value->type.shape;
    char have_text[SHAPE_TEXT_BYTES], want_text[SHAPE_TEXT_BYTES];
    bool same =
        field->dtype == value->type.dtype && field->shape.rank + 1 == want->rank &&
        memcmp(field->shape.dim, want->dim + 1, (size_t)field->shape.rank * sizeof(int64_t)) == 0;
    if (same) return STATUS_OK;
    return fail(STATUS_USAGE, "model %s reads \"%s\" as %s per batch, data %s gives %s per sample",
                plan->config.model->name, value->name, shape_text(want, want_text),
                plan->config.dataset->spec, shape_text(&field->shape, have_text));
}

static enum status bind_names(const struct plan *plan, struct runnable *runnable) {
    const struct graph *graph = runnable->plan->graph;
    for (int i = 0; i < graph->input_count; i++) {
        const struct value *value = &graph->values[graph->inputs[i]];
        TRY(find_input(plan, graph, value->name, &runnable->input[i]));
        if (runnable->input[i].source == INPUT_FIELD)
            TRY(check_field(plan, value, runnable->input[i].index));
    }
    for (int i = 0; i < graph->loss_count; i++)
        runnable->label_field[i] = dataset_field(plan->config.dataset, graph->losses[i].label);
    return STATUS_OK;
}

/* Addresses that never change: locals in the arenas, parameters, buffers, loss seeds. Of what other
 * stages have there is none. */
static void bind_fixed(struct exec *exec, struct runnable *runnable, int chunk, int slot) {
    const struct plan *plan = exec->plan;
    const struct graph *graph = runnable->plan->graph;
    const struct placement *placement = plan_placement(plan, runnable->plan, chunk, slot);
    void **address = runnable->slot[sizes_slot(plan->sizes, chunk, slot)].address;
    size_t begin = runnable->plan->training ? plan_slot_begin(plan, chunk, slot)
                                            : plan->chunk[chunk].eval_begin;
    char *own = exec->arena + begin, *shared = exec->arena + plan->shared_begin;
    const struct store_layout *layout = exec->store->layout;
    int buffers = store_array(exec->store->layout, ARRAY_BUFFER, 0);
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *root = &graph->values[graph->values[v].root];
        if (root->kind == VALUE_PARAM && store_holds(&layout->params[root->index]))
            address[v] = store_read_param(exec->store, root->index).data;
        else if (root->kind == VALUE_BUFFER && store_holds(&layout->buffers[root->index]))
            address[v] = store_tensor(exec->store, buffers, root->index).data;
        else if (root->kind == VALUE_LOCAL && placement->offset[v] != PLACED_ELSEWHERE)
            address[v] = (placement->in_shared[v] ? shared : own) + placement->offset[v];
    }
}

void bind_inputs(struct exec *exec, struct runnable *runnable, int slot,
                 const struct micro_batch *samples) {
    const struct graph *graph = runnable->plan->graph;
    void **address = runnable->slot[slot].address;
    void *source[GRAPH_MAX_INPUTS];
    for (int i = 0; i < graph->input_count; i++) {
        const struct input_binding *input = &runnable->input[i];
        if (input->source == INPUT_FIELD) source[i] = samples->field[input->index];
        if (input->source == INPUT_KEY) source[i] = (void *)samples->sample_key;
        if (input->source == INPUT_SEED) source[i] = &exec->seed[input->index];
    }
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *root = &graph->values[graph->values[v].root];
        if (root->kind == VALUE_INPUT) address[v] = source[root->index];
    }
}

static int slot_count(const struct plan *plan) {
    return sizes_slot(plan->sizes, plan->chunk_count, 0);
}

static void bind_chunk(struct exec *exec, struct runnable *runnable, int chunk) {
    const struct chunk_sizes *sizes = exec->plan->sizes;
    int slots = runnable->plan->training ? sizes[chunk].slots : 1;
    for (int s = 0; s < slots; s++) {
        runnable->slot[sizes_slot(sizes, chunk, s)].address =
            MEM_ARRAY(void *, runnable->plan->graph->value_count);
        bind_fixed(exec, runnable, chunk, s);
    }
}

static enum status make_runnables(struct exec *exec) {
    for (int i = 0; i < exec->plan->micro_count; i++) {
        struct runnable *runnable = &exec->runnable[i];
        runnable->plan = &exec->plan->micro[i];
        TRY(bind_names(exec->plan, runnable));
        runnable->slot = MEM_ARRAY(struct binding, slot_count(exec->plan));
        if (!plan_runs(exec->plan, runnable->plan)) continue;
        for (int c = 0; c < exec->plan->chunk_count; c++) bind_chunk(exec, runnable, c);
    }
    return STATUS_OK;
}

static enum status open_loaders(struct exec *exec) {
    struct loader_config config = exec->plan->train_loader;
    if (exec->plan->chunk_count == 0) return STATUS_OK; /* a rank without a stage reads nothing */
    config.end_step = exec->plan->config.steps;
    if (config.end_step > 0) TRY(loader_open(exec->plan->config.dataset, &config, &exec->train));
    return loader_open(exec->plan->config.dataset, &exec->plan->eval_loader, &exec->eval);
}

static enum status open_self(struct exec *exec) {
    struct comm_config config = {.rank = 0,
                                 .size = 1,
                                 .heap_bytes = plan_heap_bytes(exec->plan),
                                 .channel_bytes = plan_channel_bytes(exec->plan)};
    return comm_open("self", &config, &exec->comm);
}

/* Every rank declares every group of a family, in the same order, and keeps its own. */
static enum status open_family(struct exec *exec, enum group_family family,
                               struct comm_group **own) {
    const struct grid *grid = &exec->plan->program->grid;
    int *ranks = MEM_ARRAY(int, grid_ranks(grid));
    enum status status = STATUS_OK;
    for (int g = 0; g < group_count(grid, family) && status == STATUS_OK; g++) {
        struct comm_group *group;
        int count = group_size(grid, family, g);
        for (int i = 0; i < count; i++) ranks[i] = group_rank(grid, family, g, i);
        status = comm_group_new(exec->comm, ranks, count, &group);
        if (status == STATUS_OK && comm_group_member(group) >= 0) *own = group;
    }
    free(ranks);
    return status;
}

/* The first group of all ranks is the communicator's own. */
static enum status open_groups(struct exec *exec) {
    const struct program *program = exec->plan->program;
    bool world = false;
    for (int g = 0; g < program->group_count; g++) {
        bool all = program->ranks == 1 || (program->group[g] == GROUP_WORLD && !world);
        if (all)
            exec->group[g] = comm_world(exec->comm);
        else
            TRY(open_family(exec, program->group[g], &exec->group[g]));
        world |= all;
    }
    return STATUS_OK;
}

/* Every rank declares the channels of every pipeline, in the same order, and keeps those it is an
 * end of. */
static enum status open_channels(struct exec *exec) {
    const struct plan *plan = exec->plan;
    const struct grid *grid = &plan->program->grid;
    int cuts = grid->stages * grid->chunks - 1, pipelines = group_count(grid, GROUP_PIPELINE),
        own = comm_rank(exec->comm), most = 0;
    exec->channel = MEM_ARRAY(struct comm_channel *, cuts * PHASE_COUNT + 1);
    for (int i = 0; i < pipelines * cuts * PHASE_COUNT; i++) {
        int cut = i / PHASE_COUNT % cuts, phase = i % PHASE_COUNT;
        int replica = i / PHASE_COUNT / cuts * grid->replicas_each;
        int low = grid_owner(grid, cut, replica), high = grid_owner(grid, cut + 1, replica);
        bool back = phase == PHASE_BACKWARD;
        struct comm_channel *channel;
        TRY(comm_channel_new(
            exec->comm, back ? high : low, back ? low : high, cut * PHASE_COUNT + phase,
            plan_message_bytes(plan, cut, (enum phase)phase), plan->program->credits, &channel));
        if (low == own || high == own) exec->channel[cut * PHASE_COUNT + phase] = channel;
    }
    for (int i = 0; i < plan->micro_count; i++)
        for (int c = 0; c < cuts * PHASE_COUNT; c++)
            if (plan->micro[i].crossing[c].count > most) most = plan->micro[i].crossing[c].count;
    exec->pieces = MEM_ARRAY(struct comm_piece, most + 1);
    return STATUS_OK;
}

static enum status set_up(struct exec *exec) {
    const struct plan *plan = exec->plan;
    if (exec->owns_comm) TRY(open_self(exec));
    exec_listen(exec, true);
    TRY(open_groups(exec));
    TRY(open_channels(exec));
    TRY(exec_open_calls(exec));
    if (plan->config.sync_bn && plan->config.cell.replica_count > 1)
        exec->lockstep = MEM_ARRAY(struct pass_run, plan->config.replicas);
    const struct run_config *config = &plan->config;
    const struct backend *backend = plan->device->backend;
    TRY(store_new(plan->store, plan->device, exec->comm, &exec->store));
    TRY(store_init(exec->store, plan->micro[0].graph, config->seed));
    TRY(backend->memory_new(plan->device, plan->memory.activations, "activations",
                            (void **)&exec->arena));
    TRY(backend->memory_new(plan->device, plan->memory.scratch, "scratch",
                            (void **)&exec->scratch));
    TRY(make_runnables(exec));
    return open_loaders(exec);
}

enum status exec_new(const struct plan *plan, struct comm *comm,
                     const struct exec_observer *observer, struct exec **out) {
    struct exec *exec = MEM_NEW(struct exec);
    exec->plan = plan;
    exec->comm = comm;
    exec->owns_comm = !comm;
    exec->normed_step = exec->updated_step = -1;
    exec->lr_asked = NAN;
    exec->map = resource_map(plan->program, plan->grads, plan->chunk_count, plan->sizes);
    exec->posted = MEM_ARRAY(struct posted, exec->map.first[RESOURCE_COUNT]);
    exec->all_squares = MEM_ARRAY(struct exact_sum, plan->config.ranks);
    exec->shares = MEM_ARRAY(struct step_share, plan->config.ranks);
    exec->eval_shares = MEM_ARRAY(struct eval_share, plan->config.ranks);
    exec->labels = mem_array((size_t)plan->config.ranks, sizeof *exec->labels);
    exec->rank_loss = MEM_ARRAY(double, plan->config.ranks);
    exec->rank_ms = MEM_ARRAY(double, plan->config.ranks);
    if (observer) exec->observer = *observer;
    exec->slot = MEM_ARRAY(struct slot, slot_count(plan));
    enum status status = set_up(exec);
    if (status == STATUS_OK)
        *out = exec;
    else
        exec_free(&exec);
    return status;
}

void exec_free(struct exec **pointer) {
    struct exec *exec = *pointer;
    if (!exec) return;
    const struct plan *plan = exec->plan;
    exec_listen(exec, false);
    loader_free(&exec->train);
    loader_free(&exec->eval);
    for (int i = 0; i < PLAN_MAX_MICRO; i++) {
        for (int s = 0; exec->runnable[i].slot && s < slot_count(plan); s++)
            free(exec->runnable[i].slot[s].address);
        free(exec->runnable[i].slot);
    }
    if (exec->arena)
        plan->device->backend->memory_free(plan->device, exec->arena, plan->memory.activations);
    if (exec->scratch)
        plan->device->backend->memory_free(plan->device, exec->scratch, plan->memory.scratch);
    store_free(&exec->store);
    if (exec->owns_comm) comm_close(&exec->comm);
    free(exec->slot);
    free(exec->lockstep);
    free(exec->posted);
    free(exec->all_squares);
    free(exec->channel);
    free(exec->calls);
    free(exec->pieces);
    free(exec->shares);
    free(exec->eval_shares);
    free(exec->labels);
    free(exec->rank_loss);
    free(exec->rank_ms);
    free(exec->own_statistics);
    free(exec->scores);
    free(exec->first_steps);
    free(exec);
    *pointer = NULL;
}

enum status exec_start(struct exec *exec) {
    return exec_run_list(exec, LIST_START);
}

enum status exec_drain(struct exec *exec) {
    return exec_run_list(exec, LIST_DRAIN);
}

void exec_ask(struct exec *exec, const struct exec_request *request) {
    exec->asked = *request;
}

struct comm *exec_comm(const struct exec *exec) {
    return exec->comm;
}

void exec_progress(struct exec *exec) {
    if (exec->under_way == 0 || exec->comm_status != STATUS_OK) return;
    int64_t begin = clock_ns();
    exec->comm_status = comm_progress(exec->comm);
    exec->times.of[TIME_COMM] += clock_ns() - begin;
}

struct loader_spent exec_loading(const struct exec *exec) {
    return exec->train ? loader_spent(exec->train) : (struct loader_spent){0};
}

struct store *exec_store(struct exec *exec) {
    return exec->store;
}

const struct plan *exec_plan(const struct exec *exec) {
    return exec->plan;
}

bool exec_failed_alone(const struct exec *exec) {
    return exec->failed_alone;
}

int64_t exec_next_step(const struct exec *exec) {
    return exec->step;
}

void exec_seek(struct exec *exec, int64_t step) {
    exec->step = step;
    exec->normed_step = exec->updated_step = -1;
    if (exec->train)
        loader_seek(exec->train, step / exec->plan->config.steps_per_epoch,
                    step % exec->plan->config.steps_per_epoch);
}

void exec_set_lr(struct exec *exec, double lr) {
    exec->lr_asked = lr;
}

double exec_lr(const struct exec *exec) {
    return isnan(exec->lr_asked) ? lr_at(&exec->plan->config.lr, exec->step) : exec->lr_asked;
}

/* The short last step of an epoch has a list of its own. */
static enum list_name list_of_step(const struct plan *plan, int64_t step) {
    bool last = step % plan->config.steps_per_epoch == plan->config.steps_per_epoch - 1;
    return last && plan->last_samples ? LIST_LAST : LIST_BODY;
}

/* Samples of the step under way, over all ranks. */
static int64_t step_samples(const struct exec *exec) {
    const struct run_config *config = &exec->plan->config;
    int64_t total = 0;
    if (exec->batch) return exec->batch->step_samples;
    if (list_of_step(exec->plan, exec->step) == LIST_BODY) return config->batch;
    for (int g = 0; g < config->replicas * config->micro_batches; g++)
        total += exec->plan->last_samples[g];
    return total;
}

/* Until the slowest rank had come this far there was nobody to communicate with, and until a
 * message was sent nothing to wait for but its sender. A rank that came late to a group because it
 * waited for a message was waited for no less. */
static int64_t idle_ns(const struct exec *exec) {
    const struct exec_times *times = &exec->times;
    double own_ms = exec->share.came_ms, slowest_ms = own_ms;
    for (int r = 0; r < comm_size(exec->comm); r++)
        slowest_ms = fmax(slowest_ms, exec->shares[r].came_ms);
    int64_t idle = (int64_t)((slowest_ms - own_ms) * 1e6);
    int64_t groups = times->of[TIME_COMM] - times->message_ns;
    return times->unsent_ns + (idle < groups ? idle : groups);
}

/* Of a rank with a part of the model that has no loss, or without samples, there is none. */
static double own_loss(const struct tally *tally, int losses) {
    bool any = false;
    for (int i = 0; i < losses; i++) any |= tally->labels[i] > 0;
    return any ? tally_loss(tally, losses) : NAN;
}

/* Samples have one label each where their label is a single number. */
static int64_t skipped_samples(const struct exec *exec) {
    const struct plan *plan = exec->plan;
    for (int i = 0; i < plan->micro[0].graph->loss_count; i++) {
        int field = dataset_field(plan->config.dataset, plan->micro[0].graph->losses[i].label);
        if (shape_count(&plan->config.dataset->field[field].shape) == 1)
            return (int64_t)(exec->tally.samples - exec->tally.labels[i]);
    }
    return 0;
}

/* Of five classes or fewer the answer is always among the best five: that says nothing. What was
 * ranked is what its operation reads; the output of a model may be another value. */
static double top_five(const struct exec *exec) {
    const struct graph *graph = exec->plan->micro[0].graph;
    for (int i = 0; i < graph->loss_count; i++) {
        int counts = graph->losses[i].top_k;
        if (counts == NO_VALUE) continue;
        const struct node *ranks = &graph->nodes[graph->values[counts].producer];
        const struct shape *scores = &graph->values[ranks->in[0]].type.shape;
        if (scores->dim[scores->rank - 1] <= 5) return NAN;
    }
    return exec->tally.ranked > 0 ? exec->tally.right5 / exec->tally.ranked : NAN;
}

static void fill_result(struct exec *exec, struct step_result *out) {
    const struct tally *tally = &exec->tally;
    int64_t per_epoch = exec->plan->config.steps_per_epoch;
    *out = (struct step_result){.step = exec->step,
                                .epoch = exec->step / per_epoch,
                                .step_in_epoch = exec->step % per_epoch,
                                .samples = step_samples(exec),
                                .skipped = skipped_samples(exec),
                                .loss = tally_loss(tally, exec->plan->micro[0].graph->loss_count),
                                .acc1 = tally->ranked > 0 ? tally->right1 / tally->ranked : NAN,
                                .acc5 = top_five(exec),
                                .lr = exec_lr(exec),
                                .grad_norm =
                                    exec_is_under_way(exec, RESOURCE_NORM) ? NAN : exec->grad_norm,
                                .times = exec->times,
                                .request = exec->agreed,
                                .ranks = comm_size(exec->comm),
                                .rank_loss = exec->rank_loss,
                                .rank_ms = exec->rank_ms};
    int losses = exec->plan->micro[0].graph->loss_count;
    for (int r = 0; r < out->ranks; r++) {
        exec->rank_loss[r] = own_loss(&exec->shares[r].tally, losses);
        exec->rank_ms[r] = exec->shares[r].busy_ms;
    }
}

enum status exec_step(struct exec *exec, struct step_result *out) {
    int64_t begin = clock_ns(), hidden_before = comm_hidden_ns(exec->comm);
    exec->step_begin_ns = begin;
    tally_begin(exec);
    exec->times = (struct exec_times){0};
    enum status status = exec_run_list(exec, list_of_step(exec->plan, exec->step));
    exec->times.total_ns = clock_ns() - begin;
    exec->times.hidden_ns = comm_hidden_ns(exec->comm) - hidden_before;
    if (status == STATUS_OK) exec->times.idle_ns = idle_ns(exec);
    if (status == STATUS_OK) fill_result(exec, out);
    if (exec->batch) loader_release(exec->train);
    exec->batch = NULL;
    if (status == STATUS_OK) exec->step++;
    return status;
}

bool exec_norm(const struct exec *exec, int64_t step, double *out) {
    if (exec->normed_step != step) return false;
    *out = exec->grad_norm;
    return true;
}

/* --- evaluation --- */

/* Ranks run the same number of rounds, whether they have samples in the last one or not. */
static enum status run_rounds(struct exec *exec) {
    enum status status = STATUS_OK;
    for (int64_t r = 0; r < exec->plan->eval_rounds && status == STATUS_OK; r++) {
        status = exec_run_list(exec, LIST_EVAL);
        if (exec->batch) loader_release(exec->eval);
        exec->batch = NULL;
        bool told = exec->sink && exec->sink->round && r + 1 < exec->plan->eval_rounds;
        if (status == STATUS_OK && told)
            status =
                exec->sink->round(exec->sink->context, (r + 1) * exec->plan->eval_loader.batch);
    }
    return status;
}

static enum status run_evaluation(struct exec *exec) {
    tally_begin(exec);
    if (exec->eval) loader_seek(exec->eval, 0, 0);
    TRY(exec_run_list(exec, LIST_EVAL_START));
    TRY(run_rounds(exec));
    return exec_run_list(exec, LIST_EVAL_END);
}

/* What is evaluated is what is saved: replica 0's running statistics. */
enum status exec_evaluate(struct exec *exec, struct eval_result *out) {
    return exec_forward(exec, NULL, out);
}

enum status exec_forward(struct exec *exec, const struct exec_sink *sink, struct eval_result *out) {
    const struct tally *tally = &exec->tally;
    int64_t begin = clock_ns();
    exec->sink = sink;
    enum status status = run_evaluation(exec);
    exec->sink = NULL;
    if (status != STATUS_OK) restore_statistics(exec);
    TRY(status);
    double loss = tally_loss(tally, exec->plan->micro[0].graph->loss_count);
    if (!isfinite(loss)) return numeric_failure_of_evaluation(exec, loss);
    *out = (struct eval_result){.samples = (int64_t)tally->samples,
                                .skipped = skipped_samples(exec),
                                .loss = loss,
                                .acc1 = tally->ranked > 0 ? tally->right1 / tally->ranked : NAN,
                                .acc5 = top_five(exec),
                                .ns = clock_ns() - begin};
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++)
        out->term[i] = tally->labels[i] > 0 ? tally->loss[i] / tally->labels[i] : NAN;
    return STATUS_OK;
}

void exec_output_shape(const struct plan *plan, int64_t *rows, int64_t *classes) {
    const struct graph *graph = plan->micro[0].graph;
    const struct shape *shape = &graph->values[graph->output].type.shape;
    *classes = shape->dim[shape->rank - 1];
    *rows = shape_count(shape) / shape->dim[0] / *classes;
}

bool exec_output_has_classes(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    return graph->losses[0].top_k != NO_VALUE && graph->losses[0].scores == graph->output;
}
