/* Sliced parameters between steps: gathered bucket by bucket for whoever wants to see them whole.
 */
#include "base/log.h"
#include "exec/handlers.h"
#include "exec/state.h"

/* The group that gathers is the one of the program's own GATHERs. */
static struct instr gather_like(const struct exec *exec, int chunk, int bucket) {
    const struct instr_list *body =
        program_list(exec->plan->program, exec->plan->config.rank, LIST_BODY);
    int at = 0;
    while (at < body->count && body->items[at].op != INSTR_GATHER) at++;
    CHECK(at < body->count, "sliced parameters, and no GATHER");
    struct instr gather = body->items[at];
    gather.stage = (int16_t)exec->plan->chunk[chunk].stage;
    gather.bucket = (int16_t)bucket;
    return gather;
}

enum status exec_gather(struct exec *exec, int chunk, int bucket) {
    struct instr gather = gather_like(exec, chunk, bucket);
    struct comm_request *request;
    TRY(handlers[INSTR_GATHER].post(exec, &gather, &request));
    return comm_wait(&request);
}

enum status exec_param_hash(struct exec *exec, uint64_t *out) {
    const struct plan *plan = exec->plan;
    TRY(exec_settle(exec));
    if (!(plan->program->sliced & SLICED_PARAMS)) return store_param_hash(exec->store, out);
    uint64_t sum = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        for (int b = 0; b < plan->chunk[c].buckets.count; b++) {
            TRY(exec_gather(exec, c, b));
            TRY(store_bucket_hash(exec->store, &plan->chunk[c].buckets.items[b], &sum));
        }
    }
    *out = sum;
    return STATUS_OK;
}
