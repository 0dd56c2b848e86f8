/* The executor: runs programs on a device. An engine is the executor of one plan; the training loop
 * is this engine, also for one device.
 *
 * There are three lifetimes. What belongs to a run survives a new plan: struct train_state. What
 * belongs to a plan is the engine: communicator, groups, channels, arrays, graphs with their
 * memory, what is under way. What belongs to a step is struct step (step.h).
 *
 * engine_open takes all memory the plan predicted; from then on steps allocate nothing. Each
 * instruction has one handler (handlers.h); an observer sees each of them with its times, which is
 * all that tracing, metrics and progress know. */
#ifndef EXEC_ENGINE_H
#define EXEC_ENGINE_H

#include "exec/chooser.h"
#include "exec/engine_clock.h"
#include "exec/results.h"
#include "exec/store.h"
#include "exec/train_state.h"
#include "plan/plan.h"

/* Local. How often `waited` is called in one run of a body or a drain, at most. */
int64_t engine_most_waits(const struct plan *plan, const struct instr_list *list);

/* What the model made of a batch of an evaluation: its output, of a classifier the scores before
 * softmax. All pointers are valid inside the call. */
struct engine_output {
    int64_t samples;
    const int64_t *sample_id; /* in order */
    const float *scores;      /* plain, [samples, rows, classes] */
    const int32_t *labels;    /* [samples, rows] */
    int64_t rows, classes;    /* of a sample */
};

/* Who asked for it. */
struct engine_sink {
    void *context;
    /* Local, may block: on the ranks with the stage of the output, in the order of this rank's
     * batches. NULL: none. */
    enum status (*output)(void *context, const struct engine_output *output);
    /* Collective: on all ranks, after each round but the last; so many samples are done in all. A
     * failure must be the same on all ranks. NULL: none. */
    enum status (*round)(void *context, int64_t samples);
};

struct engine;

/* How the ranks of a run meet. It survives a new plan, whose engine has another communicator. */
struct engine_meeting {
    void *context;
    /* Collective, blocking. Opens the communicator of a plan; NULL: there is one rank. */
    enum status (*open)(void *context, const struct plan *plan, struct comm **out);
    const struct engine_clock *clock;     /* of virtual time; NULL: the wall clock's */
    const struct engine_chooser *chooser; /* of replicas that choose whom they average with; NULL:
                                             all average, and numbers are dealt in order */
};

struct engine_config {
    const struct plan *plan;   /* outlives the engine */
    struct train_state *state; /* likewise */
    struct engine_meeting meeting;
    /* Local. What else must go well on this rank before memory is taken; NULL: nothing. */
    enum status (*prepare)(void *context);
    void *context;
};

/* Collective over the ranks, blocking. Communicator, memory, initial parameters and loaders for a
 * plan, at the step where the training is. Ranks fail together. *out is set also after a failure,
 * as far as it came: whom its communicator blames is asked before the caller closes it. */
enum status engine_open(const struct engine_config *config, struct engine **out);
/* Local. Accepts NULL, and clears it. */
void engine_close(struct engine **engine);
/* Collective, blocking, between steps. The training goes on with another plan of the same ranks and
 * the same model: drains, takes the values out of the engine, closes it and opens the other,
 * whose start list it runs. Running statistics are replica 0's from then on. STATUS_USAGE, and
 * nothing is changed, where no step of the plan begins with the sample that is next. After another
 * failure *engine is as far as it came. */
enum status engine_change_plan(struct engine **engine, const struct plan *plan);

/* Collective, blocking. Runs the start list: every rank has replica 0's parameters, optimizer
 * state, buffers and step from then on. */
enum status engine_start(struct engine *engine);
/* Collective, blocking. Runs the drain list, behind the last step. */
enum status engine_drain(struct engine *engine);

/* Local. What this rank asks for; told to all at the end of the step. */
void engine_ask(struct engine *engine, const struct step_request *request);
/* Collective, blocking. comm_agree of all its ranks. */
enum status engine_agree(struct engine *engine, enum status own);

/* Local. What the engine uses: it owns the communicator and the store, its opener the plan and the
 * state. What reading the training data has taken (all 0 where this rank reads none). */
struct comm *engine_comm(const struct engine *engine);
struct store *engine_store(struct engine *engine);
struct loader_spent engine_loading(const struct engine *engine);
const struct plan *engine_plan(const struct engine *engine);
struct train_state *engine_state(const struct engine *engine);

/* Local. The next step; how many steps are left. */
int64_t engine_next_step(const struct engine *engine);
int64_t engine_steps_left(const struct engine *engine);
/* Local, blocking. Moves to a step, which begins with the sample `next` (NULL: by the plan). */
void engine_seek(struct engine *engine, int64_t step, const struct train_position *next);

/* Local. Whether a failure was this rank's alone: others wait; the next learning rate. */
bool engine_failed_alone(const struct engine *engine);
double engine_lr(const struct engine *engine);

/* Collective. A step in two halves: enqueues the next one, beside which engine_ahead others may be
 * unfinished; blocks until the oldest of them is done. After a failure none is. */
enum status engine_enqueue(struct engine *engine);
enum status engine_finish(struct engine *engine, struct step_result *out);
int engine_ahead(const struct engine *engine);
int engine_unfinished(const struct engine *engine);
/* Collective, blocking. Both halves, of one step. STATUS_NUMERIC when a loss or gradient is not
 * finite: parameters are then unchanged; or when a parameter is not finite after the update.
 * Without clipping the update does not wait for the norm of the gradients, and a gradient that is
 * not finite may be found in the next step or by engine_settle: then nothing may be saved. */
enum status engine_step(struct engine *engine, struct step_result *out);

/* Collective, blocking, between steps. Finishes what the last step left under way: its norm is
 * known then, and parameters may be saved. Evaluating, saving and draining begin with it. */
enum status engine_settle(struct engine *engine);
/* Local. The norm of the gradients of a step, known at the end of the next one at the latest;
 * false: it is not known, or known no more. */
bool engine_norm(const struct engine *engine, int64_t step, double *out);
/* Local. All that is known of a step, once, in the order of steps: when its norm is known, and on
 * rank 0 also what all replicas have told of it; false: not yet, or no more. Other ranks than 0
 * know of some replicas alone where these do not meet (program_reports_apart). */
bool engine_row(struct engine *engine, int64_t step, struct step_row *out);

/* Collective, blocking. Forward over the whole test split, each sample exactly once. STATUS_NUMERIC
 * when the loss is not finite. */
enum status engine_evaluate(struct engine *engine, struct eval_result *out);
/* Collective, blocking. The same of a forward program (program_is_forward), which hands out what
 * the model made of each batch. Of labels that are all ignored the loss is 0. */
enum status engine_forward(struct engine *engine, const struct engine_sink *sink,
                           struct eval_result *out);
/* Local. The shape of what engine_forward hands out of a sample: rows and classes. */
void engine_output_shape(const struct plan *plan, int64_t *rows, int64_t *classes);
/* Local. Whether it is scores of classes, which labels are compared with. Models of a program's own
 * may have other outputs. */
bool engine_output_has_classes(const struct plan *plan);

/* Local, alike on all ranks. The samples that engine_apply takes at a time: the fewest of the
 * plan's sizes that hold so many, or the most there are. */
int64_t engine_apply_samples(const struct engine *engine, int64_t samples);
/* Collective, blocking, between steps. One forward pass over samples of the caller's, as evaluation
 * runs them: field[f] has so many of the data set's field f as engine_apply_samples says. The
 * output of the graph goes to `output`, plain, on the rank that makes it, of which *here tells. The
 * model has an output. */
enum status engine_apply(struct engine *engine, int64_t samples, void *const *field, void *output,
                         bool *here);

/* Collective, blocking. `data` of the first rank that has it to all. STATUS_NO, silent: none. */
enum status engine_share_bytes(struct engine *engine, bool has, void *data, size_t bytes);

/* Collective, blocking. Compares what two ranks of a pipeline share, optimizer state and all: one
 * of them saves it for both. STATUS_BUG where they differ. */
enum status engine_compare_copies(struct engine *engine);

/* Collective over the replicas of a stage, blocking, between steps. The parameters that this rank
 * answers for, by number in the graph, whole and plain, sliced or not: valid inside the call. */
typedef enum status engine_param_fn(void *context, int param, const void *plain);
enum status engine_each_param(struct engine *engine, engine_param_fn *visit, void *context);
/* The same: the content hash of these parameters; of the stages of a pipeline they are added. */
enum status engine_param_hash(struct engine *engine, uint64_t *out);

#endif
