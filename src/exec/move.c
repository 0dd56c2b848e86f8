/* From one plan to the next: see exec_change_plan.
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

enum status exec_share_bytes(struct exec *exec, bool has, void *data, size_t bytes) {
    struct piece {
        int32_t has;
        char data[COMM_EXCHANGE_BYTES - sizeof(int32_t)];
    } own = {.has = has}, *all = MEM_ARRAY(struct piece, comm_size(exec->comm));
    enum status status = STATUS_OK;
    for (size_t done = 0; done < bytes && status == STATUS_OK; done += sizeof own.data) {
        size_t part = bytes - done < sizeof own.data ? bytes - done : sizeof own.data;
        int from = 0;
        if (has) memcpy(own.data, (char *)data + done, part);
        status = comm_exchange(comm_world(exec->comm), &own, sizeof own, all);
        while (status == STATUS_OK && from < comm_size(exec->comm) && !all[from].has) from++;
        if (status == STATUS_OK && from == comm_size(exec->comm)) status = STATUS_NO;
        if (status == STATUS_OK) memcpy((char *)data + done, all[from].data, part);
    }
    free(all);
    return status;
}

/* --- out of the old plan --- */

static enum status take_values(struct exec *exec) {
    struct saving saving = {.values = exec->state->values = MEM_NEW(struct tensor_values)};
    TRY(exec_compare_copies(exec));
    return exec_save(exec, &saving);
}

/* --- into the new one --- */

struct taker {
    struct exec *exec;
    enum status status; /* of this rank alone: the others need what it has all the same */
};

/* Every rank is called for every tensor of the model, in the same order. */
static enum status take_tensor(void *context, const struct tensor_value *tensor, int array,
                               int item) {
    struct taker *taker = context;
    struct exec *exec = taker->exec;
    const struct tensor_value *own = tensor_value_find(exec->state->values, tensor);
    void *plain = own ? own->plain : mem_new(tensor->bytes);
    enum status status = exec_share_bytes(exec, own, plain, tensor->bytes);
    if (status == STATUS_NO)
        status = fail(STATUS_BUG, "no rank has %s of the plan before", tensor->name);
    if (status == STATUS_OK && taker->status == STATUS_OK && array >= 0)
        taker->status = store_put(exec->store, array, item, plain);
    if (!own) free(plain);
    return status;
}

enum status exec_take_values(struct exec *exec) {
    struct taker taker = {.exec = exec};
    for (int p = 0; p < PART_COUNT; p++)
        TRY(tensors_each(exec->store->layout, (enum tensor_part)p, take_tensor, &taker));
    return comm_agree(comm_world(exec->comm), taker.status);
}

enum status exec_change_plan(struct exec **exec, const struct plan *plan) {
    struct train_state *state = (*exec)->state;
    struct exec_config config = {.plan = plan, .state = state, .meeting = (*exec)->meeting};
    TRY(exec_check_place(state, plan));
    TRY(exec_drain(*exec));
    enum status status = take_values(*exec);
    if (status == STATUS_OK) {
        exec_close(exec);
        status = exec_open(&config, exec);
    }
    tensor_values_free(&state->values);
    return status == STATUS_OK ? exec_start(*exec) : status;
}
