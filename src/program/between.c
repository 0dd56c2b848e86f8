/* What ranks run between steps: evaluation and saving. The same for every schedule, since only
 * forward passes are run and nothing of a step is under way: a round is one micro-batch through all
 * stages, and the next round follows it without a meeting. */
#include "base/log.h"
#include "program/program.h"

static void add_evaluation(const struct program *program, int rank, struct rank_program *out) {
    struct grid_cell cell = grid_cell(&program->grid, rank);
    int chunks = cell.role == GRID_STAGE ? program->grid.chunks : 0;
    if (chunks > 0) program_add(out, LIST_EVAL, INSTR_LOAD);
    for (int c = 0; c < chunks; c++)
        program_add(out, LIST_EVAL, INSTR_F)->stage =
            (int16_t)grid_stage(&program->grid, cell.position, c);
    program_add(out, LIST_EVAL_END, INSTR_REPORT)->group = (int16_t)program_world(program);
}

static void add_save(const struct program *program, struct rank_program *out) {
    static const enum instr_op ops[] = {INSTR_OPEN, INSTR_WRITE, INSTR_COMMIT};
    for (int i = 0; i < 3; i++) {
        struct instr *instr = program_add(out, LIST_SAVE, ops[i]);
        if (ops[i] != INSTR_WRITE) instr->group = (int16_t)program_world(program);
    }
}

void program_add_between(const struct program *program, int rank, struct rank_program *out) {
    CHECK(program_world(program) >= 0, "no group of all ranks");
    add_evaluation(program, rank, out);
    add_save(program, out);
}
