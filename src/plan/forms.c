/* See forms.h. */
#include "plan/forms.h"

#include <stdlib.h>

#include "base/mem.h"

enum { KEPT_F = 1, LIGHT_F = 2 };

/* Adds how the forwards of a list use each slot. */
static void look(const struct grid *grid, const struct instr_list *list,
                 const struct chunk_sizes *sizes, unsigned *uses, bool *blocks) {
    for (int i = 0; i < list->count; i++) {
        const struct instr *instr = &list->items[i];
        if (instr->op != INSTR_F) continue;
        int slot = sizes_slot(sizes, grid_chunk(grid, instr->stage), instr->slot);
        uses[slot] |= instr->flags & INSTR_AGAIN ? LIGHT_F : KEPT_F;
        *blocks |= instr->flags & INSTR_BLOCK;
    }
}

/* A slot without a forward has what is there anyhow. */
struct slot_forms forms_of(const struct program *program, int rank, const struct chunk_sizes *sizes,
                           int chunks) {
    int count = sizes_slot(sizes, chunks, 0);
    struct slot_forms forms = {.of = MEM_ARRAY(enum slot_form, count + 1)};
    SCOPED_FREE unsigned *uses = MEM_ARRAY(unsigned, count + 1);
    for (int l = LIST_BODY; l <= LIST_LAST; l++)
        look(&program->grid, program_list(program, rank, (enum list_name)l), sizes, uses,
             &forms.blocks);
    for (int s = 0; s < count; s++) {
        forms.mixed |= uses[s] == (KEPT_F | LIGHT_F);
        forms.has[FORM_KEPT] |= uses[s] & KEPT_F;
        forms.has[FORM_LIGHT] |= uses[s] == LIGHT_F;
    }
    if (!forms.has[FORM_LIGHT]) forms.has[FORM_KEPT] = true;
    for (int s = 0; s < count; s++) {
        bool light = uses[s] == LIGHT_F || (!uses[s] && !forms.has[FORM_KEPT]);
        forms.of[s] = light ? FORM_LIGHT : FORM_KEPT;
    }
    return forms;
}

void forms_free(struct slot_forms *forms) {
    free(forms->of);
    *forms = (struct slot_forms){0};
}
