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

#include "base/log.h"
#include "base/mem.h"
#include "program/order.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

struct verify_bucket *verify_bucket(struct walk *walk, int grad, int index) {
    struct grad *of = &walk->grads[grad];
    if (!of->bucket)
        of->bucket =
            MEM_ARRAY(struct verify_bucket, sizes_bucket(walk->own->chunk, walk->own->chunks, 0));
    return &of->bucket[index];
}

/* Nothing was added yet, by this rank or another: the neutral element of sums. */
static bool is_neutral(const struct verify_bucket *bucket) {
    return bucket->started && bucket->count == 0 && !bucket->reduced && !bucket->joined;
}

/* The uses of nothing need not be added. */
static bool is_whole(const struct verify_bucket *bucket) {
    return bucket->tied || is_neutral(bucket);
}

/* What is in a buffer would be lost, unless it was added to another. */
static enum status start(struct walk *walk, struct verify_bucket *bucket) {
    if (bucket->started && !is_neutral(bucket))
        return verify_broken(walk, RULE_STARTED, verify_own(walk, bucket->last),
                             "gradient buffer %d still holds gradients", walk->instr->grad);
    *bucket = (struct verify_bucket){.started = true};
    bucket->holds = walk->instr->op == INSTR_ZERO ? walk->instr->bucket : walk->instr->segment;
    return STATUS_OK;
}

static enum status accumulate(struct walk *walk, struct verify_bucket *bucket) {
    bool fresh = walk->instr->flags & INSTR_NEW;
    uint64_t leaf = order_leaf(walk->instr->micro);
    if (fresh) TRY(start(walk, bucket));
    if (!fresh && !bucket->started)
        return verify_broken(walk, RULE_STARTED, verify_own(walk, bucket->last),
                             "gradient buffer %d was never started (\"new\")", walk->instr->grad);
    if (bucket->tied)
        return verify_broken(walk, RULE_TIED, verify_own(walk, bucket->last),
                             "gradient buffer %d was tied already", walk->instr->grad);
    bucket->order = order_sum(bucket->order, leaf);
    bucket->content += leaf;
    bucket->count++;
    return STATUS_OK;
}

/* Of two stages of a rank that share parameters it would erase, or leave, what lies behind the
 * bucket of one of them. Of windows it is the part of a rank that lacks a micro-batch which others
 * sum. */
static enum status zero(struct walk *walk, struct verify_bucket *bucket) {
    bool tied = program_tie_of(walk->program, walk->instr->stage);
    bool windows = walk->program->sliced & SLICED_GRADIENTS;
    bool alone = walk->program->ranks == 1 && !tied;
    for (int m = 0; !windows && !alone && m < walk->micros; m++)
        if (verify_present(walk, m))
            return verify_broken(walk, RULE_STARTED, nobody, "this rank has samples");
    return start(walk, bucket);
}

/* The tie of which this is a bucket, counted through all chunks; NULL: none. */
static const struct program_tie *tie_at(const struct walk *walk, int index) {
    const struct instr *instr = walk->instr;
    int chunk = 0;
    /* In windows the index is a place. */
    if (strchr(instr_row(instr)->operands, 'b') && instr->bucket != INSTR_ALL)
        return program_tie_at(walk->program, instr->stage, instr->bucket);
    while (index >= walk->own->chunk[chunk].buckets) index -= walk->own->chunk[chunk++].buckets;
    return program_tie_at(walk->program,
                          grid_stage(&walk->program->grid, walk->cell.position, chunk), index);
}

/* Gradients that another stage of this rank makes of the same parameters lie behind the bucket:
 * they must be of the same micro-batches. No more can follow: each runs once, and this bucket will
 * be found to hold all of the step. */
static enum status check_shared(struct walk *walk, const struct verify_bucket *bucket, int index) {
    const struct program_tie *tie = tie_at(walk, index);
    if (!tie || tie_is_apart(tie)) return STATUS_OK;
    int chunk = grid_chunk(&walk->program->grid, tie->other);
    if (walk->program->sliced & SLICED_GRADIENTS) {
        uint64_t *made = &walk->grads[walk->instr->grad].made[chunk];
        bool same = *made == bucket->content;
        *made = 0;
        if (same) return STATUS_OK;
        return verify_broken(walk, RULE_JOINED, nobody,
                             "stage %d has not made its gradients of what both share", tie->other);
    }
    for (int b = 0; b < walk->own->chunk[chunk].buckets; b++) {
        const struct verify_bucket *other =
            verify_bucket(walk, walk->instr->grad, sizes_bucket(walk->own->chunk, chunk, b));
        if (!other->started || other->content != bucket->content)
            return verify_broken(walk, RULE_JOINED, verify_own(walk, other->last),
                                 "stage %d has not made its gradients of what both share",
                                 tie->other);
    }
    return STATUS_OK;
}

static enum status tie(struct walk *walk, struct verify_bucket *bucket, int index) {
    if (!bucket->started || (bucket->tied && !is_neutral(bucket)))
        return verify_broken(walk, RULE_TIED, verify_own(walk, bucket->last),
                             "gradient buffer %d %s", walk->instr->grad,
                             bucket->tied ? "is tied already" : "is empty");
    TRY(check_shared(walk, bucket, index));
    bucket->tied = true;
    bucket->order = order_tied(bucket->order);
    return STATUS_OK;
}

/* JOIN: the sum over the two ranks that share the bucket's parameters. It must come before the sum
 * over the replicas, since the uses of a parameter are added for each replica. */
static enum status join(struct walk *walk, struct verify_bucket *bucket, int index) {
    const struct program_tie *tie = tie_at(walk, index);
    if (!tie || !tie_is_apart(tie))
        return verify_broken(walk, RULE_JOINED, nobody, "bucket %d is not shared with another rank",
                             walk->instr->bucket);
    if (walk->program->group[walk->instr->group] != GROUP_TIED)
        return verify_broken(walk, RULE_JOINED, nobody, "group %d is not the ranks that share it",
                             walk->instr->group);
    if (!is_whole(bucket))
        return verify_broken(walk, RULE_TIED, verify_own(walk, bucket->last),
                             "bucket %d is not whole (no TIE)", walk->instr->bucket);
    if (bucket->joined || bucket->reduced)
        return verify_broken(walk, RULE_JOINED, verify_own(walk, bucket->last),
                             "bucket %d was %s already", walk->instr->bucket,
                             bucket->joined ? "joined" : "reduced");
    bucket->joined = bucket->tied = true;
    return STATUS_OK;
}

static bool lacks_join(const struct walk *walk, const struct verify_bucket *bucket, int index) {
    const struct program_tie *tie = tie_at(walk, index);
    return tie && tie_is_apart(tie) && !bucket->joined;
}

static enum status sum(struct walk *walk, struct verify_bucket *into, struct verify_bucket *from) {
    if (!is_whole(into) || !is_whole(from))
        return verify_broken(walk, RULE_TIED,
                             verify_own(walk, is_whole(into) ? from->last : into->last),
                             "both buffers must be whole (TIE) before they are added");
    if (into->reduced || from->reduced)
        return verify_broken(walk, RULE_REDUCED,
                             verify_own(walk, into->reduced ? into->last : from->last),
                             "a bucket was reduced already");
    if (into->joined || from->joined)
        return verify_broken(walk, RULE_JOINED,
                             verify_own(walk, into->joined ? into->last : from->last),
                             "a bucket was joined already");
    into->tied = true;
    into->content += from->content;
    into->count += from->count;
    into->order = order_sum(into->order, from->order);
    from->started = from->tied = false;
    return STATUS_OK;
}

enum status verify_replicas(const struct walk *walk, enum rule rule) {
    if (group_size(&walk->program->grid, GROUP_REPLICAS, 0) == 1)
        return verify_broken(walk, rule, nobody, "there is no other rank to reduce with");
    if (!verify_group_is(walk->program, walk->instr->group, GROUP_REPLICAS))
        return verify_broken(walk, rule, nobody, "group %d is not the replicas of this stage",
                             walk->instr->group);
    return STATUS_OK;
}

/* A bucket that is about to be summed over the replicas. */
static enum status check_summed(const struct walk *walk, const struct verify_bucket *bucket,
                                int index) {
    TRY(verify_replicas(walk, RULE_REDUCED));
    if (!is_whole(bucket))
        return verify_broken(walk, RULE_TIED, verify_own(walk, bucket->last),
                             "bucket %d is not whole (no TIE)", walk->instr->bucket);
    if (lacks_join(walk, bucket, index))
        return verify_broken(walk, RULE_JOINED, verify_own(walk, bucket->last),
                             "bucket %d is shared with another rank: JOIN comes first",
                             walk->instr->bucket);
    if (bucket->reduced)
        return verify_broken(walk, RULE_REDUCED, verify_own(walk, bucket->last),
                             "bucket %d was reduced already", walk->instr->bucket);
    return STATUS_OK;
}

static enum status reduce(struct walk *walk, struct verify_bucket *bucket, int index) {
    if (program_is_apart(walk->program)) return verify_sum_average(walk, bucket);
    TRY(check_summed(walk, bucket, index));
    if (walk->program->sliced)
        return verify_broken(walk, RULE_SLICED, nobody,
                             "each replica updates a slice: SCATTER, not REDUCE");
    bucket->reduced = bucket->tied = true;
    bucket->order = order_reduced(bucket->order);
    return STATUS_OK;
}

/* Into another buffer: what was summed is added to the slices there, and spent here. */
static enum status scatter_into(struct walk *walk, struct verify_bucket *from,
                                struct verify_bucket *into) {
    bool fresh = walk->instr->flags & INSTR_NEW;
    if (fresh == into->reduced)
        return verify_broken(walk, RULE_STARTED, verify_own(walk, into->last),
                             fresh ? "buffer %d holds this bucket already"
                                   : "buffer %d was never started (\"new\")",
                             walk->instr->other);
    into->started = into->tied = into->reduced = true;
    into->order = order_sum(into->order, order_reduced(from->order));
    into->content += from->content;
    into->count += from->count;
    into->last = walk->instr;
    into->joined = from->joined;
    from->started = from->tied = from->joined = false;
    return STATUS_OK;
}

/* The bucket of a buffer, by its number. */
static struct verify_bucket *bucket_at(struct walk *walk, int grad, int buffer) {
    return verify_bucket(walk, grad, resource_bucket(&walk->map, buffer));
}

static enum status scatter(struct walk *walk, struct verify_bucket *from, int index) {
    const struct instr *instr = walk->instr;
    bool sliced = walk->program->sliced & SLICED_GRADIENTS;
    TRY(check_summed(walk, from, index));
    if (!walk->program->sliced)
        return verify_broken(walk, RULE_SLICED, nobody,
                             "nothing is sliced (\"sliced\" in the header)");
    if (sliced == (instr->grad == instr->other))
        return verify_broken(walk, RULE_SLICED, nobody,
                             sliced ? "slices are in a buffer of their own"
                                    : "the slices stay in the buffer: g and h are the same");
    if (sliced) {
        struct touched to = resource_touched(&walk->map, instr, 'h');
        return scatter_into(walk, from, bucket_at(walk, instr->other, to.first));
    }
    if (instr->flags & INSTR_NEW)
        return verify_broken(walk, RULE_FLAGS, nobody,
                             "\"new\" has a meaning for another buffer alone");
    from->reduced = from->tied = true;
    from->order = order_reduced(from->order);
    return STATUS_OK;
}

/* Where gradients are sliced, backward writes a window a bucket; the slices are SCATTER's. */
static enum status check_windows(const struct walk *walk, const struct verify_bucket *bucket) {
    const struct instr *instr = walk->instr;
    const char *operands = instr_row(instr)->operands;
    if (!(walk->program->sliced & SLICED_GRADIENTS)) return STATUS_OK;
    if (walk->own->grads < GRAD_COUNT_SLICED)
        return verify_broken(walk, RULE_WINDOWS, nobody,
                             "sliced gradients have two buffers at least, slices and windows");
    bool steps = instr->op == INSTR_NORM || instr->op == INSTR_STEP;
    if ((instr->grad == GRAD_SLICES) != steps)
        return verify_broken(walk, RULE_WINDOWS, nobody,
                             "buffer %d holds slices, those behind it whole buckets", GRAD_SLICES);
    if (steps) return STATUS_OK;
    int one = strchr(operands, 'b')   ? instr->bucket
              : strchr(operands, 'e') ? instr->segment
                                      : INSTR_ALL;
    if (one == INSTR_ALL)
        return verify_broken(walk, RULE_WINDOWS, nobody, "a window holds one bucket");
    bool starts = instr->op != INSTR_SCATTER && instr->flags & INSTR_NEW;
    starts |= instr->op == INSTR_ZERO;
    if (bucket->started && (starts ? !is_neutral(bucket) : bucket->holds != one))
        return verify_broken(walk, RULE_WINDOWS, verify_own(walk, bucket->last),
                             "the window holds bucket %d, which was not scattered", bucket->holds);
    return STATUS_OK;
}

/* The kept bucket of a stage is made by every segment of a pass but its own, which has no nodes:
 * until the last of them it is that pass's alone. */
static enum status fill_kept(struct walk *walk, struct verify_bucket *kept) {
    const struct instr *instr = walk->instr, *first = kept->filling;
    int own = walk->own->chunk[verify_chunk(walk)].buckets - 1;
    bool same = first && first->op == instr->op && first->micro == instr->micro;
    if (first ? !same : instr->segment > 0)
        return verify_broken(walk, RULE_WINDOWS, verify_own(walk, first ? first : kept->last),
                             "the kept bucket is made by another pass");
    if (!first) TRY(accumulate(walk, kept));
    if (same && (first->flags ^ instr->flags) & INSTR_NEW)
        return verify_broken(walk, RULE_STARTED, verify_own(walk, first),
                             "one segment starts the kept bucket (\"new\") and the other does not");
    kept->holds = own;
    kept->filling = instr->segment == own - 1 ? NULL : first ? first : instr;
    kept->last = instr;
    return STATUS_OK;
}

/* What is wrong with the gradients in a bucket: where one is missing or there twice, which. */
static enum status not_once(const struct walk *walk, const struct verify_bucket *bucket) {
    uint64_t missing = walk->present_content - bucket->content, extra = 0 - missing;
    for (int m = 0; m < walk->micros; m++) {
        if (order_leaf(m) == missing || order_leaf(m) == extra)
            return verify_broken(walk, RULE_ONCE, verify_own(walk, bucket->last),
                                 "the gradient of micro-batch %d is in buffer %d %s", m,
                                 walk->instr->grad,
                                 order_leaf(m) == missing ? "0 times" : "once too often");
    }
    return verify_broken(walk, RULE_ONCE, verify_own(walk, bucket->last),
                         "buffer %d holds %d gradients, not one of each of %d micro-batches",
                         walk->instr->grad, bucket->count, walk->present);
}

/* Each micro-batch of the rank exactly once; other ranks answer for theirs at their own STEP. */
static enum status check_whole(struct walk *walk, struct verify_bucket *bucket, int index) {
    char name[VERIFY_BUCKET_BYTES];
    if (!is_whole(bucket))
        return verify_broken(walk, RULE_TIED, verify_own(walk, bucket->last),
                             "gradient buffer %d is not whole (no TIE)", walk->instr->grad);
    if (lacks_join(walk, bucket, index))
        return verify_broken(walk, RULE_JOINED, verify_own(walk, bucket->last),
                             "%s was not joined with the rank that shares it",
                             verify_bucket_name(walk, index, name));
    bool sums =
        group_size(&walk->program->grid, GROUP_REPLICAS, 0) > 1 && !program_is_apart(walk->program);
    if (sums && !bucket->reduced)
        return verify_broken(walk, RULE_REDUCED, verify_own(walk, bucket->last),
                             "%s was not reduced over the replicas",
                             verify_bucket_name(walk, index, name));
    return bucket->content == walk->present_content ? STATUS_OK : not_once(walk, bucket);
}

static enum status check_order(struct walk *walk, const struct verify_bucket *bucket) {
    if (bucket->order == walk->defined) return STATUS_OK;
    return verify_broken(walk, RULE_ORDER, verify_own(walk, bucket->last),
                         "the gradients were not added in the order \"sum %s\" of the header",
                         sum_order_name(walk->program->sum));
}

/* In a run of one pipeline all ranks have its stages, but for drivers, which have no gradients. */
static bool has_drivers(const struct program *program, int group) {
    return program->grid.drivers > 0 && group_count(&program->grid, GROUP_PIPELINE) == 1 &&
           program->group[group] == GROUP_WORLD;
}

static bool has_all_stages(const struct program *program, int group) {
    return group != INSTR_ALL &&
           (verify_group_is(program, group, GROUP_PIPELINE) || has_drivers(program, group));
}

/* NORM sees what STEP will read; a loss that is not finite shows in REPORT's sum alone. */
static enum status norm(struct walk *walk) {
    const struct program *program = walk->program;
    int group = walk->instr->group, positions = program->grid.stages;
    if (!walk->reported)
        return verify_broken(walk, RULE_NORM, nobody, "no REPORT of the losses before it");
    if (walk->instr->grad != INSTR_ALL) walk->grads[walk->instr->grad].normed = walk->instr;
    if (program->sliced) {
        if (group != INSTR_ALL && verify_group_is(program, group, GROUP_WORLD)) return STATUS_OK;
        return verify_broken(walk, RULE_NORM, nobody,
                             "each rank has slices: the norm's group is the world");
    }
    if (program->ahead > 0) {
        if (group == INSTR_ALL) return STATUS_OK;
        return verify_broken(walk, RULE_AHEAD, nobody,
                             "steps overlap: the norm is that of the rank alone");
    }
    if (positions > 1 && !has_all_stages(program, group))
        return verify_broken(walk, RULE_NORM, nobody,
                             "the norm is that of all stages: its group is the pipeline");
    if (positions == 1 && group != INSTR_ALL && !has_drivers(program, group))
        return verify_broken(walk, RULE_NORM, nobody,
                             "this rank has all stages: there is nobody to ask");
    return STATUS_OK;
}

enum status verify_clips(struct walk *walk) {
    struct place *first = &walk->verifier->updates;
    if (!first->instr) *first = verify_own(walk, walk->instr);
    if ((first->instr->flags & INSTR_CLIP) == (walk->instr->flags & INSTR_CLIP)) return STATUS_OK;
    return verify_broken(walk, RULE_STEP, *first, "one clips, the other does not");
}

/* Without NORM nothing would stop a gradient that is not finite, and clipping would use the step
 * before's. */
static enum status step(struct walk *walk) {
    const struct grad *grad = &walk->grads[walk->instr->grad];
    if (!grad->normed)
        return verify_broken(walk, RULE_NORM, verify_own(walk, grad->changed),
                             "no NORM of gradient buffer %d behind what changed it last",
                             walk->instr->grad);
    if (walk->stepped)
        return verify_broken(walk, RULE_STEP, verify_own(walk, walk->stepped), "a second STEP");
    walk->stepped = walk->instr;
    walk->updates++;
    return verify_clips(walk);
}

static enum status change(struct walk *walk, struct verify_bucket *bucket, int index) {
    const struct instr *instr = walk->instr;
    if (bucket->filling)
        return verify_broken(walk, RULE_WINDOWS, verify_own(walk, bucket->filling),
                             "segments that make the kept bucket are to come");
    switch ((enum instr_op)instr->op) {
    case INSTR_B:
    case INSTR_W: return accumulate(walk, bucket);
    case INSTR_ZERO: return zero(walk, bucket);
    case INSTR_TIE: return tie(walk, bucket, index);
    case INSTR_JOIN: return join(walk, bucket, index);
    case INSTR_SUM: return sum(walk, bucket, verify_bucket(walk, instr->other, index));
    case INSTR_REDUCE: return reduce(walk, bucket, index);
    case INSTR_SCATTER: return scatter(walk, bucket, index);
    case INSTR_AVERAGE: return verify_average_chosen(walk, bucket);
    case INSTR_DELTA:
    case INSTR_OUTER: return verify_average(walk, bucket, index);
    case INSTR_NORM: return check_whole(walk, bucket, index);
    case INSTR_STEP: TRY(check_whole(walk, bucket, index)); return check_order(walk, bucket);
    default: return STATUS_OK;
    }
}

static void mark_changed(struct walk *walk, int grad) {
    walk->grads[grad].normed = NULL;
    walk->grads[grad].changed = walk->instr;
}

/* Windows of a stage are spent when they are scattered; its gradients of what an earlier stage of
 * the rank holds stay until that one ties them. */
static enum status keep_shared(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct program_tie *tie = program_tie_of(walk->program, instr->stage);
    int chunk = verify_chunk(walk);
    const struct chunk_sizes *sizes = &walk->own->chunk[chunk];
    int last = sizes->buckets - 1 - sizes->kept; /* the segment of a kept bucket has no nodes */
    if (!(walk->program->sliced & SLICED_GRADIENTS) || !tie || tie_is_apart(tie)) return STATUS_OK;
    if (tie->other != instr->stage || instr->op == INSTR_TIE || !instr_runs_nodes(instr))
        return STATUS_OK;
    uint64_t *made = &walk->grads[instr->grad].made[chunk];
    if (instr->segment <= 0 && *made)
        return verify_broken(
            walk, RULE_JOINED, nobody,
            "buffer %d holds gradients of what stage %d shares, which were not tied", instr->grad,
            tie->stage);
    if (instr->segment == INSTR_ALL || instr->segment == last) *made = order_leaf(instr->micro);
    return STATUS_OK;
}

enum status verify_gradient(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct instr_row *row = instr_row(instr);
    if (!(walk->verifier->rows[instr->op].operands >> OPERAND_grad & 1)) return STATUS_OK;
    if (instr->grad == INSTR_ALL) return norm(walk);
    struct touched touched = resource_touched(&walk->map, instr, 'g');
    if (instr->op == INSTR_SUM && instr->grad == instr->other)
        return verify_broken(walk, RULE_STARTED, nobody, "a buffer added to itself");
    TRY(keep_shared(walk));
    bool kept = instr_is_segment(instr) && walk->own->chunk[verify_chunk(walk)].kept;
    if (kept && touched.also[0] == touched.first) return STATUS_OK; /* the segment without nodes */
    if (kept) TRY(fill_kept(walk, bucket_at(walk, instr->grad, touched.also[0])));
    for (int b = touched.first; b < touched.first + touched.count; b++) {
        struct verify_bucket *bucket = bucket_at(walk, instr->grad, b);
        TRY(check_windows(walk, bucket));
        bool averages = bucket->average != AVERAGE_NONE;
        TRY(change(walk, bucket, resource_bucket(&walk->map, b)));
        if (averages && bucket->started) bucket->average = AVERAGE_NONE;
        if (strchr(row->writes, 'g')) bucket->last = instr;
    }
    if (strchr(row->writes, 'g')) mark_changed(walk, instr->grad);
    if (strchr(row->writes, 'h')) mark_changed(walk, instr->other);
    if (instr->op == INSTR_NORM) return norm(walk);
    return instr->op == INSTR_STEP ? step(walk) : STATUS_OK;
}

/* Do sums of ranks, added by the tree of a reduction, give the order of the header? A rank without
 * samples is there with the neutral element. */
enum status verify_header_order(const struct verifier *verifier, const int64_t *samples) {
    const struct program *program = verifier->program;
    int each = program->grid.replicas_each;
    if (group_count(&program->grid, GROUP_PIPELINE) == 1 || program_is_forward(program) ||
        program_is_apart(program))
        return STATUS_OK;
    struct order_scope all = {0, program->grid.replicas, 0};
    if (order_of_ranks(program, samples) == order_defined(program, samples, all)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "program refused by rule %d in the header: sums over ranks cannot be in the order "
                "\"sum %s\" "
                "with %d micro-batches a rank",
                RULE_ORDER, sum_order_name(program->sum), each * program->micro_batches);
}

/* Ties name buckets that their ranks have. Uses of a parameter are added for each replica, before
 * the replicas: orders that add micro-batches first would need them tied one by one. */
static enum status check_tie(const struct verifier *verifier, const struct program_tie *tie,
                             int stage, int bucket) {
    const struct grid *grid = &verifier->program->grid;
    int chunk = grid_chunk(grid, stage);
    bool scattered = verifier->program->sliced & SLICED_GRADIENTS;
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *walk = &verifier->walks[w];
        bool here =
            walk->cell.role == GRID_STAGE && walk->cell.position == grid_position(grid, stage);
        const struct chunk_sizes *sizes = &walk->own->chunk[chunk];
        if (here && bucket >= sizes->buckets)
            return fail(STATUS_USAGE,
                        "program refused by rule %d in the header: tied bucket %d of stage %d: "
                        "rank %d has %d of it",
                        RULE_JOINED, bucket, stage, walk->rank, sizes->buckets);
        /* Both stages make gradients of it while windows of other buckets come and go. */
        bool own_place = sizes->kept && bucket == sizes->buckets - 1;
        if (here && scattered && !tie_is_apart(tie) && stage == tie->stage && !own_place)
            return fail(STATUS_USAGE,
                        "program refused by rule %d in the header: tied bucket %d of stage %d: "
                        "rank %d does not keep it",
                        RULE_JOINED, bucket, stage, walk->rank);
    }
    /* Scattered for each micro-batch, uses are tied one by one. */
    if (verifier->program->sum == SUM_REPLICA || scattered) return STATUS_OK;
    return fail(STATUS_USAGE,
                "program refused by rule %d in the header: parameters shared by stages %d and %d "
                "need \"sum "
                "replica\", not %s",
                RULE_JOINED, tie->stage, tie->other, sum_order_name(verifier->program->sum));
}

enum status verify_ties(const struct verifier *verifier) {
    const struct program *program = verifier->program;
    for (int t = 0; t < program->tie_count; t++) {
        const struct program_tie *tie = &program->tie[t];
        TRY(check_tie(verifier, tie, tie->stage, tie->bucket));
        TRY(check_tie(verifier, tie, tie->other, tie->other_bucket));
    }
    return STATUS_OK;
}
