/* See local_ranks.h. */
#include "run/local_ranks.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/transition.h"

/* --- tasks --- */

static bool is_process(const struct local_ranks *ranks) {
    return ranks->start->kind == START_RANK;
}

void local_ranks_say(struct local_rank *rank, const char *what) {
    struct session *session = rank->session;
    if (!session->recorder.row) return;
    control_row_set(session->recorder.row, session->engine ? engine_next_step(session->engine) : -1,
                    what);
}

struct told {
    struct local_ranks *ranks;
    local_task *task;
    void *context;
};

static enum status run_task(void *context, int index) {
    const struct told *told = context;
    struct local_rank *rank = &told->ranks->rank[index];
    enum status status = told->task(rank, told->context);
    if (told->ranks->apart) local_ranks_say(rank, "between calls");
    return status;
}

enum status local_ranks_do(struct local_ranks *ranks, local_task *task, void *context) {
    return rank_threads_do(ranks->threads, run_task, &(struct told){ranks, task, context});
}

enum status local_ranks_try(struct local_ranks *ranks, local_task *task, void *context) {
    return rank_threads_try(ranks->threads, run_task, &(struct told){ranks, task, context});
}

/* --- opening --- */

static enum status open_comm(void *context, const struct plan *plan, struct comm **out) {
    struct local_rank *rank = context;
    struct local_ranks *ranks = rank->ranks;
    TRY(rank_threads_comm(ranks->threads, rank->index, plan, out));
    comm_set_link(*out, run_thread_positions_link(&ranks->positions, rank->index));
    return STATUS_OK;
}

static enum status open_process(struct local_rank *rank, void *context) {
    struct local_ranks *ranks = context;
    return run_rank_open(ranks->options, ranks->start, &rank->process);
}

static enum status open_first(struct local_rank *rank, void *context) {
    struct local_ranks *ranks = context;
    struct session *session = rank->session;
    if (rank->index > 0) return STATUS_OK;
    TRY(planned_open(ranks->options, &ranks->start->info, &session->planned));
    const struct plan *plan = session->planned.plan;
    if (ranks->count > 1 && plan_is_auto(&plan->config)) ranks->program = plan_text(plan);
    return start_open(ranks->start, &session->planned, &session->folder, &session->lock);
}

static enum status open_other(struct local_rank *rank, void *context) {
    struct local_ranks *ranks = context;
    const struct session *first = ranks->rank[0].session;
    if (rank->index == 0) return STATUS_OK;
    struct rank_info info =
        planned_info_beside(&first->planned, rank->index, ranks->world, &ranks->program);
    rank->session->folder = first->folder;
    return planned_open(ranks->options, &info, &rank->session->planned);
}

static enum status plan_all(struct local_ranks *ranks) {
    if (is_process(ranks)) return local_ranks_do(ranks, open_process, ranks);
    TRY(local_ranks_do(ranks, open_first, ranks));
    for (int r = 0; r < ranks->count && ranks->count > 1; r++)
        run_thread_positions_show(&ranks->positions, r, ranks->rank[r].session);
    return local_ranks_do(ranks, open_other, ranks);
}

static void set_up(struct local_ranks *ranks) {
    for (int r = 0; r < ranks->count; r++) {
        struct local_rank *rank = &ranks->rank[r];
        rank->ranks = ranks;
        rank->index = r;
        rank->session = is_process(ranks) ? &rank->process.session : &rank->own;
        rank->own = (struct session){
            .begin_ns = clock_ns(),
            .use = ranks->start->use,
            .state = train_fresh(),
            .meeting = {.context = rank, .open = ranks->count > 1 ? open_comm : NULL}};
    }
}

/* On the wall clock threads decide for themselves on groups that are chosen. */
static void open_chooser(struct local_ranks *ranks) {
    const struct plan *plan = ranks->rank[0].session->planned.plan;
    if (!plan->config.chooses || ranks->start->use || is_process(ranks)) return;
    if (!ranks->world_clock)
        ranks->chooser = shared_chooser_new(&plan->config.groups, ranks->count);
    for (int r = 0; r < ranks->count; r++)
        ranks->rank[r].session->meeting.chooser = ranks->world_clock
                                                      ? virtual_chooser(ranks->world_clock, r)
                                                      : shared_chooser_of(ranks->chooser, r);
}

/* Of ranks that are planned and have no engine yet. */
static enum status open_clock(struct local_ranks *ranks) {
    const struct planned_run *first = &ranks->rank[0].session->planned;
    if (!first->costs || !first->costs->simulated || ranks->start->use) return STATUS_OK;
    enum status status = virtual_new(first->plan, first->costs, &ranks->world_clock);
    for (int r = 0; r < ranks->count && status == STATUS_OK; r++)
        ranks->rank[r].session->meeting.clock = virtual_clock(ranks->world_clock, r);
    return status;
}

enum status local_ranks_open(const struct options *options, const struct start *start, bool apart,
                             struct local_ranks **out) {
    struct local_ranks *ranks = MEM_NEW(struct local_ranks);
    *ranks = (struct local_ranks){.options = options,
                                  .start = start,
                                  .count = start->kind == START_THREADS ? start->info.ranks : 1,
                                  .world = start->info.ranks,
                                  .apart = apart};
    ranks->rank = MEM_ARRAY(struct local_rank, ranks->count);
    run_thread_positions_new(ranks->count, &ranks->positions);
    control_describe_records(recorder_describe_position);
    set_up(ranks);
    enum status status = rank_threads_open(ranks->count, apart, &ranks->threads);
    if (status == STATUS_OK) status = plan_all(ranks);
    if (status == STATUS_OK) status = open_clock(ranks);
    if (status == STATUS_OK) open_chooser(ranks);
    *out = ranks;
    if (status != STATUS_OK) local_ranks_close(out);
    return status;
}

/* --- closing --- */

static enum status end_process(struct local_rank *rank, void *context) {
    (void)context;
    run_rank_close(&rank->process, rank_threads_failed(rank->ranks->threads));
    return STATUS_OK;
}

static enum status end_session(struct local_rank *rank, void *context) {
    (void)context;
    session_free(rank->session);
    if (rank->index == 0) return STATUS_OK; /* the clock is of its plans */
    transition_free(rank->session);
    planned_close(&rank->session->planned);
    return STATUS_OK;
}

/* The first rank's planned run has the data set that all of them read; the folder is its own. */
static enum status end_first(struct local_rank *rank, void *context) {
    (void)context;
    if (rank->index > 0) return STATUS_OK;
    transition_free(rank->session);
    planned_close(&rank->session->planned);
    lock_give_back(&rank->session->lock);
    free(rank->session->folder);
    return STATUS_OK;
}

void local_ranks_close(struct local_ranks **pointer) {
    struct local_ranks *ranks = *pointer;
    if (!ranks) return;
    if (ranks->threads) local_ranks_try(ranks, is_process(ranks) ? end_process : end_session, NULL);
    shared_chooser_free(&ranks->chooser);
    virtual_free(&ranks->world_clock); /* behind the engines, before the plan it was made for */
    if (ranks->threads && !is_process(ranks)) local_ranks_try(ranks, end_first, NULL);
    rank_threads_close(&ranks->threads);
    bytes_free(&ranks->program);
    run_thread_positions_free(&ranks->positions);
    free(ranks->rank);
    free(ranks);
    *pointer = NULL;
}

enum status local_ranks_share(struct local_rank *rank, bool has, void *data, size_t bytes) {
    if (rank->ranks->count == rank->ranks->world) return STATUS_OK;
    return engine_share_bytes(rank->session->engine, has, data, bytes);
}
