/* Handlers that give what the first member of a group has to all: BCAST at the start, STATS_ALL for
 * an evaluation.
 *
 * Arrays go one after the other, in pieces, through a gradient buffer, which is the memory others
 * can reach and is free between steps; in a forward program, which has none, from where they lie.
 * The step is exchanged behind them: a stage without
 * parameters has no such buffer. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/state.h"

/* What is given: all arrays that every member holds whole, but for the gradients; or running
 * statistics alone. */
static bool is_given(const struct exec *exec, int index) {
    const struct store_layout *layout = exec->store->layout;
    const struct array_layout *array = &layout->arrays[index];
    if (array->held == 0 || store_is_sliced(layout, index)) return false;
    if (exec->broadcast.statistics) return array->kind == ARRAY_BUFFER;
    return array->kind <= ARRAY_BUFFER && array->kind != ARRAY_GRAD;
}

/* The one under way. */
static const struct elements *being_given(const struct exec *exec) {
    return &exec->store->held[exec->broadcast.array];
}

/* Without gradients arrays lie in memory that others reach, and go from where they are. */
static bool in_place(const struct exec *exec) {
    return exec->plan->grads == 0;
}

static const struct elements *staging_of(const struct exec *exec) {
    return in_place(exec) ? being_given(exec) : store_staging(exec->store);
}

static enum status give_piece(struct exec *exec) {
    struct device *device = exec->plan->device;
    const struct broadcast_run *run = &exec->broadcast;
    char *data = being_given(exec)->data;
    return device->backend->array_copy(device, staging_of(exec)->data, data + run->done, run->piece,
                                       NULL);
}

static enum status take_piece(struct exec *exec) {
    struct device *device = exec->plan->device;
    const struct broadcast_run *run = &exec->broadcast;
    char *data = being_given(exec)->data;
    return device->backend->array_copy(device, data + run->done, staging_of(exec)->data, run->piece,
                                       NULL);
}

static enum status post_piece(struct exec *exec, struct comm_group *group) {
    struct broadcast_run *run = &exec->broadcast;
    size_t left = elements_bytes(being_given(exec)) - run->done,
           room = elements_bytes(staging_of(exec));
    CHECK(room > 0, "array %d has no buffer to go through", run->array);
    run->piece = left < room ? left : room;
    if (run->piece > run->most) run->most = run->piece;
    if (comm_group_member(group) == 0 && !in_place(exec)) TRY(give_piece(exec));
    exec->awaiting = &exec->request;
    return comm_broadcast(group, 0, staging_of(exec)->data, run->piece, &exec->request);
}

/* The piece has come. Others may still read the staging: it is free again after a meeting. */
static enum status end_piece(struct exec *exec, struct comm_group *group) {
    struct broadcast_run *run = &exec->broadcast;
    if (comm_group_member(group) != 0 && !in_place(exec)) TRY(take_piece(exec));
    run->done += run->piece;
    run->releasing = true;
    exec->awaiting = &exec->request;
    return comm_barrier_post(group, &exec->request);
}

static enum status post_step(struct exec *exec, struct comm_group *group) {
    exec->broadcast.first_steps = MEM_ARRAY(int64_t, comm_group_count(group));
    exec->awaiting = &exec->request;
    return comm_exchange_post(group, &exec->broadcast.first_step, sizeof exec->broadcast.first_step,
                              exec->broadcast.first_steps, &exec->request);
}

static void end_step(struct exec *exec) {
    exec->broadcast.first_step = exec->broadcast.first_steps[0];
    free(exec->broadcast.first_steps);
    exec->broadcast.first_steps = NULL;
}

/* Padding of gradients is zero and stays so: sums and norms run over it. */
static enum status end_broadcast(struct exec *exec) {
    struct device *device = exec->plan->device;
    exec->broadcast.active = false;
    if (in_place(exec)) return STATUS_OK;
    const struct elements *staging = staging_of(exec);
    size_t each = dtype_bytes(staging->dtype);
    struct elements dirty =
        elements_part(staging, 0, (int64_t)((exec->broadcast.most + each - 1) / each));
    return device->backend->array_fill(device, &dirty, 0, NULL);
}

/* Goes on with what is under way; called again after each meeting. *done tells that all was given.
 */
static enum status go_on(struct exec *exec, struct comm_group *group, bool *done) {
    struct broadcast_run *run = &exec->broadcast;
    int last = exec->store->layout->array_count;
    if (run->piece > 0 && !run->releasing) return end_piece(exec, group);
    run->releasing = false;
    if (run->array < 0 || (run->array < last && run->done == elements_bytes(being_given(exec)))) {
        run->done = 0;
        do run->array++;
        while (run->array < last && !is_given(exec, run->array));
    }
    if (run->array < last) return post_piece(exec, group);
    run->piece = 0;
    if (!run->statistics && !exec->broadcast.first_steps) return post_step(exec, group);
    if (!run->statistics) end_step(exec);
    *done = true;
    return end_broadcast(exec);
}

static void begin(struct exec *exec, bool statistics) {
    exec->broadcast = (struct broadcast_run){.active = true, .statistics = statistics, .array = -1};
}

enum status run_BCAST(struct exec *exec, const struct instr *instr) {
    bool done = false;
    if (!exec->broadcast.active) {
        begin(exec, false);
        exec->broadcast.first_step = exec->step->number;
    }
    TRY(go_on(exec, exec->group[instr->group], &done));
    int64_t step = exec->broadcast.first_step;
    if (done && step != exec->step->number) exec_seek(exec, step);
    return STATUS_OK;
}

/* --- running statistics to evaluate with --- */

static const struct elements *statistics_of(const struct exec *exec) {
    return &exec->store->held[store_array(exec->store->layout, ARRAY_BUFFER, 0)];
}

static enum status keep_own(struct exec *exec) {
    struct device *device = exec->plan->device;
    const struct elements *own = statistics_of(exec);
    exec->own_statistics = mem_new(elements_bytes(own));
    return device->backend->copy_out(device, exec->own_statistics, own->data, elements_bytes(own));
}

enum status restore_statistics(struct exec *exec) {
    struct device *device = exec->plan->device;
    const struct elements *own = statistics_of(exec);
    if (!exec->own_statistics) return STATUS_OK;
    enum status status =
        device->backend->copy_in(device, own->data, exec->own_statistics, elements_bytes(own));
    free(exec->own_statistics);
    exec->own_statistics = NULL;
    return status;
}

enum status run_STATS_ALL(struct exec *exec, const struct instr *instr) {
    bool done;
    if (elements_bytes(statistics_of(exec)) == 0) return STATUS_OK;
    if (!exec->broadcast.active) {
        TRY(keep_own(exec));
        begin(exec, true);
    }
    return go_on(exec, exec->group[instr->group], &done);
}

enum status run_STATS_OWN(struct exec *exec, const struct instr *instr) {
    (void)instr;
    return restore_statistics(exec);
}
