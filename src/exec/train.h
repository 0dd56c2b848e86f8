/* The run: steps, evaluations and checkpoints in order, until the end or a request to stop. */
#ifndef EXEC_TRAIN_H
#define EXEC_TRAIN_H

#include "exec/checkpoint.h"
#include "exec/engine.h"

struct train_observer {
    void *context;
    /* Begins what is no step, on every rank: "EVAL", "SAVE". */
    void (*starting)(void *context, const char *what, int64_t steps);
    void (*step)(void *context, const struct step_result *result);
    /* All of a step, once, in the order of steps, behind `step` of it. Where all replicas meet:
     * before `step` of the next one; else it may be any number of steps later. A step that is not
     * told of is not done: STATUS_NUMERIC follows. */
    void (*row)(void *context, const struct step_row *row);
    /* `steps` are done so far. */
    void (*evaluated)(void *context, int64_t steps, const struct eval_result *result);
    /* Before a checkpoint is committed: whatever was told so far must be on disk. */
    enum status (*saving)(void *context, int64_t steps);
};

struct train_config {
    int64_t eval_every, save_every; /* steps; 0: never */
    bool eval_at_end;
    int64_t deadline_ns; /* of clock_ns(): save and stop then; 0: none */
    struct checkpoint_config checkpoint;
    /* Collective, alike on all ranks: asked before a step for another plan to go on with, which
     * must outlive the engine; *out stays NULL: the same. NULL: there is one plan. */
    enum status (*next_plan)(void *context, int64_t steps, const struct plan **out);
    /* Local. The first step behind `steps` before which it can have one. NULL: any. */
    int64_t (*plan_until)(void *context, int64_t steps);
    /* Local. The engine has another plan, which took so long. NULL: nobody asks. */
    enum status (*plan_changed)(void *context, int64_t steps, int64_t ns);
    void *context;
};

struct train_result {
    int64_t first_step, steps; /* where this run began; steps done in all */
    bool evaluated;
    bool begun, saved;       /* saved: there is a checkpoint that this run wrote or resumed from */
    struct eval_result eval; /* the last one */
    enum stop_cause { STOP_END, STOP_SIGNAL, STOP_TIME } cause;
    int signal; /* of STOP_SIGNAL */
};

/* Collective, blocking, between steps that are settled. The norms of blocks so far, of all ranks,
 * to the state. */
enum status engine_gather_norms(struct engine *engine);

/* Collective, blocking. Virtual time goes on with the plan of the engine: see engine_clock.h. */
enum status engine_follow_clock(struct engine *engine, bool changes);

/* Collective, blocking. Trains from where the engine is to the end of its plan, or of the plans
 * that follow: *engine is that of the last one. A stop on request saves first and is
 * STATUS_STOPPED. `out` is filled in either case. */
enum status train_all(struct engine **engine, const struct train_config *config,
                      const struct train_observer *observer, struct train_result *out);

#endif
