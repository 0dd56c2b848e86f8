/* See start.h. Folder and rendezvous are checked before the folder is opened, so that a run that is
 * refused leaves no folder behind. */
#include "run/start.h"

#include "backend/watch.h"
#include "base/log.h"
#include "base/text.h"
#include "exec/checkpoint.h"
#include "launch/network.h"
#include "launch/rendezvous.h"
#include "plan/resolve.h"
#include "plan/strategy.h"
#include "run/narrow_gain.h"
#include "run/option_files.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/trained.h"
#include "view/explain.h"

static enum status refuse_threads(const struct launch_identity *identity) {
    return fail(
        STATUS_USAGE,
        "%d ranks were started as processes; --strategy dp, --spawn threads and --clock virtual "
        "run them as threads of one\n  %s",
        identity->world, identity->how);
}

/* The ranks of this process, or those that it will start. */
static enum status check_hosts(const struct options *options, const struct start *start) {
    if (start->kind == START_LAUNCHER)
        return run_option_files_check_hosts(options, start->layout.first_rank, start->layout.count);
    int count = start->kind == START_THREADS ? start->info.local_ranks : 1;
    return run_option_files_check_hosts(options, start->info.rank, count);
}

enum status start_find(const struct options *options, struct start *out) {
    struct start start = {.kind = START_ONE, .info = {.rank = 0, .ranks = 1, .local_ranks = 1}};
    launch_config_of(options, &start.launch);
    const struct launch_config *config = &start.launch;
    TRY(launch_identity(config, &start.identity));
    bool threads = strategy_uses_threads(options), many = options->local_ranks > 1 ||
                                                          config->nodes > 1 || config->hostfile ||
                                                          config->nodes_file;
    bool started = start.identity.source != LAUNCH_ALONE && start.identity.world > 1;
    if (started && threads) return refuse_threads(&start.identity);
    if (started) {
        start.kind = START_RANK;
        start.info =
            (struct rank_info){.rank = start.identity.rank,
                               .ranks = start.identity.world,
                               .first_local = start.identity.rank - start.identity.local_rank,
                               .spread = start.identity.nodes > 1};
    } else if (many && threads) {
        start.kind = START_THREADS;
        start.info.ranks = start.info.local_ranks = (int)options->local_ranks;
    } else if (many) {
        start.kind = START_LAUNCHER;
        TRY(launch_layout(config, network_is_here, &start.layout));
        start.info.ranks = start.layout.world;
        start.info.local_ranks = start.layout.count;
        start.info.first_local = start.layout.first_rank;
        start.info.spread = start.layout.nodes > 1;
        start.info.to_start = start.info.weighed = true;
    }
    TRY(check_hosts(options, &start));
    *out = start;
    return STATUS_OK;
}

bool start_keeps_run(const struct start *start) {
    if (start->kind == START_LAUNCHER) return start->layout.first_rank == 0;
    if (start->kind != START_RANK) return true;
    return start->identity.rank == 0 && start->identity.source != LAUNCH_LAUNCHER;
}

enum status start_check_weights(const struct start *start, const struct planned_run *planned) {
    const struct options *options = &planned->options;
    bool read = resume_reads_weights(options) && start_keeps_run(start);
    return read ? checkpoint_check_weights(planned->plan, options->weights) : STATUS_OK;
}

/* Ranks of our launcher need no check: it has opened the rendezvous for them. */
static enum status check_rendezvous(const struct start *start) {
    struct launch_config config = start->launch;
    struct launch_peers peers;
    if (start->kind == START_LAUNCHER) {
        launch_peers_of_node(&start->layout, &peers);
        config.init = peers.count > 1 ? start->layout.init : NULL;
    } else if (start->kind == START_RANK && start->identity.source != LAUNCH_LAUNCHER) {
        launch_peers_of(&config, &start->identity, &peers);
    } else {
        return STATUS_OK;
    }
    return launch_rendezvous_check(&config, &peers);
}

/* Launchers of other nodes write beside it, other ranks not at all. */
static enum status check_folder(const struct start *start, const struct planned_run *planned) {
    bool saves = resolve_period(&planned->plan->config, planned->options.save_every) > 0,
         keeps = start_keeps_run(start);
    if (start->kind == START_RANK && !keeps) return STATUS_OK;
    return run_folder_check(&planned->options, keeps, saves ? checkpoint_bytes(planned->plan) : 0);
}

enum status start_check(const struct start *start, const struct planned_run *planned) {
    TRY(planned_check_memory(planned));
    if (start->use) {
        TRY(trained_check(&planned->options, planned->plan->config.dataset));
        return check_rendezvous(start);
    }
    TRY(start_check_weights(start, planned));
    TRY(check_rendezvous(start));
    return check_folder(start, planned);
}

static void warn_crowded(const struct planned_run *planned) {
    char text[CORES_CROWDED_BYTES];
    if (planned->costs->simulated) return; /* one runs at a time */
    if (cores_crowded(&planned->cores, planned->plan->config.threads, text))
        log_warning("%-s", text);
}

/* A loss that falls since samples are known by heart says nothing of the rate. */
static void warn_range(const struct planned_run *planned) {
    enum { PASSES_MOST = 5 };
    const struct run_config *config = &planned->plan->config;
    char steps[TEXT_BYTES];
    double passes = (double)config->steps / (double)config->steps_per_epoch;
    if (config->lr.policy != LR_RANGE || passes <= PASSES_MOST) return;
    log_warning("--lr-policy range: %s pass the data %.0f times, a model then knows them by heart\n"
                "  fewer --steps, a smaller --batch or more data tell more",
                text_count(config->steps, "step", steps), passes);
}

/* A GPU that nobody asked for. */
static void note_devices(const struct planned_run *planned) {
    const struct backend *const *all = backend_all();
    if (option_is_set(&planned->options, OPTION_device)) return;
    for (int i = 0; all[i]; i++)
        if (all[i]->watch && all[i]->watch->seen())
            log_note("this machine has a GPU: --device %s trains on it, this run is on the CPU",
                     all[i]->name);
}

void start_advise(const struct planned_run *planned) {
    note_devices(planned);
    warn_range(planned);
    narrow_gain_say(planned);
}

enum status start_open(const struct start *start, const struct planned_run *planned, char **folder,
                       struct lock **lock) {
    bool saves = option_is_set(&planned->options, OPTION_save_program);
    if (start->folderless) return planned_check_memory(planned);
    TRY(start_check(start, planned));
    warn_crowded(planned);
    if (start->use) return STATUS_OK;
    start_advise(planned);
    if (!start_keeps_run(start)) return run_folder_follow(&planned->options, folder);
    TRY(run_folder_open(&planned->options, folder, lock));
    return saves ? explain_save_program(planned->plan, planned->options.save_program) : STATUS_OK;
}
