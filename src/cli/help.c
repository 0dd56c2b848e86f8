/* stretto help [COMMAND]; with --markdown the option table of docs/usage.md; with --man the manual
 * page (man.c). */
#include <stdlib.h>

#include "base/option_print.h"
#include "base/text.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "model/model.h"

static void print_entry(FILE *out, const char *help, char *name_owned) {
    text_entry(out, name_owned, OPTION_HELP_COLUMN, help);
    free(name_owned);
}

static void print_models(FILE *out) {
    int count;
    const struct model *all = model_all(&count);
    fputs("\nmodels\n", out);
    for (int i = 0; i < count; i++) print_entry(out, all[i].help, mem_format("  %s", all[i].name));
}

char *cli_data_usage(const struct dataset_ops *ops) {
    const char *argument = ops->argument ? ops->argument : "";
    bool may_miss = *argument == '[';
    const char *before = may_miss ? "[:" : *argument ? ":" : "";
    return mem_format("%s%s%s", ops->name, before, argument + may_miss);
}

static void print_data_sets(FILE *out) {
    const struct dataset_ops *ops;
    fputs("\ndata sets\n", out);
    for (int i = 0; (ops = dataset_at(i)); i++) {
        char *usage = cli_data_usage(ops);
        print_entry(out, ops->help, mem_format("  %s", usage));
        free(usage);
    }
}

void cli_print_options(enum option_command command, FILE *out) {
    options_print_help(command, out);
    if (!(option_rows[OPTION_model].commands & (unsigned)command)) return;
    print_models(out);
    print_data_sets(out);
}

enum status help_run(const struct options *options) {
    if (options->markdown) {
        options_print_markdown(stdout);
    } else if (options->man) {
        cli_print_man(stdout);
    } else if (options->argument_count == 0) {
        cli_print_help(stdout);
    } else {
        const struct command *command = cli_find(options->argument[0]);
        if (!command) return cli_unknown_command(options->argument[0]);
        cli_print_options(command->id, stdout);
    }
    return STATUS_OK;
}
