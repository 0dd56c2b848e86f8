/* See resume.h. A run is resumed by naming its folder alone: repeating every option by hand is how
 * runs diverge. But the stages, slices and cuts of one strategy mean something else to another, or
 * nothing: they go with it. Rejected: to do so whenever a strategy is named, for then a command
 * that names the run's own once more would lay it out in another way. */
#include "run/resume.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "exec/checkpoint.h"
#include "launch/identity.h"
#include "plan/resolve.h"
#include "planned/paths.h"
#include "run/kept_costs.h"
#include "run/option_files.h"

enum status resume_apply_given(const struct options *given, struct options *out) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (!option_is_given(given, (enum option_id)id)) continue;
        SCOPED_FREE char *text = option_text(given, (enum option_id)id);
        TRY(option_set(out, (enum option_id)id, text, option_rows[id].name, given->source[id]));
    }
    out->json = given->json; /* how to talk is this command's matter, not the run's */
    out->quiet = given->quiet;
    return options_check(out);
}

enum status resume_read_config(const char *path, struct options *out) {
    enum { CONFIG_LIMIT = 1 << 20 };
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, CONFIG_LIMIT, &text));
    return options_parse_yaml(path, text.data, text.count, out);
}

/* Whether the strategy named now is none that the run was told. */
static bool is_another_strategy(const struct options *given, const struct options *kept) {
    if (!option_is_given(given, OPTION_strategy)) return false;
    return !option_is_given(kept, OPTION_strategy) || strcmp(given->strategy, kept->strategy) != 0;
}

/* The run's layout is forgotten, but for its number of ranks where nothing says another. */
static void forget_layout(const struct options *given, struct options *kept) {
    bool counted = option_is_given(given, OPTION_local_ranks) ||
                   option_is_given(given, OPTION_stages) ||
                   option_is_given(given, OPTION_replicas) ||
                   option_is_given(given, OPTION_placement) || options_asking_ranks(given);
    int64_t ranks =
        option_is_given(kept, OPTION_local_ranks) ? kept->local_ranks : resolve_ranks_asked(kept);
    for (int id = 0; id < OPTION_COUNT; id++)
        if (option_rows[id].commands & OPTION_OF_LAYOUT) option_reset(kept, (enum option_id)id);
    if (counted || ranks == 1) return;
    kept->local_ranks = ranks;
    kept->source[OPTION_local_ranks] = OPTION_FROM_FILE;
}

/* Its own are named once more where a whole command is repeated, as after a lost rank. */
static enum status refuse_weights(const struct options *given, const struct options *kept) {
    bool own = !option_is_given(given, OPTION_weights) ||
               (option_is_given(kept, OPTION_weights) && paths_same(given, kept, OPTION_weights));
    if (own) return STATUS_OK;
    return fail(
        STATUS_USAGE,
        "--weights %s has no effect with --resume: the run goes on with its own parameters\n"
        "  leave it out, or start a new run from these weights in another --out",
        given->weights);
}

static enum status merge(const struct options *given, const char *path, struct options *out) {
    SCOPED(options_free) struct options merged = {0};
    options_init(given->command, &merged);
    if (path) TRY(resume_read_config(path, &merged));
    if (path) TRY(refuse_weights(given, &merged));
    if (is_another_strategy(given, &merged)) forget_layout(given, &merged);
    TRY(resume_apply_given(given, &merged));
    TRY(run_option_files_apply(&merged, given));
    *out = merged;
    merged = (struct options){0};
    return STATUS_OK;
}

bool resume_reads_weights(const struct options *options) {
    if (!option_is_set(options, OPTION_weights)) return false;
    if (!options->resume || !option_is_set(options, OPTION_out)) return true;
    SCOPED_FREE char *folder = folder_path(options->out, "checkpoints");
    /* one that cannot be read is said by the resume itself */
    bool none =
        !file_exists(folder) || (access(folder, R_OK | X_OK) == 0 && !checkpoint_is_ours(folder));
    return none;
}

static enum status refuse_unknown(const char *out) {
    return fail(STATUS_USAGE,
                "--out %s holds no run to resume: it has no config.yml\n"
                "  is the name right? To start a new run there, leave --resume out or name --model",
                out);
}

/* Whether somebody said what to train where no config.yml does. A node of several may have no copy
 * of it: the ranks that our launcher starts there have its options. */
static enum status check_named(const struct options *given) {
    struct launch_config config;
    struct launch_identity identity;
    if (option_is_given(given, OPTION_model)) return STATUS_OK;
    launch_config_of(given, &config);
    TRY(launch_identity(&config, &identity));
    return identity.source == LAUNCH_LAUNCHER ? STATUS_OK : refuse_unknown(given->out);
}

static enum status read_run(const struct options *given, struct options *out) {
    if (!option_is_set(given, OPTION_out))
        return fail(STATUS_USAGE, "--resume needs --out DIR: the folder of the run to continue");
    SCOPED_FREE char *path = folder_path(given->out, "config.yml");
    bool found = file_exists(path);
    if (!found) TRY(check_named(given));
    TRY(merge(given, found ? path : NULL, out));
    return kept_costs_check(out, given->out);
}

enum status resume_with(const struct options *given, enum status (*run)(const struct options *)) {
    SCOPED(options_free) struct options resumed = {0};
    if (!given->resume) return run(given);
    TRY(read_run(given, &resumed));
    return run(&resumed);
}
