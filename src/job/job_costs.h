/* What the options say of times: --costs, --delay, --profile or --cluster, read once for a job. The
 * choice of `auto`, --balance time, the executor's waits and the forecast look at the same. */
#ifndef JOB_JOB_COSTS_H
#define JOB_JOB_COSTS_H

#include "base/option.h"
#include "plan/config.h"
#include "sim/choice_costs.h"
#include "sim/plan_costs.h"

struct job_costs {
    struct cost_units units; /* of --costs; of --delay, in ns */
    struct profile profile;
    struct cluster cluster;
    struct cost_source source;     /* points to what was read; empty: the rules of the operations */
    struct choice_devices devices; /* of the cluster */
    struct choice_costs choice;    /* the same for `auto` */
};

/* Local, blocking (reads a file). For ranks of which so many share a machine; the caller frees it,
 * after the plans that are made with `config`, which is told what it needs. `files`: those are read
 * too. Other ranks may not have them: rank 0 does, and every rank where stages are balanced by
 * measured times. STATUS_USAGE for a profile that no option of the run makes use of. */
enum status job_costs_read(const struct options *options, bool files, int local_ranks,
                           struct run_config *config, struct job_costs **out);
void job_costs_free(struct job_costs **costs);

/* Local. What `auto` chooses with on this rank; NULL where the rules of the operations hold, or
 * nothing is chosen: with other schedules, on other ranks than 0, and of agreed programs. */
const struct choice_costs *job_costs_choice(const struct job_costs *costs,
                                            const struct run_config *config);

#endif
