/* stretto help [COMMAND]; with --markdown the option table of docs/usage.md; with --man the manual
 * page (man.c). */
#include <stdlib.h>

#include "base/option_print.h"
#include "base/text.h"
#include "cli/cli.h"

static void print_registry(enum option_registry registry, FILE *out) {
    struct option_word word;
    fprintf(out, "\n%s\n", option_registry_title(registry));
    for (int i = 0; option_registry_word(registry, i, &word); i++) {
        char *usage = option_word_usage(&word), *name = mem_format("  %s", usage);
        text_entry(out, name, OPTION_HELP_COLUMN, word.help);
        free(name);
        free(usage);
    }
}

void cli_print_options(enum option_command command, FILE *out) {
    options_print_help(command, out);
    if (!(option_rows[OPTION_model].commands & (unsigned)command)) return;
    print_registry(OPTION_REGISTRY_models, out);
    print_registry(OPTION_REGISTRY_data_sets, out);
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
