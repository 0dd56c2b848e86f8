/* See job_costs.h. */
#include "job/job_costs.h"

#include <stdlib.h>

#include "base/log.h"
#include "cost/key.h"
#include "plan/plan_auto.h"

/* A forecast has use for every profile; a run that only trains has not. */
static enum status check_use(const struct options *options, const struct run_config *config) {
    bool forecast = options->command == COMMAND_EXPLAIN || options->command == COMMAND_SIMULATE;
    bool used = forecast || plan_is_auto(config) || config->balance == BALANCE_TIME;
    if (used || !option_is_given(options, OPTION_profile)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--profile has no effect here: schedule %s does not depend on times\n"
                "  --strategy auto does; explain and simulate forecast with it",
                config->schedule);
}

/* The times of --delay by instruction. */
static void take_delays(const struct cost_units *costs, struct run_config *config) {
    static const int kind[INSTR_COUNT_] = {[INSTR_F] = 1 + COST_F,
                                           [INSTR_R] = 1 + COST_R,
                                           [INSTR_B] = 1 + COST_B,
                                           [INSTR_I] = 1 + COST_I,
                                           [INSTR_W] = 1 + COST_W};
    config->delays = true;
    for (int op = 0; op < INSTR_COUNT_; op++)
        config->delay_ns[op] = kind[op] ? (int64_t)costs->of[kind[op] - 1] : 0;
}

static enum status read_units(struct job_costs *costs, const struct options *options,
                              struct run_config *config) {
    bool given = option_is_given(options, OPTION_costs),
         delays = option_is_given(options, OPTION_delay);
    if (given) TRY(cost_units_parse("--costs", options->costs, &costs->units));
    if (delays) TRY(cost_units_parse_delay("--delay", options->delay, &costs->units));
    if (delays) take_delays(&costs->units, config);
    if (given || delays) costs->source.units = &costs->units;
    return STATUS_OK;
}

static enum status pick_section(struct job_costs *costs, const struct run_config *config,
                                int local_ranks) {
    char isa[PROFILE_ISA_BYTES];
    struct profile_place place =
        profile_place_of(config->device, config->device_index, config->threads, local_ranks, isa);
    return profile_pick(&costs->profile, &place, &costs->source.section);
}

static void node_times(const struct run_config *config, const struct graph *graph, double *ns) {
    struct job_costs *costs = config->node_times_context;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        struct op_call call = graph_call(graph, node);
        struct op_cost cost = op_cost(&call);
        struct arena arena = {0};
        struct profile_key key = profile_key_of(graph, node, &arena);
        ns[i] = node->kernel ? profile_op(&costs->profile, costs->source.section, &key, &cost, 1).ns
                             : 0;
        arena_free(&arena);
    }
}

static enum status read_profile(struct job_costs *costs, const struct options *options,
                                int local_ranks, struct run_config *config) {
    TRY(profile_read_all(options->profile, &costs->profile));
    costs->source.profile = &costs->profile;
    TRY(pick_section(costs, config, local_ranks));
    if (config->balance != BALANCE_TIME) return STATUS_OK;
    config->node_times = node_times;
    config->node_times_context = costs;
    return STATUS_OK;
}

/* Orders are chosen for one limit: the least that a device of the run has. */
static void limit_choice(const struct cluster *cluster, struct run_config *config) {
    if (config->memory_limit) return; /* --memory-limit stands in for it */
    for (int r = 0; r < config->ranks; r++) {
        int64_t bytes = cluster_memory_bytes(cluster, r);
        if (r == 0 || bytes < config->memory_limit) config->memory_limit = bytes;
    }
}

static enum status read_cluster(struct job_costs *costs, const struct options *options,
                                struct run_config *config) {
    TRY(cluster_read(options->cluster, &costs->cluster));
    costs->source.cluster = &costs->cluster;
    TRY(cluster_check_ranks(&costs->cluster, options->cluster, config->ranks));
    if (!plan_is_auto(config)) return STATUS_OK;
    choice_devices_new(&costs->cluster, &config->grid, &costs->devices);
    limit_choice(&costs->cluster, config);
    return STATUS_OK;
}

enum status job_costs_read(const struct options *options, bool files, int local_ranks,
                           struct run_config *config, struct job_costs **out) {
    struct job_costs *costs = MEM_NEW(struct job_costs);
    enum status status = check_use(options, config);
    files |= config->balance == BALANCE_TIME;
    if (status == STATUS_OK) status = read_units(costs, options, config);
    if (status == STATUS_OK && files && option_is_given(options, OPTION_profile))
        status = read_profile(costs, options, local_ranks, config);
    if (status == STATUS_OK && files && option_is_given(options, OPTION_cluster))
        status = read_cluster(costs, options, config);
    costs->choice = choice_costs_of(&costs->source, &costs->devices);
    if (status == STATUS_OK)
        *out = costs;
    else
        job_costs_free(&costs);
    return status;
}

void job_costs_free(struct job_costs **costs) {
    if (!*costs) return;
    if ((*costs)->source.profile) profile_free(&(*costs)->profile);
    if ((*costs)->source.cluster) cluster_free(&(*costs)->cluster);
    choice_devices_free(&(*costs)->devices);
    free(*costs);
    *costs = NULL;
}

const struct choice_costs *job_costs_choice(const struct job_costs *costs,
                                            const struct run_config *config) {
    bool chooses = plan_is_auto(config) && config->rank == 0 && !config->agreed;
    bool given =
        (costs->source.units && !config->delays) || costs->source.section || costs->source.cluster;
    return chooses && given ? &costs->choice : NULL;
}
