/* Where the operands of an instruction lie on this rank; private to src/exec. */
#ifndef EXEC_PLACES_H
#define EXEC_PLACES_H

#include "exec/state.h"
#include "program/ahead.h"

static inline int chunk_of(const struct engine *engine, const struct instr *instr) {
    return grid_chunk(&engine->plan->program->grid, instr->stage);
}

/* Slots are counted through all chunks. */
static inline int slot_index(const struct engine *engine, const struct instr *instr) {
    int chunk = chunk_of(engine, instr), slot = instr->slot;
    if (engine->plan->program->ahead > 0 && list_is_step(engine->list_name))
        slot = ahead_slot(engine->plan->program, &engine->plan->sizes[chunk], instr,
                          engine->list_step);
    return sizes_slot(engine->plan->sizes, chunk, slot);
}

static inline struct slot *slot_of(const struct engine *engine, const struct instr *instr) {
    return &engine->slot[slot_index(engine, instr)];
}

#endif
