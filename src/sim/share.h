/* Which ranks the simulator runs: of pipelines that do the same at the same time the first one, and
 * all ranks without a stage. Private to src/sim. */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

#include "sim/run.h"

/* Ranks that are run are numbered: those without a stage, then pipeline by pipeline. */
struct sim_share {
    int *rank;     /* of each run */
    int *pipeline; /* of each pipeline that is run: which one it is; NULL before the first */
    int *like;     /* of each such pipeline: how many do the same, with it */
    int others;    /* ranks without a stage, which come first */
    int pipeline_count, run_count;
};

/* Local. The caller frees it with sim_share_free. */
void sim_share_new(const struct sim_input *input, struct sim_share *out);
void sim_share_free(struct sim_share *share);

#endif
