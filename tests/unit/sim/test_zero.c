/* Programs of sync policy zero in the simulator: what their operations move, and who awaits them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"
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

static void compile(const struct program *program, const struct sim_costs *costs,
                    struct sim_kind *out) {
    int64_t room = sim_room(program, 0);
    sim_compile(program, 0, costs, MEM_ARRAY(struct sim_op, room),
                MEM_ARRAY(struct sim_await, 2 * room), out);
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
        compile(program, &costs, &kind);
        for (int i = 0; i < body->count; i++) {
            const struct instr *instr = &body->items[i];
            if (instr->op != INSTR_SCATTER && instr->op != INSTR_GATHER) continue;
            found++;
            cr_expect(kind.op[i].action == SIM_POST && kind.op[i].reduces);
            cr_expect_float_eq(kind.op[i].bytes, (double)bucket_bytes[instr->bucket] / 2, 1e-9);
        }
        cr_expect_geq(found, 2 * BUCKETS);
        free((void *)kind.op);
        free((void *)kind.await);
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
        compile(program, &costs, &kind);
        for (int i = 0; i < body->count; i++) {
            const struct instr *instr = &body->items[i];
            if (instr->op == INSTR_NORM) norm = i;
            if (instr->op == INSTR_SCATTER) last = i;
            if (instr->op != INSTR_SCATTER && instr->op != INSTR_GATHER) continue;
            cr_expect_eq(awaited_by(&kind, i), 1, "instruction %d", i);
        }
        cr_expect(awaits(&kind, norm, last), "NORM reads what was not scattered");
        free((void *)kind.op);
        free((void *)kind.await);
        program_free(&program);
    }
}
