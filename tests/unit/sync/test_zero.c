/* Sync policy zero: what it inserts, that the verifier proves it for every schedule, also in short
 * steps, and what it refuses of a program that slices. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

#include "base/log.h"
#include "base/mem.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

struct shape {
    const char *schedule;
    int stages, replicas, micros, buckets;
    unsigned sliced;
    bool kept, shares;
    int prefetch, samples; /* the first so many micro-batches have samples; 0: all */
};

static struct grid grid_for(const struct shape *shape) {
    const struct pipeline_schedule *pipeline = pipeline_find(shape->schedule);
    struct grid grid = {.stages = shape->stages,
                        .chunks = pipeline ? pipeline->chunks : 1,
                        .replicas = shape->replicas,
                        .replicas_each = 1,
                        .v_shape = pipeline && pipeline->v_shape};
    return grid;
}

static int64_t *deal(const struct shape *shape) {
    int count = shape->replicas * shape->micros;
    int64_t *samples = shape->samples ? MEM_ARRAY(int64_t, count) : NULL;
    for (int g = 0; samples && g < count; g++) samples[g] = g < shape->samples;
    return samples;
}

static struct program *build(const struct shape *shape, const int64_t *samples) {
    struct schedule_config config = {.grid = grid_for(shape),
                                     .micro_batches = shape->micros,
                                     .sum = SUM_REPLICA,
                                     .samples = samples,
                                     .shares = shape->shares};
    struct program *program = NULL;
    int stages = config.grid.stages * config.grid.chunks, buckets[64], prefetch[64];
    bool kept[64];
    for (int s = 0; s < stages; s++) {
        buckets[s] = shape->buckets;
        kept[s] = shape->kept;
        prefetch[s] = shape->prefetch;
    }
    struct sync_config sync = {
        .buckets = buckets, .sliced = shape->sliced, .kept = kept, .prefetch = prefetch};
    cr_assert_eq(schedule_build(shape->schedule, &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    if (!samples) return program;
    struct program *whole = build(shape, NULL);
    program_set_last(whole, program);
    program_free(&program);
    return whole;
}

/* A list of a rank without ids and ranks. */
static char *text_of(const struct program *program, int rank, enum list_name name) {
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

static void expect_list(struct shape shape, int rank, enum list_name name, const char *want) {
    int64_t *samples = deal(&shape);
    struct program *program = build(&shape, samples);
    char *text = text_of(program, rank, name);
    cr_expect_str_eq(text, want);
    cr_expect_eq(program_verify(program, samples), STATUS_OK);
    free(text);
    free(samples);
    program_free(&program);
}

static void expect_body(struct shape shape, int rank, const char *want) {
    expect_list(shape, rank, shape.samples ? LIST_LAST : LIST_BODY, want);
}

Test(sync_zero, state_is_updated_in_slices_and_gathered) {
    expect_body((struct shape){.schedule = "single",
                               .stages = 1,
                               .replicas = 2,
                               .micros = 2,
                               .buckets = 2,
                               .sliced = SLICED_STATE},
                1,
                "COUNT q0; LOAD s0 m0 a0; F s0 m0 a0; B s0 m0 a0 g0 new; LOAD s0 m1 a0; "
                "F s0 m1 a0; B s0 e0 m1 a0 g0; TIE s0 b0 g0; SCATTER s0 b0 g0 h0 q0; "
                "B s0 e1 m1 a0 g0; TIE s0 b1 g0; SCATTER s0 b1 g0 h0 q0; REPORT q0; NORM g0 q1; "
                "STEP g0; GATHER s0 b1 q0; GATHER s0 b0 q0");
}

/* A scatter for each micro-batch; the first one starts the slices. */
Test(sync_zero, gradients_go_through_windows) {
    expect_body((struct shape){.schedule = "single",
                               .stages = 1,
                               .replicas = 2,
                               .micros = 2,
                               .buckets = 2,
                               .sliced = SLICED_STATE | SLICED_GRADIENTS},
                0,
                "COUNT q0; LOAD s0 m0 a0; F s0 e1 m0 a0; F s0 e0 m0 a0; "
                "B s0 e0 m0 a0 g1 new; TIE s0 b0 g1; SCATTER s0 b0 g1 h0 q0 new; "
                "B s0 e1 m0 a0 g1 new; TIE s0 b1 g1; SCATTER s0 b1 g1 h0 q0 new; "
                "LOAD s0 m1 a0; F s0 m1 a0; "
                "B s0 e0 m1 a0 g1 new; TIE s0 b0 g1; SCATTER s0 b0 g1 h0 q0; "
                "B s0 e1 m1 a0 g1 new; TIE s0 b1 g1; SCATTER s0 b1 g1 h0 q0; "
                "REPORT q0; NORM g0 q1; STEP g0; GATHER s0 b1 q0; GATHER s0 b0 q0");
}

/* The next bucket is gathered before a segment runs; at the turn the one in use stays. */
Test(sync_zero, parameters_are_gathered_ahead_and_freed) {
    expect_body((struct shape){.schedule = "single",
                               .stages = 1,
                               .replicas = 2,
                               .micros = 1,
                               .buckets = 3,
                               .sliced = SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS,
                               .prefetch = 1},
                0,
                "COUNT q0; LOAD s0 m0 a0; GATHER s0 b2 q0; GATHER s0 b1 q0; F s0 e2 m0 a0; "
                "FREE s0 b2; GATHER s0 b0 q0; F s0 e1 m0 a0; FREE s0 b1; F s0 e0 m0 a0; "
                "GATHER s0 b1 q0; B s0 e0 m0 a0 g1 new; FREE s0 b0; TIE s0 b0 g1; "
                "SCATTER s0 b0 g1 h0 q0 new; GATHER s0 b2 q0; B s0 e1 m0 a0 g1 new; FREE s0 b1; "
                "TIE s0 b1 g1; SCATTER s0 b1 g1 h0 q0 new; B s0 e2 m0 a0 g1 new; FREE s0 b2; "
                "TIE s0 b2 g1; SCATTER s0 b2 g1 h0 q0 new; REPORT q0; NORM g0 q1; STEP g0");
}

Test(sync_zero, a_kept_bucket_is_gathered_once_a_step) {
    expect_body((struct shape){.schedule = "single",
                               .stages = 1,
                               .replicas = 2,
                               .micros = 1,
                               .buckets = 2,
                               .sliced = SLICED_STATE | SLICED_PARAMS,
                               .kept = true},
                0,
                "GATHER s0 b1 q0; COUNT q0; LOAD s0 m0 a0; F s0 e1 m0 a0; GATHER s0 b0 q0; "
                "F s0 e0 m0 a0; FREE s0 b0; GATHER s0 b0 q0; B s0 e0 m0 a0 g0 new; FREE s0 b0; "
                "TIE s0 b0 g0; SCATTER s0 b0 g0 h0 q0; B s0 e1 m0 a0 g0 new; TIE s0 b1 g0; "
                "SCATTER s0 b1 g0 h0 q0; FREE s0 b1; REPORT q0; NORM g0 q1; STEP g0");
}

/* W reads no parameters: nothing is gathered for it. */
Test(sync_zero, weight_gradients_need_no_parameters) {
    expect_body((struct shape){.schedule = "zb-h1",
                               .stages = 1,
                               .replicas = 2,
                               .micros = 1,
                               .buckets = 1,
                               .sliced = SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS},
                0,
                "COUNT q0; LOAD s0 m0 a0; GATHER s0 b0 q0; F s0 e0 m0 a0; FREE s0 b0; "
                "GATHER s0 b0 q0; I s0 e0 m0 a0; FREE s0 b0; W s0 e0 m0 a0 g1 new; TIE s0 b0 g1; "
                "SCATTER s0 b0 g1 h0 q0 new; REPORT q0; NORM g0 q1; STEP g0");
}

/* A replica that lacks a micro-batch comes to its gathers and scatters, with nothing. */
Test(sync_zero, who_lacks_a_micro_batch_takes_part_in_its_sums) {
    expect_body((struct shape){.schedule = "single",
                               .stages = 1,
                               .replicas = 2,
                               .micros = 1,
                               .buckets = 1,
                               .sliced = SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS,
                               .prefetch = 1,
                               .samples = 1},
                1,
                "COUNT q0; GATHER s0 b0 q0; FREE s0 b0; ZERO s0 b0 g1; TIE s0 b0 g1; "
                "SCATTER s0 b0 g1 h0 q0 new; REPORT q0; NORM g0 q1; STEP g0");
}

/* --- every schedule --- */

static void expect_proved(const struct shape *shape) {
    int64_t *samples = deal(shape);
    struct program *program = build(shape, samples);
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, samples);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_OK, "%s %dx%dx%d, %d buckets, sliced %s, %d samples: %s",
                 shape->schedule, shape->stages, shape->replicas, shape->micros, shape->buckets,
                 sliced_name(shape->sliced), shape->samples, log);
    expect_same_text(program);
    free(samples);
    program_free(&program);
}

static void every_deal(struct shape shape) {
    int count = shape.replicas * shape.micros;
    const int short_steps[] = {0, 1, count / 2, count - 1};
    for (int i = 0; i < 4; i++) {
        shape.samples = short_steps[i];
        for (int shares = 0; shares < 2; shares++) {
            shape.shares = shares;
            expect_proved(&shape);
        }
    }
}

static void every_slicing(struct shape shape) {
    static const unsigned sets[] = {SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS,
                                    SLICED_STATE | SLICED_PARAMS,
                                    SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS};
    for (int i = 0; i < 4; i++) {
        shape.sliced = sets[i];
        for (shape.prefetch = 0; shape.prefetch < 2; shape.prefetch++) {
            shape.kept = shape.prefetch == 1 && shape.buckets > 1;
            every_deal(shape);
        }
    }
}

Test(sync_zero, every_schedule_is_proved) {
    for (int i = -1; i < pipeline_count(); i++) {
        if (i >= 0 && pipeline_at(i)->older) continue; /* steps overlap: see test_ahead.c */
        struct shape shape = {.schedule = i < 0 ? "single" : pipeline_at(i)->name};
        for (shape.stages = 1; shape.stages <= (i < 0 ? 1 : 2); shape.stages++)
            for (shape.replicas = 2; shape.replicas <= 3; shape.replicas++)
                for (shape.micros = 1; shape.micros <= 4; shape.micros += 3)
                    for (shape.buckets = 1; shape.buckets <= 4; shape.buckets += 3)
                        every_slicing(shape);
    }
}

/* The memory of a program is that of its slices: fewer places than buckets. */
Test(sync_zero, places_are_few) {
    struct shape shape = {.schedule = "1f1b",
                          .stages = 2,
                          .replicas = 2,
                          .micros = 2,
                          .buckets = 9,
                          .prefetch = 2,
                          .sliced = SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS};
    struct program *program = build(&shape, NULL);
    const struct rank_program *rank = program_of(program, 1);
    cr_expect_eq(rank->chunk[0].windows, 2);
    cr_expect_eq(rank->chunk[0].gathered, 3);
    cr_expect_eq(rank->grads, 2);
    cr_expect_eq(program->sum, SUM_REPLICAS_FIRST);
    program_free(&program);
}

/* --- between steps --- */

enum { ALL_SLICED = SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS };

static const struct shape three_buckets = {
    .schedule = "single", .stages = 1, .replicas = 2, .micros = 1, .buckets = 3, .prefetch = 1};

static struct shape three(unsigned sliced, int prefetch, bool kept) {
    struct shape shape = three_buckets;
    shape.sliced = sliced;
    shape.prefetch = prefetch;
    shape.kept = kept;
    return shape;
}

/* One bucket ahead where there are two places; a kept one for the whole round. */
Test(sync_zero, a_round_of_evaluation_gathers_what_it_reads) {
    expect_list(three(ALL_SLICED, 1, false), 0, LIST_EVAL,
                "LOAD s0 m0 a0; GATHER s0 b2 q0; GATHER s0 b1 q0; F s0 e2 m0 a0; FREE s0 b2; "
                "GATHER s0 b0 q0; F s0 e1 m0 a0; FREE s0 b1; F s0 e0 m0 a0; FREE s0 b0");
    expect_list(three(ALL_SLICED, 0, false), 1, LIST_EVAL,
                "LOAD s0 m0 a0; GATHER s0 b2 q0; F s0 e2 m0 a0; FREE s0 b2; GATHER s0 b1 q0; "
                "F s0 e1 m0 a0; FREE s0 b1; GATHER s0 b0 q0; F s0 e0 m0 a0; FREE s0 b0");
    expect_list(three(ALL_SLICED, 0, true), 0, LIST_EVAL,
                "LOAD s0 m0 a0; GATHER s0 b2 q0; GATHER s0 b1 q0; F s0 e2 m0 a0; F s0 e1 m0 a0; "
                "FREE s0 b1; GATHER s0 b0 q0; F s0 e0 m0 a0; FREE s0 b0; FREE s0 b2");
    expect_list(three(SLICED_STATE | SLICED_GRADIENTS, 1, false), 0, LIST_EVAL,
                "LOAD s0 m0 a0; F s0 m0 a0");
}

/* By way of a buffer that holds whole buckets. */
Test(sync_zero, a_checkpoint_collects_every_bucket) {
    expect_list(three(SLICED_STATE, 1, false), 1, LIST_SAVE,
                "OPEN q0; COLLECT s0 b0 g0 q0; COLLECT s0 b1 g0 q0; COLLECT s0 b2 g0 q0; WRITE; "
                "COMMIT q0");
    expect_list(three(ALL_SLICED, 1, false), 0, LIST_SAVE,
                "OPEN q0; COLLECT s0 b0 g1 q0; COLLECT s0 b1 g1 q0; COLLECT s0 b2 g1 q0; WRITE; "
                "COMMIT q0");
}

/* --- refusals --- */

struct edit {
    enum { DROP, TWICE, SWAP_NEXT, SET } kind;
    enum instr_op op;
    int number; /* which of them */
    char letter;
    int value; /* of SET */
    const char *words;
};

static int find(const struct instr_list *body, enum instr_op op, int number) {
    int at = 0;
    for (; at < body->count; at++)
        if (body->items[at].op == op && number-- == 0) break;
    cr_assert_lt(at, body->count);
    return at;
}

static void apply(struct instr_list *body, const struct edit *edit) {
    int at = find(body, edit->op, edit->number);
    struct instr copy = body->items[at], *items = body->items;
    size_t rest = (size_t)(body->count - at - 1) * sizeof *items;
    if (edit->kind == DROP) {
        memmove(items + at, items + at + 1, rest);
        body->count--;
    } else if (edit->kind == TWICE) {
        body->items = items =
            mem_grow(items, &body->capacity, (size_t)body->count + 1, sizeof copy);
        memmove(items + at + 1, items + at, rest + sizeof copy);
        body->count++;
    } else if (edit->kind == SWAP_NEXT) {
        items[at] = items[at + 1];
        items[at + 1] = copy;
    } else if (edit->letter == 'f') {
        items[at].flags = (uint16_t)edit->value;
    } else {
        instr_set_operand(&items[at], edit->letter, edit->value);
    }
}

static void expect_refused_in(enum list_name list, unsigned sliced, const struct edit *edit) {
    struct shape shape = {.schedule = "single",
                          .stages = 1,
                          .replicas = 2,
                          .micros = 2,
                          .buckets = 3,
                          .prefetch = 1,
                          .sliced = sliced};
    struct program *program = build(&shape, NULL);
    char log[512] = "";
    apply(&program->kinds[program->kind_of[0]].list[list], edit);
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE, "%s of %s %d: not refused", sliced_name(sliced),
                 instr_rows[edit->op].name, edit->number);
    cr_expect(strstr(log, edit->words), "%s, %s %d: '%s' not in: %s", sliced_name(sliced),
              instr_rows[edit->op].name, edit->number, edit->words, log);
    program_free(&program);
}

static void expect_refused(unsigned sliced, const struct edit *edit) {
    expect_refused_in(LIST_BODY, sliced, edit);
}

static const struct edit of_evaluation[] = {
    {DROP, INSTR_GATHER, 1, 0, 0, "the parameters of bucket 1 of stage 0 that it reads were not"},
    {TWICE, INSTR_GATHER, 0, 0, 0, "are whole"},
    {DROP, INSTR_FREE, 0, 0, 0, "its place holds bucket 2 (no FREE)"},
    {DROP, INSTR_FREE, 2, 0, 0,
     "the list eval ends with parameters that were not freed (bucket 0 of stage 0)"},
    {DROP, INSTR_F, 1, 0, 0, "segment 1 is next"},
    {SET, INSTR_F, 0, 'e', INSTR_ALL, "were not gathered"},
};

static const struct edit of_saving[] = {
    {DROP, INSTR_COLLECT, 1, 0, 0, "no COLLECT of bucket 1 of stage 0"},
    {SET, INSTR_COLLECT, 1, 'b', 0, "no COLLECT of bucket 1"},
    {SET, INSTR_COLLECT, 0, 'g', 0, "holds slices, no whole bucket"},
};

Test(sync_zero, refused_between_steps) {
    for (size_t i = 0; i < sizeof of_evaluation / sizeof of_evaluation[0]; i++)
        expect_refused_in(LIST_EVAL, ALL_SLICED, &of_evaluation[i]);
    for (size_t i = 0; i < sizeof of_saving / sizeof of_saving[0]; i++)
        expect_refused_in(LIST_SAVE, ALL_SLICED, &of_saving[i]);
    struct edit cut = {SET, INSTR_F, 0, 'e', 2, "forward has segments where"};
    expect_refused_in(LIST_EVAL, SLICED_STATE, &cut);
    expect_refused_in(LIST_BODY, SLICED_STATE, &cut);
}

static const struct edit of_state[] = {
    {DROP, INSTR_SCATTER, 1, 0, 0, "bucket 1 of stage 0 was not reduced"},
    {TWICE, INSTR_SCATTER, 0, 0, 0, "reduced already"},
    {SWAP_NEXT, INSTR_TIE, 0, 0, 0, "not whole (no TIE)"},
    {SET, INSTR_SCATTER, 0, 'h', 1, "gradient buffer 1 of 1"},
    {SET, INSTR_SCATTER, 0, 'f', INSTR_NEW, "another buffer alone"},
    {DROP, INSTR_GATHER, 2, 0, 0, "were not gathered (bucket 0 of stage 0)"},
    {DROP, INSTR_GATHER, 1, 0, 0, "were not gathered (bucket 1 of stage 0)"},
    {TWICE, INSTR_GATHER, 0, 0, 0, "are whole"},
    {SET, INSTR_GATHER, 0, 'b', 1, "are whole"},
    {SET, INSTR_NORM, 0, 'q', INSTR_ALL, "the norm's group is the world"},
};

static const struct edit of_gradients[] = {
    {DROP, INSTR_SCATTER, 1, 0, 0, "which was not scattered"},
    {TWICE, INSTR_SCATTER, 0, 0, 0, "not whole (no TIE)"},
    {SET, INSTR_SCATTER, 0, 'f', 0, "never started"},
    {SET, INSTR_SCATTER, 3, 'f', INSTR_NEW, "holds this bucket already"},
    {SET, INSTR_SCATTER, 0, 'g', 0, "holds slices"},
    {SET, INSTR_SCATTER, 0, 'h', 1, "a buffer of their own"},
    {SET, INSTR_SCATTER, 0, 'b', 2, "holds bucket 0"},
    {SET, INSTR_TIE, 1, 'b', 0, "is empty"},
    {SET, INSTR_B, 0, 'g', 0, "holds slices"},
    {SET, INSTR_STEP, 0, 'g', 1, "holds slices"},
    {SET, INSTR_B, 4, 'm', 0, "slot 0 does not hold micro-batch 0"},
};

static const struct edit of_params[] = {
    {DROP, INSTR_GATHER, 0, 0, 0, "the parameters of bucket 2 of stage 0 that it reads were not"},
    {TWICE, INSTR_GATHER, 0, 0, 0, "are whole"},
    {DROP, INSTR_FREE, 0, 0, 0, "its place holds bucket 2 (no FREE)"},
    {TWICE, INSTR_FREE, 0, 0, 0, "was not gathered"},
    {SET, INSTR_FREE, 0, 'b', 1, "its place holds bucket 2 (no FREE)"},
    {SWAP_NEXT, INSTR_F, 0, 0, 0, "not gathered"},
    {SET, INSTR_F, 0, 'e', 1, "segment 2 is next"},
    {DROP, INSTR_F, 1, 0, 0, "segment 1 is next"},
    {DROP, INSTR_B, 1, 0, 0, "is empty"},
    {SET, INSTR_GATHER, 1, 'b', 0, "its place holds bucket 2"},
};

Test(sync_zero, refused) {
    for (size_t i = 0; i < sizeof of_state / sizeof of_state[0]; i++)
        expect_refused(SLICED_STATE, &of_state[i]);
    for (size_t i = 0; i < sizeof of_gradients / sizeof of_gradients[0]; i++)
        expect_refused(SLICED_STATE | SLICED_GRADIENTS, &of_gradients[i]);
    for (size_t i = 0; i < sizeof of_params / sizeof of_params[0]; i++)
        expect_refused(SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS, &of_params[i]);
}

/* Whole sums need REDUCE, and what slices needs a header that says so. */
Test(sync_zero, the_header_says_what_is_sliced) {
    struct shape shape = {.schedule = "single",
                          .stages = 1,
                          .replicas = 2,
                          .micros = 1,
                          .buckets = 2,
                          .sliced = SLICED_STATE};
    char log[512] = "";
    struct program *program = build(&shape, NULL);
    program->sliced = 0;
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "nothing is sliced"), "%s", log);
    program_free(&program);
    program = build(&shape, NULL);
    struct instr_list *body = &program->kinds[program->kind_of[0]].list[LIST_BODY];
    for (int i = 0; i < body->count; i++) {
        if (body->items[i].op == INSTR_SCATTER) body->items[i].op = INSTR_REDUCE;
        if (body->items[i].op == INSTR_REDUCE) body->items[i].other = 0;
    }
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "SCATTER, not REDUCE"), "%s", log);
    program_free(&program);
}

/* The sums over replicas of each micro-batch come first: another header would be untrue. */
Test(sync_zero, the_order_of_sums_is_proved) {
    struct shape shape = {.schedule = "single",
                          .stages = 1,
                          .replicas = 2,
                          .micros = 2,
                          .buckets = 1,
                          .sliced = SLICED_STATE | SLICED_GRADIENTS};
    char log[512] = "";
    struct program *program = build(&shape, NULL);
    program->sum = SUM_REPLICA;
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "in the order \"sum replica\""), "%s", log);
    program_free(&program);
    shape.sliced = SLICED_STATE;
    program = build(&shape, NULL);
    program->sum = SUM_REPLICAS_FIRST;
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "in the order \"sum replicas-first\""), "%s", log);
    program_free(&program);
}
