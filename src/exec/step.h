/* What belongs to one step; private to src/exec.
 *
 * They are in a ring, since the norm of a step may still be under way while the next one runs.
 * Schedules whose steps overlap have a longer ring: slots and operations under way point to the
 * step they belong to. */
#ifndef EXEC_STEP_H
#define EXEC_STEP_H

#include "base/exact.h"
#include "exec/engine.h"

struct runnable;

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
    struct step_request request;
    double busy_ms; /* of this step, without waiting for others */
    double came_ms; /* likewise, but with waiting for messages */
};

/* Where steps overlap nobody waits at the end of a step: what later stages then knew comes with the
 * gradients of the next one. */
struct step_late {
    int64_t step;               /* whose it is; -1: nobody's */
    double squares[LOSS_PARTS]; /* of the gradients of these stages, as parts of losses */
};

/* ... and at the end of an evaluation, whose losses come from any number of batches. */
struct eval_share {
    struct step_share step;
    struct exact_sum loss[GRAPH_MAX_LOSSES];
};
_Static_assert(sizeof(struct eval_share) <= COMM_EXCHANGE_BYTES, "an exchange takes so much");

/* What the device tells of a step. It lies in the device's memory, and the host reads a copy once a
 * step; where memory is the host's there is one of both. */
struct step_told {
    /* By NORM: */
    struct exact_sum squares;       /* of this rank's gradients; to clip by, of all ranks' */
    struct optim_decision decision; /* of its update */
    /* By STEP: */
    int32_t bad; /* a parameter is not finite after it */
    /* By forward passes: */
    struct exact_sum losses; /* as they come: whether all are finite */
    struct loss_told {
        double sum, counts[3];  /* as the graph makes them */
    } loss[][GRAPH_MAX_LOSSES]; /* per micro-batch of the rank */
};
struct step_read {
    float seed[GRAPH_MAX_LOSSES]; /* of backward: 1 / labels of all ranks; for the device to read */
    struct step_told told;
};

/* The next step, the one under way or just done, and the one before, whose norm comes last. On a
 * device that is apart one rank enqueues more before it looks at the oldest. */
enum { STEP_RING = 3 };

struct step {
    int64_t number; /* counted from 0 */
    struct train_position begin;
    double lr;
    const struct step_batch *batch; /* its samples; NULL: not loaded */
    struct step_told *told;         /* device memory */
    struct step_read *read;         /* the host's, pinned */
    struct event *done;             /* behind the copy of what was told */
    const struct runnable **noted;  /* per micro-batch: whose losses were told and not read yet */
    int micros;                     /* of the rank */
    const struct instr *untold[2];  /* of what is told when the device is done: REPORT, NORM */
    int untold_count;
    int64_t own_labels[GRAPH_MAX_LOSSES],
        (*labels)[GRAPH_MAX_LOSSES]; /* this rank's; of all ranks */
    struct tally tally;
    struct exact_sum loss[GRAPH_MAX_LOSSES]; /* of the tally */
    struct exact_sum squares, *all_squares;  /* of this rank's gradients; of the group of NORM */
    double grad_norm;
    double loss_scale;                 /* of its seeds; 1: none */
    int64_t drawn;                     /* its number, where replicas draw them (rounds.h), and: */
    int members;                       /* of the group that it averaged in */
    int64_t spread;                    /* there: updates that the oldest lacked */
    bool left_out;                     /* its gradients are not finite, and nothing was updated */
    bool decided;                      /* what its NORM means for its STEP */
    bool normed;                       /* grad_norm is known */
    bool own_is_finite;                /* this rank's part of the norm */
    const char *bad_gradient;          /* one that is not finite; NULL: none */
    bool updated;                      /* its STEP has run */
    bool update_is_finite;             /* all parameters were finite after that */
    struct step_share share, *shares;  /* this rank's; of those that REPORT meets */
    struct step_share relayed;         /* where steps overlap: what later stages told */
    struct step_late late;             /* likewise, with the next step */
    double *late_ms;                   /* per rank: as rank_ms; NaN: not known yet */
    bool late_settled;                 /* all ranks know it of all */
    int64_t version;                   /* the oldest that its passes have read */
    const struct comm_group *reported; /* those; NULL: this rank alone, or nobody has reported */
    const struct grid *spoken; /* shares are those of all replicas' speakers; NULL: as above */
    struct step_request asked, agreed; /* by this rank; by any rank */
    double *rank_loss, *rank_ms;       /* per rank, for whoever watches */
    struct step_times times;
    int64_t begin_ns, end_ns;
    /* When the device ran its instructions: see device_times.h. */
    struct event *began;
    struct instr_times {
        const struct instr *instr;
        struct event *begin, *end;
    } * ran;
    int ran_count, ran_room;
};

/* Local. How many ranks have reported to this one, and which one member m of them is. */
int step_reports(const struct step *step);
int step_reporter(const struct step *step, int m, int own);

/* Local. Begins to count and to time it; also for an evaluation, which is counted likewise. */
void step_begin(struct step *step);
/* Local. Makes it the step of this number, of which nothing has run. */
void step_renew(struct step *step, int64_t number);

#endif
