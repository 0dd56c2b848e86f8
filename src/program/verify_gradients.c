/* What is proven of gradients: buffers are started before they are added to, whole before they are
 * summed or reduced, and at STEP hold each micro-batch of the step exactly once, added in the order
 * that the header names.
 *
 * The order is compared in two parts, so that equal replicas are looked at once: what a rank added
 * is held against the definition for its own micro-batches, counted from its first; and whether
 * sums of ranks, added by the tree of a reduction, are the sum that the header names is a question
 * about the header alone. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "program/order.h"
#include "program/verify.h"

struct bucket *verify_bucket(struct walk *walk, int grad, int index) {
    struct grad *of = &walk->grads[grad];
    if (!of->bucket)
        of->bucket = MEM_ARRAY(struct bucket, sizes_bucket(walk->own->chunk, walk->own->chunks, 0));
    return &of->bucket[index];
}

static enum status accumulate(struct walk *walk, struct bucket *bucket) {
    bool fresh = walk->instr->flags & INSTR_NEW;
    uint64_t leaf = order_leaf(walk->instr->micro);
    if (fresh) *bucket = (struct bucket){0};
    if (!fresh && !bucket->started)
        return verify_broken(walk, "gradient buffer %d was never started (\"new\")",
                             walk->instr->grad);
    if (bucket->tied)
        return verify_broken(walk, "gradient buffer %d was tied already", walk->instr->grad);
    bucket->started = true;
    bucket->order = fresh ? leaf : order_sum(bucket->order, leaf);
    bucket->content += leaf;
    bucket->count++;
    return STATUS_OK;
}

/* Of two stages of a rank that share parameters it would erase, or leave, what lies behind the
 * bucket of one of them. */
static enum status zero(struct walk *walk, struct bucket *bucket) {
    bool tied = program_tie_of(walk->program, walk->instr->stage);
    for (int m = 0; (walk->program->ranks > 1 || tied) && m < walk->micros; m++)
        if (verify_present(walk, m)) return verify_broken(walk, "this rank has samples");
    *bucket = (struct bucket){.started = true};
    return STATUS_OK;
}

/* The tie of which this is a bucket, counted through all chunks; NULL: none. */
static const struct program_tie *tie_at(const struct walk *walk, int index) {
    int chunk = 0;
    while (index >= walk->own->chunk[chunk].buckets) index -= walk->own->chunk[chunk++].buckets;
    return program_tie_at(walk->program,
                          grid_stage(&walk->program->grid, walk->cell.position, chunk), index);
}

/* Gradients that another stage of this rank makes of the same parameters lie behind the bucket:
 * they must be of the same micro-batches. No more can follow: each runs once, and this bucket will
 * be found to hold all of the step. */
static enum status check_shared(struct walk *walk, const struct bucket *bucket, int index) {
    const struct program_tie *tie = tie_at(walk, index);
    if (!tie || tie_is_apart(tie)) return STATUS_OK;
    int chunk = grid_chunk(&walk->program->grid, tie->other);
    for (int b = 0; b < walk->own->chunk[chunk].buckets; b++) {
        const struct bucket *other =
            verify_bucket(walk, walk->instr->grad, sizes_bucket(walk->own->chunk, chunk, b));
        if (!other->started || other->content != bucket->content)
            return verify_broken(walk, "stage %d has not made its gradients of what both share",
                                 tie->other);
    }
    return STATUS_OK;
}

static enum status tie(struct walk *walk, struct bucket *bucket, int index) {
    if (!bucket->started || bucket->tied)
        return verify_broken(walk, "gradient buffer %d %s", walk->instr->grad,
                             bucket->tied ? "is tied already" : "is empty");
    TRY(check_shared(walk, bucket, index));
    bucket->tied = true;
    return STATUS_OK;
}

/* Sum over the two ranks that share the bucket's parameters: before that over the replicas, since
 * uses are added for each replica. */
static enum status join(struct walk *walk, struct bucket *bucket, int index) {
    const struct program_tie *tie = tie_at(walk, index);
    if (!tie || !tie_is_apart(tie))
        return verify_broken(walk, "bucket %d is not shared with another rank",
                             walk->instr->bucket);
    if (walk->program->group[walk->instr->group] != GROUP_TIED)
        return verify_broken(walk, "group %d is not the ranks that share it", walk->instr->group);
    if (!bucket->tied)
        return verify_broken(walk, "bucket %d is not whole (no TIE)", walk->instr->bucket);
    if (bucket->joined || bucket->reduced)
        return verify_broken(walk, "bucket %d was %s already", walk->instr->bucket,
                             bucket->joined ? "joined" : "reduced");
    bucket->joined = true;
    return STATUS_OK;
}

static bool lacks_join(const struct walk *walk, const struct bucket *bucket, int index) {
    const struct program_tie *tie = tie_at(walk, index);
    return tie && tie_is_apart(tie) && !bucket->joined;
}

static enum status sum(struct walk *walk, struct bucket *into, struct bucket *from) {
    if (!into->tied || !from->tied)
        return verify_broken(walk, "both buffers must be whole (TIE) before they are added");
    if (into->reduced || from->reduced) return verify_broken(walk, "a bucket was reduced already");
    if (into->joined || from->joined) return verify_broken(walk, "a bucket was joined already");
    into->content += from->content;
    into->count += from->count;
    into->order = order_sum(into->order, from->order);
    from->started = from->tied = false;
    return STATUS_OK;
}

/* The group of a reduction must be all ranks that hold these parameters. */
bool verify_holds_replicas(const struct walk *walk, int group) {
    const struct program *program = walk->program;
    int replicas = group_size(&program->grid, GROUP_REPLICAS, 0);
    enum group_family family = program->group[group];
    return family == GROUP_REPLICAS || (family == GROUP_WORLD && replicas == program->ranks);
}

static enum status reduce(struct walk *walk, struct bucket *bucket, int index) {
    if (group_size(&walk->program->grid, GROUP_REPLICAS, 0) == 1)
        return verify_broken(walk, "there is no other rank to reduce with");
    if (!verify_holds_replicas(walk, walk->instr->group))
        return verify_broken(walk, "group %d is not the replicas of this stage",
                             walk->instr->group);
    if (!bucket->tied)
        return verify_broken(walk, "bucket %d is not whole (no TIE)", walk->instr->bucket);
    if (lacks_join(walk, bucket, index))
        return verify_broken(walk, "bucket %d is shared with another rank: JOIN comes first",
                             walk->instr->bucket);
    if (bucket->reduced)
        return verify_broken(walk, "bucket %d was reduced already", walk->instr->bucket);
    bucket->reduced = true;
    return STATUS_OK;
}

/* What is wrong with the gradients in a bucket: where one is missing or there twice, which. */
static enum status not_once(const struct walk *walk, const struct bucket *bucket) {
    uint64_t missing = walk->present_content - bucket->content, extra = 0 - missing;
    for (int m = 0; m < walk->micros; m++) {
        if (order_leaf(m) == missing || order_leaf(m) == extra)
            return verify_broken(walk, "the gradient of micro-batch %d is in buffer %d %s", m,
                                 walk->instr->grad,
                                 order_leaf(m) == missing ? "0 times" : "once too often");
    }
    return verify_broken(walk, "buffer %d holds %d gradients, not one of each of %d micro-batches",
                         walk->instr->grad, bucket->count, walk->present);
}

/* Each micro-batch of the rank exactly once; other ranks answer for theirs at their own STEP. */
static enum status check_whole(struct walk *walk, struct bucket *bucket, int index) {
    if (!bucket->tied)
        return verify_broken(walk, "gradient buffer %d is not whole (no TIE)", walk->instr->grad);
    if (lacks_join(walk, bucket, index))
        return verify_broken(walk, "bucket %d was not joined with the rank that shares it", index);
    if (group_size(&walk->program->grid, GROUP_REPLICAS, 0) > 1 && !bucket->reduced)
        return verify_broken(walk, "bucket %d was not reduced over the replicas", index);
    return bucket->content == walk->present_content ? STATUS_OK : not_once(walk, bucket);
}

static enum status check_order(struct walk *walk, const struct bucket *bucket) {
    struct order_scope own = {walk->cell.first_replica, walk->cell.replica_count,
                              walk->first_micro};
    if (bucket->order == order_defined(walk->program, walk->verifier->samples, own))
        return STATUS_OK;
    return verify_broken(walk, "the gradients were not added in the order \"sum %s\" of the header",
                         sum_order_name(walk->program->sum));
}

/* NORM sees what STEP will read; a loss that is not finite shows in REPORT's sum alone. */
static enum status norm(struct walk *walk) {
    const struct program *program = walk->program;
    int group = walk->instr->group, positions = program->grid.stages;
    if (!walk->reported) return verify_broken(walk, "no REPORT of the losses before it");
    if (positions > 1 && (group == INSTR_ALL || program->group[group] != GROUP_PIPELINE))
        return verify_broken(walk, "the norm is that of all stages: its group is the pipeline");
    if (positions == 1 && group != INSTR_ALL)
        return verify_broken(walk, "this rank has all stages: there is nobody to ask");
    walk->grads[walk->instr->grad].normed = true;
    return STATUS_OK;
}

/* Without NORM nothing would stop a gradient that is not finite, and clipping would use the step
 * before's. */
static enum status step(struct walk *walk) {
    if (!walk->grads[walk->instr->grad].normed)
        return verify_broken(walk, "no NORM of gradient buffer %d before it", walk->instr->grad);
    if (walk->stepped) return verify_broken(walk, "a second STEP");
    walk->stepped = true;
    return STATUS_OK;
}

static enum status visit(struct walk *walk, int index) {
    const struct instr *instr = walk->instr;
    struct bucket *bucket = verify_bucket(walk, instr->grad, index);
    switch ((enum instr_op)instr->op) {
    case INSTR_B:
    case INSTR_W: return accumulate(walk, bucket);
    case INSTR_ZERO: return zero(walk, bucket);
    case INSTR_TIE: return tie(walk, bucket, index);
    case INSTR_JOIN: return join(walk, bucket, index);
    case INSTR_SUM: return sum(walk, bucket, verify_bucket(walk, instr->other, index));
    case INSTR_REDUCE: return reduce(walk, bucket, index);
    case INSTR_NORM: return check_whole(walk, bucket, index);
    case INSTR_STEP: TRY(check_whole(walk, bucket, index)); return check_order(walk, bucket);
    default: return STATUS_OK;
    }
}

enum status verify_gradient(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct instr_row *row = instr_row(instr);
    if (!strchr(row->operands, 'g')) return STATUS_OK;
    struct resource_access access = program_access(walk->program, walk->own->chunk, instr, 'g');
    if (instr->op == INSTR_SUM && instr->grad == instr->other)
        return verify_broken(walk, "a buffer added to itself");
    for (int b = 0; b < access.bucket_count; b++) TRY(visit(walk, access.first_bucket + b));
    if (strchr(row->writes, 'g')) walk->grads[instr->grad].normed = false;
    if (strchr(row->writes, 'h')) walk->grads[instr->other].normed = false;
    if (instr->op == INSTR_NORM) return norm(walk);
    return instr->op == INSTR_STEP ? step(walk) : STATUS_OK;
}
