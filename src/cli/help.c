/* stretto help [COMMAND]; with --markdown the option table of docs/usage.md. */
#include "cli/cli.h"

enum status help_run(const struct options *options) {
    if (options->markdown) {
        options_print_markdown(stdout);
    } else if (options->argument_count == 0) {
        cli_print_help(stdout);
    } else {
        const struct command *command = cli_find(options->argument[0]);
        if (!command) return cli_unknown_command(options->argument[0]);
        options_print_help(command->id, stdout);
    }
    return STATUS_OK;
}
