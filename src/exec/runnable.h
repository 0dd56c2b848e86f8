/* What micro-batches run on; private to src/exec. */
#ifndef EXEC_RUNNABLE_H
#define EXEC_RUNNABLE_H

#include "exec/overlap.h"

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
    struct step *step;         /* of the micro-batch it holds */
    struct runnable *runnable; /* that this runs on; NULL: it has no samples */
    int micro;
    struct event *used;    /* by computation, last */
    struct step_note note; /* of the message that is sent */
};

#endif
