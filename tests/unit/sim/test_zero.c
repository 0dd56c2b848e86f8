/* Programs of sync policy zero in the simulator: what their operations move, and who awaits them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kit.h"
#include "program/schedule.h"
#include "sim/compile.h"
#include "sync/sync.h"

enum { BUCKETS = 3, REPLICAS = 2 };

static const int64_t bucket_bytes[BUCKETS] = {3000, 2000, 1000};
static const struct sim_stage stage = {.bucket_bytes = bucket_bytes};

static struct program *sliced_program(unsigned sliced) {
    struct schedule_config config = {
        .grid = {.stages = 1, .chunks = 1, .replicas = REPLICAS, .replicas_each = 1},
        .micro_batches = 1,
        .sum = SUM_REPLICA};
    struct program *program = NULL;
    struct sync_config sync = {.buckets = (int[]){BUCKETS}, .sliced = sliced};
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    cr_assert_eq(program_verify(program, NULL), STATUS_OK);
    return program;
}

static const unsigned stages_of_zero[] = {SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS,
                                          SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS};

static bool awaits(const struct sim_kind *kind, int at, int posted) {
    const struct sim_op *op = &kind->op[at];
    for (int i = 0; i < op->await_count; i++)
        if (kind->await[op->await_first + i].at == posted) return true;
    return false;
}

/* How many instructions await what is posted at a place of the body. */
static int awaited_by(const struct sim_kind *kind, int posted) {
    int count = 0;
    for (int i = 0; i <= kind->count; i++) count += awaits(kind, i, posted);
    return count;
}

/* Halves of an all-reduce. */
Test(sim_zero, scatters_and_gathers_move_their_bucket) {
    for (int s = 0; s < 3; s++) {
        struct program *program = sliced_program(stages_of_zero[s]);
        const struct instr_list *body = program_list(program, 0, LIST_BODY);
        struct sim_costs costs = {.stage = &stage};
        struct sim_kind kind;
        int found = 0;
        sim_kit_compile(program, &costs, &kind);
        for (int i = 0; i < body->count; i++) {
            const struct instr *instr = &body->items[i];
            if (instr->op != INSTR_SCATTER && instr->op != INSTR_GATHER) continue;
            found++;
            cr_expect(kind.op[i].action == SIM_POST && kind.op[i].reduces);
            cr_expect_float_eq(kind.op[i].bytes, (double)bucket_bytes[instr->bucket] / 2, 1e-9);
        }
        cr_expect_geq(found, 2 * BUCKETS);
        sim_kit_kind_free(&kind);
        program_free(&program);
    }
}

/* A scatter reads one buffer and writes another: whoever comes first to one of them awaits it. */
Test(sim_zero, each_is_awaited_once) {
    for (int s = 0; s < 3; s++) {
        struct program *program = sliced_program(stages_of_zero[s]);
        const struct instr_list *body = program_list(program, 0, LIST_BODY);
        struct sim_costs costs = {.stage = &stage};
        struct sim_kind kind;
        int norm = 0, last = -1;
        sim_kit_compile(program, &costs, &kind);
        for (int i = 0; i < body->count; i++) {
            const struct instr *instr = &body->items[i];
            if (instr->op == INSTR_NORM) norm = i;
            if (instr->op == INSTR_SCATTER) last = i;
            if (instr->op != INSTR_SCATTER && instr->op != INSTR_GATHER) continue;
            cr_expect_eq(awaited_by(&kind, i), 1, "instruction %d", i);
        }
        cr_expect(awaits(&kind, norm, last), "NORM reads what was not scattered");
        sim_kit_kind_free(&kind);
        program_free(&program);
    }
}

/* The first forward of the step, or the segment of it that reads a bucket. */
static int reader_of(const struct instr_list *body, int bucket) {
    int at = 0;
    while (body->items[at].op != INSTR_F ||
           (body->items[at].segment != INSTR_ALL && body->items[at].segment != bucket))
        at++;
    return at;
}

/* What is gathered behind STEP, and the norm, go on into the next step: F awaits the parameters it
 * reads, NORM the one before it, and the end of the step neither. */
Test(sim_zero, gathers_behind_the_update_are_awaited_in_the_next_step) {
    for (int s = 0; s < 2; s++) {
        struct program *program = sliced_program(stages_of_zero[s]);
        const struct instr_list *body = program_list(program, 0, LIST_BODY);
        struct sim_costs costs = {.stage = &stage};
        struct sim_kind kind;
        sim_kit_compile(program, &costs, &kind);
        for (int i = 0; i < body->count; i++) {
            const struct instr *instr = &body->items[i];
            if (instr->op == INSTR_GATHER)
                cr_expect(awaits(&kind, reader_of(body, instr->bucket), i) &&
                          !awaits(&kind, body->count, i));
            if (instr->op == INSTR_NORM)
                cr_expect(awaits(&kind, i, i) && !awaits(&kind, body->count, i));
        }
        cr_expect_eq(kind.left_count, BUCKETS + 1);
        sim_kit_kind_free(&kind);
        program_free(&program);
    }
}

/* A bucket that two stages share is summed over their ranks: all of it moves. */
Test(sim_zero, a_join_moves_its_bucket) {
    struct program_tie tie = {.stage = 0, .bucket = 2, .other = 1, .other_bucket = 0};
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 1, .replicas = 1, .replicas_each = 1},
        .micro_batches = 2,
        .sum = SUM_REPLICA,
        .buckets = (int[]){BUCKETS, BUCKETS},
        .ties = &tie,
        .tie_count = 1};
    struct program *program = NULL;
    struct sim_stage both[] = {stage, stage};
    struct sim_costs costs = {.stage = both, .exchange_bytes = 7};
    struct sim_kind kind;
    int joins = 0;
    cr_assert_eq(schedule_build("1f1b", &config, &program), STATUS_OK);
    sim_kit_compile(program, &costs, &kind);
    const struct instr_list *body = program_list(program, 0, LIST_BODY);
    for (int i = 0; i < body->count; i++) {
        if (body->items[i].op != INSTR_JOIN) continue;
        joins++;
        cr_expect(kind.op[i].reduces);
        cr_expect_float_eq(kind.op[i].bytes, (double)bucket_bytes[2], 1e-9);
    }
    cr_expect_eq(joins, 1);
    sim_kit_kind_free(&kind);
    program_free(&program);
}
