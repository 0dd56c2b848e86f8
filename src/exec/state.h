/* The engine's state; private to src/exec. */
#ifndef EXEC_STATE_H
#define EXEC_STATE_H

#include "base/clock.h"
#include "exec/engine.h"
#include "exec/law.h"
#include "exec/mail.h"
#include "exec/overlap.h"
#include "exec/pass.h"
#include "exec/posted.h"
#include "exec/rounds.h"
#include "exec/runnable.h"
#include "exec/speakers.h"
#include "exec/trail.h"

/* Where BCAST or STATS_ALL (statistics) is: the array, its bytes done and under way, whether these
 * have come and the staging is being released; the most that was ever under way. */
struct broadcast_run {
    bool active, statistics, releasing;
    int array;
    int giver;  /* the member that gives: of a mean all do, in turn */
    float *sum; /* of a mean: of those so far */
    size_t done, piece, most;
    struct train_place first; /* of BCAST: where the first member is */
    struct train_place *all;  /* of all members, while they are exchanged */
};

/* The message of CALL. */
struct call {
    int64_t step;
    int32_t stage, micro, what; /* operands and flags */
};

/* Streams: of computation, of copies for the communicator, of LOAD, of the plane. */
enum engine_stream { STREAM_COMPUTE, STREAM_COMM, STREAM_LOAD, STREAM_MOVE, STREAM_COUNT };

struct engine {
    const struct plan *plan;
    struct train_state *state; /* of the run */
    struct engine_meeting meeting;
    struct comm *comm;
    struct comm_group *group[PROGRAM_MAX_GROUPS]; /* of the program; NULL: this rank is in none */
    struct plane *plane; /* moves data between devices; NULL: the host's memory does */
    struct plane_group *moves[PROGRAM_MAX_GROUPS]; /* as `group` */
    struct mail mail;                              /* messages between devices */
    struct comm_channel **channel; /* per cut of the model and direction; NULL: not an end */
    struct comm_channel **calls;   /* per position: from the driver; NULL: not an end */
    struct store *store;
    struct runnable runnable[PLAN_MAX_MICRO];
    struct slot *slot;
    char *arena, *scratch; /* the slots' arenas one behind the other, then the one they share */
    struct loader *train, *eval;

    /* The device. */
    bool apart; /* its memory is its own, and work is done later */
    struct stream *stream[STREAM_COUNT];
    struct event *computed; /* recorded anew by queues_follow */
    bool copied;            /* something was enqueued for the communicator since it was cleared */
    char *told;             /* of all steps, and `stop` behind them */
    int32_t *stop;          /* a norm was not finite: nothing is updated any more */
    struct event *origin, *kernel_at[2], *before; /* before: of the step told of last, at: */
    int64_t before_ns;
    struct trail trail;
    char *exchanged; /* pinned: the host's end of an exchange of statistics */
    char **sent;     /* pinned: per channel, messages on their way, one a slot */

    struct step *ring, *step;   /* `step`: under way, or the next one */
    int ring_count, unfinished; /* how many there are; steps before `step` not finished */
    int64_t finished_ns;        /* when the last one was */
    struct overlap_run overlap;
    struct rounds_run rounds;
    struct speakers *speakers; /* where replicas do not meet; else NULL */

    /* The list being run. */
    const struct instr_list *list;
    enum list_name list_name;
    const struct engine_observer *watcher; /* of training; for other lists nobody */
    struct engine_observer position;       /* the part of it that looks where the rank is */
    int64_t list_step;                     /* the step that was next, or is filled for */
    int at;                                /* its next instruction */
    bool ended_step;  /* a step was the last list, all of it, and nobody has settled since */
    int64_t begin_ns; /* when that one began to run; 0: not yet */
    int64_t now_ns;   /* when the one before it ended, or what it awaited */
    bool begun;       /* whoever watches was told of that one */
    struct comm_request **awaiting;  /* what it waits for; NULL: it can go on */
    const struct instr *awaited;     /* who posted that */
    const struct posted *awaited_at; /* where it is kept; NULL: in `request` */
    struct comm_request *request;    /* of a pass, a broadcast or a save under way */
    struct plane_request *moving;    /* likewise, of the plane */
    bool met;                        /* at MEET, CALL or SERVE, and waits for the others */
    struct pass_run pass;
    struct pass_run *lockstep; /* per replica, where one device shares their statistics */
    int lockstep_count;        /* those that have come to the pass under way */
    struct broadcast_run broadcast;
    struct exact_sum *norms;   /* of blocks, on the device; NULL: nobody asks */
    int norms_group;           /* of the program, which NORM meets */
    struct law_run law;        /* of --hetero */
    struct comm_piece *pieces; /* room for the tensors of one message */
    struct call call;          /* being sent */
    uint64_t call_number;      /* of the message awaited */

    /* What is under way beside it. */
    struct resource_map map; /* numbers the buffers of this rank */
    struct posted *posted;   /* per buffer */
    int under_way;           /* how many operations there are in all */
    struct posted_queue leaving, closing;
    struct posted *posting;  /* being posted now; NULL: none */
    enum status comm_status; /* first failure of moving operations on between nodes */
    bool failed_alone;       /* as engine_failed_alone */

    /* Of evaluations and checkpoints, between steps. */
    const struct engine_sink *sink;             /* of OUTPUT; NULL: nobody asked */
    float *scores;                              /* plain, where they lie otherwise; else NULL */
    struct eval_share eval_share, *eval_shares; /* this rank's; of all ranks */
    char *own_statistics; /* while another rank's stand in for them; NULL: they do not */
    /* All replicas that train apart have the same parameters, the same statistics, since the last
     * average: the mean is what each has, to the last bit. */
    bool same_params, same_statistics;
    bool own_read, common_read; /* from a checkpoint: what this replica alone has, or all had */
    struct saving *saving;      /* NULL: no checkpoint is being saved */
};

/* Local, alike on all ranks. STATUS_USAGE where no step of a plan begins with that sample. */
enum status engine_check_place(const struct train_position *next, const struct plan *plan);
/* Local. Makes the next step the one where the training is; the loader is not moved. */
void engine_find_place(struct engine *engine);
/* Collective, blocking. Of the values that the state brings, those that this rank holds. */
enum status engine_take_values(struct engine *engine);

/* Local. Where the bytes of input `index` of a micro_plan are, on the host. */
const void *bound_source(const struct step *step, const struct runnable *runnable, int index,
                         const struct micro_batch *samples);
/* Local. Points the inputs of a micro_plan at the samples of a micro-batch of a step; where the
 * device is apart they have a place, and are copied. */
void bind_inputs(const struct step *step, struct runnable *runnable, int slot,
                 const struct micro_batch *samples);

/* Local. Whether this rank's loss and gradients alone decide (one rank), or all ranks' together. */
static inline bool is_alone(const struct engine *engine) {
    return comm_size(engine->comm) == 1;
}
/* Local. The time of this rank: of the wall clock, or virtual. */
static inline int64_t engine_now(const struct engine *engine) {
    const struct engine_clock *clock = engine->meeting.clock;
    return clock ? clock->now(clock->context) : clock_ns();
}
/* Local. The clock that the list under way has its times from; NULL: it is no step, or takes no
 * time, or there is no clock. */
static inline const struct engine_clock *engine_timed_by(const struct engine *engine) {
    const struct engine_clock *clock = engine->meeting.clock;
    bool timed = list_is_step(engine->list_name) && !engine->overlap.silent;
    return clock && timed ? clock : NULL;
}

/* Local. Runs a list from its first instruction, one call an instruction: as far as it goes without
 * waiting. engine->awaiting is what the instruction waits for, if it does: call again when that is
 * done. *ended is set behind the last one. */
void engine_begin_list(struct engine *engine, enum list_name name);
enum status engine_advance(struct engine *engine, bool *ended);
/* Blocking. The one place where the executor waits for other ranks. */
enum status engine_wait(struct engine *engine);
/* Collective, blocking. What REPORT has posted, if it is under way. */
enum status engine_await_losses(struct engine *engine);
/* Collective, blocking. The list from begin to end, and what it posted; but what a step leaves
 * under way on what lasts (resource_lasts) goes on until somebody touches that, or a list begins
 * that is no step. */
enum status engine_run_list(struct engine *engine, enum list_name name);

/* Local. The communicator tells when what is posted is done; until engine_listen(engine, false). */
void engine_listen(struct engine *engine, bool on);

/* Collective over all ranks, not blocking. Declares the channels from a driver. */
enum status engine_open_calls(struct engine *engine);

/* Local. Moves reductions under way on; called between pieces of computation. */
void engine_progress(struct engine *engine);
/* Local. Where replicas train apart: they begin with the same, unless a checkpoint has told. */
enum status engine_begin_apart(struct engine *engine);
/* Local. The mean is what this replica has from now on. */
void engine_forget_own(struct engine *engine);
/* Local. Each rank's own running statistics, where STATS_ALL has replaced them. */
enum status restore_statistics(struct engine *engine);

#endif
