/* What micro-batches run on, and what is counted of them; private to src/exec. */
#ifndef EXEC_RUNNABLE_H
#define EXEC_RUNNABLE_H

#include "base/exact.h"
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
    struct binding *slot;              /* per activation slot, through all chunks */
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

/* Losses are summed exactly: the total does not depend on who ran which micro-batch, nor on their
 * order. A step's go to other ranks in parts, which are a tenth of the bytes and as exact: losses
 * of one step do not lie 2^150 apart. */
enum { LOSS_PARTS = 4 };

/* What ranks tell one another at the end of a step. */
struct step_share {
    struct tally tally;
    double loss[GRAPH_MAX_LOSSES][LOSS_PARTS];
    struct exec_request request;
    double busy_ms; /* of this step, waiting for others left out */
    double came_ms; /* likewise, the waiting for messages not left out */
};

/* ... and at the end of an evaluation, whose losses come from any number of batches. */
struct eval_share {
    struct step_share step;
    struct exact_sum loss[GRAPH_MAX_LOSSES];
};
_Static_assert(sizeof(struct eval_share) <= COMM_EXCHANGE_BYTES, "an exchange takes so much");

#endif
