/* What is proven of replicas that train apart (header: every) and average at each step of so many.
 *
 * A gradient buffer that STEP has read is free, and carries what is averaged: DELTA or TAKE fills
 * all its buckets, a REDUCE sums each over the replicas, OUTER or MEAN takes the sum. A bucket
 * knows how far that is. Everything else of a step is each replica's own, so no gradient is
 * reduced. */
#include "base/log.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

static enum status refuse(const char *what) {
    return fail(STATUS_USAGE, "program refused by rule %d in the header: %s", RULE_APART, what);
}

enum status verify_apart(const struct program *program) {
    const struct grid *grid = &program->grid;
    if (program->every == 0) return STATUS_OK;
    if (program_is_forward(program)) return refuse("a program without a step averages nothing");
    if (grid->drivers + grid->servers > 0) return refuse("replicas train apart, and nobody drives");
    if (grid->replicas_each > 1 || grid->replicas == 1)
        return refuse("there are not several replicas, each on ranks of its own, to train apart");
    if (program->ahead > 0) return refuse("steps overlap, so none of them can be averaged behind");
    if (program->sliced) return refuse("replicas that train apart hold everything whole");
    if (program_shares(program)) return refuse("replicas that train apart share no statistics");
    if (!program_has_last(program)) return refuse("no step averages (list last)");
    return STATUS_OK;
}

enum rule verify_rule_of_apart(const struct walk *walk) {
    return walk->program->every > 0 ? RULE_APART : RULE_CHOSEN;
}

/* --- the average --- */

static enum status fill(struct walk *walk, struct verify_bucket *bucket) {
    if (bucket->average == AVERAGE_FILLED || bucket->average == AVERAGE_SUMMED)
        return verify_broken(walk, RULE_MEAN, verify_own(walk, bucket->last),
                             "gradient buffer %d has what is averaged already", walk->instr->grad);
    bucket->started = bucket->tied = false;
    bucket->average = AVERAGE_FILLED;
    return STATUS_OK;
}

enum status verify_sum_average(struct walk *walk, struct verify_bucket *bucket) {
    TRY(verify_replicas(walk, RULE_MEAN));
    if (bucket->average != AVERAGE_FILLED)
        return verify_broken(walk, verify_rule_of_apart(walk), verify_own(walk, bucket->last),
                             bucket->average == AVERAGE_SUMMED
                                 ? "bucket %d was summed over the replicas already"
                                 : "replicas train apart: no gradient of bucket %d is summed",
                             walk->instr->bucket);
    bucket->average = AVERAGE_SUMMED;
    return STATUS_OK;
}

static enum status take(struct walk *walk, struct verify_bucket *bucket, int index) {
    char name[VERIFY_BUCKET_BYTES];
    if (bucket->average != AVERAGE_SUMMED)
        return verify_broken(walk, RULE_MEAN, verify_own(walk, bucket->last),
                             "%s was not summed over the replicas",
                             verify_bucket_name(walk, index, name));
    bucket->average = walk->instr->op == INSTR_MEAN ? AVERAGE_OWN : AVERAGE_NONE;
    return STATUS_OK;
}

static enum status give_back(struct walk *walk, struct verify_bucket *bucket) {
    if (bucket->average != AVERAGE_OWN)
        return verify_broken(walk, RULE_MEAN, verify_own(walk, bucket->last),
                             "gradient buffer %d has no parameters of this replica",
                             walk->instr->grad);
    bucket->average = AVERAGE_NONE;
    return STATUS_OK;
}

/* It is not kept. */
static enum status pass_through(struct walk *walk, struct verify_bucket *bucket) {
    if (bucket->average == AVERAGE_NONE) return STATUS_OK;
    return verify_broken(walk, RULE_MEAN, verify_own(walk, bucket->last),
                         "statistics go through gradient buffer %d, which has the parameters",
                         walk->instr->grad);
}

enum status verify_average(struct walk *walk, struct verify_bucket *bucket, int index) {
    switch ((enum instr_op)walk->instr->op) {
    case INSTR_DELTA:
    case INSTR_TAKE: return fill(walk, bucket);
    case INSTR_REDUCE: return verify_sum_average(walk, bucket);
    case INSTR_OUTER:
    case INSTR_MEAN: return take(walk, bucket, index);
    case INSTR_STATS_MEAN: return pass_through(walk, bucket);
    default: return give_back(walk, bucket);
    }
}

/* --- a step --- */

/* DELTA and OUTER stand behind the update that they average, OUTER once. */
enum status verify_outer(struct walk *walk) {
    enum instr_op op = (enum instr_op)walk->instr->op;
    if (op != INSTR_DELTA && op != INSTR_OUTER) return STATUS_OK;
    if (walk->program->every == 0)
        return verify_broken(walk, RULE_APART, nobody, "replicas are the same after every step");
    if (walk->list != LIST_LAST)
        return verify_broken(walk, RULE_APART, nobody,
                             "only each %d-th step averages, which is list last",
                             walk->program->every);
    if (!walk->stepped)
        return verify_broken(walk, RULE_APART, nobody, "the step's update stands before it");
    if (op == INSTR_OUTER && walk->averaged)
        return verify_broken(walk, RULE_APART, verify_own(walk, walk->averaged), "a second OUTER");
    if (op == INSTR_OUTER) walk->averaged = walk->instr;
    return STATUS_OK;
}

enum status verify_outer_done(const struct walk *walk) {
    bool due = walk->program->every > 0 && walk->list == LIST_LAST && !walk->averaged;
    if (!due || walk->cell.role != GRID_STAGE) return STATUS_OK;
    struct walk end = verify_end_of(walk, LIST_LAST);
    return verify_broken(&end, RULE_APART, nobody, "the list last of rank %d ends without OUTER",
                         walk->rank);
}

/* --- between steps --- */

static enum status averages(struct walk *walk) {
    const struct instr *instr = walk->instr;
    struct touched touched = resource_touched(&walk->map, instr, 'g');
    for (int b = touched.first; b < touched.first + touched.count; b++) {
        int index = resource_bucket(&walk->map, b);
        struct verify_bucket *bucket = verify_bucket(walk, instr->grad, index);
        TRY(verify_average(walk, bucket, index));
        bucket->last = instr;
    }
    return STATUS_OK;
}

static enum status replace(struct walk *walk) {
    TRY(averages(walk));
    if (walk->mean)
        return verify_broken(walk, RULE_MEAN, verify_own(walk, walk->mean),
                             "the parameters are the mean already");
    walk->mean = walk->instr;
    walk->means |= 1u << walk->list;
    return STATUS_OK;
}

static enum status restore(struct walk *walk) {
    TRY(averages(walk));
    if (!walk->mean)
        return verify_broken(walk, RULE_MEAN, nobody, "the parameters are this replica's own");
    walk->mean = NULL;
    return STATUS_OK;
}

/* What is evaluated or written is the mean. */
static enum status need_mean(const struct walk *walk) {
    enum instr_op op = (enum instr_op)walk->instr->op;
    bool uses = op == INSTR_F || op == INSTR_WRITE;
    if (!uses || (walk->mean && walk->replaced)) return STATUS_OK;
    return verify_broken(walk, RULE_MEAN, nobody,
                         walk->mean ? "the running statistics are this replica's own"
                                    : "the parameters are this replica's own");
}

/* A rank that meets all others before its replicas would wait for one that waits for it. */
static enum status need_unopened(const struct walk *walk) {
    if (walk->list != LIST_SAVE || walk->saved == 0) return STATUS_OK;
    return verify_broken(walk, RULE_MEAN, nobody,
                         "the mean is made before the checkpoint is opened");
}

enum status verify_mean(struct walk *walk) {
    enum instr_op op = (enum instr_op)walk->instr->op;
    bool of_mean = op == INSTR_TAKE || op == INSTR_MEAN || op == INSTR_OWN || op == INSTR_REDUCE ||
                   op == INSTR_STATS_MEAN;
    of_mean |= op == INSTR_STATS_OWN && walk->list == LIST_SAVE;
    bool apart = program_is_apart(walk->program);
    if (!apart && !of_mean) return STATUS_OK;
    if (!apart)
        return verify_broken(walk, RULE_MEAN, nobody, "all replicas have the same parameters");
    if (op == INSTR_STATS_ALL)
        return verify_broken(walk, RULE_MEAN, nobody,
                             "replicas are evaluated as their mean, not as the first of them");
    if (op == INSTR_COLLECT) return verify_broken(walk, RULE_MEAN, nobody, "no slices are held");
    if (of_mean && op != INSTR_OWN && op != INSTR_STATS_OWN) TRY(need_unopened(walk));
    if (op == INSTR_MEAN) return replace(walk);
    if (op == INSTR_OWN) return restore(walk);
    if (op == INSTR_TAKE || op == INSTR_REDUCE || op == INSTR_STATS_MEAN) return averages(walk);
    return need_mean(walk);
}

/* The evaluation goes on in other lists; at the end of the training all replicas stay the mean. */
enum status verify_mean_end(struct walk *walk, enum list_name list) {
    if (!program_is_apart(walk->program) || walk->cell.role != GRID_STAGE) return STATUS_OK;
    bool begins = list == LIST_DRAIN || list == LIST_EVAL_START || list == LIST_SAVE,
         ends = list == LIST_EVAL_END || list == LIST_SAVE;
    struct walk end = verify_end_of(walk, list);
    if (begins && !(walk->means >> list & 1))
        return verify_broken(&end, RULE_MEAN, nobody, "the list %s has no MEAN", list_names[list]);
    if (list == LIST_DRAIN && !walk->replaced)
        return verify_broken(&end, RULE_MEAN, nobody, "the list drain has no STATS_MEAN");
    if (ends && (walk->mean || walk->replaced))
        return verify_broken(&end, RULE_MEAN, nobody, "the list %s ends without %s",
                             list_names[list], walk->mean ? "OWN" : "STATS_OWN");
    if (list != LIST_DRAIN) return STATUS_OK;
    walk->mean = NULL;
    walk->replaced = false;
    for (int g = 0; g < walk->own->grads; g++)
        for (int b = 0; walk->grads[g].bucket && b < walk->map.buckets; b++)
            walk->grads[g].bucket[b].average = AVERAGE_NONE;
    return STATUS_OK;
}
