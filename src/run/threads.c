/* See threads.h. */
#include "run/threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/stop.h"
#include "run/session.h"
#include "run/thread_positions.h"

struct team {
    int ranks;
    struct thread_rank *rank; /* [ranks] */
    struct thread_positions positions;
    struct program_texts programs; /* of auto: those of rank 0 */
};

struct thread_rank {
    const struct options *options;
    struct rank_info info; /* of another than rank 0 */
    struct session session;
    int index;
    enum status status;
    pthread_t thread;
};

/* --- running --- */

/* A rank that fails tells the others, which would wait for it for ever. */
static void run_rank(struct thread_rank *rank) {
    rank->status = fault_read(rank->index, &rank->session.watch.fault);
    if (rank->status == STATUS_OK) rank->status = session_run(&rank->session);
    if (rank->status != STATUS_OK && rank->status != STATUS_STOPPED)
        comm_abort(rank->session.comm, rank->index);
}

static void *thread_main(void *argument) {
    struct thread_rank *rank = argument;
    rank->status = job_open(rank->options, &rank->info, &rank->session.job);
    if (rank->status == STATUS_OK)
        run_rank(rank);
    else
        comm_abort(rank->session.comm, rank->index);
    session_free(&rank->session);
    job_close(&rank->session.job);
    return NULL;
}

/* The status to end with: the first that is not the echo of another's failure. */
static enum status status_of_all(const struct team *team) {
    enum status status = STATUS_OK;
    for (int r = 0; r < team->ranks; r++) {
        enum status one = team->rank[r].status;
        if (one == STATUS_OK) continue;
        if (status == STATUS_OK || status == STATUS_PEER) status = one;
    }
    return status;
}

static enum status run_team(const struct team *team) {
    struct thread_rank *all = team->rank;
    int started = 1;
    for (; started < team->ranks; started++) {
        all[started].options = all[0].options;
        all[started].info =
            job_info_beside(&all[0].session.job, started, team->ranks, &team->programs);
        all[started].session.folder = all[0].session.folder;
        all[started].session.use = all[0].session.use;
        all[started].session.begin_ns = all[0].session.begin_ns;
        if (pthread_create(&all[started].thread, NULL, thread_main, &all[started]) != 0) break;
    }
    if (started < team->ranks) {
        fail(STATUS_MEMORY, "rank %d of %d cannot be started: no more threads", started,
             team->ranks);
        comm_abort(all[0].session.comm, started);
    }
    run_rank(&all[0]);
    for (int r = 1; r < started; r++) pthread_join(all[r].thread, NULL);
    return started < team->ranks ? STATUS_MEMORY : status_of_all(team);
}

static enum status open_comms(struct team *team) {
    struct comm **comms = MEM_ARRAY(struct comm *, team->ranks);
    size_t heap, channels;
    plan_most_shared_bytes(team->rank[0].session.job.plan, &heap, &channels);
    enum status status = comm_open_threads(team->ranks, heap, channels, comms);
    for (int r = 0; r < team->ranks && status == STATUS_OK; r++) {
        struct thread_rank *rank = &team->rank[r];
        rank->index = r;
        rank->session.comm = comms[r];
        rank->session.threads = true;
        thread_positions_show(&team->positions, r, &rank->session);
    }
    free(comms);
    return status;
}

enum status threads_run(const struct options *options, const struct start *start) {
    int ranks = start->info.ranks;
    struct team team = {.ranks = ranks, .rank = MEM_ARRAY(struct thread_rank, ranks)};
    thread_positions_new(ranks, &team.positions);
    struct session *first = &team.rank[0].session;
    *first = (struct session){.begin_ns = clock_ns(), .use = start->use};
    team.rank[0].options = options;
    enum status status = job_open(options, &start->info, &first->job);
    if (status == STATUS_OK) status = start_open(start, &first->job, &first->folder, &first->lock);
    if (status == STATUS_OK) status = open_comms(&team);
    if (status == STATUS_OK) {
        stop_install(!options->quiet && !start->use);
        if (plan_is_auto(&first->job.plan->config)) plan_texts(first->job.plan, &team.programs);
        status = run_team(&team);
        program_texts_free(&team.programs);
    }
    session_free(first);
    for (int r = 0; r < ranks; r++) comm_close(&team.rank[r].session.comm);
    job_close(&first->job);
    lock_give_back(&first->lock);
    free(first->folder);
    thread_positions_free(&team.positions);
    free(team.rank);
    return status;
}
