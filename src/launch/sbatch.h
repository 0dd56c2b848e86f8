/* A job script for Slurm that runs `stretto train` with the options given. Local, not blocking. */
#ifndef LAUNCH_SBATCH_H
#define LAUNCH_SBATCH_H

#include <stdio.h>

#include "base/option.h"
#include "base/status.h"

/* Writes the script to `out`. Options that Slurm itself answers (--rank, --node-rank, --hostfile
 * and the like) are refused. `program` is what the script runs; `cores` are those of a node,
 * divided among its ranks where --threads is not given. */
enum status sbatch_write(const struct options *options, const char *program, int cores, FILE *out);

/* A word as a shell reads it back, in single quotes where it needs them; the caller frees. */
char *sbatch_quote(const char *word);

#endif
