/* What steps and evaluations come to. A part of engine.h. */
#ifndef EXEC_RESULTS_H
#define EXEC_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"
#include "program/instr.h"

/* Where the time of a step went. */
struct step_times {
    int64_t total_ns;
    int64_t of[TIME_COUNT]; /* by category; TIME_COMM: posting, adding, waiting; see hidden_ns */
    int64_t message_ns;     /* the part of TIME_COMM spent waiting for messages between stages */
    int64_t unsent_ns;      /* the part of message_ns before the message began to move */
    int64_t idle_ns;        /* the part of TIME_COMM in which nothing could move: unsent_ns, and the
                               waits until the slowest rank came to an operation of a group */
    int64_t hidden_ns;      /* other threads moved bytes for the rank: not in TIME_COMM */
};

/* What a rank asks for after the step under way; all ranks learn what any of them asks. */
struct step_request {
    int signal;         /* that asks for a stop; 0: none */
    bool save, time_up; /* a checkpoint; a stop because time is up */
};
/* Local. Whether it asks for anything; what one of them asks for is asked of both. */
static inline bool step_request_asks(const struct step_request *request) {
    return request->signal || request->save || request->time_up;
}
static inline void step_request_add(struct step_request *to, const struct step_request *from) {
    if (from->signal) to->signal = from->signal;
    to->save |= from->save;
    to->time_up |= from->time_up;
}

struct step_result {
    int64_t step, epoch, step_in_epoch; /* counted from 0 */
    int64_t samples, skipped;           /* of these, without a label that counts: damaged ones */
    double loss;                        /* mean over the labels of the step, all terms added */
    double acc1, acc5; /* of the first term that counts them; NaN: none does; acc5 of few classes */
    double lr;
    double grad_norm;  /* NaN: not known yet, see engine_norm */
    double loss_scale; /* see struct loss_scale; NaN: there is none */
    struct step_times times;
    struct step_request request; /* of all ranks together */
    int ranks;
    /* Per rank, until the end of the next step: mean loss, NaN: none; time without waiting. */
    const double *rank_loss, *rank_ms;
};

/* What is known of a step when all of its mini-batches are finished and the norm of their gradients
 * is known, too. */
struct step_row {
    int64_t step;                 /* counted from 0 */
    int64_t numbers, least, most; /* mini-batches done so far; by the last, the first replica */
    int64_t skipped;              /* as of a step */
    double loss, acc1, acc5, grad_norm;
    double group_size; /* mean of the groups that they averaged in; NaN: none is chosen */
    int64_t spread;    /* there: the most updates that a member lacked */
    int64_t at_ns;     /* when the last one was finished; 0: all meet then */
    int ranks;
    const double *rank_loss, *rank_ms; /* as of a step, until the next row */
};

struct eval_result {
    int64_t samples, skipped; /* as of a step */
    double loss, acc1, acc5;
    double term[GRAPH_MAX_LOSSES]; /* of the loss, in the graph's order */
    int64_t ns;
};

#endif
