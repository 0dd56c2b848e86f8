/* The course of a run: which part a step belongs to, for each rule, and what the length of the run
 * leaves of it. */
#include <criterion/criterion.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "base/mem.h"
#include "plan/course_file.h"

#define VIT                                                                                        \
    "--model vit-micro --data synthetic:size=8,channels=3,count=40,test_count=4 "                  \
    "--batch 10 --threads 1 --micro-batches 1 "

/* Four steps an epoch; four blocks. */
static const struct {
    const char *options;
    struct {
        int64_t step;
        int frozen;
    } part[5];
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
        const struct course_part *have = &course.part[i];
        cr_expect(have->step == rows[row].part[i].step && have->frozen == rows[row].part[i].frozen,
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
        cr_expect(part.frozen == i && part.step == (i == 1   ? 4
                                                    : i == 2 ? 4
                                                    : i == 3 ? 8
                                                             : 0),
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

/* A run that goes on right before a part begins has it still to come. */
Test(plan_course, recorded_parts_come_before_those_of_the_rule) {
    struct options options = {0};
    struct kit_plan planned;
    struct course course;
    kit_options(VIT "--epochs 3 --freeze 0,1,3", &options);
    cr_assert_eq(kit_plan(&options, 0, 1, NULL, &planned), STATUS_OK);
    for (int64_t step = 0; step <= 12; step++) {
        cr_assert_eq(course_new(planned.plan, &course), STATUS_OK);
        struct course_part recorded[] = {course.part[0], {.step = 4, .frozen = 2}};
        course_take(&course, recorded, step > 4 ? 2 : 1, step);
        cr_assert_eq(course.count, step <= 8 ? 3 : 2, "%d: %d parts", (int)step, course.count);
        cr_expect_eq(course.part[1].frozen, step > 4 ? 2 : 1, "%d", (int)step);
        if (step <= 8) cr_expect(course.part[2].step == 8 && course.part[2].frozen == 3);
        course_free(&course);
    }
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

/* --- grids --- */

#define VIT_BASE                                                                                   \
    "--model vit-base --data synthetic:size=224,classes=100,count=16,test_count=1 --batch 16 "     \
    "--steps 20 --threads 1 --strategy gpipe -n 8 --stages 8 --micro-batches 8 "                   \
    "--freeze 0,1,2,3,4,5,6,7,8,9,10,11,12 --freeze-every 1 --auto-dp "

static void expect_stages(const char *rule, const int *want) {
    struct options options = {0};
    struct kit_plan planned;
    struct course course;
    SCOPED_FREE char *line = mem_format("%s--auto-pipe %s", VIT_BASE, rule);
    kit_options(line, &options);
    cr_assert_eq(kit_plan(&options, 0, 8, NULL, &planned), STATUS_OK);
    cr_assert_eq(course_new(planned.plan, &course), STATUS_OK);
    cr_assert_eq(course.count, 13);
    for (int f = 0; f < 13; f++) {
        const struct course_part *part = &course.part[f];
        cr_expect(part->frozen == f && part->stages == want[f], "%s: %d frozen leave %d stages",
                  rule, f, part->stages);
        cr_expect(part->replicas == 8 / want[f] && part->micro_batches == want[f]);
    }
    course_free(&course);
    kit_plan_free(&planned);
    options_free(&options);
}

/* The published halvings, from the parameters of the model as it is built here. */
Test(plan_course, pipelines_shrink_as_published, .timeout = 120) {
    expect_stages("params", (const int[]){8, 8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 1, 1});
    expect_stages("params-lambda", (const int[]){8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 2, 2});
}

/* --- recorded courses --- */

#define ROW(step, frozen, stages, replicas, micros)                                                \
    "{\"step\":" step ",\"frozen\":" frozen ",\"of\":4,\"ranks\":4,\"stages\":" stages             \
    ",\"replicas\":" replicas ",\"micro_batches\":" micros ",\"batch\":16}\n"

Test(plan_course, a_file_reads_as_it_was_written) {
    static const char text[] =
        ROW("0", "0", "4", "1", "4") ROW("3", "2", "2", "2", "2") ROW("9", "3", "1", "1", "4");
    SCOPED(arena_free) struct arena arena = {0};
    struct course_file file;
    struct run_config config = {.ranks = 4, .batch = 16};
    struct course course = {.config = &config, .blocks = 4};
    char again[sizeof text] = "";
    cr_assert_eq(course_file_parse("course", text, strlen(text), &arena, &file), STATUS_OK);
    cr_expect(file.count == 3 && file.blocks == 4 && file.ranks == 4 && file.batch == 16);
    FILE *out = fmemopen(again, sizeof again, "w");
    for (int i = 0; i < file.count; i++) course_file_print(&course, &file.part[i], out);
    fclose(out);
    cr_expect_str_eq(again, text);
}

Test(plan_course, a_damaged_file_says_line_and_field) {
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"", "has no row"},
        {"\n", "course:1"},
        {ROW("0", "0", "4", "1", "4") "{\"step\":3", "course:2"},
        {ROW("1", "0", "4", "1", "4"), "course:1: step: 1, the first part"},
        {ROW("0", "0", "4", "1", "4") ROW("0", "1", "4", "1", "4"),
         "course:2: step: 0 comes after"},
        {ROW("0", "2", "4", "1", "4") ROW("3", "1", "4", "1", "4"),
         "course:2: frozen: 1 comes after"},
        {ROW("0", "5", "4", "1", "4"), "course:1: frozen: 5 of 4 blocks"},
        {ROW("0", "-1", "4", "1", "4"), "course:1: frozen"},
        {ROW("0", "1.5", "4", "1", "4"), "course:1: frozen"},
        {ROW("0", "0", "3", "2", "2"), "course:1: ranks: 4, not 3 stages x 2"},
        {ROW("0", "0", "1", "2", "2"), "course:1: ranks: 4, not 1 stages x 2"},
        {ROW("0", "0", "4", "1", "3"), "course:1: batch: 16 samples"},
        {ROW("0", "0", "4", "1", "4") ROW("3", "0", "2", "2", "4"), "course:2: micro_batches: 2"},
        {"{\"step\":0,\"other\":1}\n", "course:1: other"},
    };
    char said[512];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SCOPED(arena_free) struct arena arena = {0};
        struct course_file file;
        log_capture(said, sizeof said);
        cr_expect_eq(course_file_parse("course", rows[i].text, strlen(rows[i].text), &arena, &file),
                     STATUS_DATA, "%s", rows[i].text);
        log_capture(NULL, 0);
        cr_expect(strstr(said, rows[i].said), "%s: %s", rows[i].text, said);
    }
}
