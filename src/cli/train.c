/* `stretto train`: where the ranks of a run come from.
 *
 * One rank runs here; ranks as threads run here too, rank 0 on this thread; ranks as processes are
 * copies of this program that the launcher starts, each of which comes back here knowing its seat.
 * What a rank then does is a session. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/folder.h"
#include "cli/rank.h"
#include "cli/resume.h"
#include "cli/session.h"
#include "exec/stop.h"
#include "launch/layout.h"
#include "launch/local.h"
#include "launch/network.h"

/* What rank 0 settles before anything is taken or written: does it fit, where does it go. */
static enum status open_folder(const struct job *job, char **out) {
    const struct options *options = &job->options;
    const char *program =
        option_is_set(options, OPTION_save_program) ? options->save_program : NULL;
    TRY(job_check_memory(job));
    if (program && file_exists(program)) /* before --overwrite removes anything */
        return explain_save_program(job->plan, program);
    TRY(folder_open(options, out));
    return program ? explain_save_program(job->plan, program) : STATUS_OK;
}

static enum status run_one(const struct options *options) {
    struct session session = {.begin_ns = clock_ns()};
    struct job_seat seat = {.rank = 0, .ranks = 1};
    TRY(job_open(options, &seat, &session.job));
    struct comm_config config = {
        .rank = 0, .size = 1, .heap_bytes = plan_heap_bytes(session.job.plan)};
    enum status status = open_folder(&session.job, &session.folder);
    if (status == STATUS_OK) status = comm_open("self", &config, &session.comm);
    if (status == STATUS_OK) {
        stop_install(); /* not before: until then there is nothing to save, and a signal just ends
                           it */
        status = session_run(&session);
    }
    session_free(&session);
    comm_close(&session.comm);
    job_close(&session.job);
    free(session.folder);
    return status;
}

/* Ranks as threads. */
struct thread_rank {
    const struct options *options;
    struct dataset *dataset; /* shared */
    size_t resident_before;  /* as in struct job_seat */
    struct session session;
    int rank, ranks;
    enum status status;
    pthread_t thread;
};

/* A rank that fails tells the others, which would wait for it for ever. */
static void run_thread_rank(struct thread_rank *rank) {
    rank->status = session_run(&rank->session);
    if (rank->status != STATUS_OK && rank->status != STATUS_STOPPED)
        comm_abort(rank->session.comm, rank->rank);
}

static void *thread_main(void *argument) {
    struct thread_rank *rank = argument;
    struct job_seat seat = {.rank = rank->rank,
                            .ranks = rank->ranks,
                            .dataset = rank->dataset,
                            .resident_before = rank->resident_before};
    rank->status = job_open(rank->options, &seat, &rank->session.job);
    if (rank->status == STATUS_OK)
        run_thread_rank(rank);
    else
        comm_abort(rank->session.comm, rank->rank);
    session_free(&rank->session);
    job_close(&rank->session.job);
    return NULL;
}

/* The status to end with: the first that is not the echo of another's failure. */
static enum status status_of_all(const struct thread_rank *all, int count) {
    enum status status = STATUS_OK;
    for (int r = 0; r < count; r++) {
        if (all[r].status == STATUS_OK) continue;
        if (status == STATUS_OK || status == STATUS_PEER) status = all[r].status;
    }
    return status;
}

static enum status start_threads(struct thread_rank *all, int ranks) {
    int started = 1;
    for (; started < ranks; started++) {
        all[started].options = all[0].options;
        all[started].dataset = all[0].session.job.dataset;
        all[started].resident_before = all[0].session.job.resident_before;
        all[started].session.folder = all[0].session.folder;
        all[started].session.begin_ns = all[0].session.begin_ns;
        if (pthread_create(&all[started].thread, NULL, thread_main, &all[started]) != 0) break;
    }
    if (started < ranks) {
        fail(STATUS_MEMORY, "rank %d of %d cannot be started: no more threads", started, ranks);
        comm_abort(all[0].session.comm, started);
    }
    run_thread_rank(&all[0]);
    for (int r = 1; r < started; r++) pthread_join(all[r].thread, NULL);
    return started < ranks ? STATUS_MEMORY : status_of_all(all, ranks);
}

static enum status run_threads(const struct options *options, int ranks) {
    struct thread_rank *all = MEM_ARRAY(struct thread_rank, ranks);
    struct comm **comms = MEM_ARRAY(struct comm *, ranks);
    struct session *first = &all[0].session;
    struct job_seat seat = {.rank = 0, .ranks = ranks};
    *first = (struct session){.begin_ns = clock_ns()};
    all[0].options = options;
    enum status status = job_open(options, &seat, &first->job);
    if (status == STATUS_OK) status = open_folder(&first->job, &first->folder);
    if (status == STATUS_OK)
        status = comm_open_threads(ranks, plan_heap_bytes(first->job.plan), comms);
    for (int r = 0; r < ranks; r++)
        all[r].rank = r, all[r].ranks = ranks, all[r].session.comm = comms[r],
        all[r].session.threads = true;
    if (status == STATUS_OK) {
        stop_install();
        status = start_threads(all, ranks);
    }
    session_free(first);
    for (int r = 0; r < ranks; r++) comm_close(&comms[r]);
    job_close(&first->job);
    free(first->folder);
    free(comms);
    free(all);
    return status;
}

/* Ranks as processes: this one becomes the launcher. It has planned the run once, so that what is
 * wrong with it is said once. */
static enum status check_plan(const struct options *options, int world, char **folder) {
    struct job job;
    struct job_seat seat = {.rank = 0, .ranks = world};
    TRY(job_open(options, &seat, &job));
    enum status status = open_folder(&job, folder);
    job_close(&job);
    return status;
}

/* An exit code back to a status: those above 128 name a signal. */
static enum status status_of_code(int code) {
    if (code > 128) cli_stopped_by(code - 128);
    for (int status = STATUS_OK; code <= 128 && status < STATUS_STOPPED; status++) {
        if (status_exit_code((enum status)status) == code) return (enum status)status;
    }
    return STATUS_STOPPED;
}

static enum status launch(const struct options *options, const struct launch_config *config) {
    struct launch_layout layout;
    char *folder = NULL, **argv;
    TRY(launch_layout(config, network_is_here, &layout));
    TRY(check_plan(options, layout.world, &folder));
    enum status status = launch_arguments(&argv);
    if (status != STATUS_OK) return status;
    const char *first[] = {"--out", folder, NULL},
               *again[] = {"--out", folder, "--overwrite", "off", "--resume", NULL};
    char **ranks = launch_arguments_with(argv, first),
         **restarted = launch_arguments_with(argv, again);
    int code = launch_local(&(struct launch_local_config){
        .launch = config,
        .argv = ranks,
        .restart_argv = restarted,
        .threads = option_is_set(options, OPTION_threads) ? (int)options->threads : 0,
        .restarts = (int)options->restarts,
        .log_folder = folder,
        .append_logs = options->resume,
        .grace_s = options->grace_s,
        .join_limit_s = options->join_limit_s});
    launch_arguments_free(ranks);
    launch_arguments_free(restarted);
    launch_arguments_free(argv);
    free(folder);
    return status_of_code(code);
}

static enum status train_with(const struct options *options) {
    struct launch_config config;
    struct launch_place place;
    launch_config_of(options, &config);
    TRY(launch_place(&config, &place));
    bool many =
        options->local_ranks > 1 || config.nodes > 1 || config.hostfile || config.nodes_file;
    if (place.source != LAUNCH_ALONE && place.world > 1) return rank_run(options, &config, &place);
    if (!many) return run_one(options);
    return job_wants_threads(options) ? run_threads(options, (int)options->local_ranks)
                                  : launch(options, &config);
}

enum status train_run(const struct options *options) {
    struct options resumed;
    bool found;
    log_quiet(options->quiet);
    TRY(resume_options(options, &resumed, &found));
    if (!found) return train_with(options);
    enum status status = train_with(&resumed);
    options_free(&resumed);
    return status;
}
