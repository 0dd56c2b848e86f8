/* The short last step of an epoch: a list of the program. Its ranks share rank programs where they
 * do in both steps; sizes are for both; and the verifier looks at each step that can follow
 * another. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "between.h"
#include "kit.h"
#include "program/schedule.h"
#include "sync/sync.h"

/* Three replicas of two micro-batches; `samples` NULL: all have some. */
static struct program *build(const int64_t *samples) {
    struct schedule_config config = {
        .grid = grid_flat(3, 3), .micro_batches = 2, .samples = samples};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("allreduce", program, &(struct sync_config){.buckets = &(int){2}}),
                 STATUS_OK);
    return program;
}

static enum status verify(const struct program *program, const int64_t *samples, char log[512]) {
    memset(log, 0, 512);
    log_capture(log, 512);
    enum status status = program_verify(program, samples);
    log_capture(NULL, 0);
    return status;
}

/* All ranks have one body. In the last step the third has no samples: two kinds of ranks. */
Test(program_last, ranks_share_where_both_steps_are_alike) {
    static const int64_t samples[] = {2, 2, 1, 1, 0, 0};
    struct program *last = build(samples), *program = build(NULL);
    cr_assert_eq(program->kind_count, 1);
    cr_assert_eq(last->kind_count, 2);
    cr_expect_not(program_has_last(program));
    int whole = program_list(program, 0, LIST_BODY)->count;
    program_set_last(program, last);
    cr_expect(program_has_last(program));
    cr_expect_eq(program->kind_count, 2);
    for (int r = 0; r < 3; r++) {
        cr_expect_eq(program->kind_of[r], r == 2);
        cr_expect_eq(program_list(program, r, LIST_BODY)->count, whole);
        cr_expect_eq(program_list(program, r, LIST_LAST)->count,
                     program_list(last, r, LIST_BODY)->count);
    }
    struct program *again = program_copy(program);
    cr_expect_eq(program_hash(again), program_hash(program));
    program_set_last(again, NULL);
    cr_expect_not(program_has_last(again));
    cr_expect_eq(again->kind_count, 1);
    program_free(&again);
    program_free(&last);
    program_free(&program);
}

/* The tree over two micro-batches needs two gradient buffers; over one, one. */
Test(program_last, sizes_are_for_both_steps) {
    static const int64_t samples[] = {1, 0};
    struct schedule_config config = {
        .grid = grid_flat(1, 1), .micro_batches = 2, .sum = SUM_TREE, .samples = samples};
    struct program *one = NULL, *two = NULL;
    cr_assert_eq(schedule_build("single", &config, &one), STATUS_OK);
    config.samples = NULL;
    cr_assert_eq(schedule_build("single", &config, &two), STATUS_OK);
    cr_assert(one->kinds[0].grads == 1 && two->kinds[0].grads == 2);
    program_set_last(two, one);
    cr_expect_eq(two->kinds[0].grads, 2);
    program_set_last(two, NULL);
    program_set_last(one, two);
    cr_expect_eq(one->kinds[0].grads, 2);
    program_free(&one);
    program_free(&two);
}

/* Without samples that say otherwise, those are there that the list loads. */
Test(program_last, what_it_loads_has_samples) {
    static const int64_t dealt[] = {2, 2, 1, 1, 0, 0}, other[] = {2, 2, 1, 0, 0, 0};
    char log[512];
    struct program *program = program_with_last(build(NULL), build(dealt));
    int64_t *loaded = program_last_samples(program);
    for (int g = 0; g < 6; g++) cr_expect_eq(loaded[g] > 0, dealt[g] > 0, "%d", g);
    cr_expect_eq(verify(program, NULL, log), STATUS_OK, "%s", log);
    cr_expect_eq(verify(program, dealt, log), STATUS_OK, "%s", log);
    cr_expect_eq(verify(program, other, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 6 at #"), "%s", log);
    free(loaded);
    program_free(&program);
}

/* Two stages, two micro-batches, of which the last step has one. NORM stays under way behind a
 * step; each list's NORM is in the group that stands for it. */
static char *pair_text(const char *body_norm, const char *last_norm) {
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 1, .replicas_each = 1}, .micro_batches = 2};
    static const int64_t samples[] = {1, 0};
    struct program *whole = NULL, *last = NULL;
    cr_assert_eq(schedule_build("pmp", &config, &whole), STATUS_OK);
    config.samples = samples;
    cr_assert_eq(schedule_build("pmp", &config, &last), STATUS_OK);
    struct program *program = program_with_last(whole, last);
    char *text = program_text(program), *now = NULL, *state = NULL;
    const char *norm = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&now, &bytes);
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        char *at = strstr(line, " NORM g0 ");
        if (strstr(line, " body")) norm = body_norm;
        if (strstr(line, " last")) norm = last_norm;
        if (at) at[strlen(" NORM g0 ")] = 0;
        fprintf(out, "%s%s\n", line, at ? norm : "");
    }
    fclose(out);
    free(text);
    program_free(&program);
    return now;
}

/* pmp meets in group 2 (the pipeline) in every step; group 3 is NORM's own. What a step leaves
 * under way in group 2 is in the way of the next step's MEET, whichever list that is. */
Test(program_last, what_a_step_leaves_is_looked_at_in_each_that_follows) {
    static const struct {
        const char *body, *last;
        bool right;
    } cases[] = {{"q3", "q3", true}, {"q3", "q2", false}, {"q2", "q3", false}};
    for (int i = 0; i < 3; i++) {
        char *text = pair_text(cases[i].body, cases[i].last), log[512];
        struct program *program = NULL;
        cr_assert_eq(program_parse("text", text, strlen(text), &program), STATUS_OK);
        cr_expect_eq(verify(program, NULL, log), cases[i].right ? STATUS_OK : STATUS_USAGE,
                     "%s %s: %s", cases[i].body, cases[i].last, log);
        if (!cases[i].right) cr_expect(strstr(log, "rule 22 at #"), "%s", log);
        program_free(&program);
        free(text);
    }
}
