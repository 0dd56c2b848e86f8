/* Ranks as threads of this process, rank 0 on the calling one (--spawn threads, the preset dp). */
#ifndef CLI_THREADS_H
#define CLI_THREADS_H

#include "base/option.h"

/* Blocking until all ranks have ended. */
enum status threads_run(const struct options *options, int ranks);

#endif
