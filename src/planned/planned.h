/* A planned run: its options are resolved, its plan is made on this machine, its costs are read and
 * its memory is estimated. Nothing is begun. All commands that train, explain, simulate or check
 * share it. */
#ifndef PLANNED_PLANNED_H
#define PLANNED_PLANNED_H

#include "base/file.h"
#include "base/mem.h"
#include "base/option.h"
#include "launch/cores.h"
#include "plan/course_file.h"
#include "planned/agreed_program.h"

/* Which rank of how many this is; ranks of one process share a data set. */
struct rank_info {
    int rank, ranks;
    int local_ranks;         /* of this host, as its launcher knows; 0: as the options say */
    int first_local;         /* the first of them, as far as known before they meet */
    bool to_start;           /* those are processes that this one will start */
    bool weighed;            /* and what they take is compared with what there is */
    struct dataset *dataset; /* NULL: open it */
    bool spread;             /* ranks are on several machines, as far as known before they meet */
    struct mem_parts before; /* of the process, as its first rank found it; 0: this is the first */
    size_t library_bytes; /* of a rank's estimate, as the first of the process found it; likewise */
    const struct bytes *agreed; /* of auto: rank 0's program; NULL: not known yet */
    int64_t forward_batch;      /* as in struct run_config */
    bool forward;               /* nothing is trained */
    bool loads;                 /* it may read weights at any time */
};

/* What ranks that share a memory told one another of themselves as they met: how many there are,
 * what they need together, what the least and the most of them do. */
struct planned_met {
    int ranks; /* 0: they have not met */
    size_t need_bytes, least_bytes, most_bytes;
};

struct planned_run {
    struct options options; /* with every default resolved; texts belong to the caller's options */
    struct dataset *dataset;
    bool owns_dataset;
    struct plan *plan; /* of the first part of the course, with the run's configuration */
    struct course course;
    struct course_file *course_file; /* of --course, in the arena; or NULL */
    struct arena arena;
    struct costs *costs;      /* that the options name */
    bool threads;             /* the ranks share this process */
    struct cores_share cores; /* of this host, as far as known */
    int local_ranks;        /* ranks of this host, as far as known; may be set once more is known */
    int first_local;        /* as in the rank info */
    bool to_start;          /* likewise */
    struct planned_met met; /* set where ranks that met are judged */
    struct mem_parts
        before;        /* resident just before the plan was made: the peak counts from there */
    size_t code_bytes; /* of the estimate: what ranks as processes of a machine share */
    size_t *position_planning; /* what planning takes of a rank at each position, forked; 0: not
                                  known; NULL: of none */
    struct memory_estimate *position; /* of a rank at each position of a pipeline, then of a driver;
                                         NULL where all are like this one */
    int64_t available_bytes; /* of this machine, once the plan was made, for what this process needs
                                and what it starts; 0: unknown */
    int64_t total_bytes;     /* the most that it could ever be; 0: unknown */
};

/* Local, blocking (opens the data). Resolves options, opens the data set and makes the plan of a
 * rank (NULL: the only one). The caller closes the planned run; the options must outlive it. */
enum status planned_open(const struct options *options, const struct rank_info *info,
                         struct planned_run *out);
void planned_close(struct planned_run *planned);
/* Local, blocking. Opens the data that the options of `planned` name, and resolves what follows
 * from these: nothing else of it is there. */
enum status planned_open_data(struct planned_run *planned);
/* Local. Of a run that is forecast and never started: `ranks` ranks that share this machine, as
 * those of `train` would. What a rank takes is measured as explain does. */
struct rank_info planned_info_to_forecast(const struct options *options, int ranks);
/* Local. What rank `rank` is told that is a thread beside the one of `first`: what the process
 * knows already. `agreed` may be empty. All is borrowed. */
struct rank_info planned_info_beside(const struct planned_run *first, int rank, int ranks,
                                     const struct bytes *agreed);

/* Local. Completes the plan's estimate by what this process takes beside its arrays. For
 * planned_open.
 */
enum status planned_estimate_memory(struct planned_run *planned, const struct rank_info *info);
/* Local, blocking. What planning takes of ranks at other positions, before this one has planned.
 * For planned_open. */
void planned_probe_positions(struct planned_run *planned, const struct run_config *config,
                             const struct plan_given *given);
/* Local. The predicted peaks of ranks at other positions of the pipeline. For planned_open. */
enum status planned_estimate_positions(struct planned_run *planned);
/* Local. Plans all other parts of the run's course, described only, and adds to the estimates what
 * they take beyond the first. For planned_open. */
enum status planned_count_course(struct planned_run *planned);
/* Local. The plan of a part of the course, for the same ranks and communicator; `dry`: described
 * only. The caller frees it, before the planned run is closed. */
enum status planned_part(const struct planned_run *planned, const struct course_part *part,
                         bool dry, struct plan **out);

/* Local. What the rank at a position of a pipeline needs, as far as this process knows; what a rank
 * needs; the most that any rank needs. */
size_t planned_position_bytes(const struct planned_run *planned, int position);
size_t planned_rank_bytes(const struct planned_run *planned, int rank);
size_t planned_most_bytes(const struct planned_run *planned);
/* Local. The estimate of the rank of a pipeline that needs most, and which one that is. */
const struct memory_estimate *planned_largest(const struct planned_run *planned, int *rank);
/* Local. What the ranks of this machine need together; what they share is counted once. */
size_t planned_machine_bytes(const struct planned_run *planned);
/* Local. Of what this process needs, how much it has taken by now. */
size_t planned_taken_bytes(const struct planned_run *planned);
/* Local. STATUS_MEMORY, with the largest tensors and what would fit, when the ranks of this machine
 * need more than it has; or, where --memory-limit is given, when a rank needs more than that; or
 * else, with --cluster, more than its device has. For the process that starts ranks or runs them
 * all; for one of several once they have met. */
enum status planned_check_memory(const struct planned_run *planned);

/* Whether each rank fits into what --memory-limit gives it, or else its device of --cluster: of the
 * rank that lacks most or has least room. */
struct planned_fit {
    bool fits, limited; /* `limited`: by --memory-limit */
    int rank, lacking;  /* `lacking`: how many ranks do not fit */
    size_t need_bytes, has_bytes;
    const char *class; /* of the cluster; NULL: there is none */
};
/* Local. False: neither is given. */
bool planned_fit(const struct planned_run *planned, struct planned_fit *out);
/* Local. The same for one rank of several before they meet, when others may have taken a part of
 * theirs or not: refuses what could not fit whatever they have taken. */
enum status planned_check_alone(const struct planned_run *planned);

/* Local. How many threads of this machine's ranks share a core: 1 at least. */
double planned_crowd(const struct planned_run *planned);

/* Local. After how long a wait for another rank is explained (contract 4): the larger of
 * --stall-after and three times what the awaited should take, an evaluation or else a step at most.
 */
double planned_wait_limit_s(const struct planned_run *planned, bool evaluating);

#endif
