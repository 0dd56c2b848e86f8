/* Ranks as threads of this process, rank 0 on the calling one (--spawn threads, the preset dp). */
#ifndef RUN_THREADS_H
#define RUN_THREADS_H

#include "run/start.h"

/* Blocking until all ranks have ended. `start` is of kind START_THREADS. */
enum status threads_run(const struct options *options, const struct start *start);

#endif
