/* Where the operands of an instruction lie on this rank; private to src/exec. */
#ifndef EXEC_PLACES_H
#define EXEC_PLACES_H

#include "exec/state.h"

static inline int chunk_of(const struct engine *engine, const struct instr *instr) {
    return grid_chunk(&engine->plan->program->grid, instr->stage);
}

/* Slots are counted through all chunks. */
static inline int slot_index(const struct engine *engine, const struct instr *instr) {
    return sizes_slot(engine->plan->sizes, chunk_of(engine, instr), instr->slot);
}

static inline struct slot *slot_of(const struct engine *engine, const struct instr *instr) {
    return &engine->slot[slot_index(engine, instr)];
}

#endif
