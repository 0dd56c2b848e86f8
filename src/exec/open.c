/* Opening and closing an engine: see engine.h. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/device_times.h"
#include "exec/norms.h"
#include "exec/queues.h"
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

/* Addresses that never change: locals in the arenas, and inputs where they have a place there;
 * parameters, buffers. Of what other stages have there is none. */
static void bind_fixed(struct engine *engine, struct runnable *runnable, int chunk, int slot) {
    const struct plan *plan = engine->plan;
    const struct graph *graph = runnable->plan->graph;
    const struct placement *placement = plan_placement(plan, runnable->plan, chunk, slot);
    void **address = runnable->slot[sizes_slot(plan->sizes, chunk, slot)].address;
    size_t begin = runnable->plan->training ? plan_slot_begin(plan, chunk, slot)
                                            : plan->chunk[chunk].eval_begin;
    char *own = engine->arena + begin, *shared = engine->arena + plan->shared_begin;
    const struct state_layout *layout = engine->store->layout;
    int buffers = state_array(engine->store->layout, ARRAY_BUFFER, 0);
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *root = &graph->values[graph->values[v].root];
        if (root->kind == VALUE_PARAM && state_holds(state_param(layout, root->index)))
            address[v] = store_read_param(engine->store, root->index).data;
        else if (root->kind == VALUE_BUFFER && state_holds(&layout->buffers[root->index]))
            address[v] = store_tensor(engine->store, buffers, root->index).data;
        else if (placement->offset[v] != PLACED_ELSEWHERE)
            address[v] = (placement->in_shared[v] ? shared : own) + placement->offset[v];
    }
}

static int slot_count(const struct plan *plan) {
    return sizes_slot(plan->sizes, plan->chunk_count, 0);
}

static void bind_chunk(struct engine *engine, struct runnable *runnable, int chunk) {
    const struct chunk_sizes *sizes = engine->plan->sizes;
    int slots = runnable->plan->training ? sizes[chunk].slots : 1;
    for (int s = 0; s < slots; s++) {
        runnable->slot[sizes_slot(sizes, chunk, s)].address =
            MEM_ARRAY(void *, runnable->plan->graph->value_count);
        bind_fixed(engine, runnable, chunk, s);
    }
}

static enum status make_runnables(struct engine *engine) {
    for (int i = 0; i < engine->plan->micro_count; i++) {
        struct runnable *runnable = &engine->runnable[i];
        runnable->plan = &engine->plan->micro[i];
        TRY(bind_names(engine->plan, runnable));
        runnable->slot = MEM_ARRAY(struct binding, slot_count(engine->plan));
        if (!plan_runs(engine->plan, runnable->plan)) continue;
        for (int c = 0; c < engine->plan->chunk_count; c++) bind_chunk(engine, runnable, c);
    }
    return STATUS_OK;
}

/* Copies of samples run beside computation. */
static enum status pin_loader(struct engine *engine, const struct loader *loader, bool on) {
    struct device *device = engine->plan->device;
    void *memory;
    size_t bytes;
    if (!loader || !engine->apart) return STATUS_OK;
    loader_memory(loader, &memory, &bytes);
    if (on) return device->backend->pin(device, memory, bytes);
    device->backend->unpin(device, memory, bytes);
    return STATUS_OK;
}

static enum status open_loaders(struct engine *engine) {
    struct loader_config config = engine->plan->train_loader;
    if (engine->plan->chunk_count == 0) return STATUS_OK; /* a rank without a stage reads nothing */
    config.start_epoch = engine->state->next.epoch;
    config.start_step = engine->state->next.sample / engine->plan->config.batch;
    config.end_step = engine->plan->config.steps;
    if (config.end_step > 0)
        TRY(loader_open(engine->plan->config.dataset, &config, &engine->train));
    TRY(loader_open(engine->plan->config.dataset, &engine->plan->eval_loader, &engine->eval));
    TRY(pin_loader(engine, engine->train, true));
    return pin_loader(engine, engine->eval, true);
}

/* Every rank declares every group of a family, in the same order, and keeps its own. */
static enum status open_family(struct engine *engine, enum group_family family,
                               struct comm_group **own, struct plane_group **moves) {
    const struct grid *grid = &engine->plan->program->grid;
    int *ranks = MEM_ARRAY(int, grid_ranks(grid));
    enum status status = STATUS_OK;
    for (int g = 0; g < group_count(grid, family) && status == STATUS_OK; g++) {
        struct comm_group *group;
        int count = group_size(grid, family, g);
        for (int i = 0; i < count; i++) ranks[i] = group_rank(grid, family, g, i);
        status = (group_is_chosen(family) ? comm_group_new_chosen
                                          : comm_group_new)(engine->comm, ranks, count, &group);
        bool member = status == STATUS_OK && comm_group_member(group) >= 0;
        struct plane_group *moved = NULL;
        if (status == STATUS_OK && engine->plane)
            status = plane_group_new(engine->plane, ranks, count, &moved);
        if (member) *own = group, *moves = moved;
    }
    free(ranks);
    return status;
}

/* The first group of all ranks is the communicator's own. */
static enum status open_groups(struct engine *engine) {
    const struct program *program = engine->plan->program;
    bool world = false;
    for (int g = 0; g < program->group_count; g++) {
        bool all = program->ranks == 1 || (program->group[g] == GROUP_WORLD && !world);
        if (all && !engine->plane)
            engine->group[g] = comm_world(engine->comm);
        else
            TRY(open_family(engine, program->group[g], &engine->group[g], &engine->moves[g]));
        world |= all;
    }
    return STATUS_OK;
}

/* Every rank declares the channels of every pipeline, in the same order, and keeps those it is an
 * end of. */
static enum status open_channels(struct engine *engine) {
    const struct plan *plan = engine->plan;
    const struct grid *grid = &plan->program->grid;
    int cuts = grid->stages * grid->chunks - 1, pipelines = group_count(grid, GROUP_PIPELINE),
        own = comm_rank(engine->comm), most = 0;
    engine->channel = MEM_ARRAY(struct comm_channel *, cuts * PHASE_COUNT + 1);
    for (int i = 0; i < pipelines * cuts * PHASE_COUNT; i++) {
        int cut = i / PHASE_COUNT % cuts, phase = i % PHASE_COUNT;
        int replica = i / PHASE_COUNT / cuts * grid->replicas_each;
        int low = grid_owner(grid, cut, replica), high = grid_owner(grid, cut + 1, replica);
        bool back = phase == PHASE_BACKWARD;
        struct comm_channel *channel;
        TRY(comm_channel_new(
            engine->comm, back ? high : low, back ? low : high, cut * PHASE_COUNT + phase,
            plan_message_bytes(plan, cut, (enum phase)phase), plan->program->credits, &channel));
        if (low == own || high == own) engine->channel[cut * PHASE_COUNT + phase] = channel;
    }
    for (int i = 0; i < plan->micro_count; i++)
        for (int c = 0; c < cuts * PHASE_COUNT; c++)
            if (plan->micro[i].crossing[c].count > most) most = plan->micro[i].crossing[c].count;
    engine->pieces = MEM_ARRAY(struct comm_piece, most + 2);
    return STATUS_OK;
}

static enum status open_comm(struct engine *engine) {
    const struct engine_meeting *meeting = &engine->meeting;
    struct comm_config alone = {.rank = 0,
                                .size = 1,
                                .heap_bytes = plan_heap_bytes(engine->plan),
                                .channel_bytes = plan_channel_bytes(engine->plan)};
    return meeting->open ? meeting->open(meeting->context, engine->plan, &engine->comm)
                         : comm_open("self", &alone, &engine->comm);
}

static void step_init(struct step *step, int ranks) {
    *step = (struct step){.number = -1,
                          .labels = mem_array((size_t)ranks, sizeof *step->labels),
                          .all_squares = MEM_ARRAY(struct exact_sum, ranks),
                          .shares = MEM_ARRAY(struct step_share, ranks),
                          .rank_loss = MEM_ARRAY(double, ranks),
                          .rank_ms = MEM_ARRAY(double, ranks),
                          .late_ms = MEM_ARRAY(double, ranks)};
}

static void step_free(struct step *step) {
    free(step->labels);
    free(step->all_squares);
    free(step->shares);
    free(step->rank_loss);
    free(step->rank_ms);
    free(step->late_ms);
}

/* This rank's part of an exchange, and those of all. */
static size_t exchanged_bytes(const struct plan *plan) {
    return (size_t)COMM_EXCHANGE_BYTES * (size_t)(plan->config.ranks + 1);
}

/* Messages lie on the host while they are sent: one for each slot of the chunk that sends them. */
static size_t sent_bytes(const struct engine *engine, int channel) {
    const struct plan *plan = engine->plan;
    int slots = plan_sending_slots(plan, channel);
    return plan_message_bytes(plan, channel / PHASE_COUNT, (enum phase)(channel % PHASE_COUNT)) *
           (size_t)slots;
}

static enum status open_staging(struct engine *engine) {
    const struct plan *plan = engine->plan;
    const struct grid *grid = &plan->program->grid;
    struct device *device = plan->device;
    int channels = (grid->stages * grid->chunks - 1) * PHASE_COUNT;
    if (!engine->apart) return STATUS_OK;
    engine->sent = MEM_ARRAY(char *, channels + 1);
    for (int c = 0; c < channels && !engine->mail.plane; c++) {
        size_t bytes = engine->channel[c] ? sent_bytes(engine, c) : 0;
        if (bytes)
            TRY(device->backend->pinned_new(device, bytes, "messages", (void **)&engine->sent[c]));
    }
    return device->backend->pinned_new(device, exchanged_bytes(plan), "shared statistics",
                                       (void **)&engine->exchanged);
}

static void close_staging(struct engine *engine) {
    const struct grid *grid = &engine->plan->program->grid;
    struct device *device = engine->plan->device;
    int channels = (grid->stages * grid->chunks - 1) * PHASE_COUNT;
    for (int c = 0; engine->sent && c < channels; c++)
        if (engine->sent[c])
            device->backend->pinned_free(device, engine->sent[c], sent_bytes(engine, c));
    free(engine->sent);
    if (engine->exchanged)
        device->backend->pinned_free(device, engine->exchanged, exchanged_bytes(engine->plan));
}

static void make_room(struct engine *engine) {
    const struct plan *plan = engine->plan;
    engine->ring_count = STEP_RING + engine_ahead(engine) + plan->program->ahead;
    engine->ring = MEM_ARRAY(struct step, engine->ring_count);
    engine->map = resource_map(plan->program, plan->grads, plan->chunk_count, plan->sizes);
    engine->eval_shares = MEM_ARRAY(struct eval_share, plan->config.ranks);
    engine->slot = MEM_ARRAY(struct slot, slot_count(plan));
    if (plan->config.sync_bn && plan->config.cell.replica_count > 1)
        engine->lockstep = MEM_ARRAY(struct pass_run, plan->config.replicas);
    for (int i = 0; i < engine->ring_count; i++) step_init(&engine->ring[i], plan->config.ranks);
}

/* Where two devices do not reach one another, the host's memory is what ranks share. */
static enum status open_plane(struct engine *engine) {
    const struct plan *plan = engine->plan;
    struct plane_config config = {.device = plan->device,
                                  .comm = engine->comm,
                                  .stream = engine->stream[STREAM_MOVE],
                                  .bytes = plan_heap_bytes(plan)};
    if (plan_mails_by_plane(plan)) config.bytes += plan_mail_bytes(plan);
    if (!plan->plane || is_alone(engine)) return STATUS_OK;
    enum status status = plane_open(plan->plane, &config, &engine->plane);
    return status == STATUS_NO ? STATUS_OK : status;
}

static enum status set_up(struct engine *engine) {
    const struct plan *plan = engine->plan;
    const struct backend *backend = plan->device->backend;
    engine->apart = backend->apart;
    make_room(engine);
    TRY(posted_open(engine));
    TRY(queues_open(engine));
    trail_open(engine);
    engine_listen(engine, true);
    TRY(open_plane(engine));
    TRY(mail_open_plane(engine));
    TRY(open_groups(engine));
    TRY(open_channels(engine));
    TRY(mail_open(engine));
    TRY(engine_open_calls(engine));
    TRY(speakers_open(engine));
    TRY(open_staging(engine));
    rounds_open(engine);
    law_open(engine);
    TRY(store_new(plan->store, plan->device, engine->comm, engine->plane, &engine->store));
    engine->store->stream = engine->stream[STREAM_COMPUTE];
    TRY(store_init(engine->store, plan->micro[0].graph, plan->config.seed));
    TRY(backend->memory_new(plan->device, plan->memory.activations, "activations",
                            (void **)&engine->arena));
    TRY(backend->memory_new(plan->device, plan->memory.scratch, "scratch",
                            (void **)&engine->scratch));
    TRY(norms_open(engine));
    TRY(make_runnables(engine));
    TRY(times_open(engine));
    TRY(open_loaders(engine));
    engine_find_place(engine);
    return STATUS_OK;
}

enum status engine_open(const struct engine_config *config, struct engine **out) {
    struct engine *engine = *out = MEM_NEW(struct engine);
    engine->plan = config->plan;
    engine->state = config->state;
    engine->meeting = config->meeting;
    TRY(engine_check_place(&engine->state->next, engine->plan));
    TRY(open_comm(engine));
    if (config->prepare) TRY(engine_agree(engine, config->prepare(config->context)));
    mem_give_back(); /* what planning took and is free: memory of this plan is counted from here */
    TRY(engine_agree(engine, set_up(engine)));
    return engine->state->values ? engine_take_values(engine) : STATUS_OK;
}

void engine_close(struct engine **pointer) {
    struct engine *engine = *pointer;
    if (!engine) return;
    const struct plan *plan = engine->plan;
    engine_listen(engine, false);
    queues_await(engine); /* what is enqueued reads and writes what is freed here */
    pin_loader(engine, engine->train, false);
    pin_loader(engine, engine->eval, false);
    loader_free(&engine->train);
    loader_free(&engine->eval);
    for (int i = 0; i < PLAN_MAX_MICRO; i++) {
        for (int s = 0; engine->runnable[i].slot && s < slot_count(plan); s++)
            free(engine->runnable[i].slot[s].address);
        free(engine->runnable[i].slot);
    }
    if (engine->arena)
        plan->device->backend->memory_free(plan->device, engine->arena, plan->memory.activations);
    if (engine->scratch)
        plan->device->backend->memory_free(plan->device, engine->scratch, plan->memory.scratch);
    norms_close(engine);
    store_free(&engine->store);
    close_staging(engine);
    plane_close(&engine->plane);
    mail_close(engine);
    times_close(engine);
    queues_close(engine);
    trail_close(engine);
    posted_free(engine);
    comm_close(&engine->comm);
    speakers_close(engine);
    for (int i = 0; i < engine->ring_count; i++) step_free(&engine->ring[i]);
    free(engine->ring);
    free(engine->slot);
    free(engine->lockstep);
    free(engine->channel);
    free(engine->calls);
    free(engine->pieces);
    free(engine->eval_shares);
    free(engine->broadcast.all);
    free(engine->own_statistics);
    free(engine->scores);
    rounds_close(engine);
    law_close(engine);
    free(engine);
    *pointer = NULL;
}
