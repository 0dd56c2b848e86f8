/* A rank inside its job: the control plane joined, and the link that communicators take.
 *
 *     struct launch_rank *rank;
 *     TRY(launch_rank_open(&config, &rank));
 *     comm_open("shm", &(struct comm_config){.link = &rank->link, .host = place.machine, ...},
 * &comm);
 *     ...
 *     comm_close(&comm);
 *     launch_rank_close(&rank); */
#ifndef LAUNCH_RANK_H
#define LAUNCH_RANK_H

#include "base/status.h"
#include "comm/comm.h"
#include "control/control.h"
#include "launch/door.h"
#include "launch/place.h"

struct launch_rank_config {
    const struct launch_config *launch;
    const struct launch_place *place;
    const struct control_fact *facts; /* what all ranks must agree on */
    int fact_count;
    double join_limit_s, stall_after_s; /* 0: 60; 10 */
};

struct launch_rank {
    struct control *control;
    struct comm_link link; /* outlives communicators made with it */
    double stall_after_s;
    struct launch_door door;
};

/* Collective over the ranks, blocking until all have joined and agree. The caller closes. */
enum status launch_rank_open(const struct launch_rank_config *config, struct launch_rank **out);
/* Local; the rank that runs the server waits for the others to leave. Accepts NULL. */
void launch_rank_close(struct launch_rank **rank);

#endif
