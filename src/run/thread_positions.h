/* Where the ranks are that are threads of one process: what the control plane tells of processes.
 * Each rank says what it does; one that waits for long says for whom, and where that one is. */
#ifndef RUN_THREAD_POSITIONS_H
#define RUN_THREAD_POSITIONS_H

#include "run/session.h"

struct thread_position;

struct thread_positions {
    int ranks;
    struct thread_position *of; /* [ranks] */
};

/* Local. Room for so many ranks; nothing may move it while one runs. */
void run_thread_positions_new(int ranks, struct thread_positions *out);
void run_thread_positions_free(struct thread_positions *positions);

/* Local. Makes known where a rank is. The session stays where it is. */
void run_thread_positions_show(struct thread_positions *positions, int rank,
                               struct session *session);
/* Local. To what its communicators report whom it waits for. */
const struct comm_link *run_thread_positions_link(const struct thread_positions *positions,
                                                  int rank);

#endif
