/* The plan on one screen, and as JSON. */
#include "view/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "graph/freeze.h"
#include "plan/strategy.h"
#include "stretto.h"
#include "sync/sync.h"
#include "view/explain_auto.h"
#include "view/explain_freeze.h"
#include "view/explain_memory.h"
#include "view/explain_recompute.h"
#include "view/fit.h"
#include "view/view_forecast.h"

/* A row of the screen: its name, then words, broken before the edge of the terminal. */
#define row(out, name, ...) text_row(out, name, EXPLAIN_NAME_COLUMNS, __VA_ARGS__)

/* What a step reduces over all ranks, and a rank's even share of what is sent for it. */
static int64_t reduced_bytes(const struct plan *plan) {
    bool whole = plan->config.grid.stages == 1;
    int64_t elements =
        whole ? plan->store->param_elements : freeze_trained_elements(plan->micro[0].graph);
    int64_t bytes = state_bytes(elements);
    return group_size(&plan->config.grid, GROUP_REPLICAS, 0) > 1 ? bytes : 0;
}

static int bucket_count(const struct plan *plan) {
    return sizes_bucket(plan->sizes, plan->chunk_count, 0);
}

static int slot_count(const struct plan *plan) {
    return sizes_slot(plan->sizes, plan->chunk_count, 0);
}

static int64_t sent_bytes_in(const struct plan *plan, enum list_name list) {
    const struct program *program = plan->program;
    const struct instr_list *body = program_list(program, plan->config.rank, list);
    int64_t bytes = 0, members = group_size(&program->grid, GROUP_REPLICAS, 0);
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i];
        int ways = instr->op == INSTR_REDUCE                                 ? 2
                   : instr->op == INSTR_SCATTER || instr->op == INSTR_GATHER ? 1
                                                                             : 0;
        const struct bucket_list *buckets =
            &plan->chunk[grid_chunk(&program->grid, instr->stage)].buckets;
        if (ways) bytes += ways * state_bytes(buckets->items[instr->bucket].elements);
    }
    return bytes / members * (members - 1);
}

/* Of a step in the mean. */
static int64_t sent_bytes(const struct plan *plan) {
    int every = plan->program->every;
    return every > 0 ? sent_bytes_in(plan, LIST_LAST) / every : sent_bytes_in(plan, LIST_BODY);
}

/* The side of a vision transformer's patches; 0: the model is none. */
static int64_t patch_side(const struct graph *graph) {
    for (int i = 0; i < graph->param_count; i++)
        if (strcmp(graph->params[i].name, "patch_embed.proj.weight") == 0)
            return graph->values[graph->params[i].value].type.shape.dim[2];
    return 0;
}

/* "; 64 patches of 4x4 pixels, for images of 32x32 (--patch chooses others)", or "". */
static void patches_text(const struct planned_run *planned, char *text, size_t room) {
    const struct model_config *image = &planned->plan->config.shape;
    int64_t side = patch_side(planned->plan->micro[0].graph);
    char count[TEXT_BYTES];
    *text = 0;
    if (side == 0) return;
    int used = snprintf(text, room, "; %s of %ldx%ld pixels",
                        text_count((image->height / side) * (image->width / side), "patch", count),
                        (long)side, (long)side);
    if (planned->options.source[OPTION_patch] == OPTION_RESOLVED)
        snprintf(text + used, room - (size_t)used, ", as in the weights");
    else if (image->patch == 0)
        snprintf(text + used, room - (size_t)used,
                 ", for images of %ldx%ld (--patch chooses others)", (long)image->height,
                 (long)image->width);
}

/* "; rows of 128 tokens, a vocabulary of 256", or "". */
static void words_text(const struct dataset *data, char *text, size_t room) {
    int ids = dataset_field(data, "input_ids");
    char length[TEXT_BYTES], vocabulary[TEXT_BYTES];
    *text = 0;
    if (ids < 0 || data->vocab <= 0) return;
    snprintf(text, room, "; rows of %s tokens, a vocabulary of %s",
             text_thousands(data->field[ids].shape.dim[0], length),
             text_thousands(data->vocab, vocabulary));
}

static void print_model(const struct planned_run *planned, FILE *out) {
    const struct plan *plan = planned->plan;
    const struct graph *graph = plan->micro[0].graph;
    const int64_t *count = plan->config.dataset->count, params = graph_param_elements(graph);
    char all[TEXT_BYTES], tensors[TEXT_BYTES], size[TEXT_BYTES], test[TEXT_BYTES],
        steps[TEXT_BYTES], patches[160], words[160];
    words_text(plan->config.dataset, words, sizeof words);
    patches_text(planned, patches, sizeof patches);
    row(out, "model", "%s, %s parameters (%s) in %s%s", plan->config.model->name,
        text_thousands(params, all), text_size(state_bytes(params), size),
        text_count(graph->param_count, "tensor", tensors), patches);
    row(out, "data", "%s, %s sample%s to train on, %s to test on, %s an epoch%s",
        plan->config.dataset->spec, text_thousands(count[SPLIT_TRAIN], all),
        count[SPLIT_TRAIN] == 1 ? "" : "s", text_thousands(count[SPLIT_TEST], test),
        text_count(plan->config.steps_per_epoch, "step", steps), words);
}

static void print_device(const struct plan *plan, FILE *out) {
    char device[128];
    plan->device->backend->describe(plan->device, device, sizeof device);
    bool narrow = dtype_is_narrow(plan->config.dtype);
    row(out, "device", "%s%s%s", device, narrow ? "; activations and products in " : "",
        narrow ? dtype_name(plan->config.dtype) : "");
}

/* What a replica sends over the cuts of its pipeline in a step, both ways. */
static int64_t crossing_bytes(const struct plan *plan) {
    int cuts = plan->config.grid.stages * plan->config.grid.chunks - 1;
    size_t bytes = 0;
    for (int i = 0; i < cuts * PHASE_COUNT; i++) bytes += plan->micro[0].crossing[i].bytes;
    return (int64_t)bytes * plan->config.micro_batches;
}

static void print_pipelines(const struct planned_run *planned, FILE *out) {
    const struct grid *grid = &planned->plan->config.grid;
    char replicas[TEXT_BYTES], stages[TEXT_BYTES];
    text_count(grid->replicas, "replica", replicas);
    if (grid->drivers > 0)
        row(out, "ranks",
            "%d = a driver + %s: rank 0 drives, each other rank has one stage of the model",
            planned->plan->config.ranks, text_count(grid->stages, "stage", stages));
    else if (grid->chunks == 1)
        row(out, "ranks", "%d = %s x %s: each rank has one stage of the model",
            planned->plan->config.ranks, text_count(grid->stages, "stage", stages), replicas);
    else
        row(out, "ranks", "%d = %d in a pipeline x %s: each rank has %d of the model's %d stages%s",
            planned->plan->config.ranks, grid->stages, replicas, grid->chunks,
            grid->stages * grid->chunks, grid->v_shape ? ", there and back in a V" : "");
}

/* How many micro-batches a stage keeps at most: the slots that its rank's program names. */
static int slots_of(const struct program *program, int rank, int stage) {
    const struct instr_list *body = program_list(program, rank, LIST_BODY);
    int slots = 0;
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i];
        bool own = strchr(instr_row(instr)->operands, 'a') && instr->stage == stage;
        if (own && instr->slot >= slots) slots = instr->slot + 1;
    }
    return slots;
}

/* What a driver costs. */
static void print_calls(const struct planned_run *planned, FILE *out) {
    const struct plan *plan = planned->plan;
    char calls[TEXT_BYTES], trips[TEXT_BYTES];
    if (plan->config.grid.drivers == 0) return;
    row(out, "calls",
        "%s a step of %d B each, by rank 0, which computes nothing: no stage begins a pass or its "
        "update without one; and %s that the driver and all stages wait for: behind each backward, "
        "for the losses and for the norm. --strategy pmp trains the same bits without them",
        text_count(plan_calls(plan), "call", calls), PROGRAM_CALL_BYTES,
        text_count(plan_round_trips(plan), "round trip", trips));
}

static void print_stages(const struct planned_run *planned, FILE *out) {
    const struct program *program = planned->plan->program;
    const struct grid *grid = &program->grid;
    int stages = grid->stages * grid->chunks;
    if (stages == 1) return;
    SCOPED_FREE struct partition_place *places = MEM_ARRAY(struct partition_place, stages);
    for (int s = 0; s < stages; s++) {
        places[s].rank = grid_owner(grid, s, 0);
        places[s].slots = slots_of(program, places[s].rank, s);
    }
    fprintf(out, grid->replicas > 1 ? "stages     of replica 0; the others have the same\n"
                                    : "stages\n");
    partition_print(&planned->plan->partition, places, out);
}

/* "3.0 MiB instead of 9.1 MiB", of the ranks along the pipeline. */
static void saved_text(const struct recompute_cost *cost, const struct run_config *config,
                       char *text, size_t bytes) {
    char now[TEXT_BYTES], kept[TEXT_BYTES];
    text[0] = 0;
    for (int p = 0; p < cost->positions; p++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s instead of %s", p ? ", " : "",
                 text_size((int64_t)cost->mode[config->recompute].bytes[p], now),
                 text_size((int64_t)cost->mode[RECOMPUTE_NEVER].bytes[p], kept));
    }
    if (cost->positions < config->grid.stages)
        snprintf(text + strlen(text), bytes - strlen(text), ", ...");
}

static void print_recompute(const struct planned_run *planned, const struct view_forecast *view,
                            FILE *out) {
    const struct plan *plan = planned->plan;
    SCOPED(explain_recompute_cost_free) struct recompute_cost cost = {0};
    char saved[1024];
    if (plan->config.recompute == RECOMPUTE_NEVER) return;
    if (explain_recompute_cost_of(planned, view, &cost) == STATUS_OK) {
        saved_text(&cost, &plan->config, saved, sizeof saved);
        row(out, "recompute",
            "%s: %d of %d forwards of a rank run again before their backward, %.3f GFLOP (%.0f%%) "
            "more a step; activations %s",
            recompute_policy_name(plan->config.recompute), cost.again, cost.micros,
            cost.flops * 1e-9, 100 * cost.flops / (plan_step_flops(plan) - cost.flops), saved);
        if (view) explain_recompute_cost_print(&cost, view, out);
    }
}

static void print_ranks(const struct planned_run *planned, FILE *out) {
    const struct plan *plan = planned->plan;
    const struct strategy *strategy = strategy_find(planned->options.strategy);
    char text[STRATEGY_TEXT_BYTES];
    row(out, "strategy", "%s",
        strategy_text(strategy, plan->config.schedule, plan->config.zero_stage, text));
    if (plan->config.ranks == 1)
        row(out, "ranks",
            strategy->one_rank ? "1"
                               : "1: nothing is spread; -n, or --stages and --replicas, give more");
    else if (plan->config.grid.stages > 1 || plan->config.grid.drivers > 0)
        print_pipelines(planned, out);
    else
        row(out, "ranks", "%d: each runs the whole model on its part of the batch",
            plan->config.ranks);
}

/* What ranks send one another in a step. */
static void print_traffic(const struct planned_run *planned, FILE *out) {
    const struct plan *plan = planned->plan;
    const struct grid *grid = &plan->config.grid;
    const struct sync_policy *sync = sync_find(plan->config.sync);
    char crossing[TEXT_BYTES], reduced[TEXT_BYTES], sent[TEXT_BYTES], buckets[TEXT_BYTES];
    const char *order = planned->options.deterministic ? "" : ", added in any order";
    text_size(crossing_bytes(plan), crossing);
    text_size(reduced_bytes(plan), reduced);
    if (plan->config.ranks == 1) return;
    if (plan->program->every > 0)
        row(out, "traffic",
            "replicas average %s of parameters every %d steps (--sync %s)%s; each rank sends %s "
            "then%s%s",
            reduced, plan->program->every, sync->name, order,
            text_size(sent_bytes_in(plan, LIST_LAST), sent),
            grid->stages > 1 ? "; each pipeline sends from stage to stage, a step, " : "",
            grid->stages > 1 ? crossing : "");
    else if (grid->stages == 1)
        row(out, "traffic", "replicas %s %s of %s a step (--sync %s) in %s%s; each rank sends %s",
            sync->verb, reduced, sync->what, sync->name,
            text_count(bucket_count(plan), "bucket", buckets), order,
            text_size(sent_bytes(plan), sent));
    else if (grid->replicas == 1)
        row(out, "traffic", "%s a step from stage to stage", crossing);
    else
        row(out, "traffic",
            "each pipeline sends %s a step from stage to stage; replicas %s the %s of each "
            "stage (--sync %s)%s",
            crossing, sync->verb, sync->what, sync->name, order);
}

/* What replicas share out, and how gradients of several micro-batches are added up. */
static void print_zero(const struct plan *plan, FILE *out) {
    const struct run_config *config = &plan->config;
    bool gradients = config->sliced & SLICED_GRADIENTS, several = config->micro_batches > 1;
    if (!config->sliced) return;
    row(out, "slices",
        "ZeRO-%d: each of %d replicas holds 1/%d of the optimizer state%s%s, and updates it%s",
        config->zero_stage, config->replicas, config->replicas, gradients ? ", gradients" : "",
        config->sliced & SLICED_PARAMS ? ", parameters" : "",
        config->zero_stage < 2 || !several ? ""
        : gradients ? "; gradients are scattered for each micro-batch, sum replicas-first"
                    : "; gradients stay whole and are scattered once a step "
                      "(--zero-accumulate scatter slices them too)");
}

static void print_batch(const struct plan *plan, FILE *out) {
    const struct run_config *config = &plan->config;
    int64_t groups = (int64_t)config->replicas * config->micro_batches, total = 0;
    char replicas[TEXT_BYTES], micro[TEXT_BYTES], samples[TEXT_BYTES], last[64] = "";
    bool turns = config->grid.stages > 1 && config->micro_batches == 1 && !config->overlaps;
    for (int64_t g = 0; plan->last_samples && g < groups; g++) total += plan->last_samples[g];
    if (plan->last_samples)
        snprintf(last, sizeof last, "; the last step of an epoch has %lld", (long long)total);
    row(out, "batch", "%lld = %s x %s x %s%s%s", (long long)config->batch,
        text_count(config->replicas, "replica", replicas),
        text_count(config->micro_batches, "micro-batch", micro),
        text_count(config->batch / groups, "sample", samples), last,
        turns ? "; stages take turns with one: --micro-batches lets them overlap" : "");
}

/* Of a strategy that keeps versions: how old they are, stage by stage, and what they take. Without
 * a flush there is no short last step. */
static void print_versions(const struct plan *plan, FILE *out) {
    const struct grid *grid = &plan->config.grid;
    int64_t left = plan->config.dataset->count[SPLIT_TRAIN] -
                   plan->config.steps_per_epoch * plan->config.batch;
    char ages[128] = "", size[TEXT_BYTES];
    int oldest = 0, shown = grid->stages < 8 ? grid->stages : 8;
    for (int s = 0; s < grid->stages; s++) {
        int older = program_of(plan->program, grid_owner(grid, s, 0))->chunk[0].older;
        size_t used = strlen(ages);
        if (s < shown) snprintf(ages + used, sizeof ages - used, "%s%d", s ? ", " : "", older);
        if (older > oldest) oldest = older;
    }
    if (oldest == 0 && !plan->config.overlaps) return;
    row(out, "versions",
        "passes read weights that are %s%s updates old, stage by stage; the older versions of rank "
        "%d take %s",
        ages, shown < grid->stages ? " ..." : "", plan->config.rank,
        text_size((int64_t)plan->memory.versions, size));
    if (plan->config.overlaps && left > 0)
        row(out, "left out",
            "%lld of %lld samples of an epoch: a pipeline that is never flushed has no short step",
            (long long)left, (long long)plan->config.dataset->count[SPLIT_TRAIN]);
}

static void print_sync_bn(const struct planned_run *planned, FILE *out) {
    const struct graph *graph = planned->plan->micro[0].graph;
    struct graph_exchanges forward = graph_exchanges(graph, PHASE_FORWARD),
                           backward = graph_exchanges(graph, PHASE_BACKWARD);
    char size[TEXT_BYTES];
    if (!planned->options.sync_bn) return;
    if (!planned->plan->config.sync_bn)
        row(out, "sync-bn", "one replica: ordinary batch norm");
    else if (forward.count == 0)
        row(out, "sync-bn", "%s has no batch norm", planned->plan->config.model->name);
    else
        row(out, "sync-bn",
            "batch norm over %d replicas: %d exchanges forward and %d backward for a micro-batch, "
            "%s in all",
            planned->plan->config.replicas, forward.count, backward.count,
            text_size((int64_t)(forward.bytes + backward.bytes), size));
}

static void print_training(const struct planned_run *planned, FILE *out) {
    const struct run_config *config = &planned->plan->config;
    char clip[TEXT_BYTES] = "", decay[TEXT_BYTES + 32] = "", rise[TEXT_BYTES + 32] = "",
         all[TEXT_BYTES], warm[TEXT_BYTES];
    if (config->clip > 0) snprintf(clip, sizeof clip, ", clip %g", config->clip);
    if (config->optim.weight_decay > 0)
        snprintf(decay, sizeof decay, ", weight decay %g", config->optim.weight_decay);
    if (config->lr.warmup_steps > 0)
        snprintf(rise, sizeof rise, " after a %swarm-up of %s",
                 config->lr.warmup_log ? "logarithmic " : "",
                 text_count(config->lr.warmup_steps, "step", warm));
    char from[TEXT_BYTES] = "";
    if (config->lr.policy == LR_RANGE) snprintf(from, sizeof from, "%g to ", config->lr.low);
    row(out, "training", "%s %s with %s: lr %s%g, %s%s%s%s", text_thousands(config->steps, all),
        config->steps == 1 ? "step" : "steps", config->optimizer->name, from, config->optim.lr,
        planned->options.lr_policy, rise, decay, clip);
}

static void print_program(const struct planned_run *planned, FILE *out) {
    enum { SHOWN = 12 };
    const struct plan *plan = planned->plan;
    const struct options *options = &planned->options;
    bool own = option_is_set(options, OPTION_program);
    const struct instr_list *body = program_list(plan->program, plan->config.rank, LIST_BODY);
    char names[SHOWN * 16] = "", slots[TEXT_BYTES], grads[TEXT_BYTES], count[TEXT_BYTES],
                       of[TEXT_BYTES] = "";
    if (plan->config.ranks > 1) snprintf(of, sizeof of, " of rank %d", plan->config.rank);
    for (int i = 0, used = 0; i < body->count && i < SHOWN; i++)
        used += snprintf(names + used, sizeof names - (size_t)used, " %.14s",
                         instr_row(&body->items[i])->name);
    row(out, "program", "%s%s%s a step%s:%s%s; %s, %s; more: --show program, docs/program.md",
        own ? options->program : "", own ? ": " : "", text_count(body->count, "instruction", count),
        of, names, body->count > SHOWN ? " ..." : "", text_count(slot_count(plan), "slot", slots),
        text_count(plan->grads, "gradient buffer", grads));
}

static void print_work(const struct planned_run *planned, FILE *out) {
    const struct graph *graph = planned->plan->micro[0].graph;
    int reorders = 0;
    for (int i = 0; i < graph->node_count; i++) reorders += graph->nodes[i].op == OP_REORDER;
    row(out, "kernels",
        "%d forward and %d backward for a micro-batch, %d of them only change layouts",
        graph->forward_count, graph->node_count - graph->forward_count, reorders);
}

/* What is trained, who does what, what it takes; details of the machine and the program last. */
void explain_print(const struct view_forecast *view, bool compares, FILE *out) {
    const struct planned_run *planned = view->planned;
    print_model(planned, out);
    print_training(planned, out);
    explain_freeze_print(planned->plan, out);
    explain_course_print(planned, compares, out);
    print_ranks(planned, out);
    print_calls(planned, out);
    print_zero(planned->plan, out);
    print_batch(planned->plan, out);
    print_versions(planned->plan, out);
    print_stages(planned, out);
    print_traffic(planned, out);
    print_sync_bn(planned, out);
    view_forecast_print_row(view, out);
    explain_print_memory(planned, out);
    print_recompute(planned, compares ? view : NULL, out);
    explain_auto_print(&planned->plan->choice, out);
    print_program(planned, out);
    print_work(planned, out);
    print_device(planned->plan, out);
}

void explain_show(const struct planned_run *planned, const char *part, FILE *out) {
    if (strcmp(part, "graph") == 0) graph_print(planned->plan->micro[0].graph, out);
    if (strcmp(part, "program") == 0) program_print(planned->plan->program, out);
    if (strcmp(part, "memory") == 0) explain_show_memory(planned, out);
}

/* The parts of --show as texts. */
static json_t *shown_parts(const struct planned_run *planned) {
    json_t *parts = json_object();
    for (int i = 0; i < planned->options.show.count; i++) {
        const char *part = planned->options.show.item[i];
        char *text = NULL;
        size_t bytes;
        FILE *stream = open_memstream(&text, &bytes);
        explain_show(planned, part, stream);
        fclose(stream);
        json_object_set_new(parts, part, json_string(text));
        free(text);
    }
    return parts;
}

/* Units of --costs are no times. */
static json_t *step_ms(const struct forecast *forecast) {
    return forecast->units ? json_null() : json_real(forecast->result.step * 1e-6);
}

void explain_print_json(const struct view_forecast *view, FILE *out) {
    const struct planned_run *planned = view->planned;
    const struct plan *plan = planned->plan;
    const struct run_config *config = &plan->config;
    int largest;
    size_t peak = memory_sum(planned_largest(planned, &largest));
    char device[128];
    plan->device->backend->describe(plan->device, device, sizeof device);
    json_auto_t *root = json_pack(
        "{s:o, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:i, s:I, s:I, s:i, s:i, s:b, s:I, s:I, s:i, "
        "s:i, s:i, s:f, s:s, s:f, s:o, s:I, s:I, s:I, s:i, s:i, s:i, s:o}",
        "fits", fit_json(planned), "version", stretto_version(), "strategy",
        planned->options.strategy, "model", config->model->name, "data", config->dataset->spec,
        "device", device, "threads", config->threads, "comm",
        config->ranks == 1 ? "self" : planned->options.comm, "ranks", config->ranks, "params",
        (json_int_t)graph_param_elements(plan->micro[0].graph), "batch", (json_int_t)config->batch,
        "replicas", config->replicas, "micro_batches", config->micro_batches, "sync_bn",
        config->sync_bn, "steps", (json_int_t)config->steps, "steps_per_epoch",
        (json_int_t)plan->config.steps_per_epoch, "instructions",
        program_list(plan->program, plan->config.rank, LIST_BODY)->count, "slots", slot_count(plan),
        "gradient_buffers", plan->grads, "step_flops", plan_step_flops(plan), "recompute",
        recompute_policy_name(config->recompute), "recompute_flops", plan_recompute_flops(plan),
        "predicted_step_ms", step_ms(&view->forecast), "reduced_bytes_per_step",
        (json_int_t)reduced_bytes(plan), "sent_bytes_per_step", (json_int_t)sent_bytes(plan),
        "predicted_peak_bytes", (json_int_t)peak, "calls_per_step", plan_calls(plan),
        "round_trips_per_step", plan_round_trips(plan), "memory_rank", largest, "memory",
        explain_memory_json(planned));
    if (planned->options.show.count) json_object_set_new(root, "show", shown_parts(planned));
    json_t *frozen = explain_freeze_json(plan);
    if (frozen) json_object_set_new(root, "frozen", frozen);
    if (plan->choice.row_count) json_object_set_new(root, "auto", explain_auto_json(&plan->choice));
    if (view_forecast_is_wanted(&planned->options))
        json_object_set_new(root, "forecast", view_forecast_json(view));
    json_print(root, JSON_REAL_PRECISION(9), out);
}

static enum status open_program(const char *path, FILE **out) {
    *out = fopen(path, "wx");
    if (*out) return STATUS_OK;
    return fail(errno == EEXIST ? STATUS_USAGE : STATUS_DATA, "%s: cannot write the program: %s",
                path, strerror(errno));
}

enum status explain_save_program(const struct plan *plan, const char *path) {
    FILE *file;
    TRY(open_program(path, &file));
    program_print(plan->program, file);
    bool bad = fflush(file) != 0 || ferror(file);
    int cause = errno;
    if (fclose(file) != 0 && !bad) bad = true, cause = errno;
    if (!bad) return STATUS_OK;
    unlink(path); /* a part of a program would be in the way of a whole one */
    return fail(STATUS_DATA, "%s: write failed: %s\n  nothing was changed", path, strerror(cause));
}
