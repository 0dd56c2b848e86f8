/* The sums of a timeline: bubbles, exposed communication, lengths that are odd. */
#include <criterion/criterion.h>

#include <math.h>

#include "record/timeline.h"

static const struct timeline_kind kinds[] = {
    {"F", TIMELINE_FORWARD}, {"REDUCE", TIMELINE_COLLECTIVE}, {"WAIT", TIMELINE_WAIT}};
static const struct timeline_row rows[] = {{"rank 0", 0}, {"rank 1", 0}};

static struct timeline timeline_with(const struct timeline_lane *lanes, size_t count) {
    struct timeline timeline = {.kind = kinds, .kind_count = 3, .row = rows, .row_count = count};
    timeline.version[TIMELINE_PREDICTED].lane = lanes;
    timeline.version[TIMELINE_PREDICTED].figures = timeline_figures_none;
    timeline.version[TIMELINE_MEASURED].figures = timeline_figures_none;
    return timeline;
}

#define LANE(...)                                                                                  \
    {                                                                                              \
        .interval = (const struct timeline_interval[]){__VA_ARGS__},                               \
        .interval_count = sizeof((const struct timeline_interval[]){__VA_ARGS__}) /                \
                          sizeof(struct timeline_interval)                                         \
    }

Test(record_timeline, bubbles_count_work_once) {
    const struct timeline_lane lanes[] = {
        LANE({.begin = 10, .end = 30}, {.begin = 20, .end = 40}, {.begin = 60, .end = 70}),
        LANE({.begin = 50, .end = 110}),
    };
    struct timeline timeline = timeline_with(lanes, 2);
    struct timeline_range range = timeline_range(&timeline, TIMELINE_PREDICTED);
    cr_assert_eq(range.origin, 10);
    cr_assert_eq(range.length, 100);
    struct timeline_use use = timeline_use(&timeline, &lanes[0], range);
    cr_assert_float_eq(use.work, 40, 1e-9);
    cr_assert_float_eq(use.bubble, 0.6, 1e-9);
    cr_assert_float_eq(use.span_bubble, 1 - 40 / 60.0, 1e-9);
    struct timeline_figures figures = timeline_figures(&timeline, TIMELINE_PREDICTED);
    cr_assert_float_eq(figures.bubble, 0.5, 1e-9);
    cr_assert_float_eq(figures.step, 100, 1e-9);
    cr_assert(isnan(figures.peak_bytes));
}

Test(record_timeline, exposed_is_what_no_work_hides) {
    /* 5 of the reduction run beside work, 10 beside nothing, 5 beside a wait */
    const struct timeline_lane lanes[] = {LANE({.begin = 0, .end = 20},
                                               {.begin = 15, .end = 35, .kind = 1},
                                               {.begin = 30, .end = 35, .kind = 2})};
    struct timeline timeline = timeline_with(lanes, 1);
    struct timeline_range range = timeline_range(&timeline, TIMELINE_PREDICTED);
    cr_assert_float_eq(timeline_use(&timeline, &lanes[0], range).exposed, 15, 1e-9);
}

Test(record_timeline, given_figures_stand) {
    const struct timeline_lane lanes[] = {LANE({.begin = 0, .end = 20})};
    struct timeline timeline = timeline_with(lanes, 1);
    timeline.version[TIMELINE_PREDICTED].figures.bubble = 0.25;
    cr_assert_float_eq(timeline_figures(&timeline, TIMELINE_PREDICTED).bubble, 0.25, 1e-12);
}

Test(record_timeline, odd_lengths) {
    const struct timeline_lane lanes[] = {LANE({.begin = 5, .end = 5}, {.begin = 9, .end = 7})};
    struct timeline timeline = timeline_with(lanes, 1);
    struct timeline_range range = timeline_range(&timeline, TIMELINE_PREDICTED);
    cr_assert_eq(range.length, 4);
    cr_assert_eq(timeline_length(&lanes[0].interval[1]), 0);
    cr_assert_float_eq(timeline_use(&timeline, &lanes[0], range).work, 0, 1e-12);
    const struct timeline_lane far[] = {
        LANE({.begin = INT64_MIN, .end = INT64_MIN + 1}, {.begin = 0, .end = INT64_MAX})};
    timeline = timeline_with(far, 1);
    cr_assert_eq(timeline_range(&timeline, TIMELINE_PREDICTED).length, INT64_MAX);
    timeline = timeline_with(NULL, 0);
    cr_assert_eq(timeline_range(&timeline, TIMELINE_PREDICTED).length, 0);
}

Test(record_timeline, texts) {
    struct timeline timeline = timeline_with(NULL, 0);
    char text[TIMELINE_TEXT], time[TEXT_BYTES];
    struct timeline_interval interval = {.stage = 2, .micro = 5};
    cr_assert_str_eq(timeline_text(&timeline, &interval, text), "F s2 m5");
    interval.stage = TIMELINE_NONE;
    cr_assert_str_eq(timeline_text(&timeline, &interval, text), "F m5");
    interval.text = "#17 r2 F s2 m5 v3";
    cr_assert_str_eq(timeline_text(&timeline, &interval, text), interval.text);
    cr_assert_str_eq(timeline_time(&timeline, 4100000, time), "4.1 ms");
    timeline.unit = TIMELINE_UNITS;
    cr_assert_str_eq(timeline_time(&timeline, 12.5, time), "12.5");
}
