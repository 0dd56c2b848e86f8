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
    if (fresh) *bucket = (struct bucket){.holds = walk->instr->segment};
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

/* Of windows: the part of a rank that lacks a micro-batch which others sum. */
static enum status zero(struct walk *walk, struct bucket *bucket) {
    bool windows = walk->program->sliced & SLICED_GRADIENTS;
    for (int m = 0; !windows && walk->program->ranks > 1 && m < walk->micros; m++)
        if (verify_present(walk, m)) return verify_broken(walk, "this rank has samples");
    *bucket = (struct bucket){.started = true, .holds = walk->instr->bucket};
    return STATUS_OK;
}

static enum status tie(struct walk *walk, struct bucket *bucket) {
    if (!bucket->started || bucket->tied)
        return verify_broken(walk, "gradient buffer %d %s", walk->instr->grad,
                             bucket->tied ? "is tied already" : "is empty");
    bucket->tied = true;
    return STATUS_OK;
}

static enum status sum(struct walk *walk, struct bucket *into, struct bucket *from) {
    if (!into->tied || !from->tied)
        return verify_broken(walk, "both buffers must be whole (TIE) before they are added");
    if (into->reduced || from->reduced) return verify_broken(walk, "a bucket was reduced already");
    into->content += from->content;
    into->count += from->count;
    into->order = order_sum(into->order, from->order);
    from->started = from->tied = false;
    return STATUS_OK;
}

/* The group of a reduction must be all ranks that hold these parameters. */
static bool holds_replicas(const struct walk *walk, int group) {
    const struct program *program = walk->program;
    int replicas = group_size(&program->grid, GROUP_REPLICAS, 0);
    enum group_family family = program->group[group];
    return family == GROUP_REPLICAS || (family == GROUP_WORLD && replicas == program->ranks);
}

enum status verify_replicas(const struct walk *walk) {
    if (group_size(&walk->program->grid, GROUP_REPLICAS, 0) == 1)
        return verify_broken(walk, "there is no other rank to reduce with");
    if (!holds_replicas(walk, walk->instr->group))
        return verify_broken(walk, "group %d is not the replicas of this stage",
                             walk->instr->group);
    return STATUS_OK;
}

/* A bucket that is about to be summed over the replicas. */
static enum status check_summed(const struct walk *walk, const struct bucket *bucket) {
    TRY(verify_replicas(walk));
    if (!bucket->tied)
        return verify_broken(walk, "bucket %d is not whole (no TIE)", walk->instr->bucket);
    if (bucket->reduced)
        return verify_broken(walk, "bucket %d was reduced already", walk->instr->bucket);
    return STATUS_OK;
}

static enum status reduce(struct walk *walk, struct bucket *bucket) {
    TRY(check_summed(walk, bucket));
    if (walk->program->sliced)
        return verify_broken(walk, "each replica updates a slice: SCATTER, not REDUCE");
    bucket->reduced = true;
    bucket->order = order_reduced(bucket->order);
    return STATUS_OK;
}

/* Into another buffer: what was summed is added to the slices there, and spent here. */
static enum status scatter_into(struct walk *walk, struct bucket *from, struct bucket *into) {
    bool fresh = walk->instr->flags & INSTR_NEW;
    if (!fresh && !into->reduced)
        return verify_broken(walk, "buffer %d was never started (\"new\")", walk->instr->other);
    if (fresh && into->reduced)
        return verify_broken(walk, "buffer %d holds bucket %d of this step", walk->instr->other,
                             walk->instr->bucket);
    struct bucket sum =
        fresh ? (struct bucket){.started = true, .tied = true, .reduced = true} : *into;
    uint64_t order = order_reduced(from->order);
    sum.order = fresh ? order : order_sum(sum.order, order);
    sum.content += from->content;
    sum.count += from->count;
    *into = sum;
    from->started = from->tied = false;
    return STATUS_OK;
}

static enum status scatter(struct walk *walk, struct bucket *from, struct bucket *into) {
    const struct instr *instr = walk->instr;
    bool sliced = walk->program->sliced & SLICED_GRADIENTS;
    TRY(check_summed(walk, from));
    if (!walk->program->sliced)
        return verify_broken(walk, "nothing is sliced (\"sliced\" in the header)");
    if (sliced == (instr->grad == instr->other))
        return verify_broken(walk, sliced ? "slices are in a buffer of their own"
                                          : "the slices stay in the buffer: g and h are the same");
    if (sliced) return scatter_into(walk, from, into);
    if (instr->flags & INSTR_NEW)
        return verify_broken(walk, "\"new\" has a meaning for another buffer alone");
    from->reduced = true;
    from->order = order_reduced(from->order);
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
    if (group_size(&walk->program->grid, GROUP_REPLICAS, 0) > 1 && !bucket->reduced)
        return verify_broken(walk, "bucket %d was not reduced over the replicas", index);
    return bucket->content == walk->present_content ? STATUS_OK : not_once(walk, bucket);
}

static enum status check_order(struct walk *walk, const struct bucket *bucket) {
    struct order_scope own = {walk->cell.first_replica, walk->cell.replica_count,
                              walk->first_micro};
    if (bucket->order == order_of_rank(walk->program, walk->verifier->samples, own))
        return STATUS_OK;
    return verify_broken(walk, "the gradients were not added in the order \"sum %s\" of the header",
                         sum_order_name(walk->program->sum));
}

/* NORM sees what STEP will read; a loss that is not finite shows in REPORT's sum alone. */
static enum status norm(struct walk *walk) {
    const struct program *program = walk->program;
    int group = walk->instr->group, positions = program->grid.stages;
    if (!walk->reported) return verify_broken(walk, "no REPORT of the losses before it");
    if (program->sliced) {
        walk->grads[walk->instr->grad].normed = true;
        if (group != INSTR_ALL && program->group[group] == GROUP_WORLD) return STATUS_OK;
        return verify_broken(walk, "each rank has slices: the norm's group is the world");
    }
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

/* Where gradients are sliced, backward writes a window a bucket; the slices are SCATTER's. */
static enum status check_windows(const struct walk *walk, const struct bucket *bucket) {
    const struct instr *instr = walk->instr;
    const char *operands = instr_row(instr)->operands;
    if (!(walk->program->sliced & SLICED_GRADIENTS)) return STATUS_OK;
    if (walk->own->grads != GRAD_COUNT_SLICED)
        return verify_broken(walk, "sliced gradients have two buffers, slices and windows");
    bool steps = instr->op == INSTR_NORM || instr->op == INSTR_STEP;
    if ((instr->grad == GRAD_SLICES) != steps)
        return verify_broken(walk, "buffer %d holds slices, buffer %d whole buckets", GRAD_SLICES,
                             GRAD_WINDOWS);
    if (steps) return STATUS_OK;
    int one = strchr(operands, 'b')   ? instr->bucket
              : strchr(operands, 'e') ? instr->segment
                                      : INSTR_ALL;
    if (one == INSTR_ALL) return verify_broken(walk, "a window holds one bucket");
    bool starts = instr->op != INSTR_SCATTER && instr->flags & INSTR_NEW;
    if (bucket->started && (starts || instr->op == INSTR_ZERO || bucket->holds != one))
        return verify_broken(walk, "the window holds bucket %d, which was not scattered",
                             bucket->holds);
    return STATUS_OK;
}

static struct bucket *scattered_to(struct walk *walk) {
    struct resource_access access =
        program_access(walk->program, walk->own->chunk, walk->instr, 'h');
    return verify_bucket(walk, walk->instr->other, access.first_bucket);
}

static enum status visit(struct walk *walk, int index) {
    const struct instr *instr = walk->instr;
    struct bucket *bucket = verify_bucket(walk, instr->grad, index);
    TRY(check_windows(walk, bucket));
    switch ((enum instr_op)instr->op) {
    case INSTR_B:
    case INSTR_W: return accumulate(walk, bucket);
    case INSTR_ZERO: return zero(walk, bucket);
    case INSTR_TIE: return tie(walk, bucket);
    case INSTR_SUM: return sum(walk, bucket, verify_bucket(walk, instr->other, index));
    case INSTR_REDUCE: return reduce(walk, bucket);
    case INSTR_SCATTER: return scatter(walk, bucket, scattered_to(walk));
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
