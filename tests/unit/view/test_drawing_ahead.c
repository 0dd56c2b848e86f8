/* A pipeline that is never flushed is drawn full: a rank's body as often as it fits into the
 * picture. */
#include <criterion/criterion.h>

#include "../exec/kit.h"
#include "view/drawing.h"

/* As many steps as are under way at once; of each rank micro-batches one after the other, none
 * twice. */
Test(view_drawing_ahead, there_are_no_gaps) {
    struct options options;
    struct planned_run planned;
    struct view_forecast view;
    struct drawing drawing;
    struct rank_info info = {.ranks = 3, .local_ranks = 3};
    kit_options("--model mlp --device ref --threads 1 --strategy pipedream -n 3 --stages 3 --data "
                "synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    cr_assert_eq(view_forecast_open(&planned, true, &view), STATUS_OK);
    drawing_open(&view, &drawing);
    int64_t begin = INT64_MAX, end = 0;
    for (int r = 0; r < 3; r++) {
        const struct timeline_lane *lane = &drawing.lane[r];
        for (size_t i = 0; i < lane->interval_count; i++) {
            if (lane->interval[i].begin < begin) begin = lane->interval[i].begin;
            if (lane->interval[i].end > end) end = lane->interval[i].end;
        }
    }
    cr_expect_float_eq((double)(end - begin), 3 * view.forecast.result.step, 3);
    for (int r = 0; r < 3; r++) {
        const struct timeline_lane *lane = &drawing.lane[r];
        int forwards = 0, last = -1;
        for (size_t i = 0; i < lane->interval_count; i++) {
            if (lane->interval[i].kind != drawing_kind(&drawing, INSTR_F)) continue;
            cr_expect(last < 0 || lane->interval[i].micro == last + 1, "rank %d: %d behind %d", r,
                      lane->interval[i].micro, last);
            last = lane->interval[i].micro;
            forwards++;
        }
        cr_expect(forwards == 3 || forwards == 4, "rank %d: %d forwards of 3 steps", r, forwards);
    }
    drawing_close(&drawing);
    view_forecast_close(&view);
    planned_close(&planned);
    options_free(&options);
}
