/* See begin.h.
 *
 * One rank runs on this thread; for ranks that are threads this one waits; ranks as processes are
 * copies of this program that the launcher starts, each of which comes back here knowing its rank.
 * What a rank then does is a session. */
#include "run/begin.h"

#include <signal.h>
#include <stdlib.h>

#include "backend/registry.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/stop.h"
#include "launch/local.h"
#include "run/best.h"
#include "run/local_ranks.h"
#include "run/outputs.h"
#include "run/session.h"
#include "run/start.h"

/* That a run has open at a time, beside the standard streams. */
enum { RUN_FILES = 6 };

static enum status run_task(struct local_rank *rank, void *context) {
    (void)context;
    if (rank->ranks->count > 1) TRY(fault_read(rank->index, &rank->session->recorder.fault));
    return session_run(rank->session);
}

static enum status run_here(const struct options *options, const struct start *start) {
    SCOPED(local_ranks_close) struct local_ranks *ranks = NULL;
    TRY(local_ranks_open(options, start, start->kind == START_THREADS, &ranks));
    /* Not before: until there is something to save, and while ranks wait for one another, a signal
     * just ends them. Of ranks of our launcher, the launcher acknowledges it. */
    stop_install(start_keeps_run(start) && !options->quiet && !start->use);
    return local_ranks_do(ranks, run_task, NULL);
}

/* Ranks as processes: this one becomes the launcher. It has planned the run once, so that what is
 * wrong with it is said once. Notes are left to the ranks, which plan as well. */
static enum status check_plan(const struct options *options, const struct start *start,
                              char **folder, struct lock **lock) {
    SCOPED(planned_close) struct planned_run planned = {0};
    log_quiet(true);
    enum status status = planned_open(options, &start->info, &planned);
    log_quiet(options->quiet);
    if (status != STATUS_OK) return status;
    return start_open(start, &planned, folder, lock);
}

/* An exit code back to a status: those above 128 name a signal. */
static enum status status_of_code(int code) {
    if (code > 128) session_stopped_by(code - 128);
    for (int status = STATUS_OK; code <= 128 && status < STATUS_STOPPED; status++) {
        if (status_exit_code((enum status)status) == code) return (enum status)status;
    }
    return STATUS_STOPPED;
}

/* Those of this process, and what it found. */
static enum status arguments_of_ranks(const struct options *options, char ***out) {
    char **own;
    TRY(launch_arguments(&own));
    char **found = best_arguments(options);
    *out = launch_arguments_with(own, (const char *const *)found);
    launch_arguments_free(found);
    launch_arguments_free(own);
    return STATUS_OK;
}

static enum status launch(const struct options *options, const struct start *start) {
    SCOPED_FREE char *folder = NULL;
    SCOPED(lock_give_back) struct lock *lock = NULL;
    char **argv;
    TRY(check_plan(options, start, &folder, &lock));
    TRY(arguments_of_ranks(options, &argv));
    /* Then all ranks read it, too; or there is none. */
    bool named = option_is_given(options, OPTION_out) || start->use;
    const char *first[] = {named ? NULL : "--out", folder, NULL},
               *again[] = {"--out", folder, "--overwrite", "off", "--resume", NULL};
    char **ranks = launch_arguments_with(argv, first),
         **restarted = launch_arguments_with(argv, again);
    int code = launch_local(&(struct launch_local_config){
        .launch = &start->launch,
        .argv = ranks,
        .restart_argv = start->use ? NULL : restarted,
        .threads = option_is_set(options, OPTION_threads) ? (int)options->threads : 0,
        .restarts = (int)options->restarts,
        .isa = backend_tried_isa(),
        .log_folder = folder,
        .append_logs = options->resume,
        .answers = start->use != NULL,
        .grace_s = options->grace_s,
        .join_limit_s = options->join_limit_s});
    launch_arguments_free(ranks);
    launch_arguments_free(restarted);
    launch_arguments_free(argv);
    return status_of_code(code);
}

/* Not refused: a script may count ranks up from one. But not silent. */
static void say_unused(const struct options *options) {
    char *names = mem_text("");
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].needs != OPTION_NEEDS_RANKS ||
            options->source[id] != OPTION_FROM_COMMAND_LINE)
            continue;
        char *longer = mem_format("%s%s--%s", names, *names ? ", " : "", option_rows[id].name);
        free(names);
        names = longer;
    }
    if (*names) log_warning("a run of one rank: no effect of %s", names);
    free(names);
}

enum status begin(const struct options *options, const struct use *use) {
    struct start start;
    TRY(start_find(options, &start));
    start.use = use ? use->run : NULL;
    if (use) start.info.dataset = use->dataset;
    if (start_keeps_run(&start)) TRY(outputs_check(options));
    /* Whoever read the answers has gone: a write that fails, and no rank that was lost. */
    if (use && start.kind == START_RANK) signal(SIGPIPE, SIG_IGN);
    if (start.kind == START_LAUNCHER) return launch(options, &start);
    if (start.kind == START_ONE) {
        say_unused(options);
        TRY(limit_room("a run of one rank", RUN_FILES, 0, NULL));
    }
    return run_here(options, &start);
}
