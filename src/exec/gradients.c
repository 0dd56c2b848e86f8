/* The handlers of gradients and sliced parameters: sums inside a rank, and what is summed,
 * scattered and gathered over replicas; see handlers.h. */
#include "exec/handlers.h"
#include "exec/places.h"
#include "exec/queues.h"

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

/* --- between ranks --- */

static const struct bucket *bucket_of(const struct engine *engine, const struct instr *instr) {
    return &engine->plan->chunk[chunk_of(engine, instr)].buckets.items[instr->bucket];
}

static struct elements gradient_of(const struct engine *engine, const struct instr *instr) {
    return store_bucket_gradient(engine->store, instr->grad, bucket_of(engine, instr));
}

/* Where what moves between ranks lies, and what is enqueued for it. */
static struct stream *moves_on(const struct engine *engine) {
    return engine->stream[engine->plane ? STREAM_MOVE : STREAM_COMM];
}

static enum status move(struct engine *engine, const struct instr *instr, enum plane_kind kind,
                        const struct elements *data) {
    struct plane_op op = {.kind = kind, .data = *data};
    return plane_post(engine->moves[instr->group], &op, &engine_posted(engine, instr)->moving);
}

/* Between the device and the memory that others reach, where that is another one. */
static enum status copy_out(struct engine *engine, const struct elements *part) {
    if (engine->plane) return STATUS_OK;
    return queues_copy_out(engine, store_shared(engine->store, part->data), part->data,
                           elements_bytes(part));
}

static enum status copy_in(struct engine *engine, const struct elements *part) {
    if (engine->plane) return STATUS_OK;
    return queues_copy_in(engine, part->data, store_shared(engine->store, part->data),
                          elements_bytes(part));
}

/* Members of a group have the same parameters in a bucket, wherever it lies with each. */
static enum status prepare_sum(struct engine *engine, const struct instr *instr) {
    struct elements data = gradient_of(engine, instr);
    queues_follow(engine);
    return copy_out(engine, &data);
}

static enum status sum_bucket(struct engine *engine, const struct instr *instr,
                              struct comm_request **out) {
    struct elements data = gradient_of(engine, instr);
    if (engine->plane) return move(engine, instr, PLANE_ALL_REDUCE, &data);
    return comm_all_reduce(engine->group[instr->group], store_shared(engine->store, data.data),
                           data.count, out);
}

static enum status finish_sum(struct engine *engine, const struct instr *instr) {
    struct elements data = gradient_of(engine, instr);
    return copy_in(engine, &data);
}

#define SUM_OF_RANKS(NAME)                                                                         \
    enum status prepare_##NAME(struct engine *engine, const struct instr *instr) {                 \
        return prepare_sum(engine, instr);                                                         \
    }                                                                                              \
    enum status post_##NAME(struct engine *engine, const struct instr *instr,                      \
                            struct comm_request **out) {                                           \
        return sum_bucket(engine, instr, out);                                                     \
    }                                                                                              \
    enum status finish_##NAME(struct engine *engine, const struct instr *instr) {                  \
        return finish_sum(engine, instr);                                                          \
    }
SUM_OF_RANKS(REDUCE)
/* Of two members, the one with the first use first: that is graph order. */
SUM_OF_RANKS(JOIN)

/* This rank's part of the bucket, counted from its begin. */
static struct slice own_slice(const struct engine *engine, const struct instr *instr) {
    struct comm_group *group = engine->group[instr->group];
    struct slice slice;
    comm_slice(group, bucket_of(engine, instr)->elements, comm_group_member(group), &slice.begin,
               &slice.count);
    return slice;
}

enum status prepare_SCATTER(struct engine *engine, const struct instr *instr) {
    if (instr->grad != instr->other)
        TRY(store_clear_padding(engine->store, instr->grad, bucket_of(engine, instr)));
    return prepare_sum(engine, instr);
}

enum status post_SCATTER(struct engine *engine, const struct instr *instr,
                         struct comm_request **out) {
    struct elements data = gradient_of(engine, instr);
    if (engine->plane) return move(engine, instr, PLANE_REDUCE_SCATTER, &data);
    return comm_reduce_scatter(engine->group[instr->group], store_shared(engine->store, data.data),
                               data.count, out);
}

enum status finish_SCATTER(struct engine *engine, const struct instr *instr) {
    struct slice slice = own_slice(engine, instr);
    struct elements all = gradient_of(engine, instr),
                    own = elements_part(&all, slice.begin, slice.count);
    if (slice.count == 0) return STATUS_OK;
    TRY(copy_in(engine, &own));
    if (instr->grad == instr->other) return STATUS_OK;
    return store_take_slice(engine->store, instr->grad, bucket_of(engine, instr), &slice,
                            instr->flags & INSTR_NEW, moves_on(engine));
}

enum status prepare_GATHER(struct engine *engine, const struct instr *instr) {
    const struct bucket *bucket = bucket_of(engine, instr);
    struct slice slice = own_slice(engine, instr);
    struct elements all = store_bucket_params(engine->store, bucket),
                    own = elements_part(&all, slice.begin, slice.count);
    queues_follow(engine);
    TRY(store_give_slice(engine->store, bucket, &slice, moves_on(engine)));
    return copy_out(engine, &own);
}

enum status post_GATHER(struct engine *engine, const struct instr *instr,
                        struct comm_request **out) {
    struct elements data = store_bucket_params(engine->store, bucket_of(engine, instr));
    if (engine->plane) return move(engine, instr, PLANE_ALL_GATHER, &data);
    return comm_all_gather(engine->group[instr->group], store_shared(engine->store, data.data),
                           data.count, out);
}

enum status finish_GATHER(struct engine *engine, const struct instr *instr) {
    struct elements data = store_bucket_params(engine->store, bucket_of(engine, instr));
    return copy_in(engine, &data);
}

enum status run_FREE(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}
