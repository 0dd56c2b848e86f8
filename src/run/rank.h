/* A rank that is a process of its own: finds the job, joins it, runs its session. */
#ifndef RUN_RANK_H
#define RUN_RANK_H

#include "comm/comm.h"
#include "control/control.h"
#include "launch/rendezvous.h"
#include "run/session.h"
#include "run/start.h"

struct rank {
    const struct options *options;
    const struct start *start;
    const struct launch_config *launch;
    const struct launch_identity *identity;
    struct launch_rendezvous rendezvous;
    struct control_status_table status_table; /* the launcher's, or none */
    struct control_row own_row;               /* where there is none */
    struct control *control;
    int here;        /* how many ranks are on this machine, once they have met */
    bool first_here; /* of these the lowest */
    bool agreed;     /* all ranks fail for one reason: none must be told */
    bool replanned;  /* with other programs than it had chosen */
    int openings;    /* of communicators so far */
    struct comm_link link;
    struct session session;
};

/* Collective over the ranks of the job, blocking. What comes before and behind the session: the
 * rank has joined and its run is planned. `start` is of kind START_RANK, `rank` is empty before and
 * stays where it is. run_rank_close also after a failure; `status` is what the rank ends with. */
enum status run_rank_open(const struct options *options, const struct start *start,
                          struct rank *rank);
void run_rank_close(struct rank *rank, enum status status);

/* Collective, blocking; for run_rank_open. Learns which ranks share this machine; all fail where
 * those of some machine do not fit. Says, once for a host, where its cores are too few. */
enum status run_rank_check_neighbours(struct rank *rank);
/* Local; likewise. Whether our launcher has judged that its ranks fit: but not where rank 0 is of
 * another launcher and chose other programs. */
bool run_rank_is_judged(const struct rank *rank);

#endif
