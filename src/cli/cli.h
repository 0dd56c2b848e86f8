/* Subcommands: a row in base/options.def and a file each, which exports NAME_run. The options that
 * a command takes are rows of that table, too. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/option.h"

struct command {
    enum option_command id;
    /* Local unless the command says otherwise, blocking. The options belong to the caller. */
    enum status (*run)(const struct options *options);
};

extern const struct command cli_commands[];
extern const int cli_command_count;

/* Local. NULL when there is none; cli_unknown_command then says so, with the nearest name. */
const struct command *cli_find(const char *name);
enum status cli_unknown_command(const char *name);

/* Local. What `stretto --help` prints. */
void cli_print_help(FILE *out);
/* Local. What `stretto COMMAND --help` prints: its options, and the words some of them take. */
void cli_print_options(enum option_command command, FILE *out);

/* Local. What `stretto help --man` prints: stretto(1), in troff. */
void cli_print_man(FILE *out);

/* Local, blocking. The whole program: runs the command named by argv[1]; returns the exit code. */
int cli_main(int argc, char **argv);

/* The commands: train_run, explain_run ... */
#define COMMAND(ID, name, ...) enum status name##_run(const struct options *options);
#include "base/options.def"

#endif
