/* The course of a run: from which step on how many blocks are frozen. Each part of it is a plan of
 * its own.
 *
 * It follows from the configuration and the number of the model's blocks, so all ranks know it, and
 * a run that is resumed finds its place by the step alone. With the rule `norm` a part is known
 * when the period before it is over: the course then has the parts so far, which checkpoints keep.
 */
#ifndef PLAN_COURSE_H
#define PLAN_COURSE_H

#include "plan/plan.h"

struct course_part {
    int64_t step; /* updates done before it */
    int frozen;
    int stages, replicas, micro_batches; /* of its grid */
};
struct course {
    struct course_part *part; /* one at least, the first from step 0 on; each has more frozen */
    int count;
    bool open; /* by norms: parts that follow are decided on the way, each behind a period */
    const struct run_config *config; /* of the run; outlives the course */
    int blocks;                      /* of the model */
    bool recorded; /* it is that of a file, which may have another grid at any part */
    int *stages; /* per number of frozen blocks: of the pipeline that they leave; NULL: it stays */
};

/* Local. Of the run that a plan belongs to, to its last step. STATUS_USAGE where more is frozen
 * than the model has, or there are too many periods. The caller frees it. */
enum status course_new(const struct plan *plan, struct course *out);
/* Local. The same by another share of the rule alpha. */
enum status course_by_alpha(const struct plan *plan, struct freezing_share alpha,
                            struct course *out);
void course_free(struct course *course);

/* Local. Whether the run ever has another plan than its first. */
static inline bool course_changes(const struct course *course) {
    return course->count > 1 || course->open;
}
/* Local. The most blocks that may be frozen in the period that begins behind `step`. */
int course_most(const struct course *course, int64_t step);
/* Local. Room in memory that other ranks reach, beside the arrays, of a run whose plan changes:
 * values go from rank to rank through it, piece by piece. 0: it does not change. */
enum { PLAN_MOVE_BYTES = 1 << 20 };
static inline size_t plan_move_bytes(const struct run_config *config) {
    return config->unpadded && config->ranks > 1 ? PLAN_MOVE_BYTES : 0;
}

/* Local. The part that begins behind `step` with so many blocks frozen, as the rules have it. */
struct course_part course_part_at(const struct course *course, int64_t step, int frozen);
/* Local. Whether a part may come behind another: what is frozen stays so. */
static inline bool course_follows(const struct course_part *part,
                                  const struct course_part *before) {
    return part->step > before->step && part->frozen >= before->frozen;
}
/* Local. Whether a plan is that of a part. */
bool course_is_at(const struct course_part *part, const struct run_config *config);
/* Local. A part that begins behind all others. */
void course_add(struct course *course, struct course_part part);
/* Local. Those that have begun before `step` is done are `part`, which were recorded: those of the
 * rule follow. */
void course_take(struct course *course, const struct course_part *part, int count, int64_t step);

/* Local. The caller frees the copy. */
struct course course_copy(const struct course *course);

/* Local. The plans that the run may have: number `index`, from 0 on; false behind the last. Their
 * steps are those of their parts; where these are decided on the way, the first that may be. */
bool course_reaches(const struct course *course, int index, struct course_part *out);

/* Local. The part that a step belongs to; the step behind which the next one begins, or may
 * begin, or INT64_MAX. */
const struct course_part *course_at(const struct course *course, int64_t step);
int64_t course_until(const struct course *course, int64_t step);

#endif
