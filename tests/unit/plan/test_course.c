/* The course of a run: which part a step belongs to, for each rule, and what the length of the run
 * leaves of it. */
#include <criterion/criterion.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "base/mem.h"
#include "plan/course.h"

#define VIT                                                                                        \
    "--model vit-micro --data synthetic:size=8,channels=3,count=40,test_count=4 "                  \
    "--batch 10 --threads 1 --micro-batches 1 "

/* Four steps an epoch; four blocks. */
static const struct {
    const char *options;
    struct course_part part[5];
    int count;
} rows[] = {
    {"--epochs 3", {{0, 0}}, 1},
    {"--epochs 3 --freeze 2", {{0, 2}}, 1},
    {"--epochs 3 --freeze 2,2,2", {{0, 2}}, 1},
    {"--epochs 3 --freeze 0,1,3", {{0, 0}, {4, 1}, {8, 3}}, 3},
    {"--epochs 9 --freeze 0,1,1,3", {{0, 0}, {4, 1}, {12, 3}}, 3},
    {"--epochs 1 --freeze 0,1,3", {{0, 0}}, 1},
    {"--epochs 3 --freeze 1,2 --freeze-every 3", {{0, 1}, {3, 2}}, 2},
    {"--steps 6 --freeze 0,1,2 --freeze-every 3", {{0, 0}, {3, 1}}, 2},
    {"--epochs 4 --freeze alpha=1/2 --freeze-every 2epochs", {{0, 0}, {8, 2}}, 2},
    {"--epochs 5 --freeze alpha=1/2", {{0, 0}, {4, 2}, {8, 3}, {12, 4}}, 4},
};

static void check(size_t row) {
    struct options options = {0};
    struct kit_plan planned;
    struct course course;
    SCOPED_FREE char *line = mem_format("%s%s", VIT, rows[row].options);
    kit_options(line, &options);
    cr_assert_eq(kit_plan(&options, 0, 1, NULL, &planned), STATUS_OK, "%s", line);
    cr_assert_eq(course_new(planned.plan, &course), STATUS_OK, "%s", line);
    cr_expect_eq(course.count, rows[row].count, "%s: %d parts", line, course.count);
    for (int i = 0; i < course.count && i < rows[row].count; i++) {
        const struct course_part *have = &course.part[i], *want = &rows[row].part[i];
        cr_expect(have->step == want->step && have->frozen == want->frozen,
                  "%s, part %d: %d frozen from %d on", line, i, have->frozen, (int)have->step);
        int64_t next = i + 1 < course.count ? course.part[i + 1].step : INT64_MAX;
        cr_expect_eq(course_at(&course, have->step), have);
        cr_expect_eq(course_until(&course, have->step), next);
        if (next < INT64_MAX) cr_expect_eq(course_at(&course, next - 1), have);
    }
    course_free(&course);
    kit_plan_free(&planned);
    options_free(&options);
}

Test(plan_course, parts_follow_from_rule_and_length) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(i);
}

/* By norms each period may begin a part; which plans can follow is known, and no more. */
Test(plan_course, norms_are_asked_behind_each_period) {
    struct options options = {0};
    struct kit_plan planned;
    struct course course;
    struct course_part part;
    kit_options(VIT "--epochs 5 --freeze alpha=1/3,norm", &options);
    cr_assert_eq(kit_plan(&options, 0, 1, NULL, &planned), STATUS_OK);
    cr_assert_eq(course_new(planned.plan, &course), STATUS_OK);
    cr_expect(course.count == 1 && course.open && course_changes(&course));
    cr_expect(course_until(&course, 0) == 4 && course_until(&course, 4) == 8);
    cr_expect(course_most(&course, 3) == 0 && course_most(&course, 4) == 2);
    for (int i = 0; i < 4; i++) {
        cr_assert(course_reaches(&course, i, &part), "%d", i);
        cr_expect(part.frozen == i && part.step == (i == 1 ? 4 : i == 2 ? 4 : i == 3 ? 8 : 0),
                  "%d from %d on", i, (int)part.step);
    }
    cr_expect_not(course_reaches(&course, 4, &part));
    course_add(&course, (struct course_part){.step = 4, .frozen = 1});
    course_add(&course, (struct course_part){.step = 12, .frozen = 3});
    cr_expect(course_at(&course, 11)->frozen == 1 && course_until(&course, 5) == 12);
    struct course_part recorded[] = {{.step = 0}, {.step = 8, .frozen = 2}};
    course_take(&course, recorded, 2, 9);
    cr_expect(course.count == 2 && course.part[1].frozen == 2);
    course_take(&course, recorded, 2, 7);
    cr_expect(course.count == 1);
    course_free(&course);
    kit_plan_free(&planned);
    options_free(&options);
}

Test(plan_course, more_than_the_model_has_is_refused) {
    struct options options = {0};
    struct kit_plan planned;
    struct course course;
    char said[512] = "";
    kit_options(VIT "--epochs 3 --freeze 0,5", &options);
    cr_assert_eq(kit_plan(&options, 0, 1, NULL, &planned), STATUS_OK);
    log_capture(said, sizeof said);
    cr_expect_eq(course_new(planned.plan, &course), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "--freeze 5 in period 2: model vit-micro has 4 blocks"), "%s", said);
    kit_plan_free(&planned);
    options_free(&options);
}
