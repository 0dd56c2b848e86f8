/* Schedules: what makes the program of each rank from a grid and a number of micro-batches. A file
 * each under schedules/, or an order of pipelines (pipeline.h); a sync policy adds the rest. */
#ifndef PROGRAM_SCHEDULE_H
#define PROGRAM_SCHEDULE_H

#include "program/program.h"

/* The schedule of forward programs (program_is_forward): no strategy names it. */
#define SCHEDULE_FORWARD "forward"

/* What a schedule builder is told. */
struct schedule_config {
    struct grid grid;
    int micro_batches; /* 0: of a forward program */
    enum sum_order sum;
    const int64_t
        *samples; /* per micro-batch of the step, G entries; NULL: all present; 0: skip it */
    int frozen;   /* stages, the first ones, that run forward only */
    bool clips;   /* STEP scales gradients by their norm, and awaits it */
    bool shares;  /* replicas share batch norm's statistics: F and B wait for one another */
    enum recompute_policy recompute; /* of pipelines */
    bool one_backward_at_a_time;     /* of pipelines: all stages meet after each B */
    bool driven;                     /* of pipelines: the driver calls for each pass */
    bool overlaps;                   /* of pipelines: steps are not flushed (ahead.h) */
    bool vertical_sync;              /* ... and all stages keep as many versions as the first */
    const int *older;                /* ... per position, versions beside the newest; NULL: none */
    int behind_output; /* of a forward program: stages after the one that makes the output */
    const struct pipeline_order *orders; /* of pipelines, per position */
    const struct program_tie *ties;      /* of pipelines */
    int tie_count;
    const int *buckets; /* per stage: of its gradients; read of those with ties, and of all where
                           recomputation is by block */
};

struct schedule {
    const char *name, *help;
    /* Local. Declares groups, and refuses what the schedule cannot do. */
    enum status (*prepare)(const struct schedule_config *config, struct program *program);
    /* Local. The rank program of a rank; called once for those that do the same. */
    void (*build)(const struct schedule_config *config, const struct program *program, int rank,
                  struct rank_program *out);
};

/* Local. What a rank runs between steps, whatever the schedule: the lists of evaluation and
 * saving. Their group is the first of all ranks, which the program has declared. */
void program_add_between(const struct schedule_config *config, const struct program *program,
                         int rank, struct rank_program *out);

/* Local. By name, NULL when there is none. The caller owns the program. */
const struct schedule *schedule_find(const char *name);
enum status schedule_build(const char *name, const struct schedule_config *config,
                           struct program **out);

#endif
