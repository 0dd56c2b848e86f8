/* A rank that is a process of its own: finds the job, joins it, runs its session. */
#ifndef RUN_RANK_H
#define RUN_RANK_H

#include "run/start.h"

/* Collective over the ranks of the job, blocking. `start` is of kind START_RANK. */
enum status rank_run(const struct options *options, const struct start *start);

#endif
