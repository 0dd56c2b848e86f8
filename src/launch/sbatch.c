/* See sbatch.h. The script lets srun start the ranks, which find their identity by Slurm's
 * variables and meet at a file in the working folder. A run that Slurm starts again goes on from
 * its checkpoint: the output folder carries the job's number. */
#include "launch/sbatch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "launch/cores.h"

enum { MARGIN_S = 300, WARNING_S = 120, WAIT_S = 90 };

/* What the script says by other means, and what Slurm says. */
static const enum option_id said_otherwise[] = {OPTION_emit,    OPTION_local_ranks, OPTION_nodes,
                                                OPTION_threads, OPTION_resume,      OPTION_out,
                                                OPTION_help};
static const enum option_id slurm_says[] = {OPTION_rank, OPTION_world_size, OPTION_node_rank,
                                            OPTION_hostfile, OPTION_nodes_file};

/* What must not stand in a script as it is: bash reads it back from \xNN. */
static char *quote_bytes(const char *word) {
    size_t bytes = 4 * strlen(word) + 4, used = 2;
    char *text = mem_new(bytes);
    memcpy(text, "$'", 2);
    for (; *word; word++) {
        bool plain = *word >= ' ' && *word < 0x7F && *word != '\'' && *word != '\\';
        used += (size_t)snprintf(text + used, bytes - used, plain ? "%c" : "\\x%02x",
                                 (unsigned char)*word);
    }
    text[used] = '\'';
    return text;
}

char *sbatch_quote(const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
    if (*word && strspn(word, plain) == strlen(word)) return mem_text(word);
    if (!shown_is_plain(word)) return quote_bytes(word);
    size_t quotes = 0, used = 0;
    for (const char *at = word; *at; at++) quotes += *at == '\'';
    char *text = mem_new(strlen(word) + 3 * quotes + 3);
    text[used++] = '\'';
    for (const char *at = word; *at; at++) {
        if (*at == '\'')
            memcpy(text + used, "'\\'", 3), used += 3; /* closes, adds a quote, opens */
        text[used++] = *at;
    }
    text[used] = '\'';
    return text;
}

static bool is_listed(enum option_id id, const enum option_id *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (list[i] == id) return true;
    }
    return false;
}

static enum status check(const struct options *options) {
    for (size_t i = 0; i < sizeof slurm_says / sizeof slurm_says[0]; i++) {
        if (option_is_given(options, slurm_says[i]))
            return fail(STATUS_USAGE,
                        "--%s is not allowed in a job script: srun sets it\n  give --nodes and -n",
                        option_rows[slurm_says[i]].name);
    }
    return STATUS_OK;
}

/* Slurm gives a task one core unless it is asked for more. How many a node has is not known here:
 * the default is this machine's, and the script says so. */
static void write_cores(const struct options *options, int cores, FILE *out) {
    struct cores_share share = {.usable = cores, .pool = cores, .ranks = (int)options->local_ranks};
    int64_t threads = cores_threads(&share);
    if (option_is_given(options, OPTION_threads))
        threads = options->threads;
    else
        fprintf(out,
                "# Threads of a rank. Here: cores of the machine that wrote this (%d) / ranks of a "
                "node; change it to fit.\n",
                cores);
    fprintf(out, "#SBATCH --cpus-per-task=%" PRId64 "\n", threads);
}

static void write_header(const struct options *options, int cores, FILE *out) {
    SCOPED_FREE char *name = sbatch_quote(options->model);
    fprintf(out, "#!/bin/bash\n");
    fprintf(out, "#SBATCH --job-name=stretto-%s\n", name);
    fprintf(out, "#SBATCH --nodes=%" PRId64 "\n",
            option_is_set(options, OPTION_nodes) ? options->nodes : 1);
    fprintf(out, "#SBATCH --ntasks-per-node=%" PRId64 "\n", options->local_ranks);
    write_cores(options, cores, out);
    if (strncmp(options->device, "cuda", 4) == 0)
        fprintf(out, "#SBATCH --gres=gpu:%" PRId64 "\n", options->local_ranks);
    if (option_is_set(options, OPTION_time_limit_s))
        fprintf(out, "#SBATCH --time=%.0f\n", ceil((options->time_limit_s + MARGIN_S) / 60));
    else
        fprintf(out, "##SBATCH --time=MINUTES\n");
    fprintf(out, "##SBATCH --partition=NAME\n");
    fprintf(out, "#SBATCH --output=%%x-%%j.log\n#SBATCH --open-mode=append\n#SBATCH --requeue\n");
    fprintf(
        out,
        "# Ranks save and stop when the time is nearly up.\n#SBATCH --signal=TERM@%d\n\nset -eu\n",
        WARNING_S);
}

static void write_resume(const struct options *options, FILE *out) {
    if (options->resume) {
        fprintf(out, "resume=--resume\n");
        return;
    }
    fprintf(out, "# Started again by Slurm, the run goes on from its newest checkpoint.\n"
                 "resume=\n"
                 "[ \"${SLURM_RESTART_COUNT:-0}\" = 0 ] || resume='--overwrite off --resume'\n");
}

static void write_option(const struct options *options, enum option_id id, FILE *out) {
    SCOPED_FREE char *text = option_text(options, id), *quoted = sbatch_quote(text);
    fprintf(out, " \\\n    --%s %s", option_rows[id].name, quoted);
}

/* The model always, but for a run that has one: a job that Slurm starts again may have been killed
 * before the run wrote its options down, and --resume then needs the name. */
static bool needs_option(const struct options *options, enum option_id id) {
    return option_is_given(options, id) || (id == OPTION_model && !options->resume);
}

static void write_command(const struct options *options, const char *program, FILE *out) {
    SCOPED_FREE char *quoted = sbatch_quote(program);
    SCOPED_FREE char *folder =
        option_is_set(options, OPTION_out) ? sbatch_quote(options->out) : NULL;
    fprintf(out, "\n# A rank that is lost ends the others by itself, after they have logged why: "
                 "srun need not kill them.\n");
    /* Since Slurm 22.05 srun does not take it from the job. */
    fprintf(out,
            "exec srun --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" --kill-on-bad-exit=0 --wait=%d %s "
            "train",
            WAIT_S, quoted);
    for (int id = 0; id < OPTION_COUNT; id++) {
        bool skip = is_listed((enum option_id)id, said_otherwise,
                              sizeof said_otherwise / sizeof said_otherwise[0]);
        if (!skip && needs_option(options, (enum option_id)id))
            write_option(options, (enum option_id)id, out);
    }
    if (option_is_given(options, OPTION_threads)) write_option(options, OPTION_threads, out);
    fprintf(out, " \\\n    --out %s $resume\n",
            folder ? folder : "\"runs/$SLURM_JOB_NAME-$SLURM_JOB_ID\"");
}

enum status sbatch_write(const struct options *options, const char *program, int cores, FILE *out) {
    TRY(check(options));
    write_header(options, cores, out);
    write_resume(options, out);
    write_command(options, program, out);
    return STATUS_OK;
}
