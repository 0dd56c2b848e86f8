/* What the choice of `auto` needs around a plan: costs from files before it, and after it the
 * programs, which the other ranks get and a resumed run takes again. */
#ifndef JOB_AGREE_H
#define JOB_AGREE_H

#include "base/option.h"
#include "plan/choice.h"
#include "plan/plan_auto.h"
#include "sim/choice_costs.h"
#include "sim/plan_costs.h"

/* Costs that options name. Stays where it is once it was read. */
struct agree_costs {
    struct costs units;
    struct profile profile;
    struct cluster cluster;
    struct cost_source source;
    struct choice_devices devices; /* of the cluster */
    struct choice_costs costs;     /* for the configuration of a run */
};

/* Local, blocking (reads a file). The costs for `auto`, of ranks of which so many share a machine;
 * the caller frees them. *out is NULL where the rules of the operations hold, or nothing is
 * chosen here: with other schedules, on other ranks than 0, and of agreed programs. STATUS_USAGE
 * for a profile that no option of the run makes use of. */
enum status agree_costs_read(const struct options *options, const struct run_config *config,
                             int local_ranks, struct agree_costs **out);
void agree_costs_free(struct agree_costs **costs);

/* Local, blocking. The programs that the run in --out was with, for one that is resumed with
 * `auto`: empty where there are none, where an option that the choice depends on is another now, or
 * where they are for other ranks. The caller frees them with program_texts_free. */
void agree_saved(const struct options *options, const struct run_config *config,
                 struct program_texts *out);
/* Local, blocking. Saves the programs of a run in its folder. */
enum status agree_save(const struct plan *plan, const char *folder);

#endif
