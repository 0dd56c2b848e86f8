/* What the verifier proves of passes in segments, where replicas hold slices: whose a kept bucket
 * is, the order of running statistics, what may stand between segments. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "program/schedule.h"
#include "sync/sync.h"

struct shape {
    const char *schedule;
    int stages, micros, buckets;
    bool kept;
    unsigned sliced;
};

/* Two replicas, gathering two buckets ahead. */
static struct program *build(const struct shape *shape) {
    struct schedule_config config = {
        .grid = {.stages = shape->stages, .chunks = 1, .replicas = 2, .replicas_each = 1},
        .micro_batches = shape->micros,
        .sum = SUM_REPLICA};
    const int buckets[] = {shape->buckets, shape->buckets}, prefetch[] = {2, 2};
    const bool kept[] = {shape->kept, shape->kept};
    struct sync_config sync = {
        .buckets = buckets, .sliced = shape->sliced, .kept = kept, .prefetch = prefetch};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(shape->schedule, &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    return program;
}

static int find(const struct instr_list *body, enum instr_op op, int number) {
    int at = 0;
    for (; at < body->count; at++)
        if (body->items[at].op == op && number-- == 0) break;
    cr_assert_lt(at, body->count);
    return at;
}

/* Which of its kind is moved, behind which. */
struct put_behind {
    enum instr_op op;
    int number;
    enum instr_op behind;
    int behind_number;
};

static void put_behind(struct instr_list *body, const struct put_behind *move) {
    int from = find(body, move->op, move->number),
        to = find(body, move->behind, move->behind_number);
    struct instr moved = body->items[from], *items = body->items;
    if (from < to) {
        memmove(items + from, items + from + 1, (size_t)(to - from) * sizeof moved);
        items[to] = moved;
    } else {
        memmove(items + to + 2, items + to + 1, (size_t)(from - to - 1) * sizeof moved);
        items[to + 1] = moved;
    }
}

static enum status verify_moved(const struct shape *shape, int rank, const struct put_behind *moves,
                                int count, char log[512]) {
    struct program *program = build(shape);
    struct instr_list *body = &program->kinds[program->kind_of[rank]].list[LIST_BODY];
    for (int i = 0; i < count; i++) put_behind(body, &moves[i]);
    memset(log, 0, 512);
    log_capture(log, 512);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    program_free(&program);
    return status;
}

static const struct shape with_kept = {
    "gpipe", 1, 2, 3, true, SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS};

/* All segments of a pass make its gradients: the next pass would write into them before they are
 * scattered. */
Test(sync_zero_segments, a_kept_bucket_is_one_pass_s_from_its_first_segment_on) {
    char log[512];
    static const struct put_behind late[] = {{INSTR_TIE, 2, INSTR_B, 3},
                                             {INSTR_SCATTER, 2, INSTR_TIE, 2}},
                                   early[] = {{INSTR_TIE, 2, INSTR_B, 0}};
    cr_expect_eq(verify_moved(&with_kept, 0, NULL, 0, log), STATUS_OK, "%s", log);
    cr_expect_eq(verify_moved(&with_kept, 0, late, 2, log), STATUS_USAGE);
    cr_expect(strstr(log, "still holds gradients"), "%s", log);
    cr_expect_eq(verify_moved(&with_kept, 0, early, 1, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 30 at"), "%s", log);
    cr_expect(strstr(log, "segments that make the kept bucket are to come"), "%s", log);
}

Test(sync_zero_segments, segments_start_a_kept_bucket_alike) {
    char log[512] = "";
    struct shape whole = with_kept;
    whole.sliced = SLICED_STATE | SLICED_PARAMS;
    struct program *program = build(&whole);
    struct instr_list *body = &program->kinds[program->kind_of[0]].list[LIST_BODY];
    body->items[find(body, INSTR_B, 3)].flags ^= INSTR_NEW; /* the second micro-batch's first */
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "still holds gradients"), "%s", log);
    body->items[find(body, INSTR_B, 3)].flags ^= INSTR_NEW;
    body->items[find(body, INSTR_B, 1)].flags ^= INSTR_NEW;
    memset(log, 0, sizeof log);
    log_capture(log, sizeof log);
    cr_expect_eq(program_verify(program, NULL), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "one segment starts the kept bucket"), "%s", log);
    program_free(&program);
}

/* Each segment has statistics of its own. */
Test(sync_zero_segments, running_statistics_see_micro_batches_in_order_in_every_segment) {
    char log[512];
    static const struct put_behind last[] = {{INSTR_F, 2, INSTR_F, 5}};
    struct shape shape = with_kept;
    shape.sliced = SLICED_STATE | SLICED_PARAMS;
    cr_expect_eq(verify_moved(&shape, 0, last, 1, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 9 at "), "%s", log);
    cr_expect(strstr(log, "saw micro-batch 1 before it"), "%s", log);
}

/* What was made is sent whenever: W reads none of it. */
Test(sync_zero_segments, messages_may_stand_between_segments_of_weights) {
    char log[512];
    static const struct put_behind later[] = {{INSTR_SEND_B, 0, INSTR_W, 0}};
    struct shape shape = {"zb-h1", 2, 1, 2, false, SLICED_STATE};
    cr_expect_eq(verify_moved(&shape, 1, later, 1, log), STATUS_OK, "%s", log);
}
