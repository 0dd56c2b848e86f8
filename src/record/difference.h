/* Where the difference between the predicted and the measured step comes from.
 *
 * The measured step is followed backwards from its last end: each interval to the one that let it
 * begin. That path is then looked up in the prediction by (row, id). Lengths of intervals, and of
 * gaps between them, add up to the whole step in both versions, so their differences add up to the
 * difference exactly, and are named by what they are: a kind of work, a wait for a rank, a late
 * start.
 *
 * Rejected: comparing sums per rank. One slow rank makes all others wait, and the sums name the
 * waits of the many instead of the one cause. All functions are local and pure. */
#ifndef RECORD_DIFFERENCE_H
#define RECORD_DIFFERENCE_H

#include "record/timeline.h"

enum difference_cause {
    DIFFERENCE_KIND,  /* intervals of `kind` were longer or shorter */
    DIFFERENCE_WAIT,  /* time between the end of something on `row` and what it let begin elsewhere
                       */
    DIFFERENCE_IDLE,  /* gaps within `row`, without a known cause */
    DIFFERENCE_START, /* from the begin of the step to the first interval, which is on `row` */
    DIFFERENCE_END    /* in the prediction another row ends later than the measured last one */
};

struct difference_part {
    enum difference_cause cause;
    int32_t kind, row; /* TIMELINE_NONE where not of the cause */
    int64_t predicted, measured;
    int32_t most_row; /* of a kind: the row with the largest share of the difference, else NONE */
    double most_share;
};

struct difference {
    int64_t predicted, measured;  /* length of the step */
    struct difference_part *part; /* largest difference first, none without one */
    size_t count;
};

/* Both versions must be there. The caller frees the result with difference_free. */
struct difference difference_of(const struct timeline *timeline);
void difference_free(struct difference *difference);

enum { DIFFERENCE_SENTENCES = 5 };
/* The step as a whole, the largest three parts and what is left, in sentences that the caller
 * frees; returns how many. */
int difference_sentences(const struct timeline *timeline, const struct difference *difference,
                         char *sentence[DIFFERENCE_SENTENCES]);

#endif
