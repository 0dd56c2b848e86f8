/* Subcommands: a row in the table of cli/command.c and a file each, which exports NAME_run. The
 * name, summary and arguments of a command and the options it takes are rows of base/options.def.
 */
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

/* Local. Notes which signal a run was stopped by, so that STATUS_STOPPED exits with 128 + signal.
 */
void cli_stopped_by(int signal);

/* Local, blocking. The whole program: runs the command named by argv[1]; returns the exit code. */
int cli_main(int argc, char **argv);

/* The commands. */
enum status train_run(const struct options *options);
enum status explain_run(const struct options *options);
enum status check_run(const struct options *options);
enum status launch_run(const struct options *options);
enum status compare_run(const struct options *options);
enum status doctor_run(const struct options *options);
enum status key_run(const struct options *options);
enum status completion_run(const struct options *options);
enum status help_run(const struct options *options);

#endif
