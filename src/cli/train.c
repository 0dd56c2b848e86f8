/* `stretto train`: where the ranks of a run come from.
 *
 * One rank runs here; ranks as threads run here too, rank 0 on this thread; ranks as processes are
 * copies of this program that the launcher starts, each of which comes back here knowing its seat.
 * What a rank then does is a session. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/display.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/folder.h"
#include "cli/rank.h"
#include "cli/resume.h"
#include "cli/session.h"
#include "cli/threads.h"
#include "exec/stop.h"
#include "launch/layout.h"
#include "launch/local.h"
#include "launch/network.h"

static enum status run_one(const struct options *options) {
    struct session session = {.begin_ns = clock_ns()};
    struct job_seat seat = {.rank = 0, .ranks = 1};
    TRY(job_open(options, &seat, &session.job));
    struct comm_config config = {
        .rank = 0, .size = 1, .heap_bytes = plan_heap_bytes(session.job.plan)};
    enum status status = session_open_folder(&session.job, &session.folder, &session.lock);
    if (status == STATUS_OK) status = comm_open("self", &config, &session.comm);
    if (status == STATUS_OK) {
        stop_install(); /* not before: until then there is nothing to save, and a signal just ends
                           it */
        status = session_run(&session);
    }
    session_free(&session);
    comm_close(&session.comm);
    job_close(&session.job);
    lock_give_back(&session.lock);
    free(session.folder);
    return status;
}

/* Ranks as processes: this one becomes the launcher. It has planned the run once, so that what is
 * wrong with it is said once. */
static enum status check_plan(const struct options *options, const struct launch_layout *layout,
                              char **folder, struct lock **lock) {
    struct job job;
    struct job_seat seat = {.rank = 0, .ranks = layout->world};
    TRY(job_open(options, &seat, &job));
    enum status status = STATUS_OK;
    if (layout->node == layout->chief)
        status = session_open_folder(&job, folder, lock);
    else if ((status = job_check_memory(&job)) == STATUS_OK)
        status = folder_follow(options, folder);
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
    struct lock *lock = NULL;
    char *folder = NULL, **argv;
    TRY(launch_layout(config, network_is_here, &layout));
    TRY(check_plan(options, &layout, &folder, &lock));
    enum status status = launch_arguments(&argv);
    if (status != STATUS_OK) return status;
    bool named = option_is_given(options, OPTION_out); /* then all ranks read it, too */
    const char *first[] = {named ? NULL : "--out", folder, NULL},
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
    lock_give_back(&lock);
    free(folder);
    return status_of_code(code);
}

/* Not refused: a script may count ranks up from one. But not silent. */
static void say_unused(const struct options *options) {
    static const enum option_id ids[] = {OPTION_comm, OPTION_init, OPTION_interface,
                                         OPTION_restarts};
    char names[128] = "";
    for (size_t i = 0, used = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (options->source[ids[i]] == OPTION_FROM_COMMAND_LINE)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s", used ? ", " : "",
                                     option_rows[ids[i]].name);
    }
    if (*names) log_warning("a run of one rank: no effect of %s", names);
}

static enum status train_with(const struct options *options) {
    struct launch_config config;
    struct launch_place place;
    launch_config_of(options, &config);
    TRY(launch_place(&config, &place));
    bool many =
        options->local_ranks > 1 || config.nodes > 1 || config.hostfile || config.nodes_file;
    bool started = place.source != LAUNCH_ALONE && place.world > 1;
    if (started && job_wants_threads(options))
        return fail(
            STATUS_USAGE,
            "%d ranks were started as processes, --strategy dp and --spawn threads run them as "
            "threads of one\n  %s",
            place.world, place.how);
    if (started) return rank_run(options, &config, &place);
    if (!many) {
        say_unused(options);
        return run_one(options);
    }
    return job_wants_threads(options) ? threads_run(options, (int)options->local_ranks)
                                      : launch(options, &config);
}

enum status train_run(const struct options *options) {
    struct options resumed;
    bool found;
    log_quiet(options->quiet);
    signal(SIGPIPE, SIG_IGN); /* whoever looked on has gone: no reason to lose the training */
    display_open();
    TRY(resume_options(options, &resumed, &found));
    if (!found) return train_with(options);
    enum status status = train_with(&resumed);
    options_free(&resumed);
    return status;
}
