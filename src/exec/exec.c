/* Setting up and driving the executor: see exec.h. */
#include "exec/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

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
    const struct placement *placement = &runnable->plan->placement[chunk];
    const struct chunk_plan *of = &plan->chunk[chunk];
    void **address = runnable->slot[sizes_slot(plan->sizes, chunk, slot)].address;
    size_t begin =
        runnable->plan->training ? of->arena_begin + (size_t)slot * of->slot_bytes : of->eval_begin;
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
        for (int c = 0; c < exec->plan->chunk_count; c++) bind_chunk(exec, runnable, c);
    }
    return STATUS_OK;
}

static enum status open_loaders(struct exec *exec) {
    struct loader_config config = exec->plan->train_loader;
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
    int buckets = sizes_bucket(plan->sizes, plan->chunk_count, 0);
    exec->reductions = MEM_ARRAY(struct posted, plan->grads * buckets + 1);
    exec->gathers = MEM_ARRAY(struct posted, buckets + 1);
    exec->messages = MEM_ARRAY(struct posted, slot_count(plan) + 1);
    exec->all_squares = MEM_ARRAY(struct exact_sum, plan->config.ranks);
    exec->shares = MEM_ARRAY(struct step_share, plan->config.ranks);
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
    free(exec->reductions);
    free(exec->gathers);
    free(exec->messages);
    free(exec->all_squares);
    free(exec->channel);
    free(exec->pieces);
    free(exec->shares);
    free(exec->labels);
    free(exec->rank_loss);
    free(exec->rank_ms);
    free(exec);
    *pointer = NULL;
}

static const struct instr_list *list_of(const struct exec *exec, const struct program *program,
                                        enum list_name list) {
    return program_list(program, exec->plan->config.rank, list);
}

enum status exec_start(struct exec *exec) {
    return exec_run_list(exec, list_of(exec, exec->plan->program, LIST_START));
}

enum status exec_drain(struct exec *exec) {
    return exec_run_list(exec, list_of(exec, exec->plan->program, LIST_DRAIN));
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

struct store *exec_store(struct exec *exec) {
    return exec->store;
}

const struct plan *exec_plan(const struct exec *exec) {
    return exec->plan;
}

int64_t exec_next_step(const struct exec *exec) {
    return exec->step;
}

void exec_seek(struct exec *exec, int64_t step) {
    exec->step = step;
    if (exec->train)
        loader_seek(exec->train, step / exec->plan->config.steps_per_epoch,
                    step % exec->plan->config.steps_per_epoch);
}

static const struct program *program_of_step(const struct exec *exec, int64_t step) {
    const struct plan *plan = exec->plan;
    bool last = step % plan->config.steps_per_epoch == plan->config.steps_per_epoch - 1;
    return last && plan->last_program ? plan->last_program : plan->program;
}

/* Until the slowest rank had come this far there was nobody to communicate with. */
static int64_t idle_ns(const struct exec *exec) {
    double own_ms = exec->share.busy_ms, slowest_ms = own_ms;
    for (int r = 0; r < comm_size(exec->comm); r++)
        slowest_ms = fmax(slowest_ms, exec->shares[r].busy_ms);
    int64_t idle = (int64_t)((slowest_ms - own_ms) * 1e6), comm = exec->times.of[TIME_COMM];
    return idle < comm ? idle : comm;
}

static void fill_result(struct exec *exec, struct step_result *out) {
    const struct tally *tally = &exec->tally;
    int64_t per_epoch = exec->plan->config.steps_per_epoch;
    *out = (struct step_result){.step = exec->step,
                                .epoch = exec->step / per_epoch,
                                .step_in_epoch = exec->step % per_epoch,
                                .samples = exec->batch->step_samples,
                                .loss = tally_loss(tally, exec->plan->micro[0].graph->loss_count),
                                .acc1 = tally->ranked > 0 ? tally->right1 / tally->ranked : NAN,
                                .acc5 = tally->ranked > 0 ? tally->right5 / tally->ranked : NAN,
                                .lr = exec->lr,
                                .grad_norm = exec->grad_norm,
                                .times = exec->times,
                                .request = exec->agreed,
                                .ranks = comm_size(exec->comm),
                                .rank_loss = exec->rank_loss,
                                .rank_ms = exec->rank_ms};
    for (int r = 0; r < out->ranks; r++) {
        exec->rank_loss[r] =
            tally_loss(&exec->shares[r].tally, exec->plan->micro[0].graph->loss_count);
        exec->rank_ms[r] = exec->shares[r].busy_ms;
    }
}

enum status exec_step(struct exec *exec, struct step_result *out) {
    int64_t begin = clock_ns(), hidden_before = comm_hidden_ns(exec->comm);
    exec->step_begin_ns = begin;
    exec->tally = (struct tally){0};
    exec->times = (struct exec_times){0};
    enum status status =
        exec_run_list(exec, list_of(exec, program_of_step(exec, exec->step), LIST_BODY));
    exec->times.total_ns = clock_ns() - begin;
    exec->times.hidden_ns = comm_hidden_ns(exec->comm) - hidden_before;
    if (status == STATUS_OK) exec->times.idle_ns = idle_ns(exec);
    /* Nothing of the step had samples on this rank: its place in the data moves on all the same. */
    if (status == STATUS_OK && !exec->batch) status = loader_next(exec->train, &exec->batch);
    if (status == STATUS_OK) fill_result(exec, out);
    if (exec->batch) loader_release(exec->train);
    exec->batch = NULL;
    if (status == STATUS_OK) exec->step++;
    return status;
}

static enum status evaluate_segment(struct exec *exec, struct runnable *runnable, int segment) {
    struct pass_run run = {.runnable = runnable,
                           .config = {.pass = PASS_FORWARD, .segment = segment, .grad = -1}};
    if (!runnable) return STATUS_OK;
    pass_begin(&run);
    return pass_go_on(exec, &run);
}

/* A forward pass; without a runnable, the part of a rank that has no samples. Sliced parameters are
 * gathered bucket by bucket, by all. */
static enum status evaluate_micro(struct exec *exec, struct runnable *runnable) {
    if (!(exec->plan->program->sliced & SLICED_PARAMS))
        return evaluate_segment(exec, runnable, INSTR_ALL);
    for (int b = exec->plan->chunk[0].buckets.count - 1; b >= 0; b--) {
        TRY(exec_gather(exec, 0, b));
        TRY(evaluate_segment(exec, runnable, b));
    }
    return STATUS_OK;
}

static enum status evaluate_share(struct exec *exec, struct eval_result *out) {
    int64_t begin = clock_ns();
    struct tally tally = {0};
    struct eval_result result = {0};
    int losses = exec->plan->micro[0].graph->loss_count;
    loader_seek(exec->eval, 0, 0);
    for (;;) {
        const struct step_batch *batch;
        TRY(loader_next(exec->eval, &batch));
        if (!batch) break;
        const struct micro_batch *samples = &batch->micro[0];
        if (samples->samples == 0) { /* fewer samples than ranks were left */
            TRY(evaluate_micro(exec, NULL));
            loader_release(exec->eval);
            continue;
        }
        const struct micro_plan *micro = plan_micro(exec->plan, samples->samples, false);
        CHECK(micro, "no evaluation graph for %lld samples", (long long)samples->samples);
        struct runnable *runnable = &exec->runnable[micro - exec->plan->micro];
        bind_inputs(exec, runnable, 0, samples);
        TRY(evaluate_micro(exec, runnable));
        tally_add(runnable, 0, samples, &tally);
        tally.samples += (double)samples->samples;
        loader_release(exec->eval);
    }
    struct step_share mine = {.tally = tally};
    TRY(comm_exchange(comm_world(exec->comm), &mine, sizeof mine, exec->shares));
    tally_sum(exec->shares, comm_size(exec->comm), &tally);
    result.samples = (int64_t)tally.samples;
    result.loss = tally_loss(&tally, losses);
    if (!isfinite(result.loss)) return numeric_failure_of_evaluation(exec, result.loss);
    result.acc1 = tally.ranked > 0 ? tally.right1 / tally.ranked : NAN;
    result.acc5 = tally.ranked > 0 ? tally.right5 / tally.ranked : NAN;
    result.ns = clock_ns() - begin;
    *out = result;
    return STATUS_OK;
}

/* Running statistics of rank 0 to all, through a gradient buffer, which is the memory others can
 * reach. */
static enum status broadcast_buffers(struct exec *exec, const struct elements *buffers) {
    struct comm_group *world = comm_world(exec->comm);
    struct device *device = exec->plan->device;
    const struct backend *backend = device->backend;
    const struct store *store = exec->store;
    const struct elements *staging = store_staging(store);
    size_t bytes = elements_bytes(buffers), room = elements_bytes(staging);
    for (size_t done = 0; done < bytes; done += room) {
        size_t left = bytes - done, piece = left < room ? left : room;
        char *data = (char *)buffers->data + done;
        struct comm_request *request;
        if (comm_rank(exec->comm) == 0)
            TRY(backend->array_copy(device, staging->data, data, piece, NULL));
        TRY(comm_broadcast(world, 0, staging->data, piece, &request));
        TRY(comm_wait(&request));
        if (comm_rank(exec->comm) != 0)
            TRY(backend->array_copy(device, data, staging->data, piece, NULL));
        TRY(comm_barrier(world)); /* the staging is free again */
    }
    /* Padding of gradients is zero and stays so: sums and norms run over it. */
    size_t used = (bytes < room ? bytes : room) / dtype_bytes(staging->dtype);
    struct elements dirty = elements_part(staging, 0, (int64_t)used);
    TRY(backend->array_fill(device, &dirty, 0, NULL));
    return comm_barrier(world);
}

/* What is evaluated is what is saved: replica 0's running statistics. Each rank has its own back
 * afterwards. */
enum status exec_evaluate(struct exec *exec, struct eval_result *out) {
    const struct store *store = exec->store;
    const struct elements *buffers = &store->held[store_array(store->layout, ARRAY_BUFFER, 0)];
    struct device *device = exec->plan->device;
    size_t bytes = elements_bytes(buffers);
    if (comm_size(exec->comm) == 1 || bytes == 0) return evaluate_share(exec, out);
    char *own = mem_new(bytes);
    enum status status = device->backend->copy_out(device, own, buffers->data, bytes);
    if (status == STATUS_OK) status = broadcast_buffers(exec, buffers);
    if (status == STATUS_OK) status = evaluate_share(exec, out);
    enum status back = device->backend->copy_in(device, buffers->data, own, bytes);
    free(own);
    return status == STATUS_OK ? back : status;
}
