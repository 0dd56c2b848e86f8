/* The run: steps, evaluations and checkpoints in order, until the end or a request to stop. */
#ifndef EXEC_TRAIN_H
#define EXEC_TRAIN_H

#include "exec/checkpoint.h"
#include "exec/exec.h"

struct train_observer {
    void *context;
    void (*step)(void *context, const struct step_result *result);
    /* `steps` are done so far. */
    void (*evaluated)(void *context, int64_t steps, const struct eval_result *result);
    /* Before a checkpoint is committed: whatever was told so far must be on disk. */
    enum status (*saving)(void *context, int64_t steps);
};

struct train_config {
    int64_t eval_every, save_every; /* steps; 0: never */
    bool eval_at_end;
    int64_t deadline_ns; /* of clock_ns(): save and stop then; 0: none */
    bool resume;
    struct checkpoint_config checkpoint;
};

struct train_result {
    int64_t first_step, steps; /* where this run began; steps done in all */
    bool evaluated;
    struct eval_result eval; /* the last one */
    enum stop_cause { STOP_END, STOP_SIGNAL, STOP_TIME } cause;
};

/* Local, blocking. Resumes where asked (saying so when there is nothing to resume), then trains to the end of the plan. A stop on
 * request saves first and is STATUS_STOPPED. */
enum status train_run_all(struct exec *exec, const struct train_config *config, const struct train_observer *observer,
                          struct train_result *out);

#endif
