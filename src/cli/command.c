/* The table of subcommands, and the way from arguments to an exit code. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/display.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "run/option_files.h"
#include "run/refusal.h"
#include "run/session.h"
#include "stretto.h"

const struct command cli_commands[] = {
#define COMMAND(ID, name, ...) {COMMAND_##ID, name##_run},
#include "base/options.def"
};
const int cli_command_count = sizeof cli_commands / sizeof cli_commands[0];

static const struct option_command_row *row_of(const struct command *command) {
    return &option_commands[__builtin_ctz(command->id)];
}

const struct command *cli_find(const char *name) {
    for (int i = 0; i < cli_command_count; i++) {
        if (strcmp(row_of(&cli_commands[i])->name, name) == 0) return &cli_commands[i];
    }
    return NULL;
}

enum status cli_unknown_command(const char *name) {
    const char **list = MEM_ARRAY(const char *, cli_command_count);
    for (int i = 0; i < cli_command_count; i++) list[i] = row_of(&cli_commands[i])->name;
    const char *near = text_nearest(name, list, cli_command_count);
    char quoted[TEXT_QUOTED_BYTES];
    text_quoted(name, quoted);
    free(list);
    if (near) return fail(STATUS_USAGE, "%s: unknown command; did you mean %s?", quoted, near);
    return fail(STATUS_USAGE, "%s: unknown command\n  all of them: stretto --help", quoted);
}

void cli_print_help(FILE *out) {
    enum { SUMMARY_COLUMN = 40 };
    fputs("Stretto trains neural networks, on one device or over many ranks: data parallel, ZeRO, "
          "pipelines.\n\n"
          "usage: stretto COMMAND [options]\n\n",
          out);
    for (int i = 0; i < cli_command_count; i++) {
        const struct option_command_row *row = row_of(&cli_commands[i]);
        SCOPED_FREE char *name =
            mem_format("  %s%s%s", row->name, *row->arguments ? " " : "", row->arguments);
        text_entry(out, name, SUMMARY_COLUMN, row->summary);
    }
    fputs("\nThe options of a command: stretto COMMAND --help. The version: stretto --version.\n",
          out);
}

/* STATUS_STOPPED exits with 128 + signal. */
static int exit_code(enum status status) {
    int signal = session_stop_signal();
    return status == STATUS_STOPPED && signal ? 128 + signal : status_exit_code(status);
}

static void say_lost(int fd, const char *name) {
    struct display_loss loss;
    if (!display_lost(fd, &loss)) return;
    if (loss.error)
        log_warning("%s: not all of it could be shown: %s", name, strerror(loss.error));
    else
        log_warning("%s: not shown, since nothing read it: %ld line%s\n"
                    "  the output folder has the metrics, the summary and the output of the ranks",
                    name, loss.lines, loss.lines == 1 ? "" : "s");
}

/* A training run's answer is in its folder: what it prints is for whoever looks on, and is waited
 * for only while somebody reads. */
static void finish_display(void) {
    enum { IDLE_S = 2 };
    display_drain(IDLE_S);
    say_lost(STDOUT_FILENO, "standard output");
    say_lost(STDERR_FILENO, "standard error");
}

/* A full disk or a closed pipe shows only when the last bytes leave. A command that failed has said
 * why already. */
static enum status flush_output(enum status status) {
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || status != STATUS_OK) return status;
    return fail(STATUS_DATA, "standard output: write failed: %s", strerror(errno));
}

/* Together with the options of the run that goes on: resume.c. */
static bool reads_later(const struct options *options) {
    return options->resume &&
           (options->command & (COMMAND_TRAIN | COMMAND_EXPLAIN | COMMAND_SIMULATE));
}

static enum status run_command(const struct command *command, int argc, char **argv) {
    SCOPED(options_free) struct options options = {0};
    TRY(options_parse(command->id, argc, argv, &options));
    if (options.help)
        cli_print_options(command->id, stdout);
    else if (!reads_later(&options))
        TRY(run_option_files_apply(&options, &options));
    if (!options.help) TRY(command->run(&options));
    return STATUS_OK;
}

static enum status run(const struct command *command, int argc, char **argv) {
    bool ranks = command->id & (COMMAND_TRAIN | COMMAND_EVAL | COMMAND_PREDICT);
    if (ranks) refusal_hold();
    enum status status = run_command(command, argc, argv);
    if (ranks) refusal_say();
    return status;
}

static int run_named(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    const struct command *command = name ? cli_find(name) : NULL;
    enum status status = STATUS_OK;
    bool training = command && command->id == COMMAND_TRAIN;
    if (!training) process_release_signals(); /* a training run does it when it has handlers */
    if (!name) {
        cli_print_help(stderr);
        status = STATUS_USAGE;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        cli_print_help(stdout);
    else if (strcmp(name, "--version") == 0)
        printf("stretto %s\n", stretto_version());
    else
        status = command ? run(command, argc - 2, argv + 2) : cli_unknown_command(name);
    if (training) finish_display();
    return exit_code(flush_output(status));
}

int cli_main(int argc, char **argv) {
    limit_watch();
    control_describe_records(recorder_describe_position);
    int code = run_named(argc, argv);
    limit_watch_end();
    return code;
}

/* argv as main gets it has `argc` texts. */
static enum status check_arguments(int argc, char **argv) {
    if (argc < 0 || (argc > 0 && !argv))
        return fail(STATUS_USAGE, "stretto_main: %d arguments%s", argc,
                    argv ? "" : ", and the list of them is NULL");
    for (int i = 0; i < argc; i++)
        if (!argv[i]) return fail(STATUS_USAGE, "stretto_main: argument %d of %d is NULL", i, argc);
    return STATUS_OK;
}

int stretto_main(int argc, char **argv) {
    enum status status = check_arguments(argc, argv);
    return status == STATUS_OK ? cli_main(argc, argv) : status_exit_code(status);
}
