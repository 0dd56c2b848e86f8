/* Series stay small and lose no spike; axes have ticks people can read. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "record/axis.h"
#include "record/curves.h"
#include "record/html.h"

Test(record_curves, a_short_series_is_exact) {
    struct series series = {0};
    for (int i = 0; i < SERIES_POINTS; i++) series_add(&series, i + 1, i * 0.5);
    cr_assert_eq(series.count, SERIES_POINTS);
    for (int i = 0; i < SERIES_POINTS; i++) {
        cr_assert_eq(series.point[i].first, i + 1);
        cr_assert_eq(series.point[i].mean, i * 0.5);
    }
    series_free(&series);
    cr_assert_null(series.point);
}

Test(record_curves, joined_pairs_keep_their_order) {
    struct series series = {0};
    for (int i = 0; i <= SERIES_POINTS; i++) series_add(&series, i, i % 4 == 0 || i % 4 == 3);
    cr_assert_eq(series.rows_per_point, 2);
    for (int i = 0; i < SERIES_POINTS / 2; i++) {
        cr_assert_eq(series.point[i].low, 0);
        cr_assert_eq(series.point[i].high, 1);
        cr_assert_eq(series.point[i].low_first, i % 2 == 1, "pair %d", i);
    }
    series_free(&series);
}

Test(record_curves, a_long_series_keeps_its_spike_and_its_mean) {
    enum { ROWS = 1234567 };
    struct series series = {0};
    for (int i = 0; i < ROWS; i++)
        series_add(&series, i + 1, i == 777777 ? 1e6 : i % 1000 == 0 ? NAN : 1);
    cr_assert_leq(series.count, SERIES_POINTS);
    cr_assert_geq(series.count, SERIES_POINTS / 2);
    cr_assert_eq(series.finite + series.absent, ROWS);
    cr_assert_eq(series.absent, ROWS / 1000 + 1);
    cr_assert_eq(series.first_absent, 1);
    int64_t rows = 0, next = 1;
    double high = 0, sum = 0;
    for (int i = 0; i < series.count; i++) {
        cr_assert_eq(series.point[i].first, next);
        next = series.point[i].last + 1;
        rows += series.point[i].rows;
        high = fmax(high, series.point[i].high);
        sum += series.point[i].mean * (double)series.point[i].finite;
    }
    cr_assert_eq(rows, ROWS);
    cr_assert_eq(high, 1e6);
    double expected = (double)(series.finite - 1) + 1e6;
    cr_assert_lt(fabs(sum / expected - 1), 1e-9);
    series_free(&series);
}

Test(record_curves, smoothing_keeps_a_line_and_bridges_no_gap) {
    struct series series = {0};
    for (int i = 0; i < 300; i++) series_add(&series, i, i >= 100 && i < 150 ? NAN : 7);
    series_smooth(&series);
    for (int i = 0; i < 300; i++) {
        bool gap = i >= 100 && i < 150;
        cr_assert_eq(!!isnan(series.point[i].smooth), gap, "%d", i);
        if (!gap) cr_assert_lt(fabs(series.point[i].smooth - 7), 1e-12);
    }
    series_free(&series);
}

Test(record_curves, smoothing_calms_noise) {
    struct series series = {0};
    for (int i = 0; i < 600; i++) series_add(&series, i, i % 2);
    series_smooth(&series);
    for (int i = 20; i < 600; i++) cr_assert_lt(fabs(series.point[i].smooth - 0.5), 0.05, "%d", i);
    cr_assert_eq(series.point[0].smooth, 0); /* the first value is not pulled down by later ones */
    series_free(&series);
}

static void check_axis(const struct axis *axis, double low, double high) {
    char labels[AXIS_TICKS][TEXT_BYTES];
    cr_assert_lt(axis->low, axis->high);
    cr_assert_geq(axis->ticks, axis->unit == AXIS_STEPS ? 1 : 2, "%g to %g", low, high);
    for (int i = 0; i < axis->ticks; i++) {
        double place = axis_place(axis, axis->tick[i]);
        cr_assert(place >= 0 && place <= 1);
        if (i > 0) cr_assert_gt(place, axis_place(axis, axis->tick[i - 1]));
        axis_label(axis, axis->tick[i], labels[i]);
        for (int j = 0; j < i; j++) cr_assert_str_neq(labels[i], labels[j], "%g to %g", low, high);
    }
    cr_assert(axis_place(axis, low) >= 0 && axis_place(axis, high) <= 1);
}

Test(record_curves, axes_of_all_sizes) {
    static const double ranges[][2] = {
        {0, 1},     {1, 1},          {0, 0},       {-3, 5},         {1e-7, 3e-7},    {0, 1e-320},
        {1e9, 1e9}, {1e9, 1e9 + 1},  {0.97, 0.99}, {1e-300, 1e300}, {-1e308, 1e308}, {2.3, 2.31},
        {0, 12345}, {123, 98765432}, {1e15, 2e15}, {-5, -5},        {0.4, 1},        {0, 0.1}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        double low = ranges[i][0], high = ranges[i][1];
        struct axis axis = axis_fit(AXIS_NUMBER, false, low, high, 5);
        check_axis(&axis, low, high);
        double slack = axis.tick_step * 1e-5; /* ticks are rounded */
        cr_assert(axis.low <= fmax(low, -1e300) + slack && axis.high >= fmin(high, 1e300) - slack,
                  "%g to %g", low, high);
        if (low > 0 && high > 15 * low) {
            axis = axis_fit(AXIS_NUMBER, true, low, high, 5);
            check_axis(&axis, low, high);
        }
        if (low >= 0 && high <= 1) {
            axis = axis_fit(AXIS_PERCENT, false, low, high, 4);
            check_axis(&axis, low, high);
            cr_assert(axis.low >= 0 && axis.high <= 1.000001);
        }
    }
}

Test(record_curves, steps_have_whole_ticks) {
    for (double last = 1; last < 1e18; last = last * 1.7 + 1) {
        struct axis axis = axis_fit(AXIS_STEPS, false, 1, floor(last), 6);
        check_axis(&axis, 1, floor(last));
        for (int i = 0; i < axis.ticks; i++) cr_assert_eq(axis.tick[i], floor(axis.tick[i]));
    }
}

Test(record_curves, labels) {
    char text[TEXT_BYTES];
    struct axis loss = axis_fit(AXIS_NUMBER, false, 0.1, 2.3, 6);
    cr_assert_str_eq(axis_label(&loss, loss.tick[1], text), "0.5");
    struct axis part = axis_fit(AXIS_PERCENT, false, 0.84, 1, 4);
    cr_assert_str_eq(axis_label(&part, part.high, text), "100%");
    struct axis steps = axis_fit(AXIS_STEPS, false, 1, 24000, 6);
    cr_assert_str_eq(axis_label(&steps, 5000, text), "5k");
    struct axis log = axis_fit(AXIS_NUMBER, true, 1e-6, 10, 6);
    cr_assert_str_eq(axis_label(&log, 1e-5, text), "1e-5");
}

Test(record_curves, numbers) {
    char text[TEXT_BYTES];
    cr_assert_str_eq(html_number(0.012345, text), "0.01235");
    cr_assert_str_eq(html_number(12345.6, text), "12,346");
    cr_assert_str_eq(html_number(3.2e-5, text), "3.2e-5");
    cr_assert_str_eq(html_number(1e300, text), "1e300");
    cr_assert_str_eq(html_number(NAN, text), "not finite");
    cr_assert_str_eq(html_percent(0.98436, text), "98.44%");
    cr_assert_str_eq(html_integer(-1234567, text), "-1,234,567");
    cr_assert_str_eq(html_integer(INT64_MIN, text), "-9,223,372,036,854,775,808");
}
