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
};

/* Every rank is called for every tensor of the model, in the same order. */
static enum status take_tensor(void *context, const struct tensor_value *tensor, int array,
                               int item) {
    struct taker *taker = context;
    struct engine *engine = taker->engine;
    const struct tensor_value *own = tensors_find_value(engine->state->values, tensor);
    void *plain = own ? own->plain : mem_new(tensor->bytes);
    enum status status = engine_share_bytes(engine, own, plain, tensor->bytes);
    if (status == STATUS_NO)
        status = fail(STATUS_BUG, "no rank has %s of the plan before", tensor->name);
    if (status == STATUS_OK && taker->status == STATUS_OK && array >= 0)
        taker->status = store_put(engine->store, array, item, plain);
    if (!own) free(plain);
    return status;
}

enum status engine_take_values(struct engine *engine) {
    struct taker taker = {.engine = engine};
    for (int p = 0; p < PART_VERSIONS; p++)
        TRY(tensors_each(engine->store->layout, (enum tensor_part)p, take_tensor, &taker));
    if (taker.status == STATUS_OK) taker.status = versions_fill(engine->store);
    return engine_agree(engine, taker.status);
}

enum status engine_change_plan(struct engine **engine, const struct plan *plan) {
    struct train_state *state = (*engine)->state;
    struct engine_config config = {.plan = plan, .state = state, .meeting = (*engine)->meeting};
    TRY(engine_check_place(&state->next, plan));
    TRY(engine_drain(*engine));
    enum status status = take_values(*engine);
    if (status == STATUS_OK) {
        engine_close(engine);
        status = engine_open(&config, engine);
    }
    tensors_free_values(&state->values);
    return status == STATUS_OK ? engine_start(*engine) : status;
}
