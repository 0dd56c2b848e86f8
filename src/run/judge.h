/* Whether ranks fit into the memory they share, judged once.
 *
 * A process that starts ranks judges before it starts them. Ranks that another program started, or
 * somebody by hand, judge when they meet: each tells what it needs and what of that it has taken by
 * now, and then waits; the first of those that share a memory compares the sum with what is left
 * there and what they have taken. So it does not matter who came first. Rejected: each rank for
 * itself, as it starts, which finds the memory short that the ranks before it have taken. */
#ifndef RUN_JUDGE_H
#define RUN_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/identity.h"
#include "planned/planned.h"

/* What every rank tells all of itself. */
struct judge_row {
    char machine[LAUNCH_MACHINE_BYTES];
    uint64_t memory;  /* a cgroup of that machine, or 0: its own */
    int64_t each[2];  /* bytes: of the rank alone, where all ranks are on its machine, and else */
    int64_t once;     /* of what the ranks of a machine share */
    int64_t taken;    /* of a rank's, by now */
    int32_t answered; /* it was judged already: nothing is left to compare */
};

/* What the judge of a memory tells all. */
struct judge_verdict {
    int64_t need, available;
    int32_t refused, ranks;
};

/* Local. The row of this rank, once it has planned. Which communicator it plans with changes. */
struct judge_row judge_row_of(struct planned_run *planned, const char *machine, bool answered);
/* Local. Who judges for `rank`: the first that shares its memory. */
int judge_of(const struct judge_row *all, int world, int rank);
/* Local. Whether `rank` is to judge. */
bool judge_asked(const struct judge_row *all, int world, int rank);
/* Local. What those that `judge` judges for need, and how much they have taken of it. */
struct planned_met judge_sum(const struct judge_row *all, int world, int judge, int64_t *taken);
/* Local. Judges with so much left, and says so where it is too little: for the judge, while the
 * others wait. */
struct judge_verdict judge_all(const struct planned_run *planned, const struct judge_row *all,
                               int world, int64_t left);

#endif
