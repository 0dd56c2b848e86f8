/* From one plan to the next: see engine_change_plan.
 *
 * Values move through host memory, as plain tensors: the list "save" gives each of them to one rank
 * of the old plan, put together where slices cut it, and the new ranks take by name what they hold.
 * Memory of both plans is never there at once: between them each rank has its part of the values
 * alone. Rejected: keeping both engines until values have moved. That needs the memory of both, and
 * layouts may differ between plans, so values would have to be put into plain order anyway. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/saving.h"
#include "exec/state.h"
#include "exec/tensors.h"
#include "exec/train.h"
#include "exec/versions.h"

enum status engine_share_bytes(struct engine *engine, bool has, void *data, size_t bytes) {
    struct piece {
        int32_t has;
        char data[COMM_EXCHANGE_BYTES - sizeof(int32_t)];
    } own = {.has = has}, *all = MEM_ARRAY(struct piece, comm_size(engine->comm));
    enum status status = STATUS_OK;
    for (size_t done = 0; done < bytes && status == STATUS_OK; done += sizeof own.data) {
        size_t part = bytes - done < sizeof own.data ? bytes - done : sizeof own.data;
        int from = 0;
        if (has) memcpy(own.data, (char *)data + done, part);
        status = comm_exchange(comm_world(engine->comm), &own, sizeof own, all);
        while (status == STATUS_OK && from < comm_size(engine->comm) && !all[from].has) from++;
        if (status == STATUS_OK && from == comm_size(engine->comm)) status = STATUS_NO;
        if (status == STATUS_OK) memcpy((char *)data + done, all[from].data, part);
    }
    free(all);
    return status;
}

static void tell(const struct train_state *state, const char *what) {
    const struct engine_observer *observer = &state->observer;
    if (observer->changing) observer->changing(observer->context, what, state->done.step);
}

/* --- out of the old plan --- */

static enum status take_values(struct engine *engine) {
    struct saving saving = {.values = engine->state->values = MEM_NEW(struct tensor_values)};
    TRY(engine_compare_copies(engine));
    return engine_save(engine, &saving);
}

/* --- into the new one --- */

struct taker {
    struct engine *engine;
    enum status status; /* of this rank alone: the others need what it has all the same */
    char *room;         /* of PLAN_MOVE_BYTES, that other ranks reach; NULL: there is none */
};

/* The first rank that has a tensor. STATUS_BUG: none. */
static enum status find_giver(const struct taker *taker, const struct tensor_value *tensor,
                              bool has, int *giver) {
    struct comm *comm = taker->engine->comm;
    int32_t own = has;
    SCOPED_FREE int32_t *all = MEM_ARRAY(int32_t, comm_size(comm));
    TRY(comm_exchange(comm_world(comm), &own, sizeof own, all));
    for (*giver = 0; *giver < comm_size(comm); ++*giver)
        if (all[*giver]) return STATUS_OK;
    return fail(STATUS_BUG, "no rank has %s of the plan before", tensor->name);
}

/* The room is free again once all have taken the piece out of it. */
static enum status move_piece(const struct taker *taker, int giver, char *plain, size_t bytes) {
    struct comm_group *world = comm_world(taker->engine->comm);
    struct comm_request *request = NULL;
    bool gives = comm_group_member(world) == giver;
    if (gives) memcpy(taker->room, plain, bytes);
    TRY(comm_broadcast(world, giver, taker->room, bytes, &request));
    TRY(comm_wait(&request));
    if (!gives) memcpy(plain, taker->room, bytes);
    return comm_barrier(world);
}

static enum status move_tensor(const struct taker *taker, const struct tensor_value *tensor,
                               bool has, char *plain) {
    int giver;
    if (!taker->room) return engine_share_bytes(taker->engine, has, plain, tensor->bytes);
    TRY(find_giver(taker, tensor, has, &giver));
    for (size_t done = 0; done < tensor->bytes; done += PLAN_MOVE_BYTES) {
        size_t left = tensor->bytes - done;
        TRY(move_piece(taker, giver, plain + done,
                       left < PLAN_MOVE_BYTES ? left : PLAN_MOVE_BYTES));
    }
    return STATUS_OK;
}

/* Every rank is called for every tensor of the model, in the same order. */
static enum status take_tensor(void *context, const struct tensor_value *tensor, int array,
                               int item) {
    struct taker *taker = context;
    struct engine *engine = taker->engine;
    const struct tensor_value *own = tensors_find_value(engine->state->values, tensor);
    void *plain = own ? own->plain : mem_new(tensor->bytes);
    enum status status = move_tensor(taker, tensor, own, plain);
    if (status == STATUS_NO)
        status = fail(STATUS_BUG, "no rank has %s of the plan before", tensor->name);
    if (status == STATUS_OK && taker->status == STATUS_OK && array >= 0)
        taker->status = store_put(engine->store, array, item, plain);
    if (!own) free(plain);
    engine->state->moved_bytes += tensor->bytes;
    return status;
}

enum status engine_take_values(struct engine *engine) {
    struct taker taker = {.engine = engine};
    engine->state->moved_bytes = 0;
    if (plan_move_bytes(&engine->plan->config))
        TRY(comm_alloc(engine->comm, PLAN_MOVE_BYTES, "values on their way", (void **)&taker.room));
    tell(engine->state, "MOVE");
    for (int p = 0; p < PART_VERSIONS; p++)
        TRY(tensors_each(engine->store->layout, (enum tensor_part)p, take_tensor, &taker));
    if (taker.status == STATUS_OK) taker.status = versions_fill(engine->store);
    return engine_agree(engine, taker.status);
}

enum status engine_follow_clock(struct engine *engine, bool changes) {
    const struct engine_clock *clock = engine->meeting.clock;
    bool first = comm_rank(engine->comm) == 0;
    if (!clock) return STATUS_OK;
    return engine_agree(engine,
                        first ? clock->follow(clock->context, engine->plan, changes) : STATUS_OK);
}

enum status engine_change_plan(struct engine **engine, const struct plan *plan) {
    struct train_state *state = (*engine)->state;
    struct engine_config config = {.plan = plan, .state = state, .meeting = (*engine)->meeting};
    TRY(engine_check_place(&state->next, plan));
    TRY(engine_drain(*engine));
    tell(state, "TAKE");
    enum status status = take_values(*engine);
    if (status == STATUS_OK) {
        engine_close(engine);
        tell(state, "OPEN");
        status = engine_open(&config, engine);
    }
    tensors_free_values(&state->values);
    if (status == STATUS_OK) status = engine_follow_clock(*engine, true);
    tell(state, "START");
    return status == STATUS_OK ? engine_start(*engine) : status;
}
