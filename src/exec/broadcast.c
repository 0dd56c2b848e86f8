/* Handlers that give what the first member of a group has to all: BCAST at the start, STATS_ALL for
 * an evaluation; and STATS_MEAN, for which each gives its own in turn.
 *
 * Arrays go one after the other, in pieces, through a gradient buffer, which is the memory others
 * can reach and is free between steps; where there is none, as in a forward program or where all
 * parameters of a rank are frozen, from where they lie.
 * The step is exchanged behind them: a stage without
 * parameters has no such buffer. */
#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/queues.h"
#include "exec/state.h"

/* What is given: all arrays that every member holds whole, but for the gradients; or running
 * statistics alone. */
static bool is_given(const struct engine *engine, int index) {
    const struct state_layout *layout = engine->store->layout;
    const struct array_layout *array = &layout->arrays[index];
    if (array->held == 0 || state_is_sliced(layout, index)) return false;
    if (engine->broadcast.statistics) return array->kind == ARRAY_BUFFER;
    if (engine->own_read) return false;
    return array->kind <= ARRAY_BUFFER && array->kind != ARRAY_GRAD;
}

/* The one under way. */
static const struct elements *being_given(const struct engine *engine) {
    return &engine->store->held[engine->broadcast.array];
}

/* Without gradients arrays lie in memory that others reach, and go from where they are. */
static bool in_place(const struct engine *engine) {
    return engine->plan->grads == 0 || engine->plan->holdings.param_count == 0;
}

static const struct elements *staging_of(const struct engine *engine) {
    return in_place(engine) ? being_given(engine) : store_staging(engine->store);
}

/* Pieces between an array and the staging, where a plane gives that to the others. */
static enum status copy_near(struct engine *engine, void *to, const void *from) {
    struct device *device = engine->plan->device;
    return device->backend->array_copy(device, to, from, engine->broadcast.piece,
                                       engine->stream[STREAM_MOVE]);
}

/* Where others reach the staging; of a device that is apart that is memory of the host, which the
 * pieces go to straight. */
static char *reached(const struct engine *engine) {
    return store_shared(engine->store, staging_of(engine)->data);
}

static bool copies(const struct engine *engine) {
    return (engine->apart && !engine->plane) || !in_place(engine);
}

static enum status give_piece(struct engine *engine) {
    const struct broadcast_run *run = &engine->broadcast;
    char *data = being_given(engine)->data;
    if (engine->plane) return copy_near(engine, staging_of(engine)->data, data + run->done);
    return device_copy_out(engine->plan->device, reached(engine), data + run->done, run->piece);
}

static enum status take_piece(struct engine *engine) {
    const struct broadcast_run *run = &engine->broadcast;
    char *data = being_given(engine)->data;
    if (engine->plane) return copy_near(engine, data + run->done, staging_of(engine)->data);
    return device_copy_in(engine->plan->device, data + run->done, reached(engine), run->piece);
}

/* In place the piece is where it lies. */
static enum status move_piece(struct engine *engine, struct plane_group *group) {
    const struct broadcast_run *run = &engine->broadcast;
    char *data = staging_of(engine)->data;
    struct plane_op op = {.kind = PLANE_BROADCAST,
                          .root = run->giver,
                          .data = {.dtype = DTYPE_U8,
                                   .data = in_place(engine) ? data + run->done : data,
                                   .count = (int64_t)run->piece}};
    return plane_post(group, &op, &engine->moving);
}

static enum status post_piece(struct engine *engine, const struct instr *instr) {
    struct comm_group *group = engine->group[instr->group];
    struct broadcast_run *run = &engine->broadcast;
    size_t left = elements_bytes(being_given(engine)) - run->done,
           room = elements_bytes(staging_of(engine));
    CHECK(room > 0, "array %d has no buffer to go through", run->array);
    run->piece = left < room ? left : room;
    if (run->piece > run->most) run->most = run->piece;
    if (comm_group_member(group) == run->giver && copies(engine)) TRY(give_piece(engine));
    engine->awaiting = &engine->request;
    if (engine->plane) return move_piece(engine, engine->moves[instr->group]);
    return comm_broadcast(group, run->giver, reached(engine), run->piece, &engine->request);
}

/* The piece has come. Others may still read the staging: it is free again after a meeting. */
static enum status end_piece(struct engine *engine, struct comm_group *group) {
    struct broadcast_run *run = &engine->broadcast;
    if (comm_group_member(group) != run->giver && copies(engine)) TRY(take_piece(engine));
    run->done += run->piece;
    run->releasing = true;
    engine->awaiting = &engine->request;
    return comm_barrier_post(group, &engine->request);
}

static enum status post_place(struct engine *engine, struct comm_group *group) {
    struct broadcast_run *run = &engine->broadcast;
    run->all = MEM_ARRAY(struct train_place, comm_group_count(group));
    engine->awaiting = &engine->request;
    return comm_exchange_post(group, &run->first, sizeof run->first, run->all, &engine->request);
}

static void take_place(struct engine *engine) {
    engine->broadcast.first = engine->broadcast.all[0];
    free(engine->broadcast.all);
    engine->broadcast.all = NULL;
}

/* Padding of gradients is zero and stays so: sums and norms run over it. */
static enum status end_broadcast(struct engine *engine) {
    struct device *device = engine->plan->device;
    engine->broadcast.active = false;
    if ((engine->apart && !engine->plane) || in_place(engine)) return STATUS_OK;
    if (engine->plane) TRY(queues_await(engine));
    const struct elements *staging = staging_of(engine);
    size_t each = dtype_bytes(staging->dtype);
    struct elements dirty =
        elements_part(staging, 0, (int64_t)((engine->broadcast.most + each - 1) / each));
    return device->backend->array_fill(device, &dirty, 0, engine->stream[STREAM_COMPUTE]);
}

/* Goes on with what is under way; called again after each meeting. *done tells that all was given.
 */
static enum status go_on(struct engine *engine, const struct instr *instr, bool *done) {
    struct comm_group *group = engine->group[instr->group];
    struct broadcast_run *run = &engine->broadcast;
    int last = engine->store->layout->array_count;
    if (run->piece > 0 && !run->releasing) return end_piece(engine, group);
    run->releasing = false;
    if (run->array < 0 || (run->array < last && run->done == elements_bytes(being_given(engine)))) {
        run->done = 0;
        do run->array++;
        while (run->array < last && !is_given(engine, run->array));
    }
    if (run->array < last) return post_piece(engine, instr);
    run->piece = 0;
    if (!run->statistics && !run->all) return post_place(engine, group);
    if (!run->statistics) take_place(engine);
    *done = true;
    return end_broadcast(engine);
}

static void begin(struct engine *engine, bool statistics) {
    engine->broadcast =
        (struct broadcast_run){.active = true, .statistics = statistics, .array = -1};
}

enum status run_BCAST(struct engine *engine, const struct instr *instr) {
    bool done = false;
    if (!engine->broadcast.active) {
        begin(engine, false);
        engine->broadcast.first =
            (struct train_place){engine->state->done.step, engine->state->next};
    }
    TRY(go_on(engine, instr, &done));
    const struct train_place *first = &engine->broadcast.first;
    const struct train_position *own = &engine->state->next;
    bool here = first->step == engine->state->done.step && first->next.epoch == own->epoch &&
                first->next.sample == own->sample;
    if (done && !here) engine_seek(engine, first->step, &first->next);
    return done ? engine_begin_apart(engine) : STATUS_OK;
}

/* --- running statistics to evaluate with --- */

static const struct elements *statistics_of(const struct engine *engine) {
    return &engine->store->held[state_array(engine->store->layout, ARRAY_BUFFER, 0)];
}

static enum status keep_own(struct engine *engine) {
    struct device *device = engine->plan->device;
    const struct elements *own = statistics_of(engine);
    engine->own_statistics = mem_new(elements_bytes(own));
    return device_copy_out(device, engine->own_statistics, own->data, elements_bytes(own));
}

enum status restore_statistics(struct engine *engine) {
    struct device *device = engine->plan->device;
    const struct elements *own = statistics_of(engine);
    if (!engine->own_statistics) return STATUS_OK;
    TRY(queues_await(engine));
    enum status status =
        device_copy_in(device, own->data, engine->own_statistics, elements_bytes(own));
    free(engine->own_statistics);
    engine->own_statistics = NULL;
    return status;
}

enum status run_STATS_ALL(struct engine *engine, const struct instr *instr) {
    bool done;
    if (elements_bytes(statistics_of(engine)) == 0) return STATUS_OK;
    if (!engine->broadcast.active) {
        TRY(keep_own(engine));
        begin(engine, true);
    }
    return go_on(engine, instr, &done);
}

/* One after the other gives its statistics; each adds them up, in the order of the members, so all
 * have the same bits. What is no f32, a count, is the first member's. */
static enum status add_statistics(struct engine *engine) {
    struct broadcast_run *run = &engine->broadcast;
    const struct state_layout *layout = engine->store->layout;
    const struct elements *statistics = statistics_of(engine);
    SCOPED_FREE char *given = mem_new(elements_bytes(statistics));
    TRY(queues_await(engine));
    TRY(device_copy_out(engine->plan->device, given, statistics->data, elements_bytes(statistics)));
    for (int b = 0; b < layout->buffer_count; b++) {
        const struct state_item *item = &layout->buffers[b];
        if (!state_holds(item)) continue;
        if (item->type.dtype != DTYPE_F32) {
            if (run->giver == 0)
                memcpy((char *)run->sum + item->begin, given + item->begin, (size_t)item->count);
            continue;
        }
        float *sum = (float *)(void *)((char *)run->sum + item->begin);
        const float *from = (const float *)(const void *)(given + item->begin);
        for (int64_t i = 0; i < item->count / (int64_t)sizeof *sum; i++)
            sum[i] = run->giver ? sum[i] + from[i] : from[i];
    }
    return STATUS_OK;
}

static enum status take_mean(struct engine *engine, int members) {
    const struct state_layout *layout = engine->store->layout;
    const struct elements *statistics = statistics_of(engine);
    SCOPED_FREE char *mean = (char *)engine->broadcast.sum;
    engine->broadcast.sum = NULL;
    for (int b = 0; b < layout->buffer_count; b++) {
        const struct state_item *item = &layout->buffers[b];
        float *values = (float *)(void *)(mean + item->begin);
        if (!state_holds(item) || item->type.dtype != DTYPE_F32) continue;
        for (int64_t i = 0; i < item->count / (int64_t)sizeof *values; i++)
            values[i] = values[i] / (float)members;
    }
    return device_copy_in(engine->plan->device, statistics->data, mean, elements_bytes(statistics));
}

/* The own statistics are among what the others have given by then. */
static enum status give_own(struct engine *engine, const struct comm_group *group) {
    const struct elements *statistics = statistics_of(engine);
    if (comm_group_member(group) != engine->broadcast.giver) return STATUS_OK;
    return device_copy_in(engine->plan->device, statistics->data, engine->own_statistics,
                          elements_bytes(statistics));
}

enum status run_STATS_MEAN(struct engine *engine, const struct instr *instr) {
    struct comm_group *group = engine->group[instr->group];
    size_t bytes = elements_bytes(statistics_of(engine));
    if (bytes == 0) return STATUS_OK;
    if (!engine->broadcast.active) {
        TRY(keep_own(engine));
        if (engine->same_statistics) return STATUS_OK;
        begin(engine, true);
        engine->broadcast.sum = mem_new(bytes);
    }
    for (bool done = false;;) {
        struct broadcast_run *run = &engine->broadcast;
        TRY(go_on(engine, instr, &done));
        if (!done) return STATUS_OK;
        TRY(add_statistics(engine));
        if (run->giver + 1 == comm_group_count(group)) break;
        int next = run->giver + 1;
        void *sum = run->sum;
        begin(engine, true);
        engine->broadcast.giver = next;
        engine->broadcast.sum = sum;
        TRY(give_own(engine, group));
        done = false;
    }
    return take_mean(engine, comm_group_count(group));
}

void engine_forget_own(struct engine *engine) {
    free(engine->own_statistics);
    engine->own_statistics = NULL;
    engine->same_params = engine->same_statistics = true;
}

enum status run_STATS_OWN(struct engine *engine, const struct instr *instr) {
    (void)instr;
    return restore_statistics(engine);
}
