/* The parts of a difference add up to it, and name what was changed. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "record/difference.h"
#include "sample.h"

static struct sample sample;
static struct difference difference;
static char *sentence[DIFFERENCE_SENTENCES];
static int sentences;

static void compare(const struct sample_costs *measured) {
    sample_make(&sample, 4, 8);
    sample_version(&sample, TIMELINE_PREDICTED, &sample_predicted);
    sample_version(&sample, TIMELINE_MEASURED, measured);
    difference = difference_of(&sample.timeline);
    sentences = difference_sentences(&sample.timeline, &difference, sentence);
    int64_t sum = 0;
    for (size_t i = 0; i < difference.count; i++)
        sum += difference.part[i].measured - difference.part[i].predicted;
    cr_assert_eq(sum, difference.measured - difference.predicted, "%lld of %lld", (long long)sum,
                 (long long)(difference.measured - difference.predicted));
}

static void tear_down(void) {
    for (int i = 0; i < sentences; i++) free(sentence[i]);
    difference_free(&difference);
    sample_free(&sample);
}

TestSuite(record_difference, .fini = tear_down);

static void expect(int i, const char *part) {
    cr_assert(i < sentences && strstr(sentence[i], part), "%d: %s", i,
              i < sentences ? sentence[i] : "none");
}

Test(record_difference, equal_versions) {
    compare(&sample_predicted);
    cr_assert_eq(difference.measured, difference.predicted);
    cr_assert_eq(sentences, 1);
    expect(0, ", as predicted.");
}

Test(record_difference, a_slow_rank_is_named) {
    struct sample_costs slow = sample_predicted;
    slow.slow_rank = 2;
    slow.slow_percent = 50;
    compare(&slow);
    cr_assert_gt(difference.measured, difference.predicted);
    cr_assert_eq(difference.part[0].cause, DIFFERENCE_KIND);
    cr_assert_eq(difference.part[0].kind, SAMPLE_B);
    cr_assert_eq(difference.part[0].most_row, 2);
    expect(1, "B (backward) took");
    expect(1, "longer than predicted");
    expect(1, "most of it on rank 2.");
}

Test(record_difference, slow_messages_are_exposed_communication) {
    struct sample_costs slow = sample_predicted;
    slow.c *= 6;
    compare(&slow);
    expect(1, "RECV (exposed message) took 500% longer");
}

Test(record_difference, far_from_predicted_both_lengths_are_named) {
    struct sample_costs slow = sample_predicted;
    slow.c *= 20;
    compare(&slow);
    expect(1, "RECV (exposed message) took ");
    expect(1, " instead of ");
}

Test(record_difference, a_faster_kind_saves) {
    struct sample_costs fast = sample_predicted;
    fast.f /= 2;
    compare(&fast);
    expect(0, "shorter than the predicted");
    expect(1, "F (forward) took 50% less than predicted");
    expect(1, "it saves");
}

Test(record_difference, jitter_and_all_at_once_add_up) {
    compare(&sample_measured);
}

/* --- by hand --- */

static const struct timeline_kind kinds[] = {{"F", TIMELINE_FORWARD}, {"SAVE", TIMELINE_OTHER}};
static const struct timeline_row rows[] = {{"rank 0", 0}, {"rank 1", 0}};

static void compare_by_hand(const struct timeline_lane *predicted,
                            const struct timeline_lane *measured) {
    struct timeline timeline = {.unit = TIMELINE_UNITS,
                                .kind = kinds,
                                .kind_count = 2,
                                .row = rows,
                                .row_count = 2,
                                .version = {{.lane = predicted}, {.lane = measured}}};
    difference = difference_of(&timeline);
    sentences = difference_sentences(&timeline, &difference, sentence);
}

#define NO_CAUSE .cause_row = TIMELINE_NONE, .cause_id = TIMELINE_NONE

Test(record_difference, waits_and_starts) {
    const struct timeline_interval first = {.end = 10, .id = 0, NO_CAUSE},
                                   second = {.begin = 10, .end = 20, .id = 0, .cause_id = 0},
                                   late = {.begin = 16, .end = 26, .id = 0, NO_CAUSE};
    const struct timeline_lane predicted[] = {{&first, 1, NULL, 0}, {&second, 1, NULL, 0}},
                               measured[] = {{&first, 1, NULL, 0}, {&late, 1, NULL, 0}};
    compare_by_hand(predicted, measured);
    cr_assert_eq(difference.count, 2); /* F and the wait; F without a difference */
    cr_assert_eq(difference.part[0].cause, DIFFERENCE_WAIT);
    cr_assert_eq(difference.part[0].row, 0);
    expect(0, "took 26 units, 30% longer than the predicted 20 units");
    expect(1, "Waiting for rank 0 took 6 units longer");
    cr_assert_eq(sentences, 2);
}

Test(record_difference, a_late_start) {
    const struct timeline_interval tick = {.end = 1, .id = 0, NO_CAUSE},
                                   work = {.begin = 0, .end = 20, .id = 0, NO_CAUSE},
                                   late = {.begin = 5, .end = 25, .id = 0, NO_CAUSE};
    const struct timeline_lane predicted[] = {{&tick, 1, NULL, 0}, {&work, 1, NULL, 0}},
                               measured[] = {{&tick, 1, NULL, 0}, {&late, 1, NULL, 0}};
    compare_by_hand(predicted, measured);
    expect(1, "Rank 1 began 5 units later");
}

/* From twice the time on, a factor says more than a percentage. */
Test(record_difference, a_multiple) {
    const struct timeline_interval work = {.end = 10, .id = 0, NO_CAUSE},
                                   slow = {.end = 98, .id = 0, NO_CAUSE};
    const struct timeline_lane predicted[] = {{&work, 1, NULL, 0}, {&work, 1, NULL, 0}},
                               measured[] = {{&slow, 1, NULL, 0}, {&slow, 1, NULL, 0}};
    compare_by_hand(predicted, measured);
    expect(0, "took 98 units, 9.8 times the predicted 10 units");
}

Test(record_difference, what_was_not_predicted) {
    const struct timeline_interval work = {.end = 20, .id = 0, NO_CAUSE},
                                   extra[] = {
                                       {.end = 20, .id = 0, NO_CAUSE},
                                       {.begin = 20, .end = 30, .kind = 1, .id = 9, NO_CAUSE}};
    const struct timeline_lane predicted[] = {{&work, 1, NULL, 0}, {0}},
                               measured[] = {{extra, 2, NULL, 0}, {0}};
    compare_by_hand(predicted, measured);
    expect(1, "SAVE (other) was not predicted: it adds 10 units");
}

Test(record_difference, nothing_at_all) {
    const struct timeline_lane none[2] = {{0}};
    compare_by_hand(none, none);
    cr_assert_eq(difference.count, 0);
    cr_assert_eq(sentences, 1);
}
