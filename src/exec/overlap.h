/* Steps that overlap (program/ahead.h): which of a body's instructions are run, whose step they
 * belong to, and what stages tell one another; private to src/exec.
 *
 * Stages do not meet at the end of a step. What ranks of other programs exchange there goes with
 * the messages between stages: losses and requests with the gradients to the first stage, and from
 * there what it has decided, that the pipeline is to be drained, with the activations to the
 * others. All ranks know beforehand where training pauses to evaluate or to save; what somebody
 * asks for in between (stop, save) makes it pause at the first step for which all stages can still
 * be told. */
#ifndef EXEC_OVERLAP_H
#define EXEC_OVERLAP_H

#include "exec/step.h"

struct instr;
struct engine;

/* Where the pipeline is. */
struct overlap_run {
    int64_t first, end; /* steps from `first` on are run, but not `end`: it is drained then */
    int64_t pause;      /* where training pauses next, so far as it is known beforehand */
    int fill;           /* of a body that fills it: how many steps it is before `first` */
    struct step_request asked, /* by whom it is drained at `end` */
        kept;                  /* came too late for this time */
};

/* What goes with a message. */
struct step_note {
    int64_t end;               /* of the pipeline, as the sender knows */
    struct step_request asked; /* why */
    struct step_share share;   /* of gradients: of the stages from the sender's on */
};
_Static_assert(sizeof(struct step_note) <= PLAN_NOTE_BYTES, "a plan counts so much");

/* Local. Whether the body under way runs an instruction; the step that it belongs to, and the
 * number of its micro-batch there. */
bool overlap_runs(const struct engine *engine, const struct instr *instr);
struct step *overlap_step(struct engine *engine, const struct instr *instr);
int overlap_micro(const struct engine *engine, const struct instr *instr);
/* Local. The number of that step, for whoever watches; of the list's own step where none overlap,
 * also between lists. */
int64_t overlap_number(const struct engine *engine, const struct instr *instr);

/* Local, alike on all ranks. Training pauses behind so many steps, if not before. */
void engine_pause(struct engine *engine, int64_t step);
/* Collective, blocking. Where the pipeline is empty before the step: fills it. */
enum status overlap_fill(struct engine *engine);
/* Local. Nothing is in the pipeline any more: a failure, or a step that was sought. */
void overlap_empty(struct engine *engine);

/* Local. Of a message that is sent or has come. */
struct step_note *overlap_note(struct engine *engine, const struct instr *instr);
void overlap_take(struct engine *engine, const struct instr *instr, const struct step_note *note);
/* Local. What this rank tells at REPORT; what follows from what was told; what of it holds for
 * whoever trains, behind the step. */
void overlap_share(const struct engine *engine, struct step *step);
void overlap_decide(struct engine *engine, const struct step *step);
struct step_request overlap_request(const struct engine *engine, const struct step *step);

/* Local. Points the parameters of a pass at the version that it names. */
enum status overlap_bind(struct engine *engine, const struct instr *instr);
/* Local. Counts how many updates came between the forward of a step and its own. STATUS_BUG where
 * they are more than the program declares. */
enum status overlap_count(struct engine *engine, const struct step *step);

#endif
