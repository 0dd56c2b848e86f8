/* What a range test says of curves that are known. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "record/range_test.h"

enum { STEPS = 101 };

static double rate_at(int step) {
    return 1e-6 * pow(10, step * 0.08);
}

/* The loss as a function of the logarithm of the rate, which goes from -6 to 2. */
static struct range_test found(double (*loss)(double place), char **words) {
    struct curves curves = {0};
    for (int step = 0; step < STEPS; step++) {
        series_add(&curves.lr, step + 1, rate_at(step));
        series_add(&curves.loss, step + 1, loss(step * 0.08 - 6));
    }
    series_smooth(&curves.loss);
    series_smooth(&curves.lr);
    struct range_test test = range_test_read(&curves);
    *words = range_test_words(&test);
    curves_free(&curves);
    return test;
}

/* Flat, falls steepest at 1e-3, lowest at 1e-1, then comes apart. */
static double usual(double place) {
    if (place < -1) return 2.3 - 1.2 / (1 + exp(-3 * (place + 3)));
    return 1.1 + 3 * (place + 1) * (place + 1);
}

static double flat(double place) {
    return 2.3 + 0.001 * sin(40 * place);
}

static double falling(double place) {
    return 2 - 0.1 * place;
}

Test(record_range_test, a_good_rate_is_suggested) {
    char *words;
    struct range_test test = found(usual, &words);
    cr_assert(test.fell && !test.still_falls);
    cr_assert(test.lowest > 0.05 && test.lowest < 0.2, "lowest at %g", test.lowest);
    cr_assert(test.steepest > 5e-4 && test.steepest < 2e-3, "steepest at %g", test.steepest);
    cr_assert_float_eq(test.suggested, test.lowest / 10, 1e-12);
    cr_assert(strstr(words, "is a good peak: --lr 0.0"), "%s", words);
    free(words);
}

Test(record_range_test, without_an_answer_it_says_so) {
    char *words;
    cr_assert_not(found(flat, &words).fell);
    cr_assert(strstr(words, "did not fall"), "%s", words);
    free(words);
    struct range_test test = found(falling, &words);
    cr_assert(test.fell && test.still_falls);
    cr_assert(strstr(words, "still fell at the last learning rate"), "%s", words);
    free(words);
}
