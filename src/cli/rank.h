/* A rank that is a process of its own: finds the job, joins it, runs its session. */
#ifndef CLI_RANK_H
#define CLI_RANK_H

#include "base/option.h"
#include "launch/place.h"

/* Collective over the ranks of the job, blocking. `place` was found by launch_place. */
enum status rank_run(const struct options *options, const struct launch_config *launch,
                     const struct launch_place *place);

#endif
