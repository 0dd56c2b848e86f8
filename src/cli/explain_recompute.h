/* What recomputation costs and saves: a row of `stretto explain`. */
#ifndef CLI_EXPLAIN_RECOMPUTE_H
#define CLI_EXPLAIN_RECOMPUTE_H

#include "cli/job.h"

struct recompute_cost {
    int again, micros;  /* forwards of a step that run again, of how many, on this rank */
    double flops;       /* a step, of this rank */
    int positions;      /* ranks along the pipeline, and of each: */
    size_t *bytes;      /* its activations */
    size_t *kept_bytes; /* what they would be with --recompute never */
};

/* Local. Plans the ranks of a pipeline with recomputation and without. The caller frees the result
 * with recompute_cost_free, also after a failure. */
enum status recompute_cost_of(const struct job *job, struct recompute_cost *out);
void recompute_cost_free(struct recompute_cost *cost);

#endif
