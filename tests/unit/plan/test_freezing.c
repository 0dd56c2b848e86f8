/* What freezes when, and the two rules of cuts, against published figures: those of a vision
 * transformer and of language models with an embedding that is larger than a stage. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "plan/freezing.h"

enum { PERIODS = 10 };

static const struct {
    int blocks;
    const char *alpha;
    int frozen[PERIODS];
} courses[] = {{12, "1/2", {0, 6, 9, 11, 12, 12, 12, 12, 12, 12}},
               {12, "2/5", {0, 5, 8, 10, 11, 12, 12, 12, 12, 12}},
               {12, "1/3", {0, 4, 7, 9, 10, 11, 11, 12, 12, 12}},
               {12, "1/4", {0, 3, 6, 7, 9, 10, 10, 11, 11, 12}},
               {12, "0.2", {0, 3, 5, 6, 8, 9, 9, 10, 10, 11}},
               {12, "0.07", {0, 1, 2, 3, 4, 4, 5, 5, 6, 6}},
               {24, "1/3", {0, 8, 14, 17, 20, 21, 22, 23, 24, 24}}};

Test(plan_freezing, alpha_is_the_closed_form) {
    for (size_t i = 0; i < sizeof courses / sizeof *courses; i++) {
        struct freezing_share alpha;
        int frozen[PERIODS];
        cr_assert_eq(freezing_share_read(courses[i].alpha, &alpha), STATUS_OK);
        freezing_by_alpha(courses[i].blocks, alpha, PERIODS, frozen);
        for (int t = 0; t < PERIODS; t++)
            cr_expect_eq(frozen[t], courses[i].frozen[t], "%s of %d, period %d: %d",
                         courses[i].alpha, courses[i].blocks, t, frozen[t]);
    }
}

/* Thousands of periods by a small share, of which doubles would lose count; the last one is not
 * reached before (1 - alpha)^t L is below 1. */
Test(plan_freezing, it_is_exact_for_any_number_of_periods) {
    enum { MANY = 8000 };
    struct freezing_share alpha = {1, 1000}, half = {1, 2};
    SCOPED_FREE int *frozen = MEM_ARRAY(int, MANY);
    freezing_by_alpha(100, alpha, MANY, frozen);
    for (int t = 1; t < MANY; t++)
        cr_expect(frozen[t] >= frozen[t - 1] && frozen[t] <= frozen[t - 1] + 1);
    cr_expect_eq(frozen[1], 1);
    cr_expect_eq(frozen[4602], 99);
    cr_expect_eq(frozen[4603], 100);
    freezing_by_alpha(64, half, 8, frozen); /* halves of a power of two are whole to the last */
    for (int t = 0; t < 7; t++) cr_expect_eq(frozen[t], 64 - (64 >> t));
    cr_expect_eq(frozen[7], 64);
}

Test(plan_freezing, a_share_is_between_0_and_1) {
    static const char *const wrong[] = {"0",
                                        "1",
                                        "0/3",
                                        "3/3",
                                        "4/3",
                                        "-1/3",
                                        "",
                                        "1/",
                                        "/3",
                                        "1/0",
                                        "1/3/4",
                                        "a",
                                        "0.",
                                        ".",
                                        "0.5x",
                                        "1.0",
                                        "inf",
                                        " 1/3",
                                        "0.00000000000001"};
    struct freezing_share share = {7, 7};
    char log[256];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        log_capture(log, sizeof log);
        cr_expect_eq(freezing_share_read(wrong[i], &share), STATUS_USAGE, "%s", wrong[i]);
        log_capture(NULL, 0);
        cr_expect(strstr(log, "above 0 and below 1"), "%s", log);
    }
    cr_expect_eq(share.of, 7);
    cr_assert_eq(freezing_share_read("0.25", &share), STATUS_OK);
    cr_expect(share.part == 25 && share.of == 100);
    cr_assert_eq(freezing_share_read(".5", &share), STATUS_OK);
    cr_expect(share.part == 5 && share.of == 10);
}

/* All below the block that has converged most; not more than the cap, and never fewer. */
Test(plan_freezing, norm_takes_what_is_below_the_smallest) {
    static const double squares[] = {9, 4, 3, 1, 2, 8};
    cr_expect_eq(freezing_by_norm(6, 0, 4, squares), 3);
    cr_expect_eq(freezing_by_norm(6, 0, 2, squares), 2);
    cr_expect_eq(freezing_by_norm(6, 4, 6, squares), 4);
    cr_expect_eq(freezing_by_norm(6, 5, 3, squares), 5);
    cr_expect_eq(freezing_by_norm(6, 6, 6, squares), 6);
    cr_expect_eq(freezing_by_norm(3, 0, 3, (const double[]){1, 1, 1}), 0);
}

/* --- cuts --- */

enum { HIDDEN = 768, MOST_UNITS = 64 };
static const int64_t attention = 4 * (HIDDEN * HIDDEN + HIDDEN) + 2 * HIDDEN,
                     mlp = 8 * HIDDEN * HIDDEN + 5 * HIDDEN + 2 * HIDDEN;

/* Embedding, halves of twelve blocks, and two units of the head. */
static int units_of(int64_t embedding, int64_t norm, int64_t head, int64_t out[MOST_UNITS]) {
    int count = 0;
    out[count++] = embedding;
    for (int b = 0; b < 12; b++) {
        out[count++] = attention;
        out[count++] = mlp;
    }
    out[count++] = norm;
    out[count++] = head;
    return count;
}

static int vit(int classes, int64_t out[MOST_UNITS]) {
    return units_of(HIDDEN * (3 * 256 + 1) + 198 * HIDDEN, 2 * HIDDEN, (HIDDEN + 1) * classes, out);
}

static void expect_cut(const struct pipe_units *units, int groups, const int *want,
                       int not_counted) {
    int cut[16];
    pipe_cut(units, groups, cut);
    cut[0] -= not_counted;
    for (int k = 0; k < groups; k++)
        cr_expect_eq(cut[k], want[k], "frozen %d, group %d of %d: %d units, not %d", units->frozen,
                     k, groups, cut[k], want[k]);
}

struct row {
    int frozen, groups, units[8];
};

/* From period to period the pipeline gets shorter, as published. */
static void follow(const struct row *rows, size_t count, int classes, bool weighs) {
    int64_t params[MOST_UNITS];
    int cut[8], groups = 8;
    struct pipe_units units = {params, vit(classes, params), 0, weighs};
    int64_t most = pipe_cut(&units, groups, cut);
    cr_expect_eq(most, PIPE_LAMBDA * 14175744);
    for (size_t i = 0; i < count; i++) {
        units.frozen = rows[i].frozen ? 2 * rows[i].frozen + 1 : 0;
        groups = pipe_shrink(&units, groups, most);
        cr_expect_eq(groups, rows[i].groups, "%d frozen: %d groups", rows[i].frozen, groups);
        expect_cut(&units, rows[i].groups, rows[i].units, weighs ? 0 : units.frozen);
    }
}

/* At 5 frozen blocks the largest group is exactly as large as the largest of the beginning. */
Test(plan_freezing, rule_params_shrinks_as_published) {
    static const struct row rows[] = {{0, 8, {4, 2, 3, 3, 3, 3, 4, 5}},
                                      {4, 8, {2, 2, 2, 2, 2, 2, 2, 4}},
                                      {5, 4, {3, 4, 4, 5}},
                                      {6, 4, {3, 3, 3, 5}},
                                      {7, 4, {3, 2, 2, 5}},
                                      {8, 4, {2, 2, 2, 4}},
                                      {9, 2, {3, 5}},
                                      {10, 2, {2, 4}},
                                      {11, 1, {4}},
                                      {12, 1, {2}}};
    follow(rows, sizeof rows / sizeof *rows, 100, false);
}

Test(plan_freezing, rule_params_lambda_shrinks_as_published) {
    static const struct row rows[] = {{1, 8, {5, 3, 2, 2, 3, 3, 4, 5}},
                                      {2, 8, {6, 2, 2, 2, 3, 3, 4, 5}},
                                      {3, 8, {8, 2, 2, 2, 2, 3, 3, 5}},
                                      {4, 8, {10, 2, 2, 2, 2, 2, 2, 5}},
                                      {5, 8, {11, 2, 2, 2, 2, 2, 2, 4}},
                                      {6, 4, {14, 4, 4, 5}},
                                      {7, 4, {15, 3, 4, 5}},
                                      {8, 4, {17, 3, 2, 5}},
                                      {9, 4, {19, 2, 2, 4}},
                                      {10, 4, {21, 1, 2, 3}},
                                      {11, 2, {23, 4}},
                                      {12, 2, {25, 2}}};
    follow(rows, sizeof rows / sizeof *rows, 10, true);
}

/* An embedding that is larger than a stage leaves no stage empty. */
Test(plan_freezing, every_group_has_a_unit) {
    int64_t params[MOST_UNITS];
    struct pipe_units bert = {
        params, units_of(23837184, HIDDEN * HIDDEN + HIDDEN, 2 * HIDDEN + 2, params), 0, false};
    expect_cut(&bert, 8, (const int[]){1, 3, 3, 3, 4, 4, 4, 5}, 0);
    struct pipe_units few = {(const int64_t[]){5, 1, 1}, 3, 0, false};
    expect_cut(&few, 3, (const int[]){1, 1, 1}, 0);
    struct pipe_units last = {(const int64_t[]){1, 1, 90000000}, 3, 0, false};
    expect_cut(&last, 2, (const int[]){2, 1}, 0);
    bert.count = vit(1000, params);
    expect_cut(&bert, 4, (const int[]){7, 6, 6, 8}, 0);
}

/* --- what --freeze says --- */

Test(plan_freezing, rules_are_numbers_or_a_share) {
    struct freezing_rule rule;
    cr_assert_eq(freezing_rule_read("0,4,7,7", &rule), STATUS_OK);
    cr_expect(rule.count == 4 && rule.list[1] == 4 && rule.list[3] == 7 && rule.alpha.part == 0);
    cr_expect(freezing_changes(&rule) && freezing_first(&rule) == 0);
    cr_assert_eq(freezing_rule_read("9", &rule), STATUS_OK);
    cr_expect(!freezing_changes(&rule) && freezing_first(&rule) == 9);
    cr_assert_eq(freezing_rule_read("3,3", &rule), STATUS_OK);
    cr_expect(!freezing_changes(&rule) && freezing_first(&rule) == 3);
    cr_assert_eq(freezing_rule_read("alpha=1/3", &rule), STATUS_OK);
    cr_expect(rule.count == 0 && rule.alpha.part == 1 && rule.alpha.of == 3);
    cr_expect(freezing_changes(&rule) && freezing_first(&rule) == 0 && !rule.norm);
    cr_assert_eq(freezing_rule_read("alpha=1/3,norm", &rule), STATUS_OK);
    cr_expect(rule.norm && rule.alpha.part == 1 && rule.alpha.of == 3);
    cr_assert_eq(freezing_rule_read("norm", &rule), STATUS_OK);
    cr_expect(rule.norm && rule.alpha.part == 0 && rule.count == 0);
    cr_expect(freezing_changes(&rule) && freezing_first(&rule) == 0);
}

/* What is below the smallest norm freezes, so by norms the last block is always trained. */
Test(plan_freezing, a_share_is_the_cap_of_norms) {
    struct freezing_rule third = {.alpha = {1, 3}}, both = {.alpha = {1, 3}, .norm = true},
                         norm = {.norm = true};
    static const int caps[] = {0, 4, 7, 9, 10, 11, 11, 11, 11};
    for (int p = 0; p < 9; p++) cr_expect_eq(freezing_most(&both, 12, p), caps[p], "period %d", p);
    cr_expect_eq(freezing_most(&third, 12, 7), 12);
    cr_expect_eq(freezing_most(&norm, 12, 1), 11);
    cr_expect_eq(freezing_most(&norm, 0, 1), 0);
}

Test(plan_freezing, other_rules_are_refused) {
    static const struct {
        const char *text, *said;
    } rows[] = {{"", "expected numbers of blocks"},
                {"4,", "expected numbers of blocks"},
                {",4", "expected numbers of blocks"},
                {"-1", "expected numbers of blocks"},
                {"1 2", "expected numbers of blocks"},
                {"4097", "expected numbers of blocks"},
                {"99999999999999999999", "expected numbers of blocks"},
                {"0,4,3", "3 comes after 4"},
                {"0", "freezes nothing"},
                {"0,0", "freezes nothing"},
                {"alpha=1", "alpha"},
                {"alpha=", "alpha"},
                {"alpha", "expected numbers of blocks"},
                {"norms", "expected numbers of blocks"},
                {"norm,alpha=1/3", "expected numbers of blocks"},
                {"0,4,norm", "expected numbers of blocks"},
                {"alpha=1/3,norms", "alpha"},
                {"alpha=,norm", "alpha"}};
    char said[512], longer[400] = "0";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct freezing_rule rule;
        log_capture(said, sizeof said);
        cr_expect_eq(freezing_rule_read(rows[i].text, &rule), STATUS_USAGE, "%s", rows[i].text);
        cr_expect(strstr(said, rows[i].said), "%s: %s", rows[i].text, said);
    }
    struct freezing_rule rule;
    for (int i = 0; i < FREEZING_LIST; i++) memcpy(longer + 1 + 2 * i, ",1", 3);
    cr_expect_eq(freezing_rule_read(longer, &rule), STATUS_USAGE);
    log_capture(NULL, 0);
}
