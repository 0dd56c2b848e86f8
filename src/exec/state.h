/* The executor's state; private to src/exec. */
#ifndef EXEC_STATE_H
#define EXEC_STATE_H

#include "exec/exec.h"

/* Where the bytes of an input come from. */
enum input_source { INPUT_FIELD, INPUT_KEY, INPUT_SEED };

struct input_binding {
    enum input_source source;
    int index; /* of the field or the loss */
};

/* Addresses of every value of a micro_plan in one slot. */
struct binding {
    void **address;
};

/* A micro_plan with everything needed to run it. */
struct runnable {
    const struct micro_plan *plan;
    struct input_binding input[GRAPH_MAX_INPUTS];
    int label_field[GRAPH_MAX_LOSSES]; /* of the data set, per loss */
    struct binding *slot;              /* per activation slot */
};

struct slot {
    struct runnable *runnable; /* of the micro-batch it holds */
    int micro;
};

/* Sums over the micro-batches of a step or an evaluation. */
struct tally {
    double loss[GRAPH_MAX_LOSSES], labels[GRAPH_MAX_LOSSES];
    double right1, right5, ranked, samples;
};

/* What ranks tell one another at the end of a step. */
struct step_share {
    struct tally tally;
    struct exec_wish wish;
    double busy_ms; /* of this step, waiting for others left out */
};

struct exec {
    const struct plan *plan;
    struct exec_observer observer;
    struct store *store;
    struct runnable runnable[PLAN_MAX_MICRO];
    struct slot *slot;
    char *arena; /* the slots' arenas one behind the other, then the one they share */
    char *scratch;
    struct loader *train, *eval;
    const struct step_batch *batch; /* of the step under way, NULL between steps */
    int64_t step;
    float seed[GRAPH_MAX_LOSSES];
    struct tally tally;
    double grad_norm, lr;
    struct exec_times times;
    struct comm *comm;
    bool owns_comm;
    struct comm_group *stats;            /* all ranks once more, where statistics are shared: their
                                            exchanges must not queue behind reductions; else NULL */
    struct lane *lane;                   /* per replica, where one device shares their statistics */
    int lane_count;                      /* those that have come to the pass under way */
    struct comm_request **request;       /* per bucket: its reduction under way, or NULL */
    int pending;                         /* how many there are */
    enum status comm_status;             /* first failure of moving them on between nodes */
    struct exec_wish wish, agreed;       /* this rank's; all ranks' */
    struct step_share *shares;           /* of all ranks, at the last step */
    int64_t (*labels)[GRAPH_MAX_LOSSES]; /* of all ranks, in COUNT */
    double *rank_loss, *rank_ms;         /* per rank, for who watches */
    int64_t step_begin_ns;
};

/* Local. Points the inputs of a micro_plan at the samples of a micro-batch. */
void bind_inputs(struct exec *exec, struct runnable *runnable, int slot,
                 const struct micro_batch *samples);

/* Runs the nodes of a pass. `grad` < 0 where no gradients are made. Local, unless statistics are
 * shared: then collective and blocking, and exec->comm_status tells of a failure. The last two are
 * the part of a rank without samples in that. */
enum pass {
    PASS_FORWARD,
    PASS_BACKWARD,
    PASS_INPUT_HALF,
    PASS_WEIGHT_HALF,
    PASS_ABSENT_FORWARD,
    PASS_ABSENT_BACKWARD
};
struct pass_config {
    enum pass pass;
    int stage, segment; /* INSTR_ALL: all segments */
    int grad;
    bool fresh, pure;
    bool alone; /* exchange nothing: the other ranks are not here */
    /* Called after each node when not NULL; a true answer ends the pass. */
    bool (*after)(void *context, const struct runnable *runnable, int slot, int node);
    void *context;
};
void run_pass(struct exec *exec, struct runnable *runnable, int slot,
              const struct pass_config *config);

/* A pass of one replica among those that share statistics on one device. */
struct lane {
    const struct instr *instr;
    struct runnable *runnable;
    int slot, replica;
    struct pass_config config;
    int node, end; /* next node, and where the pass ends */
};
/* Local. Runs passes in lock step: each up to where statistics are shared, then all share, and so
 * on. */
void run_together(struct exec *exec, struct lane *lanes, int count);

/* Local. Adds the losses and counts of the forward pass in a slot. */
void tally_add(const struct runnable *runnable, int slot, const struct micro_batch *samples,
               struct tally *tally);
double tally_loss(const struct tally *tally, int losses);
/* Collective, blocking. Tells all ranks `mine`; fills exec->shares, and *sum with the tallies of
 * all, added in rank order. */
enum status share_all(struct exec *exec, const struct step_share *mine, struct tally *sum);

/* Collective, blocking, between steps. The bytes of rank 0 to all. */
enum status broadcast_bytes(struct exec *exec, void *data, size_t bytes);

/* Local. Moves reductions under way on; called between pieces of computation. */
void exec_progress(struct exec *exec);

/* Local. Runs an instruction. */
enum status handle_instr(struct exec *exec, const struct instr *instr);

/* Local. Logs which value was the first to be not finite in the step under way; returns
 * STATUS_NUMERIC. */
enum status numeric_failure(struct exec *exec, const char *what, double value);
/* Local. The same of an evaluation, and of a parameter after the step's update. */
enum status numeric_failure_of_evaluation(struct exec *exec, double loss);
enum status numeric_failure_of_update(struct exec *exec);

#endif
