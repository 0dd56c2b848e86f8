/* Parameters that two stages share: what schedules and all-reduce make of them is taken, for every
 * schedule, on one rank and on two; every damage to it is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kit.h"
#include "program/emit.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

/* The first stage has three buckets, the last is shared; the last stage two, the first is. */
struct shape {
    const char *schedule;
    int stages, replicas, micros;
    const int64_t *samples; /* NULL: all present */
};

static struct program *tied_program(const struct shape *of) {
    const struct pipeline_schedule *schedule = pipeline_find(of->schedule);
    struct grid grid = {.stages = of->stages,
                        .chunks = schedule->chunks,
                        .replicas = of->replicas,
                        .replicas_each = 1,
                        .v_shape = schedule->v_shape};
    int last = grid.stages * grid.chunks - 1, buckets[32];
    cr_assert(last > 0 && last < 32);
    for (int s = 0; s <= last; s++) buckets[s] = s == 0 ? 3 : s == last ? 2 : 1;
    bool apart = grid_position(&grid, 0) != grid_position(&grid, last);
    struct program_tie tie = {0, 2, last, apart ? 0 : INSTR_ALL};
    struct schedule_config config = {.grid = grid,
                                     .micro_batches = of->micros,
                                     .samples = of->samples,
                                     .ties = &tie,
                                     .tie_count = 1,
                                     .buckets = buckets};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(of->schedule, &config, &program), STATUS_OK);
    const char *sync = of->replicas > 1 ? "allreduce" : "none";
    cr_assert_eq(sync_insert(sync, program, &(struct sync_config){.buckets = buckets}), STATUS_OK);
    if (!of->samples) return program;
    struct shape whole = *of;
    whole.samples = NULL;
    return program_with_last(tied_program(&whole), program);
}

static int count_of(const struct program *program, int rank, enum instr_op op) {
    const struct instr_list *body = program_list(program, rank, program_step(program));
    int count = 0;
    for (int i = 0; i < body->count; i++) count += body->items[i].op == op;
    return count;
}

/* Both ranks of a pipeline join once; all the others, and ranks with both stages, never. */
static void expect_joins(const struct program *program) {
    for (int r = 0; r < program->ranks; r++) {
        bool member = group_of(&program->grid, GROUP_TIED, r) >= 0;
        cr_expect_eq(count_of(program, r, INSTR_JOIN), member);
    }
}

static void each_shape(void (*check)(const struct shape *of)) {
    static const int64_t one_left[8] = {1, 0, 0, 0, 0, 0, 0, 0};
    for (int s = 0; s < pipeline_count(); s++) {
        const struct pipeline_schedule *schedule = pipeline_at(s);
        if (schedule->older) continue; /* steps overlap: see test_ahead.c */
        for (int stages = 1; stages <= 4; stages++) {
            if (stages * schedule->chunks == 1) continue;
            for (int i = 0; i < 12; i++)
                check(&(struct shape){schedule->name, stages, 1 + i % 2, 1 + i / 2 % 4,
                                      i < 8 ? NULL : one_left});
        }
    }
}

static void is_taken(const struct shape *of) {
    struct program *program = tied_program(of), *copy = program_copy(program);
    cr_expect_eq(program_verify(program, of->samples), STATUS_OK, "%s, %d stages, %d x %d",
                 of->schedule, of->stages, of->replicas, of->micros);
    expect_joins(program);
    cr_expect_eq(program_hash(program), program_hash(copy));
    char *text = program_text(program), *again = program_text(copy);
    cr_expect_str_eq(text, again);
    free(text);
    free(again);
    program_free(&program);
    program_free(&copy);
}

Test(program_ties, every_schedule_is_taken_and_read_back) {
    each_shape(is_taken);
}

/* --- refusals --- */

static void expect_refused(const struct program *program, const char *why) {
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(log, why), "%s", log);
}

static int find(const struct program *program, int rank, enum instr_op op, int stage, bool last) {
    const struct instr_list *body = program_list(program, rank, LIST_BODY);
    int found = -1;
    for (int i = 0; i < body->count && (found < 0 || last); i++)
        if (body->items[i].op == op && (stage < 0 || body->items[i].stage == stage)) found = i;
    cr_assert_geq(found, 0);
    return found;
}

/* Moves an instruction of a rank's body before another; one past the end takes it out. */
static void move(struct program *program, int rank, int from, int to) {
    struct instr_list *body = &program_edit(program, rank)->list[LIST_BODY];
    struct instr moved = body->items[from];
    memmove(body->items + from, body->items + from + 1,
            (size_t)(body->count - from - 1) * sizeof moved);
    if (to == body->count) {
        body->count--;
        return;
    }
    if (to > from) to--;
    memmove(body->items + to + 1, body->items + to, (size_t)(body->count - 1 - to) * sizeof moved);
    body->items[to] = moved;
}

static void take_out(struct program *program, int rank, int at) {
    move(program, rank, at, program_list(program, rank, LIST_BODY)->count);
}

static const struct shape apart = {"1f1b", 2, 1, 3, NULL}, twice = {"1f1b", 2, 2, 3, NULL};

Test(program_ties, a_join_that_is_missing_on_either_side) {
    for (int rank = 0; rank < 2; rank++) {
        struct program *program = tied_program(&apart);
        take_out(program, rank, find(program, rank, INSTR_JOIN, -1, false));
        expect_refused(program, "was not joined with the rank that shares it");
        program_free(&program);
    }
}

Test(program_ties, a_join_before_its_bucket_is_whole) {
    struct program *program = tied_program(&apart);
    move(program, 1, find(program, 1, INSTR_JOIN, -1, false),
         find(program, 1, INSTR_TIE, -1, false));
    expect_refused(program, "JOIN s1 b0 g0 q3: bucket 0 is not whole (no TIE)");
    program_free(&program);
}

Test(program_ties, a_second_join) {
    struct program *program = tied_program(&apart);
    for (int rank = 0; rank < 2; rank++) {
        int at = find(program, rank, INSTR_JOIN, -1, false);
        struct rank_program *own = program_edit(program, rank);
        *program_add(own, LIST_BODY, INSTR_JOIN) = own->list[LIST_BODY].items[at];
        move(program, rank, own->list[LIST_BODY].count - 1, at + 1);
    }
    expect_refused(program, "was joined already");
    program_free(&program);
}

Test(program_ties, a_join_of_another_bucket_or_group) {
    struct program *program = tied_program(&apart);
    int at = find(program, 0, INSTR_JOIN, -1, false);
    struct instr *join = &program_edit(program, 0)->list[LIST_BODY].items[at];
    join->bucket = 1;
    expect_refused(program, "bucket 1 is not shared with another rank");
    join->bucket = 2;
    join->group = 2;
    expect_refused(program, "group 2 is not the ranks that share it");
    program_free(&program);
}

/* Uses are added for each replica, before the replicas. */
Test(program_ties, a_reduction_before_the_join) {
    struct program *program = tied_program(&twice);
    int join = find(program, 0, INSTR_JOIN, -1, false),
        reduce = find(program, 0, INSTR_REDUCE, -1, true);
    cr_assert_gt(reduce, join);
    move(program, 0, reduce, join);
    expect_refused(program, "bucket 2 is shared with another rank: JOIN comes first");
    program_free(&program);
}

/* Right behind JOIN it would wait for the first stage, which waits for this one's gradients. */
Test(program_ties, a_reduction_that_waits_in_the_middle_of_backward) {
    struct program *program = tied_program(&twice);
    for (int rank = 1; rank < 4; rank += 2)
        move(program, rank, find(program, rank, INSTR_REDUCE, -1, true),
             find(program, rank, INSTR_JOIN, -1, false) + 1);
    expect_refused(program, "rule 23: rank");
    program_free(&program);
}

/* Both stages on one rank: the TIE of the earlier one adds the gradients of both. */
static struct program *later_ends_last(int replicas) {
    static const struct pipeline_op ops[] = {{INSTR_F, 0, 0}, {INSTR_F, 0, 1}, {INSTR_F, 1, 0},
                                             {INSTR_F, 1, 1}, {INSTR_I, 1, 0}, {INSTR_I, 1, 1},
                                             {INSTR_I, 0, 0}, {INSTR_I, 0, 1}, {INSTR_W, 0, 0},
                                             {INSTR_W, 0, 1}, {INSTR_W, 1, 0}, {INSTR_W, 1, 1}};
    static const int buckets[] = {3, 2};
    static const struct program_tie tie = {0, 1, 1, INSTR_ALL};
    struct pipeline_order order = {0};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) pipeline_order_add(&order, ops[i]);
    struct schedule_config config = {
        .grid = {.stages = 1, .chunks = 2, .replicas = replicas, .replicas_each = 1},
        .micro_batches = 2,
        .orders = &order,
        .ties = &tie,
        .tie_count = 1,
        .buckets = buckets};
    struct program *program = program_new(&config.grid, 2, SUM_REPLICA);
    emit_declare(&config, program);
    for (int r = 0; r < replicas; r++) {
        struct rank_program *own = program_begin(program, r);
        emit_rank(&config, program, &order, r, own);
        program_add_between(&(struct schedule_config){0}, program, r, own);
    }
    program_share(program);
    pipeline_order_free(&order);
    const char *sync = replicas > 1 ? "allreduce" : "none";
    cr_assert_eq(sync_insert(sync, program, &(struct sync_config){.buckets = buckets}), STATUS_OK);
    return program;
}

Test(program_ties, a_tie_before_the_other_stage_of_the_rank_is_done) {
    for (int replicas = 1; replicas <= 2; replicas++) {
        struct program *program = later_ends_last(replicas);
        cr_expect_eq(program_verify(program, NULL), STATUS_OK);
        int tie = find(program, 0, INSTR_TIE, 0, true), w = find(program, 0, INSTR_W, 1, true);
        cr_expect_gt(tie, w);
        move(program, 0, tie, w);
        expect_refused(program, "stage 1 has not made its gradients of what both share");
        program_free(&program);
    }
}

/* On one rank ZERO may start a buffer, but not one with gradients of another stage behind it. */
Test(program_ties, a_zero_of_either_stage_of_the_rank) {
    for (int stage = 0; stage < 2; stage++) {
        struct program *program = later_ends_last(1);
        struct rank_program *own = program_edit(program, 0);
        program_add(own, LIST_BODY, INSTR_ZERO)->stage = (int16_t)stage;
        int w = find(program, 0, INSTR_W, stage, false);
        move(program, 0, own->list[LIST_BODY].count - 1, w);
        own->list[LIST_BODY].items[w + 1].flags = 0;
        expect_refused(program, "this rank has samples");
        program_free(&program);
    }
}

/* The other buckets of that stage do not wait. */
Test(program_ties, the_tied_bucket_alone_is_reduced_late) {
    struct program *program = later_ends_last(2);
    const struct instr_list *body = program_list(program, 0, LIST_BODY);
    int w = find(program, 0, INSTR_W, 1, false), early = 0;
    for (int i = 0; i < w; i++) early += body->items[i].op == INSTR_REDUCE;
    cr_expect_eq(early, 2);
    const struct instr *last = &body->items[find(program, 0, INSTR_REDUCE, -1, true)];
    cr_expect_eq(last->stage, 0);
    cr_expect_eq(last->bucket, 1);
    cr_expect_eq(count_of(program, 0, INSTR_REDUCE), 5);
    program_free(&program);
}

/* --- the text form --- */

static void expect_bad(const char *lines, const char *why) {
    char text[512], log[512] = "";
    struct program *program = NULL;
    snprintf(text, sizeof text,
             "stretto program 5\nranks 4 stages 4 replicas 1 micro-batches 1 sum replica chunks 2 "
             "v-shape 1\ngroups world tied\n%s\n",
             lines);
    log_capture(log, sizeof log);
    cr_expect_eq(program_parse("p", text, strlen(text), &program), STATUS_DATA, "%s", lines);
    log_capture(NULL, 0);
    cr_expect(strstr(log, why), "%s: %s", lines, log);
    program_free(&program);
}

Test(program_ties, lines_that_are_refused) {
    expect_bad("tied", "expected stage.bucket, found \"(end of line)\"");
    expect_bad("tied 0 1.0", "expected stage.bucket");
    expect_bad("tied 0.0 1.", "expected stage.bucket or a stage");
    expect_bad("tied 0.0 1.99999", "expected stage.bucket or a stage");
    expect_bad("tied 1.0 1.0", "a stage and a later one");
    expect_bad("tied 2.0 1.0", "a stage and a later one");
    expect_bad("tied 0.0 8", "a stage and a later one");
    expect_bad("tied 0.0 7.0", "where it is on another rank, and only there");
    expect_bad("tied 0.0 6", "where it is on another rank, and only there");
    expect_bad("tied 0.0 6.0 7", "the end of the line");
    expect_bad("tied 0.0 6.0\ntied 0.0 5.0", "stages that are in no other tie");
    expect_bad("tied 0.0 6.0\ntied 2.0 4.0", "ties between the same two ranks");
    expect_bad("rank 0 body\ntied 0.0 6.0", "ties before the ranks");
}

Test(program_ties, buckets_and_sums_that_do_not_fit) {
    struct program *program = tied_program(&apart);
    program->tie[0].bucket = 3;
    expect_refused(program, "tied bucket 3 of stage 0: rank 0 has 3 of it");
    program->tie[0].bucket = 2;
    program->sum = SUM_TREE;
    expect_refused(program, "need \"sum replica\", not tree");
    program_free(&program);
}
