/* See agreed_program.h. The choice is a function of options, model and costs; but costs are those
 * of a machine, and ranks of several may come to several choices. So rank 0's holds. For the same
 * reason a resumed run takes the program of the one before it: it may go on elsewhere. */
#include "planned/agreed_program.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "planned/paths.h"

enum { PROGRAM_LIMIT = 512 << 20, CONFIG_LIMIT = 1 << 20 };
static const char file_name[] = "program.txt";

/* What the choice depends on, beside what a resumed run cannot change. */
static const enum option_id deciding[] = {
    OPTION_strategy,       OPTION_schedule,           OPTION_stages,  OPTION_replicas,
    OPTION_virtual_stages, OPTION_micro_batches,      OPTION_balance, OPTION_cut,
    OPTION_recompute,      OPTION_memory_limit_bytes, OPTION_profile};

static bool same_text(const struct options *a, const struct options *b, enum option_id id) {
    SCOPED_FREE char *one = paths_text(a, id), *other = paths_text(b, id);
    return option_is_given(a, id) == option_is_given(b, id) && strcmp(one, other) == 0;
}

static bool same_options(const struct options *options, const char *path) {
    SCOPED(bytes_free) struct bytes text = {0};
    SCOPED(options_free) struct options before = {0};
    if (!file_exists(path) || file_read(path, CONFIG_LIMIT, &text) != STATUS_OK) return false;
    options_init(options->command, &before);
    bool same = options_parse_yaml(path, text.data, text.count, &before) == STATUS_OK;
    for (size_t i = 0; same && i < sizeof deciding / sizeof deciding[0]; i++)
        same = same_text(options, &before, deciding[i]);
    return same;
}

static enum status read_text(const char *folder, struct bytes *out) {
    SCOPED_FREE char *path = folder_path(folder, file_name);
    return file_exists(path) ? file_read(path, PROGRAM_LIMIT, out) : STATUS_OK;
}

/* Whether it is for the ranks of this run; the plan looks at all the rest. */
static bool is_for(const struct run_config *config, const struct bytes *text) {
    SCOPED(program_free) struct program *program = NULL;
    if (!text->count ||
        program_parse(file_name, (const char *)text->data, text->count, &program) != STATUS_OK)
        return false;
    return program->ranks == config->ranks && program->grid.stages == config->grid.stages &&
           program->grid.replicas == config->replicas &&
           program->micro_batches == config->micro_batches && program->sum == config->sum;
}

void agreed_program_find(const struct options *options, const struct run_config *config,
                         struct bytes *out) {
    *out = (struct bytes){0};
    if (!options->resume || !plan_is_auto(config) || !option_is_set(options, OPTION_out)) return;
    char *path = folder_path(options->out, "config.yml");
    bool taken = same_options(options, path) && read_text(options->out, out) == STATUS_OK &&
                 is_for(config, out);
    free(path);
    if (!taken) bytes_free(out);
}

enum status agreed_program_save(const struct plan *plan, const char *folder) {
    SCOPED(bytes_free) struct bytes text = plan_text(plan);
    SCOPED_FREE char *path = folder_path(folder, file_name);
    return file_write_text(path, (const char *)text.data);
}
