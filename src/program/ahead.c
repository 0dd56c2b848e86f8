/* See ahead.h. */
#include "program/ahead.h"

static bool has_micro(const struct instr *instr) {
    return strchr(instr_row(instr)->operands, 'm') && instr->micro > 0;
}

int64_t ahead_step(const struct program *program, const struct instr *instr, int64_t step) {
    if (program->ahead == 0 || !has_micro(instr)) return step;
    return step + instr->micro / program->micro_batches;
}

int ahead_micro(const struct program *program, const struct instr *instr) {
    return program->ahead == 0 ? instr->micro : instr->micro % program->micro_batches;
}

/* Bodies before the first step have negative numbers. */
int ahead_slot(const struct program *program, const struct chunk_sizes *sizes,
               const struct instr *instr, int64_t step) {
    if (program->ahead == 0) return instr->slot;
    int64_t turned = (instr->slot + step * program->micro_batches) % sizes->slots;
    return (int)(turned < 0 ? turned + sizes->slots : turned);
}

bool ahead_runs(const struct program *program, const struct instr *instr, int64_t step,
                int64_t first, int64_t end) {
    int64_t of = ahead_step(program, instr, step);
    return of >= first && of < end;
}
