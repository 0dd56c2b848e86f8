/* stretto completion SHELL. The table of options knows their names and words. */
#include "cli/cli.h"

#include <string.h>

#include "base/log.h"
#include "base/option_print.h"
#include "base/text.h"

enum status completion_run(const struct options *options) {
    char quoted[TEXT_QUOTED_BYTES];
    bool zsh = strcmp(options->argument[0], "zsh") == 0;
    if (!zsh && strcmp(options->argument[0], "bash") != 0)
        return fail(STATUS_USAGE, "completion: %s is not a known shell\n  allowed: bash, zsh",
                    text_quoted(options->argument[0], quoted));
    SCOPED_FREE unsigned *commands = MEM_ARRAY(unsigned, cli_command_count);
    for (int i = 0; i < cli_command_count; i++) commands[i] = (unsigned)cli_commands[i].id;
    (zsh ? options_print_zsh : options_print_bash)(commands, cli_command_count, stdout);
    return STATUS_OK;
}
