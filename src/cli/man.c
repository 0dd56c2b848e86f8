/* stretto(1). Commands, options, models, data sets and exit codes are read off their tables, so
 * that the page cannot say anything else than --help does; the few sentences around them are here.
 * `make install` writes it to a file. */

#include "base/option_print.h"
#include "base/text.h"
#include "cli/cli.h"
#include "stretto.h"

/* .TP: a name in bold, an argument in italics, and words. */
static void entry(FILE *out, const char *name, const char *argument, const char *words) {
    fputs(".TP\n\\fB", out);
    text_troff(out, name);
    fputs("\\fR", out);
    if (*argument) {
        fputs(" \\fI", out);
        text_troff(out, argument);
        fputs("\\fR", out);
    }
    fputs("\n", out);
    text_troff(out, words);
    fputs(".\n", out);
}

static void print_commands(FILE *out) {
    fputs(".SH COMMANDS\n", out);
    for (int i = 0; i < cli_command_count; i++) {
        const struct option_command_row *row = &option_commands[__builtin_ctz(cli_commands[i].id)];
        entry(out, row->name, row->arguments, row->summary);
    }
}

static void print_values(FILE *out) {
    fputs(".SH VALUES\n", out);
    entry(out, "flag", "", "\"--x\", \"--x on\" or \"--x off\"");
    entry(out, "SIZE", "", "512M, 1.5GiB (powers of 1024) or 2GB (of 1000)");
    entry(out, "TIME", "", "90 (seconds), 10m or 2h");
    entry(out, "PERIOD", "", "a number of steps, epoch, 2epochs or never");
}

static void print_registry(enum option_registry registry, const char *title, FILE *out) {
    struct option_word word;
    fprintf(out, ".SH %s\n", title);
    for (int i = 0; option_registry_word(registry, i, &word); i++) {
        SCOPED_FREE char *usage = option_word_usage(&word);
        entry(out, usage, "", word.help);
    }
}

static void print_exit_codes(FILE *out) {
    fputs(".SH EXIT STATUS\n", out);
    for (int status = STATUS_OK; status < STATUS_STOPPED; status++) {
        char code[TEXT_BYTES];
        snprintf(code, sizeof code, "%d", status_exit_code((enum status)status));
        entry(out, code, "", status_text((enum status)status));
    }
    entry(out, "128 + n", "", "saved and stopped by signal n; by a time limit as by SIGALRM");
}

static const char examples[] =
    ".SH EXAMPLES\n"
    ".nf\n"
    "stretto train\n"
    "stretto explain \\-\\-model lenet \\-\\-data mnist:data/mnist\n"
    "stretto train \\-\\-model lenet \\-\\-data mnist:data/mnist \\-\\-out runs/first\n"
    "stretto train \\-\\-resume \\-\\-out runs/first\n"
    "stretto train \\-n 4 \\-\\-out runs/four\n"
    "stretto compare runs/first runs/four\n"
    ".fi\n";

static const char documents[] =
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBSTRETTO_KEY\\fR\n"
    "The job\\(aqs secret, where \\fB\\-\\-key\\fR names no file.\n"
    ".PP\n"
    "The number of a rank is also read from the variables of Slurm, MPI and torchrun; "
    "docs/ranks.md\n"
    "lists them.\n"
    ".SH FILES\n"
    "A run writes to the folder of \\fB\\-\\-out\\fR; docs/usage.md lists the files.\n"
    ".SH SEE ALSO\n"
    "The documents that are installed with the program, in share/doc/stretto below the prefix:\n"
    "docs/usage.md, docs/models.md, docs/metrics.md, docs/data.md, docs/ranks.md and\n"
    "docs/checkpoints.md. Programs with the library, in C: examples/, explained in "
    "docs/library.md.\n";

void cli_print_man(FILE *out) {
    fprintf(out, ".TH STRETTO 1 \"\" \"stretto %s\" \"User Commands\"\n", stretto_version());
    fputs(".SH NAME\nstretto \\- train neural networks, on one device or over many ranks\n"
          ".SH SYNOPSIS\n\\fBstretto\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n.br\n"
          "\\fBstretto\\fR \\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR\n"
          ".SH DESCRIPTION\nStretto trains neural networks, on one device or over many ranks: data "
          "parallel, ZeRO, pipelines.\nThe options of a command: \\fBstretto\\fR \\fICOMMAND\\fR "
          "\\fB\\-\\-help\\fR.\n",
          out);
    print_commands(out);
    fputs(".SH OPTIONS\n", out);
    options_print_man(out);
    print_values(out);
    print_registry(OPTION_REGISTRY_models, "MODELS", out);
    print_registry(OPTION_REGISTRY_data_sets, "DATA SETS", out);
    print_exit_codes(out);
    fputs(examples, out);
    fputs(documents, out);
}
