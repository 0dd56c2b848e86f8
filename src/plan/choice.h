/* The choice of `auto`: how many chunks of the model a rank of a pipeline has, and in which order
 * it runs them. Made from costs and bytes of stages before there is a program; the same input gives
 * the same choice on every machine. All local; nothing blocks. */
#ifndef PLAN_CHOICE_H
#define PLAN_CHOICE_H

#include "plan/config.h"
#include "plan/partition.h"
#include "program/auto.h"

/* What one order would take. */
struct choice_row {
    const char *name; /* of the schedule, or "greedy"; static */
    int chunks;
    bool v_shape;
    bool fits;
    double step_ns, bubble; /* of passes and messages: without the update; or in units */
    int64_t peak_bytes;     /* activations of the position that has most */
};

struct choice {
    struct pipeline_order *orders; /* per position; NULL: nothing was chosen */
    int positions;
    struct choice_row *row; /* the chosen one first, then the fixed schedules, fastest first */
    int row_count;
    size_t row_capacity;
    bool units; /* times are units */
    /* With a limit: bytes of the rank that has most, as far as they are known here; and what it
     * would have with one slot for each of its stages. */
    int64_t most_bytes, least_bytes;
};

struct choice_input {
    const struct run_config *config;
    const struct graph *graph;         /* of a micro-batch, lowered */
    struct partition_config partition; /* of the model; its number of chunks is tried here */
    struct plan_pool *pool;            /* of the graph; NULL: none */
    size_t other_bytes;                /* of a rank, besides parameters, activations and messages */
};

/* Sets chunks and shape of the grid. The caller frees the choice (all zero before) with
 * choice_free. STATUS_MEMORY where no order fits the limit of the configuration. */
enum status choice_make(const struct choice_input *input, struct grid *grid, struct choice *out);
void choice_free(struct choice *choice);

#endif
