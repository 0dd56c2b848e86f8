/* --strategy best: the options of the first row of `stretto plan`. What runs has these options, as
 * if they had been typed; config.yml holds them, and never `best`. */
#ifndef RUN_BEST_H
#define RUN_BEST_H

#include "base/option.h"

/* Local, blocking. Calls `run` with `options`, or, where they ask for the best strategy, with those
 * that a search finds; what was found is printed. With --resume the deal of the run (replicas x
 * micro-batches) stays, so that its bits do. STATUS_USAGE where ranks were started by others or on
 * several nodes: a search is of one process. */
enum status best_with(const struct options *options, enum status (*run)(const struct options *));

/* Local. The arguments that ranks need beside those of this process, which asks for the best: what
 * was found. The caller frees them with launch_arguments_free; empty where nothing was. */
char **best_arguments(const struct options *options);

#endif
