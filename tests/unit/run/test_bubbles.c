/* The bubbles of a run, from what its ranks measured. */
#include <criterion/criterion.h>

#include <math.h>

#include "run/recorder.h"

static struct summary bubbles(const struct recorder_use *use, int ranks) {
    const struct recorder_use *all[4];
    struct summary summary;
    summary_init(&summary);
    for (int r = 0; r < ranks; r++) all[r] = &use[r];
    recorder_bubbles(all, ranks, &summary);
    return summary;
}

/* Two ranks of 1f1b with f = 1, b = 3 and three micro-batches: busy 12 of 16, from 0 to 16 and from
 * 1 to 13. */
Test(run_bubbles, of_all_ranks_against_the_longest_step_and_span) {
    static const struct recorder_use use[] = {{16, 12, 16}, {15.5, 12, 12}};
    struct summary summary = bubbles(use, 2);
    cr_expect_float_eq(summary.bubble, 0.25, 1e-12);
    cr_expect_float_eq(summary.span_bubble, 0.25, 1e-12);
    static const struct recorder_use shifted[] = {{16, 12, 12}, {15.5, 10, 12.5}};
    summary = bubbles(shifted, 2);
    cr_expect_float_eq(summary.bubble, 1 - 11.0 / 16, 1e-12);
    cr_expect_float_eq(summary.span_bubble, 1 - 11 / 12.5, 1e-12);
}

Test(run_bubbles, nothing_was_timed) {
    static const struct recorder_use none;
    struct summary summary = bubbles(&none, 1);
    cr_expect(isnan(summary.bubble) && isnan(summary.span_bubble));
}
