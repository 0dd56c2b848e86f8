/* From options to the configuration of a run: what the user left open is decided here, and what
 * does not fit together is refused. */
#ifndef PLAN_RESOLVE_H
#define PLAN_RESOLVE_H

#include "base/option.h"
#include "plan/config.h"

struct course_file;
struct course_part;
struct sync_policy;

/* What the options do not say: which rank of how many, and what its surroundings settled. */
struct resolve_place {
    int rank, ranks;
    int first_local;       /* of the ranks of this machine */
    int threads;           /* of a rank, where the options leave it open */
    bool spread;           /* over several machines */
    bool saves;            /* this rank writes all it holds, whichever replica it is */
    bool dry;              /* nothing will run: kernels are described, not made */
    bool weighed;          /* but they are made all the same, to measure what they take */
    bool forward;          /* nothing is trained, whatever the command is */
    bool loads;            /* it may read weights at any time */
    int64_t forward_batch; /* as in struct run_config */
    const struct course_file *course; /* of --course, which outlives the configuration; or NULL */
};

/* Local, blocking. The data set that --data names, as this model reads it; the caller frees it. */
enum status resolve_data(const struct options *options, const struct model *model,
                         struct dataset **out);

/* Local. Everything else but costs, which are the rules of the operations. Options that were left
 * open are set to what was decided. The data set must outlive the configuration, and so must the
 * texts of the options. */
enum status resolve_run(struct options *options, const struct model *model,
                        const struct dataset *dataset, const struct resolve_place *place,
                        struct run_config *out);

/* Local, blocking (reads files). The costs that the options name, for ranks of which so many share
 * a machine; and what of the configuration follows from them. `files`: profile and cluster, too.
 * Other ranks may not have them: rank 0 does, and every rank where stages are balanced by measured
 * times. The caller frees the costs, after the plans of the configuration. STATUS_USAGE for a
 * profile that no option of the run makes use of. */
enum status resolve_costs(const struct options *options, bool files, int local_ranks,
                          struct run_config *config, struct costs **out);
/* Local. With auto: the limit of a rank is the least memory that a device of the run has, unless
 * --memory-limit stands in for it. */
void resolve_limit(const struct costs *costs, struct run_config *config);

/* Local. A configuration is const once it is resolved. These are of other runs: of another rank,
 * described only or not; of another part of the run's course, likewise; with what auto may use of
 * memory, or chose; and one to compare with, which is described only and has no limit, so that
 * nothing is refused. */
struct run_config resolve_for_rank(const struct run_config *config, int rank, bool dry);
struct run_config resolve_for_part(const struct run_config *config, const struct course_part *part,
                                   bool dry);
struct run_config resolve_for_limit(const struct run_config *config, int64_t memory_limit);
struct run_config resolve_for_shape(const struct run_config *config, int chunks, bool v_shape);
struct run_config resolve_to_compare(const struct options *options, const struct run_config *config,
                                     enum recompute_policy recompute, int micro_batches);

/* Local. How many ranks --stages and --replicas ask for; 1 where neither is given. */
int resolve_ranks_asked(const struct options *options);
/* Local. How many replicas a run of `ranks` ranks has: of the model, or of --deal. */
enum status resolve_replicas(const struct options *options, int ranks, int *out);
/* Local. The grid of a run whose schedule and number of ranks are known. */
enum status resolve_grid(const struct options *options, const struct run_config *config,
                         struct grid *out);

/* Local. Of a strategy that does not flush: refuses what cannot go with it, and decides what
 * follows from it. The schedule, the grid and the batch are known. */
enum status resolve_overlap(struct options *options, struct run_config *config);
/* Local. --drop-last is on, which is told where it was given as off. */
void resolve_drop_last(struct options *options, struct run_config *config);
/* Local. --freeze, --course and what goes with them: the same. */
enum status resolve_freeze(const struct options *options, const struct course_file *course,
                           struct run_config *config);

/* Local. Whether somebody asks for an option that acts with the policy: the first. */
bool resolve_asks_policy(const struct options *options, const struct sync_policy *policy,
                         enum option_id *out);
/* Local. Refuses options that act with other policies alone. */
enum status resolve_policy_options(const struct options *options, const struct sync_policy *policy);

/* Local. The same where replicas have parameters of their own between averages. */
enum status resolve_apart(struct options *options, struct run_config *config);
/* Local. The rule by which replicas choose whom they average with, where they do. */
enum status resolve_groups(struct options *options, struct run_config *config);

/* Local. The communicator of several ranks, where all are on one machine or spread over several:
 * --comm, and what `auto` means. */
const char *resolve_comm(const struct options *options, bool spread);

/* Local. Samples that an evaluation runs at a time, where replicas and micro-batches are known. */
int64_t resolve_eval_batch(const struct options *options, const struct run_config *config);

/* Local. A period in steps; 0 for never. */
int64_t resolve_period(const struct run_config *config, struct option_period period);

#endif
