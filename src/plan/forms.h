/* Forms of slots: what a slot keeps between forward and backward, told by the program of a run.
 *
 * A slot whose micro-batches all run a light F keeps what came into the stage, or into each block
 * of it; every other one keeps all that backward reads. They differ in memory, so each form has
 * placements of its own. */
#ifndef PLAN_FORMS_H
#define PLAN_FORMS_H

#include "program/program.h"

enum slot_form { FORM_KEPT, FORM_LIGHT, FORM_COUNT };

struct slot_forms {
    enum slot_form *of; /* per slot, through all chunks */
    bool has[FORM_COUNT];
    bool mixed;  /* a slot of the form kept has micro-batches with a light F, too */
    bool blocks; /* what is light is made again block by block */
};

/* Local. The forms of a rank's slots, of which there are as many as `sizes` says. The caller frees
 * the result with forms_free. */
struct slot_forms forms_of(const struct program *program, int rank, const struct chunk_sizes *sizes,
                           int chunks);
void forms_free(struct slot_forms *forms);

#endif
