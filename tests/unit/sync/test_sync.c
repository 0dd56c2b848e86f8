/* Sync policies: the order of what they insert, by name; what they refuse. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "program/schedule.h"
#include "sync/sync.h"

static struct program *build(int ranks, int micro_batches, enum sum_order sum) {
    struct schedule_config config = {
        .grid = grid_flat(ranks, ranks), .micro_batches = micro_batches, .sum = sum};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    return program;
}

/* A list as text without ids and ranks, instructions separated by "; ". */
static char *order_of(const struct program *program, int rank, enum list_name name) {
    const struct instr_list *list = program_list(program, rank, name);
    char line[INSTR_TEXT_BYTES], *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int i = 0; i < list->count; i++) {
        instr_text(&list->items[i], rank, line);
        fprintf(out, "%s%s", i ? "; " : "", strchr(strchr(line, ' ') + 1, ' ') + 1);
    }
    fclose(out);
    return text;
}

static void expect_order(const struct program *program, int rank, enum list_name name,
                         const char *want) {
    char *order = order_of(program, rank, name);
    cr_expect_str_eq(order, want);
    free(order);
}

/* Each bucket is reduced as soon as its segment of the last backward is done. */
Test(sync_allreduce, the_last_backward_is_cut) {
    struct program *program = build(2, 2, SUM_REPLICA);
    cr_assert_eq(sync_insert("allreduce", program, &(struct sync_config){.buckets = (int[]){2}}),
                 STATUS_OK);
    for (int rank = 0; rank < 2; rank++) {
        expect_order(program, rank, LIST_START, "BCAST q0");
        expect_order(
            program, rank, LIST_BODY,
            "COUNT q0; LOAD s0 m0 a0; F s0 m0 a0; B s0 m0 a0 g0 new; LOAD s0 m1 a0; "
            "F s0 m1 a0; B s0 e0 m1 a0 g0; TIE s0 b0 g0; REDUCE s0 b0 g0 q0; "
            "B s0 e1 m1 a0 g0; TIE s0 b1 g0; REDUCE s0 b1 g0 q0; REPORT q0; NORM g0; STEP g0");
    }
    for (int rank = 0; rank < 2; rank++) {
        expect_order(program, rank, LIST_EVAL_START, "STATS_ALL q0");
        expect_order(program, rank, LIST_EVAL, "LOAD s0 m0 a0; F s0 m0 a0");
        expect_order(program, rank, LIST_EVAL_END, "REPORT q0; STATS_OWN");
        expect_order(program, rank, LIST_SAVE, "OPEN q0; WRITE; COMMIT q0");
    }
    cr_expect_eq(program->kind_count, 1, "replicas share one program");
    program_free(&program);
}

/* Sums inside the rank come first: then all buckets follow at the end. */
Test(sync_allreduce, after_sums_all_buckets_are_reduced_at_the_end) {
    struct program *program = build(2, 2, SUM_TREE);
    cr_assert_eq(sync_insert("allreduce", program, &(struct sync_config){.buckets = (int[]){2}}),
                 STATUS_OK);
    expect_order(
        program, 1, LIST_BODY,
        "COUNT q0; LOAD s0 m0 a0; F s0 m0 a0; B s0 m0 a0 g0 new; TIE s0 g0; LOAD s0 m1 a0; "
        "F s0 m1 a0; B s0 m1 a0 g1 new; TIE s0 g1; SUM s0 g0 h1; REDUCE s0 b0 g0 q0; "
        "REDUCE s0 b1 g0 q0; REPORT q0; NORM g0; STEP g0");
    program_free(&program);
}

Test(sync_none, several_ranks_would_train_several_models) {
    char log[256] = "";
    struct program *alone = build(1, 1, SUM_REPLICA), *several = build(3, 1, SUM_REPLICA);
    cr_expect_eq(sync_insert("none", alone, &(struct sync_config){.buckets = (int[]){1}}),
                 STATUS_OK);
    log_capture(log, sizeof log);
    cr_expect_eq(sync_insert("none", several, &(struct sync_config){.buckets = (int[]){1}}),
                 STATUS_USAGE);
    cr_expect_eq(sync_insert("hearsay", several, &(struct sync_config){.buckets = (int[]){1}}),
                 STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "3 ranks without a sync policy") && strstr(log, "hearsay"), "%s", log);
    cr_expect_null(sync_find("hearsay"));
    program_free(&alone);
    program_free(&several);
}

/* Short steps, in which replicas run different micro-batches: the stages of a rank may be whole in
 * another order on each, and are reduced in one. */
Test(sync_allreduce, replicas_of_a_short_step_post_in_one_order) {
    static const char *const schedules[] = {"interleaved", "zbv", "v-min", "looped-bfs"};
    int64_t samples[6];
    for (int s = 0; s < 4; s++) {
        for (int last = 1; last <= 6; last++) {
            for (int g = 0; g < 6; g++) samples[g] = g < last;
            bool v_shape = s == 1 || s == 2;
            struct schedule_config config = {
                .grid = {.stages = 2, .chunks = 2, .replicas = 2, .replicas_each = 1, v_shape},
                .micro_batches = 3};
            struct program *program[2] = {NULL, NULL};
            for (int i = 0; i < 2; i++, config.samples = samples) {
                cr_assert_eq(schedule_build(schedules[s], &config, &program[i]), STATUS_OK);
                cr_assert_eq(sync_insert("allreduce", program[i],
                                         &(struct sync_config){.buckets = (int[]){1, 2, 3, 2}}),
                             STATUS_OK);
            }
            program_set_last(program[0], program[1]);
            cr_expect_eq(program_verify(program[0], samples), STATUS_OK, "%s, %d samples",
                         schedules[s], last);
            for (int i = 0; i < 2; i++) program_free(&program[i]);
        }
    }
}
