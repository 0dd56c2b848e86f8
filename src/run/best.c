/* See best.h. The search is over before anything starts: whatever runs then is a run with options
 * like any other. Ranks as processes are copies of this one, with its arguments; those that were
 * found come behind them and win. */
#include "run/best.h"

#include <stdlib.h>
#include <string.h>

#include "base/display.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/identity.h"
#include "launch/local.h"
#include "plan/resolve.h"
#include "plan/strategy.h"
#include "planned/planned_search.h"
#include "run/resume.h"
#include "view/ranking.h"

static bool asks(const struct options *options) {
    return option_is_given(options, OPTION_strategy) && strcmp(options->strategy, "best") == 0;
}

/* Ranks that do not know of one another would each search for itself. */
static enum status refuse_others(const struct options *options) {
    struct launch_config config;
    struct launch_identity identity;
    launch_config_of(options, &config);
    TRY(launch_identity(&config, &identity));
    bool started = identity.source != LAUNCH_ALONE && identity.world > 1,
         several = config.nodes > 1 || config.hostfile || config.nodes_file;
    if (!started && !several) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--strategy best searches for the ranks of one command on one machine, and %s\n"
                "  stretto plan --cluster FILE.yml --write RUN.yml searches for these; then train "
                "--config RUN.yml",
                started ? "these ranks were started by another" : "this run is on several nodes");
}

/* Replicas of a run by what its config.yml says. */
static int64_t replicas_of(const struct options *kept) {
    const struct strategy *strategy =
        option_is_given(kept, OPTION_strategy) ? strategy_find(kept->strategy) : NULL;
    bool pipeline = strategy && strcmp(strategy->schedule, "single") != 0;
    int64_t ranks = kept->local_ranks > 1 ? kept->local_ranks : resolve_ranks_asked(kept);
    if (option_is_set(kept, OPTION_replicas)) return kept->replicas;
    if (option_is_set(kept, OPTION_stages)) return ranks / kept->stages;
    return pipeline ? 1 : ranks;
}

/* Another deal has other bits. */
static enum status keep_deal(const struct options *options, struct options *out) {
    SCOPED(options_free) struct options kept = {0};
    SCOPED_FREE char *path = folder_path(options->out, "config.yml");
    char text[TEXT_BYTES];
    if (!file_exists(path)) return STATUS_OK;
    options_init(options->command, &kept);
    TRY(resume_read_config(path, &kept));
    bool dealt = kept.deal.replicas > 0;
    snprintf(text, sizeof text, "%lld",
             (long long)(dealt ? kept.deal.replicas : replicas_of(&kept)));
    TRY(option_set(out, OPTION_replicas, text, "--resume", OPTION_FROM_COMMAND_LINE));
    snprintf(text, sizeof text, "%lld",
             (long long)(dealt ? kept.deal.micro_batches : kept.micro_batches));
    return option_set(out, OPTION_micro_batches, text, "--resume", OPTION_FROM_COMMAND_LINE);
}

/* What a search decides. */
static const enum option_id decided[] = {
    OPTION_strategy,       OPTION_local_ranks, OPTION_stages,    OPTION_replicas,
    OPTION_virtual_stages, OPTION_zero_stage,  OPTION_recompute, OPTION_balance,
    OPTION_micro_batches,  OPTION_threads};
enum { DECIDED = sizeof decided / sizeof *decided };

static void mark(struct options *found) {
    for (int i = 0; i < DECIDED; i++)
        if (found->source[decided[i]] == OPTION_FROM_COMMAND_LINE)
            found->source[decided[i]] = OPTION_FROM_SEARCH;
}

/* Before ranks say anything. */
static void show(const struct planned_search *search) {
    ranking_print_first(search, display_out());
    fflush(display_out());
}

/* What is open: all but the strategy that was not named. */
static enum status search(const struct options *options, struct options *open,
                          struct options *out) {
    SCOPED(planned_search_close) struct planned_search search = {0};
    option_reset(open, OPTION_strategy);
    if (options->resume) TRY(keep_deal(options, open));
    TRY(planned_search(open, false, &search));
    TRY(planned_search_refuse(&search));
    if (!options->quiet && !options->json) show(&search);
    return planned_search_options(&search, planned_search_first(&search), out);
}

enum status best_with(const struct options *options, enum status (*run)(const struct options *)) {
    struct options open = *options, found = {0};
    if (!asks(options)) return run(options);
    TRY(refuse_others(options));
    open.arena = (struct arena){0};
    enum status status = search(options, &open, &found);
    mark(&found);
    if (status == STATUS_OK) status = run(&found);
    arena_free(&found.arena);
    arena_free(&open.arena);
    return status;
}

char **best_arguments(const struct options *options) {
    char **out = MEM_ARRAY(char *, 2 * DECIDED + 1);
    for (int i = 0, at = 0; i < DECIDED; i++) {
        if (options->source[decided[i]] != OPTION_FROM_SEARCH) continue;
        out[at++] = mem_format("--%s", option_rows[decided[i]].name);
        out[at++] = option_text(options, decided[i]);
    }
    return out;
}
