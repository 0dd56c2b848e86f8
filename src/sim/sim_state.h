/* The simulator's state; private to src/sim. run.c advances ranks; wires.c has what they meet in:
 * channels and groups. */
#ifndef SIM_SIM_STATE_H
#define SIM_SIM_STATE_H

#include "sim/compile.h"
#include "sim/share.h"
#include "sync/controller.h"

#define SIM_UNKNOWN (-1.0)

/* What a rank knows of something it posted. */
union sim_place {
    double end; /* of a send: when its buffer is free again, or SIM_UNKNOWN */
    int64_t
        number; /* of a receive or an operation: which one of its channel or group; -1: none yet */
};

/* The instruction whose end let something begin. */
struct sim_cause {
    int32_t run, at;
    bool before; /* in the step before */
};

struct sim_state {
    const struct sim_kind *kind;
    const struct instr
        *items; /* the list that it runs, whose first one is `items_at` of the kind */
    int32_t items_at;
    double clock, slowness;
    int32_t at, awaited; /* next instruction; how many of its awaits are settled */
    int32_t step;
    int64_t number;    /* of its mini-batch, where runs draw them; and: */
    bool begun, ended; /* it has a number for its step; there is none any more */
    bool met, queued;  /* has come to what it waits for there; is in the list of those to run */
    struct sim_cause cause;
    union sim_place *place;
    int32_t posted[PROGRAM_MAX_GROUPS];
    int32_t next_waiting; /* at the same group; -1: the last */
    int32_t channels;     /* the first of its pipeline's */
    int32_t group[PROGRAM_MAX_GROUPS];
    double first, last, exposed, waits;
    double busy;               /* by laws, in the step */
    struct sim_record *record; /* of the last step; NULL */
};

struct sim_message {
    double begin, time; /* transfer begins; it was posted, once it has begun: it arrives */
    int32_t place, at;  /* of the sender */
    double bytes;
    struct sim_cause cause; /* of its begin */
};

/* Messages of a cut in one direction, in one pipeline. */
struct sim_wire {
    double latency, per_byte, free_at;
    int32_t sender, receiver;
    int64_t posted, begun, received, taken;
    struct sim_message *ring; /* of a power of two */
    double *taken_at;         /* the last ones, as many as there are credits */
    struct sim_cause *taken_by;
    int64_t mask;
    bool sender_waits, receiver_waits;
};

struct sim_meeting {
    double latest, begin, end;
    int32_t arrived;
    struct sim_cause last;
};
struct sim_group {
    struct cost_link link;
    int32_t size, members; /* ranks; those that are run */
    int32_t waiting;       /* the first that waits here; -1: none */
    double free_at;
    int64_t opened, done;
    struct sim_meeting *ring;
    int64_t mask;
};

/* What a run has asked for, at its clock. */
struct sim_asked {
    bool asks;
    double at;
    int64_t index; /* of its replica's mini-batch */
};

/* See choices.h. */
struct sim_choices {
    struct controller *controller;   /* NULL: no group is chosen */
    struct sim_asked *asked, *drawn; /* per run: for a group; for a number */
    bool *waits;                     /* per run: for either */
    double *formed_at;               /* per key and replica: its newest group */
    struct sim_chosen *chosen;       /* per position and first member */
    bool draws;                      /* runs draw their numbers themselves */
    double *finish;                  /* then: per number */
    int64_t groups, members;         /* formed so far */
};

struct sim {
    const struct sim_input *input;
    struct sim_share share;
    struct sim_kind *kind;
    int kind_count;
    struct sim_op *op; /* of all kinds */
    struct sim_await *await;
    struct sim_state *run;
    struct sim_wire *wire;
    int wire_count, wires_each; /* in all; of a pipeline */
    struct sim_group *group;
    int group_count;
    struct sim_choices choices;
    int32_t *ready; /* runs that may go on */
    int ready_count;
    double *step_end; /* per step: the latest of all runs */
    int64_t instructions;
};

/* Local. Lets a run go on. */
static inline void sim_wake(struct sim *sim, int32_t run) {
    if (sim->run[run].queued) return;
    sim->run[run].queued = true;
    sim->ready[sim->ready_count++] = run;
}

/* Local. Makes the ranks that must be run, with their kinds, channels and groups; frees them. */
void sim_open(const struct sim_input *input, struct sim *sim);
void sim_shut(struct sim *sim);
/* Local. One await of the run's instruction; the instruction itself, behind them. False: it waits
 * for a time that is not known yet, and is to be asked for again when the run is woken. */
bool sim_settle(struct sim *sim, int32_t run, const struct sim_await *await);
bool sim_perform(struct sim *sim, int32_t run, const struct sim_op *op);
/* Local. The part of sim_perform in which the run comes to an operation that it waits for. */
void sim_come(struct sim *sim, int32_t run, const struct sim_op *op);

/* Local. Channels and groups of the runs, which are there already with their kinds. */
void sim_wires_new(struct sim *sim);
void sim_wires_free(struct sim *sim);

/* Local. A send; a receive is told its number. */
void sim_send(struct sim *sim, int32_t run, const struct sim_op *op);
/* Local. The message that a receive waits for, or NULL where it has not begun yet: the run is woken
 * then. */
const struct sim_message *sim_arrival(struct sim *sim, int32_t wire, int64_t number);
/* Local. The receiver has taken a message out, at its clock: a credit comes back. */
void sim_take(struct sim *sim, int32_t run, int32_t wire);

/* Local. Posts the run's instruction to a group; returns its number there. */
int64_t sim_arrive(struct sim *sim, int32_t run, const struct sim_op *op);
/* Local. The meeting, or NULL where it is not complete yet: the run is woken then. */
const struct sim_meeting *sim_meeting(struct sim *sim, int32_t run, int32_t group, int64_t number);

#endif
