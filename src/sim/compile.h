/* A rank program made ready for the simulator: what an instruction costs, and which posted ones it
 * awaits. That is the same in every step but the first, and is found once for all ranks that share
 * a program: what a body leaves under way (resource_lasts) is awaited in the next step, by an
 * instruction that stands before it or is it. Private to src/sim. */
#ifndef SIM_COMPILE_H
#define SIM_COMPILE_H

#include "sim/run.h"

enum sim_action {
    SIM_RUN,     /* takes its cost */
    SIM_SEND,    /* posts a message */
    SIM_RECEIVE, /* posts the receipt of one */
    SIM_POST,    /* posts an operation of a group */
    SIM_ASK,     /* asks whom it averages with */
    SIM_MEET,    /* waits for an operation of a group, then takes its cost */
    SIM_END      /* of the body */
};

/* A posted instruction that must be done first. */
struct sim_await {
    int32_t place; /* where the rank keeps what it needs to know of it */
    int32_t at; /* its place in the body; where that is not before the one who awaits it, it is of
                   the step before */
};

struct sim_op {
    double cost;  /* time on the compute queue, of a device that is not slow; of a receive: at the
                     await */
    double bytes; /* of its message or operation */
    float rounds; /* of the operation; 0: none */
    int32_t await_first, await_count;
    int32_t place;  /* of what it posts */
    int32_t target; /* channel (cut * 2 + direction), or group of the program */
    uint8_t action;
    bool pass;    /* counts as busy */
    bool reduces; /* its operation is a sum of all bytes, not an exchange */
    bool barrier; /* MEET: a cost also where groups are free */
};

/* A rank program on one class of devices. */
struct sim_kind {
    const struct sim_op *op; /* the body's, then SIM_END */
    const struct sim_await *await;
    int count;                  /* of the body */
    int left_first, left_count; /* awaits: what the body leaves under way */
    int place_count;
    int operations[PROGRAM_MAX_GROUPS]; /* of each group in a step */
    double busy;
    int64_t peak_bytes;
};

/* Local. Compiles the body of `rank`, which stands for all ranks of its kind, into memory of the
 * caller: `op` has sim_room() elements, `await` SIM_AWAITS times as many, and both outlive the
 * kind. The caller takes memory for many kinds at once: taking it for each would cost more than
 * compiling. */
enum { SIM_AWAITS = 4 };

/* A body and a short last step in every order in which they can follow one another, for a run that
 * goes on and on: what one of them leaves under way is awaited by the next. */
enum sim_part { SIM_BODY, SIM_LAST, SIM_BODY_BEHIND_LAST, SIM_LAST_BEHIND_LAST, SIM_PART_COUNT };
struct sim_chain {
    int at[SIM_PART_COUNT + 1]; /* where each part begins in the kind's rows */
    struct sim_kind kind;       /* of all parts; its count is that of the rows */
};
/* Local. `shares` are the samples of the last step's micro-batches as a part of those of others,
 * for the micro-batches of all replicas: passes and messages take that part of their time. NULL:
 * there is no such step. Memory as for sim_compile, SIM_PART_COUNT times as much. */
void sim_compile_chain(const struct sim_input *input, int rank, const struct sim_costs *costs,
                       const double *shares, struct sim_op *op, struct sim_await *await,
                       struct sim_chain *out);
int64_t sim_room(const struct program *program, int rank);
void sim_compile(const struct sim_input *input, int rank, const struct sim_costs *costs,
                 struct sim_op *op, struct sim_await *await, struct sim_kind *out);

#endif
