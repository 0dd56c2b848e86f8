/* Options of a resumed run: those it was started with, and on top what is named now. */
#ifndef RUN_RESUME_H
#define RUN_RESUME_H

#include <stdbool.h>

#include "base/option.h"

/* Local, blocking but for what `run` does. Calls `run` with the options that count: `given`, or
 * with
 * --resume those of the config.yml in --out and on top what the user named in `given`, checked
 * together. Without a config.yml the model must be named: a folder that holds no run is more
 * likely a mistyped one (STATUS_USAGE). Ranks of our launcher are exempt: it has looked already. */
enum status resume_with(const struct options *given, enum status (*run)(const struct options *));

/* Local, blocking. Whether a run begins with the parameters of --weights: not where it is resumed
 * from a checkpoint, which has its own. */
bool resume_reads_weights(const struct options *options);

/* Local, blocking. Its parts: the options in a config.yml; those that the user named, on top,
 * checked together. */
enum status resume_read_config(const char *path, struct options *out);
enum status resume_apply_given(const struct options *given, struct options *out);

#endif
