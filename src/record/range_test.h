/* What a learning-rate range test (--lr-policy range) found: the loss against the rate, from the
 * curves of the run. All local. */
#ifndef RECORD_RANGE_TEST_H
#define RECORD_RANGE_TEST_H

#include <stdbool.h>

#include "record/curves.h"

/* Of the smoothed loss. A tenth of the rate at which it was lowest is the usual advice: there
 * training is fast, and far from where it comes apart. */
struct range_test {
    bool fell;        /* there is something to advise */
    bool still_falls; /* it was lowest at the last step: the range ends too early */
    double lowest, steepest, suggested; /* rates; two digits are told of them */
};
struct range_test range_test_read(const struct curves *curves);
/* The same as a sentence or two; the caller frees it. */
char *range_test_words(const struct range_test *test);

#endif
