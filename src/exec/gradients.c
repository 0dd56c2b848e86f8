/* The handlers of gradients and sliced parameters: sums inside a rank, and what is summed,
 * scattered and gathered over replicas; see handlers.h. */
#include "exec/handlers.h"
#include "exec/places.h"

typedef enum status bucket_step(struct store *store, int grad, const struct bucket *bucket);

/* Of the instruction's bucket, or of all of its stage. */
static enum status each_bucket(struct engine *engine, const struct instr *instr,
                               bucket_step *step) {
    const struct bucket_list *buckets = &engine->plan->chunk[chunk_of(engine, instr)].buckets;
    bool all = instr->bucket == INSTR_ALL;
    int first = all ? 0 : instr->bucket, end = all ? buckets->count : first + 1;
    for (int b = first; b < end; b++) TRY(step(engine->store, instr->grad, &buckets->items[b]));
    return STATUS_OK;
}

enum status run_ZERO(struct engine *engine, const struct instr *instr) {
    return each_bucket(engine, instr, store_zero);
}

enum status run_TIE(struct engine *engine, const struct instr *instr) {
    return each_bucket(engine, instr, store_tie);
}

enum status run_SUM(struct engine *engine, const struct instr *instr) {
    const struct bucket_list *buckets = &engine->plan->chunk[chunk_of(engine, instr)].buckets;
    for (int b = 0; b < buckets->count; b++)
        TRY(store_sum(engine->store, instr->grad, instr->other, &buckets->items[b]));
    return STATUS_OK;
}

/* Members of a group have the same parameters in a bucket, wherever it lies with each. */
static enum status sum_bucket(struct engine *engine, const struct instr *instr,
                              struct comm_request **out) {
    const struct bucket *bucket =
        &engine->plan->chunk[chunk_of(engine, instr)].buckets.items[instr->bucket];
    struct elements data = store_bucket_gradient(engine->store, instr->grad, bucket);
    return comm_all_reduce(engine->group[instr->group], data.data, data.count, out);
}

enum status post_REDUCE(struct engine *engine, const struct instr *instr,
                        struct comm_request **out) {
    return sum_bucket(engine, instr, out);
}

enum status finish_REDUCE(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}

static const struct bucket *bucket_of(const struct engine *engine, const struct instr *instr) {
    return &engine->plan->chunk[chunk_of(engine, instr)].buckets.items[instr->bucket];
}

/* This rank's part of the bucket, counted from its begin. */
static struct slice own_slice(const struct engine *engine, const struct instr *instr) {
    struct comm_group *group = engine->group[instr->group];
    struct slice slice;
    comm_slice(group, bucket_of(engine, instr)->elements, comm_group_member(group), &slice.begin,
               &slice.count);
    return slice;
}

enum status post_SCATTER(struct engine *engine, const struct instr *instr,
                         struct comm_request **out) {
    const struct bucket *bucket = bucket_of(engine, instr);
    struct elements data = store_bucket_gradient(engine->store, instr->grad, bucket);
    if (instr->grad != instr->other) TRY(store_clear_padding(engine->store, instr->grad, bucket));
    return comm_reduce_scatter(engine->group[instr->group], data.data, data.count, out);
}

enum status finish_SCATTER(struct engine *engine, const struct instr *instr) {
    struct slice slice = own_slice(engine, instr);
    if (instr->grad == instr->other || slice.count == 0) return STATUS_OK;
    return store_take_slice(engine->store, instr->grad, bucket_of(engine, instr), &slice,
                            instr->flags & INSTR_NEW);
}

enum status post_GATHER(struct engine *engine, const struct instr *instr,
                        struct comm_request **out) {
    const struct bucket *bucket = bucket_of(engine, instr);
    struct slice slice = own_slice(engine, instr);
    struct elements data = store_bucket_params(engine->store, bucket);
    TRY(store_give_slice(engine->store, bucket, &slice));
    return comm_all_gather(engine->group[instr->group], data.data, data.count, out);
}

enum status finish_GATHER(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}

enum status run_FREE(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}

/* Of two members, the one with the first use first: that is graph order. */
enum status post_JOIN(struct engine *engine, const struct instr *instr, struct comm_request **out) {
    return sum_bucket(engine, instr, out);
}

enum status finish_JOIN(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}
