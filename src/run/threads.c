/* See threads.h. */
#include "run/threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/stall_message.h"
#include "exec/stop.h"
#include "run/session.h"

struct team {
    int ranks;
    struct thread_rank *rank;      /* [ranks] */
    struct program_texts programs; /* of auto: those of rank 0 */
};

struct thread_rank {
    const struct options *options;
    struct rank_info info; /* of another than rank 0 */
    struct session session;
    int index, ranks;
    enum status status;
    pthread_t thread;
    const struct team *team;
    struct control_row row; /* what it is doing */
    struct comm_link link;  /* how its communicator tells whom it waits for */
    struct control_stall stall;
};

/* --- where ranks are --- */

static void position_text(struct thread_rank *rank, char *text, size_t bytes) {
    struct control_doing doing;
    char at[CONTROL_DOING_BYTES + 32], since[TEXT_BYTES];
    control_row_get(&rank->row, &doing);
    control_doing_text(&doing, at, sizeof at);
    text_duration((double)(clock_ns() - doing.since_ns) * 1e-9, since);
    snprintf(text, bytes, "rank %d is at %s for %s", rank->index, at, since);
}

static void print_positions(void *context) {
    const struct team *team = context;
    char line[256];
    for (int r = 0; r < team->ranks; r++) {
        position_text(&team->rank[r], line, sizeof line);
        log_answer("%s", line);
    }
}

static int64_t step_of(struct thread_rank *rank) {
    struct control_doing doing;
    control_row_get(&rank->row, &doing);
    return doing.step;
}

static struct thread_rank *furthest_behind(const struct thread_rank *asker) {
    struct thread_rank *found = NULL;
    for (int r = 0; r < asker->ranks; r++) {
        struct thread_rank *one = &asker->team->rank[r];
        if (one != asker && (!found || step_of(one) < step_of(found))) found = one;
    }
    return found;
}

static void on_waiting(void *context, int peer, const char *what, int64_t since_ns) {
    struct thread_rank *rank = context;
    char there[256];
    if (stop_take_report()) print_positions((void *)rank->team);
    double limit_s = session_wait_limit_s(&rank->session);
    if (control_stall_due(&rank->stall, since_ns, limit_s)) {
        position_text(peer >= 0 ? &rank->team->rank[peer] : furthest_behind(rank), there,
                      sizeof there);
        control_stall_message(rank->index, &rank->row, peer, what, since_ns, there);
    }
    stop_end_stalled(rank->index, since_ns, limit_s);
}

static void be_seen(struct thread_rank *rank) {
    struct watch *watch = &rank->session.watch;
    watch->rank = rank->index;
    watch->row = &rank->row;
    watch->print_positions = print_positions;
    watch->position_context = (void *)rank->team;
    control_row_set(&rank->row, -1, "starting");
}

/* --- running --- */

/* A rank that fails tells the others, which would wait for it for ever. */
static void run_rank(struct thread_rank *rank) {
    be_seen(rank);
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

static enum status open_comms(const struct team *team) {
    struct comm **comms = MEM_ARRAY(struct comm *, team->ranks);
    size_t heap, channels;
    plan_most_shared_bytes(team->rank[0].session.job.plan, &heap, &channels);
    enum status status = comm_open_threads(team->ranks, heap, channels, comms);
    for (int r = 0; r < team->ranks && status == STATUS_OK; r++) {
        struct thread_rank *rank = &team->rank[r];
        rank->index = r, rank->ranks = team->ranks, rank->team = team;
        rank->session.comm = comms[r];
        rank->session.threads = true;
        rank->link = (struct comm_link){.context = rank, .waiting = on_waiting};
        comm_set_link(comms[r], &rank->link);
    }
    free(comms);
    return status;
}

enum status threads_run(const struct options *options, const struct start *start) {
    int ranks = start->info.ranks;
    struct team team = {.ranks = ranks, .rank = MEM_ARRAY(struct thread_rank, ranks)};
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
    free(team.rank);
    return status;
}
