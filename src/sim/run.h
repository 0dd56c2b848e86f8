/* The simulator: the programs that a run executes (program/program.h), in virtual time.
 *
 * A rank runs its body, instruction by instruction, as the executor does: one of the compute queue
 * takes its cost; one of the communication queue is posted, and the first that touches its buffer
 * awaits it (program/resource.h). A channel holds as many messages as the program has credits; a
 * message takes latency and bytes over bandwidth. A group's operation begins when all members have
 * posted it and its last one has ended. What ranks do then does not depend on who is looked at
 * first: so each runs on until it must know a time that is not known yet, and there is no queue of
 * events.
 *
 * Pipelines whose ranks have the same programs, devices and links do the same at the same time.
 * They meet others in groups alone, so one of them is run for all. Times are in the unit of the
 * costs. All functions are local and do not block. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cost/cost.h"
#include "program/program.h"
#include "sync/groups.h"

/* The computation that an instruction is, of those that bubbles count (enum cost_pass); -1: none.
 */
int sim_pass_of(const struct instr *instr);
enum sim_direction { SIM_FORWARD, SIM_BACKWARD, SIM_DIRECTION_COUNT };

/* What a stage costs on one micro-batch, on a device that is not slow. Borrowed, as all pointers of
 * the input. */
struct sim_stage {
    double pass[COST_PASS_COUNT];
    const double *segment; /* share of each segment of backward; NULL: equal shares */
    int segment_count;
    double again; /* recomputation, where it is not as long as forward; else 0 */
    double add;   /* of weight gradients to those of earlier micro-batches: on top of B or W */
    double load, sum, zero, norm, step; /* of all buckets */
    double stats[SIM_DIRECTION_COUNT];  /* exchanges of shared statistics in a pass */
    int64_t stats_bytes[SIM_DIRECTION_COUNT];
    /* Messages that leave it: to the next stage, to the one before. */
    int64_t message_bytes[SIM_DIRECTION_COUNT];
    double copy[SIM_DIRECTION_COUNT]; /* time of either side for such a message, to copy it */
    const int64_t *bucket_bytes;      /* per bucket; NULL: none to send */
    /* That a micro-batch keeps: from LOAD to B or I, and from I to W. */
    int64_t kept_bytes, kept_half_bytes;
    int64_t fixed_bytes; /* parameters and the like; of all chunks of a rank together, with its
                            first stage */
};
struct sim_costs {
    const struct sim_stage *stage; /* per stage of the model */
    double instruction;            /* time that any instruction takes besides its work */
    int64_t exchange_bytes;        /* of a rank's part of COUNT, REPORT and NORM */
};

enum { SIM_MOST_RECORDS = 8 << 20 };

struct sim_input {
    const struct program *program;      /* verified */
    const struct sim_costs *costs;      /* per class of devices */
    struct cost_net net;                /* devices of the ranks, links between them, laws */
    uint64_t seed;                      /* of the laws' draws */
    int steps;                          /* at least 1; the last one is measured */
    bool unclipped;                     /* STEP does not await NORM, as without clipping */
    bool apart;                         /* run every pipeline, also those that do the same */
    const struct groups_config *groups; /* who averages with whom, where the program asks; NULL: all
                                           replicas do. Then each replica draws its mini-batches'
                                           numbers, and steps are R numbers; none is recorded */
    bool record; /* keep every instruction of the last step, for paths and drawings, where these are
                 at most SIM_MOST_RECORDS */
};

/* One instruction of the last step: when it was issued, then its own time. For the communication
 * queue that is the transfer; for an instruction of the compute queue that meets others, the
 * time after the meeting. */
struct sim_record {
    double issued, begin, end;
    int32_t cause_run, cause_at; /* who let it be issued; -1: the one before it */
    bool cause_before;           /* that was in the step before */
    int32_t peer_run, peer_at;   /* of a receive: the send; of a meeting: the last to come; -1 */
};

/* A rank that was run. */
struct sim_rank {
    int rank, like;     /* how many do the same, with it */
    double first, last; /* begin and end of its passes in the last step */
    /* In a step; where steps overlap the mean of those that `step` of the result is the mean of. */
    double busy;               /* in passes */
    double exposed;            /* time that it waits while its data moves, or copies */
    double waits;              /* time that it waits for others beyond that */
    double end;                /* of the last step */
    int64_t peak_bytes;        /* of slots and what is fixed */
    struct sim_record *record; /* per instruction of the body, and the end; NULL: not kept */
};

struct sim_result {
    double first_step; /* time of the first step */
    double step;       /* time of the last one: the steady state, where there are several; where
                          steps overlap the mean of those from number 2S on */
    double mean;       /* of all steps behind the first; of one step that */
    double begin;      /* when the last one began: the end of the one before it */
    double bubble, span_bubble; /* of all ranks; as in program/replay.h */
    double exposed;             /* mean over ranks */
    int64_t peak_bytes;         /* of the rank that has most */
    int64_t instructions;       /* that were run */
    double group_size;          /* mean of groups that were chosen; NAN: none was */
    struct sim_rank *rank;      /* those that were run; owned, as are all records */
    struct sim_record *record;  /* rank after rank; NULL: not kept */
    int run_count;
};

/* STATUS_USAGE, with the rank and the instruction, where the program waits for ever: it was not
 * verified. The caller frees the result. */
enum status sim_run(const struct sim_input *input, struct sim_result *out);
void sim_result_free(struct sim_result *result);

/* Bytes that a rank has before a step (where steps overlap, in a pipeline that is full), and by how
 * many an instruction changes them: those that it keeps from its begin on, those that it frees at
 * its end. */
int64_t sim_fixed_bytes(const struct program *program, const struct sim_costs *costs, int rank);
int64_t sim_memory_change(const struct program *program, const struct sim_costs *costs, int rank,
                          const struct instr *instr);

/* A part of the critical path: the instructions, last first, that made the last step as long as it
 * is. Each begins when the next one of the list lets it. */
struct sim_path_item {
    int run, at;       /* of result->rank; of its body */
    double begin, end; /* what it adds to the step: they follow one another without gaps */
    bool transfer; /* a message or an operation of a group under way, not the instruction's run */
};
struct sim_path {
    struct sim_path_item *item;
    int count;
    size_t capacity;
};
/* Of a recorded result. The caller frees the path. */
void sim_path(const struct sim_input *input, const struct sim_result *result, struct sim_path *out);
void sim_path_free(struct sim_path *path);

#endif
