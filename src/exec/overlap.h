/* Steps that overlap (program/ahead.h): which of a body's instructions are run, whose step they
 * belong to, and what stages tell one another; private to src/exec.
 *
 * Stages do not meet at the end of a step. What ranks of other programs exchange there goes with
 * the messages between stages: losses and requests with the gradients to the first stage, and from
 * there what it has decided, that the pipeline is to be drained, with the activations to the
 * others. All ranks know beforehand where training pauses to evaluate or to save; what somebody
 * asks for in between (stop, save) makes it pause at the first step for which all stages can still
 * be told.
 *
 * On the wall clock the pipeline is empty at a pause, and is filled again behind it. In virtual
 * time a pause is an instant: what is left out before it takes its time as if it ran (its clock
 * does not know of the pause), and is run behind it, in no time. So nothing is computed twice, and
 * at a pause every rank has the parameters and running statistics of the same number on both
 * clocks. The alternative, to freeze the ranks where they are, would have to save half a step:
 * gradients that are half added up, operations under way, and inputs of passes that are no longer
 * there. */
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
    bool full,          /* the clock of virtual time has it filled, also where it is empty */
        silent;         /* filled behind a pause that is an instant: takes no time */
    struct step_request asked, /* by whom it is drained at `end` */
        own;                   /* by this rank since it was drained */
};

/* What goes with a message. */
struct step_note {
    int64_t end;               /* of the pipeline, as the sender knows */
    struct step_request asked; /* why */
    struct step_share share;   /* of gradients: of the stages from the sender's on */
    struct step_late late;     /* likewise, of the step before; behind it follows its late_ms */
};
_Static_assert(sizeof(struct step_note) <= PLAN_NOTE_BYTES, "a plan counts so much");

/* Local. Whether the body under way runs an instruction; where it does not: whether that takes its
 * virtual time here nevertheless, and is run later. The step that it belongs to, and the number of
 * its micro-batch there. */
bool overlap_runs(const struct engine *engine, const struct instr *instr);
bool overlap_pretends(const struct engine *engine, const struct instr *instr);
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
/* Local, between steps. The steps that are under way in virtual time: their forwards have begun. */
int64_t overlap_under_way(const struct engine *engine);

/* Local, asynchronous. Before a message is copied: what the device tells that goes with it, too. */
enum status overlap_read(struct engine *engine, const struct instr *instr);
/* Local. What goes with a message, in two pieces at most, and how many; of one that has come. */
int overlap_note(struct engine *engine, const struct instr *instr, struct comm_piece *pieces);
void overlap_take(struct engine *engine, const struct instr *instr, const char *notes,
                  size_t bytes);
/* Local. What this rank tells at REPORT; what follows from what was told. */
void overlap_share(struct engine *engine, struct step *step);
/* Local, behind a step. Tells rank 0 of the steps of which all is known; rank 0 decides. */
enum status overlap_tell(struct engine *engine, struct step *step);
/* Local, before a step, but for what another replica has not sent yet. What rank 0 has decided. */
enum status overlap_hear(struct engine *engine);
/* Collective behind a step that the pipeline ends with, blocking; else local. What of all that was
 * asked for holds now: step->agreed. */
enum status overlap_agree(struct engine *engine, struct step *step);

/* Local. A step begins, and nothing of other stages is known; the norm of all stages' gradients,
 * false: it is not known yet. On stages but the first it never is: NaN. */
void overlap_renew(struct engine *engine, struct step *step);
bool overlap_norm(const struct engine *engine, const struct step *step, double *out);
/* Collective, blocking, between steps. All ranks are told what of the last step would come with the
 * next one. */
enum status overlap_settle(struct engine *engine);

/* Local. Points the parameters of a pass at the version that it names. */
enum status overlap_bind(struct engine *engine, const struct instr *instr);
/* Local. Counts how many updates came between the forward of a step and its own. STATUS_BUG where
 * they are more than the program declares. */
enum status overlap_count(struct engine *engine, const struct step *step);

#endif
