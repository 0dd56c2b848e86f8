/* The course of a run: from which step on how many blocks are frozen. Each part of it is a plan of
 * its own.
 *
 * It follows from the configuration and the number of the model's blocks, so all ranks know it, and
 * a run that is resumed finds its place by the step alone. */
#ifndef PLAN_COURSE_H
#define PLAN_COURSE_H

#include "plan/plan.h"

struct course_part {
    int64_t step; /* updates done before it */
    int frozen;
};
struct course {
    struct course_part *part; /* one at least, the first from step 0 on; each has more frozen */
    int count;
};

/* Local. Of the run that a plan belongs to, to its last step. STATUS_USAGE where more is frozen
 * than the model has, or there are too many periods. The caller frees it. */
enum status course_new(const struct plan *plan, struct course *out);
/* Local. The same by another share of the rule alpha. */
enum status course_by_alpha(const struct plan *plan, struct freezing_share alpha,
                            struct course *out);
void course_free(struct course *course);

/* Local. The part that a step belongs to; the step behind which the next one begins, or INT64_MAX.
 */
const struct course_part *course_at(const struct course *course, int64_t step);
int64_t course_until(const struct course *course, int64_t step);

#endif
