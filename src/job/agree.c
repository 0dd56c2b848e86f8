/* See agree.h. The choice is a function of options, model and costs; but costs are those of a
 * machine, and ranks of several may come to several choices. So rank 0's holds. For the same reason
 * a resumed run takes the programs of the one before it: it may go on elsewhere. */
#include "job/agree.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "sim/choice_costs.h"
#include "sim/key.h"

enum { PROGRAM_LIMIT = 512 << 20, CONFIG_LIMIT = 1 << 20 };
static const char step_file[] = "program.txt", last_file[] = "program-last.txt";

/* --- costs --- */

static enum status pick_section(struct agree_costs *costs, const struct run_config *config,
                                int local_ranks) {
    struct device *device;
    char isa[PROFILE_ISA_BYTES];
    TRY(device_open(config->device, 0, config->threads, &device));
    struct profile_place place = profile_place_of(config, device, local_ranks, isa);
    enum status status = profile_pick(&costs->profile, &place, &costs->source.section);
    device_close(&device);
    return status;
}

static enum status read_costs(struct agree_costs *costs, const struct options *options,
                              const struct run_config *config, int local_ranks) {
    if (option_is_given(options, OPTION_costs)) {
        costs->source.units = &costs->units;
        return costs_parse("--costs", options->costs, &costs->units);
    }
    if (option_is_given(options, OPTION_profile)) {
        TRY(profile_read(options->profile, &costs->profile));
        costs->source.profile = &costs->profile;
        return pick_section(costs, config, local_ranks);
    }
    TRY(cluster_read(options->cluster, &costs->cluster));
    costs->source.cluster = &costs->cluster;
    TRY(cluster_check_ranks(&costs->cluster, options->cluster, config->ranks));
    choice_devices_new(&costs->cluster, &config->grid, &costs->devices);
    return STATUS_OK;
}

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

enum status agree_costs_read(const struct options *options, const struct run_config *config,
                             int local_ranks, struct agree_costs **out) {
    bool files = option_is_given(options, OPTION_costs) ||
                 option_is_given(options, OPTION_profile) ||
                 option_is_given(options, OPTION_cluster);
    *out = NULL;
    TRY(check_use(options, config));
    bool chooses = plan_is_auto(config) && config->rank == 0 && !config->agreed;
    if (!chooses || !files) return STATUS_OK;
    struct agree_costs *costs = MEM_NEW(struct agree_costs);
    enum status status = read_costs(costs, options, config, local_ranks);
    if (status == STATUS_OK) {
        costs->costs = choice_costs_of(&costs->source, &costs->devices);
        *out = costs;
    } else {
        agree_costs_free(&costs);
    }
    return status;
}

void agree_costs_free(struct agree_costs **costs) {
    if (*costs && (*costs)->source.profile) profile_free(&(*costs)->profile);
    if (*costs && (*costs)->source.cluster) cluster_free(&(*costs)->cluster);
    if (*costs) choice_devices_free(&(*costs)->devices);
    free(*costs);
    *costs = NULL;
}

/* --- programs of a run that is resumed --- */

/* What the choice depends on, beside what a resumed run cannot change. */
static const enum option_id deciding[] = {
    OPTION_strategy,       OPTION_schedule,           OPTION_stages,  OPTION_replicas,
    OPTION_virtual_stages, OPTION_micro_batches,      OPTION_balance, OPTION_cut,
    OPTION_recompute,      OPTION_memory_limit_bytes, OPTION_profile};

static bool same_text(const struct options *a, const struct options *b, enum option_id id) {
    char *one = option_text(a, id), *other = option_text(b, id);
    bool same = option_is_given(a, id) == option_is_given(b, id) && strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
}

static bool same_options(const struct options *options, const char *path) {
    struct bytes text = {0};
    struct options before;
    if (!file_exists(path) || file_read(path, CONFIG_LIMIT, &text) != STATUS_OK) return false;
    options_init(options->command, &before);
    bool same = options_parse_yaml(path, text.data, text.count, &before) == STATUS_OK;
    for (size_t i = 0; same && i < sizeof deciding / sizeof deciding[0]; i++)
        same = same_text(options, &before, deciding[i]);
    options_free(&before);
    bytes_free(&text);
    return same;
}

static enum status read_text(const char *folder, const char *name, struct bytes *out) {
    char *path = folder_path(folder, name);
    enum status status = file_exists(path) ? file_read(path, PROGRAM_LIMIT, out) : STATUS_OK;
    free(path);
    return status;
}

/* Whether they are for the ranks of this run; the plan looks at all the rest. */
static bool is_for(const struct run_config *config, const struct bytes *text) {
    struct program *program = NULL;
    if (!text->count ||
        program_parse(step_file, (const char *)text->data, text->count, &program) != STATUS_OK)
        return false;
    bool is = program->ranks == config->ranks && program->grid.stages == config->grid.stages &&
              program->grid.replicas == config->replicas &&
              program->micro_batches == config->micro_batches && program->sum == config->sum;
    program_free(&program);
    return is;
}

void agree_saved(const struct options *options, const struct run_config *config,
                 struct program_texts *out) {
    *out = (struct program_texts){0};
    if (!options->resume || !plan_is_auto(config) || !option_is_set(options, OPTION_out)) return;
    char *path = folder_path(options->out, "config.yml");
    bool taken = same_options(options, path) &&
                 read_text(options->out, step_file, &out->step) == STATUS_OK &&
                 read_text(options->out, last_file, &out->last) == STATUS_OK &&
                 is_for(config, &out->step);
    free(path);
    if (!taken) program_texts_free(out);
}

static enum status save_text(const char *folder, const char *name, const struct bytes *text) {
    char *path = folder_path(folder, name);
    enum status status = file_write_text(path, (const char *)text->data);
    free(path);
    return status;
}

enum status agree_save(const struct plan *plan, const char *folder) {
    struct program_texts texts;
    plan_texts(plan, &texts);
    enum status status = save_text(folder, step_file, &texts.step);
    bool both = plan_is_auto(&plan->config) && texts.last.count;
    if (status == STATUS_OK && both) status = save_text(folder, last_file, &texts.last);
    program_texts_free(&texts);
    return status;
}
