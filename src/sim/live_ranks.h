/* What a live simulator keeps of its ranks; private to src/sim. */
#ifndef SIM_LIVE_RANKS_H
#define SIM_LIVE_RANKS_H

#include "sim/live.h"
#include "sim/sim_state.h"

enum { STEPS_KEPT = 64 };

struct live_rank {
    int32_t run;
    struct sim_chain chain;
    struct sim_op *op;
    struct sim_await *await;
    struct sim_record *record;
    enum sim_part part;
    bool begun; /* it has run a step */
};

struct sim_live {
    struct sim_input input;
    struct sim sim;
    struct live_rank *rank;
    int *rank_of; /* per run */
    struct {
        int64_t step;
        int ended; /* ranks */
        double end;
    } ring[STEPS_KEPT];
};

#endif
