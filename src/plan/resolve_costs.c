/* The part of a configuration that follows from costs: see resolve.h. */
#include <string.h>

#include "base/log.h"
#include "cost/key.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"

/* A forecast has use for every profile; a run that only trains has not. */
static enum status check_use(const struct options *options, const struct run_config *config) {
    bool forecast = options->command == COMMAND_EXPLAIN || options->command == COMMAND_SIMULATE;
    bool used = forecast || plan_is_auto(config) || config->balance == BALANCE_TIME ||
                strcmp(options->clock, "virtual") == 0;
    if (used || !option_is_given(options, OPTION_profile)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--profile has no effect here: schedule %s does not depend on times\n"
                "  --strategy auto does; explain and simulate forecast with it",
                config->schedule);
}

static enum status pick_section(struct costs *costs, const struct run_config *config,
                                int local_ranks) {
    char isa[PROFILE_ISA_BYTES];
    struct profile_place place =
        profile_place_of(config->device, config->device_index, config->threads, local_ranks, isa);
    return costs->profile ? profile_pick(costs->profile, &place, &costs->section) : STATUS_OK;
}

/* Orders are chosen for one limit. */
void resolve_limit(const struct costs *costs, struct run_config *config) {
    const struct cluster *cluster = costs->cluster;
    if (!cluster || config->memory_limit || !plan_is_auto(config)) return;
    for (int r = 0; r < config->ranks; r++) {
        int64_t bytes = cluster_memory_bytes(cluster, r);
        if (r == 0 || bytes < config->memory_limit) config->memory_limit = bytes;
    }
}

/* A profile says what passes take, as the law `base` does. */
static enum status check_laws(const struct options *options, const struct costs *costs,
                              const struct run_config *config) {
    if (costs->hetero->base_ns > 0 && option_is_given(options, OPTION_profile))
        return fail(STATUS_USAGE, "--profile and --hetero base exclude one another\n"
                                  "  each says alone what a pass takes");
    return hetero_check_ranks("--hetero", costs->hetero, options->hetero, config->ranks);
}

enum status resolve_costs(const struct options *options, bool files, int local_ranks,
                          struct run_config *config, struct costs **out) {
    struct costs *costs;
    TRY(check_use(options, config));
    TRY(cost_read(options, files || config->balance == BALANCE_TIME, &costs));
    enum status status = pick_section(costs, config, local_ranks);
    if (status == STATUS_OK && costs->cluster)
        status = cluster_check_ranks(costs->cluster, options->cluster, config->ranks);
    if (status == STATUS_OK && costs->hetero) status = check_laws(options, costs, config);
    if (status != STATUS_OK) {
        cost_free(&costs);
        return status;
    }
    resolve_limit(costs, config);
    config->costs = *out = costs;
    return STATUS_OK;
}
