/* What ranks run between steps: evaluation and saving. The same for every schedule, since only
 * forward passes are run and nothing of a step is under way: a round is one micro-batch through all
 * stages, and the next round follows it without a meeting. A forward program is this evaluation
 * alone, and hands out what the model made, from the stage that makes it. */
#include "base/log.h"
#include "program/schedule.h"

static void add_pass(struct rank_program *out, enum instr_op op, int stage) {
    program_add(out, LIST_EVAL, op)->stage = (int16_t)stage;
}

static void add_message(const struct program *program, struct rank_program *out, enum instr_op op,
                        int stage, int other) {
    const struct grid *grid = &program->grid;
    if (other < 0 || other >= grid->stages * grid->chunks) return;
    struct instr *instr = program_add(out, LIST_EVAL, op);
    instr->stage = (int16_t)stage;
    instr->peer = grid_position(grid, other);
}

static void add_evaluation(const struct program *program, int output, int rank,
                           struct rank_program *out) {
    struct grid_cell cell = grid_cell(&program->grid, rank);
    int chunks = cell.role == GRID_STAGE ? program->grid.chunks : 0;
    for (int c = 0; c < chunks; c++) {
        int stage = grid_stage(&program->grid, cell.position, c);
        add_pass(out, INSTR_LOAD, stage);
        add_message(program, out, INSTR_RECV_F, stage, stage - 1);
        add_pass(out, INSTR_F, stage);
        add_message(program, out, INSTR_SEND_F, stage, stage + 1);
        if (stage == output && program_is_forward(program)) add_pass(out, INSTR_OUTPUT, stage);
    }
    program_add(out, LIST_EVAL_END, INSTR_REPORT)->group = (int16_t)program_world(program);
}

static void add_save(const struct program *program, struct rank_program *out) {
    static const enum instr_op ops[] = {INSTR_OPEN, INSTR_WRITE, INSTR_COMMIT};
    for (int i = 0; i < 3; i++) {
        struct instr *instr = program_add(out, LIST_SAVE, ops[i]);
        if (ops[i] != INSTR_WRITE) instr->group = (int16_t)program_world(program);
    }
}

void program_add_between(const struct schedule_config *config, const struct program *program,
                         int rank, struct rank_program *out) {
    CHECK(program_world(program) >= 0, "no group of all ranks");
    int last = program->grid.stages * program->grid.chunks - 1;
    add_evaluation(program, last - config->behind_output, rank, out);
    if (!program_is_forward(program)) add_save(program, out);
}
