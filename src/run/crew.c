/* See crew.h. */
#include "run/crew.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

/* --- tasks --- */

static bool is_process(const struct crew *crew) {
    return crew->start->kind == START_RANK;
}

void crew_says(struct crew_rank *rank, const char *what) {
    struct session *session = rank->session;
    if (!session->watch.row) return;
    control_row_set(session->watch.row, session->exec ? exec_next_step(session->exec) : -1, what);
}

static void run_task(struct crew_rank *rank, crew_task *task, void *context, bool aborts) {
    rank->status = task(rank, context);
    crew_says(rank, "between calls");
    bool failed = rank->status != STATUS_OK && rank->status != STATUS_STOPPED;
    if (failed && aborts && rank->session->comm)
        comm_abort(rank->session->comm, comm_rank(rank->session->comm));
}

static void *work(void *argument) {
    struct crew_rank *rank = argument;
    struct crew *crew = rank->crew;
    int64_t number = 0;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (crew->number == number) pthread_cond_wait(&crew->go, &crew->lock);
        number = crew->number;
        crew_task *task = crew->task;
        void *context = crew->context;
        bool aborts = crew->aborts;
        if (!task) break;
        if (rank->index < crew->first || rank->index >= crew->end) continue;
        pthread_mutex_unlock(&crew->lock);
        run_task(rank, task, context, aborts);
        pthread_mutex_lock(&crew->lock);
        if (--crew->pending == 0) pthread_cond_signal(&crew->done);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static void tell(struct crew *crew, crew_task *task, void *context, int first, int end,
                 bool aborts) {
    pthread_mutex_lock(&crew->lock);
    crew->task = task;
    crew->context = context;
    crew->first = first;
    crew->end = end;
    crew->aborts = aborts;
    crew->pending = task ? end - first : 0;
    crew->number++;
    pthread_cond_broadcast(&crew->go);
    while (crew->pending > 0) pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

static enum status on_some(struct crew *crew, crew_task *task, void *context, int first, int end,
                           bool aborts) {
    enum status status = STATUS_OK;
    tell(crew, task, context, first, end, aborts);
    for (int r = first; r < end; r++) {
        enum status one = crew->rank[r].status;
        if (one == STATUS_OK) continue;
        if (status == STATUS_OK || status == STATUS_PEER) status = one;
    }
    if (status != STATUS_OK && aborts && crew->status == STATUS_OK) crew->status = status;
    return status;
}

enum status crew_do(struct crew *crew, crew_task *task, void *context) {
    return on_some(crew, task, context, 0, crew->count, true);
}

enum status crew_try(struct crew *crew, crew_task *task, void *context) {
    return on_some(crew, task, context, 0, crew->count, false);
}

/* --- opening --- */

static enum status open_process(struct crew_rank *rank, void *context) {
    struct crew *crew = context;
    return rank_open(crew->options, crew->start, &rank->process);
}

static enum status open_first(struct crew_rank *rank, void *context) {
    struct crew *crew = context;
    struct session *session = rank->session;
    TRY(job_open(crew->options, &crew->start->info, &session->job));
    return start_open(crew->start, &session->job, &session->folder, &session->lock);
}

static enum status open_other(struct crew_rank *rank, void *context) {
    struct crew *crew = context;
    const struct session *first = crew->rank[0].session;
    struct rank_info info = job_info_beside(&first->job, rank->index, crew->world, &crew->program);
    rank->session->folder = first->folder;
    return job_open(crew->options, &info, &rank->session->job);
}

static enum status open_comms(struct crew *crew) {
    const struct plan *plan = crew->rank[0].session->job.plan;
    struct comm_config one = {.rank = 0,
                              .size = 1,
                              .heap_bytes = plan_heap_bytes(plan),
                              .channel_bytes = plan_channel_bytes(plan)};
    if (crew->count == 1) return comm_open("self", &one, &crew->rank[0].session->comm);
    struct comm **comms = MEM_ARRAY(struct comm *, crew->count);
    size_t heap, channels;
    plan_most_shared_bytes(plan, &heap, &channels);
    enum status status = comm_open_threads(crew->count, heap, channels, comms);
    for (int r = 0; r < crew->count && status == STATUS_OK; r++) {
        crew->rank[r].session->comm = comms[r];
        thread_positions_show(&crew->positions, r, crew->rank[r].session);
    }
    free(comms);
    return status;
}

static enum status open_jobs(struct crew *crew) {
    if (is_process(crew)) return on_some(crew, open_process, crew, 0, 1, true);
    TRY(on_some(crew, open_first, crew, 0, 1, true));
    TRY(open_comms(crew));
    const struct plan *plan = crew->rank[0].session->job.plan;
    if (plan_is_auto(&plan->config)) crew->program = plan_text(plan);
    if (crew->count == 1) return STATUS_OK;
    return on_some(crew, open_other, crew, 1, crew->count, true);
}

static enum status start_threads(struct crew *crew) {
    int count = crew->count;
    for (crew->count = 0; crew->count < count; crew->count++) {
        struct crew_rank *rank = &crew->rank[crew->count];
        rank->crew = crew;
        rank->index = crew->count;
        rank->session = is_process(crew) ? &rank->process.session : &rank->own;
        rank->own = (struct session){.begin_ns = clock_ns(), .use = crew->start->use};
        TRY(thread_start(&rank->thread, work, rank));
    }
    return STATUS_OK;
}

enum status crew_open(const struct options *options, const struct start *start, struct crew **out) {
    struct crew *crew = MEM_NEW(struct crew);
    *crew = (struct crew){.options = options,
                          .start = start,
                          .count = start->kind == START_THREADS ? start->info.ranks : 1,
                          .world = start->info.ranks};
    crew->rank = MEM_ARRAY(struct crew_rank, crew->count);
    thread_positions_new(crew->count, &crew->positions);
    control_describe_records(watch_describe_position);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->go, NULL);
    pthread_cond_init(&crew->done, NULL);
    enum status status = start_threads(crew);
    if (status == STATUS_OK) status = open_jobs(crew);
    if (status != STATUS_OK && crew->status == STATUS_OK) crew->status = status;
    *out = crew;
    if (status != STATUS_OK) crew_close(out);
    return status;
}

/* --- closing --- */

static enum status end_process(struct crew_rank *rank, void *context) {
    rank_close(&rank->process, ((struct crew *)context)->status);
    return STATUS_OK;
}

static enum status end_thread(struct crew_rank *rank, void *context) {
    (void)context;
    session_free(rank->session);
    return STATUS_OK;
}

static enum status end_job(struct crew_rank *rank, void *context) {
    (void)context;
    job_close(&rank->session->job);
    return STATUS_OK;
}

/* The first rank's job has the data set that all of them read; the folder is its own. */
static enum status end_first(struct crew_rank *rank, void *context) {
    end_job(rank, context);
    lock_give_back(&rank->session->lock);
    free(rank->session->folder);
    return STATUS_OK;
}

void crew_close(struct crew **pointer) {
    struct crew *crew = *pointer;
    if (!crew) return;
    int count = crew->count;
    if (is_process(crew)) {
        if (count) crew_try(crew, end_process, crew);
    } else if (count) {
        crew_try(crew, end_thread, crew);
        if (count > 1) on_some(crew, end_job, crew, 1, count, false);
        for (int r = 0; r < count; r++) comm_close(&crew->rank[r].session->comm);
        on_some(crew, end_first, crew, 0, 1, false);
    }
    tell(crew, NULL, NULL, 0, 0, false);
    for (int r = 0; r < count; r++) pthread_join(crew->rank[r].thread, NULL);
    bytes_free(&crew->program);
    pthread_cond_destroy(&crew->done);
    pthread_cond_destroy(&crew->go);
    pthread_mutex_destroy(&crew->lock);
    thread_positions_free(&crew->positions);
    free(crew->rank);
    free(crew);
    *pointer = NULL;
}

/* --- between processes --- */

enum status crew_share(struct crew_rank *rank, bool has, void *data, size_t bytes) {
    struct piece {
        int32_t has;
        char data[COMM_EXCHANGE_BYTES - sizeof(int32_t)];
    } * all, own = {.has = has};
    struct comm *comm = rank->session->comm;
    int size = comm_size(comm);
    enum status status = STATUS_OK;
    if (rank->crew->count == size) return STATUS_OK;
    all = MEM_ARRAY(struct piece, size);
    for (size_t done = 0; done < bytes && status == STATUS_OK; done += sizeof own.data) {
        size_t part = bytes - done < sizeof own.data ? bytes - done : sizeof own.data;
        if (has) memcpy(own.data, (char *)data + done, part);
        status = comm_exchange(comm_world(comm), &own, sizeof own, all);
        for (int r = 0; r < size && status == STATUS_OK; r++) {
            if (!all[r].has) continue;
            memcpy((char *)data + done, all[r].data, part);
            break;
        }
    }
    free(all);
    return status;
}
