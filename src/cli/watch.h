/* Who watches a run: joins the executor's observers to metrics, trace and progress, and adds up
 * what the summary needs. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/fault.h"
#include "cli/job.h"
#include "control/control.h"
#include "exec/train.h"
#include "record/metrics.h"
#include "record/progress.h"
#include "record/summary.h"
#include "record/trace.h"

/* Steps at the start of a run that throughput and step times leave out: caches are cold and kernels
 * are first met. */
enum { WATCH_WARMUP_STEPS = 5 };

struct watch {
    int rank;
    struct control *control; /* told what this rank is doing; NULL: nobody asks */
    struct exec *exec;
    struct fault fault; /* of this rank, for tests */
    const struct job *job;
    const char *folder;
    struct metrics *metrics;
    struct trace *trace;
    struct progress *progress;
    int64_t log_every;
    int64_t steps_seen, timed_steps, timed_samples;
    struct exec_times timed; /* sums over timed steps */
    double *step_ms;         /* of timed steps, the newest WATCH_MAX_TIMED */
    double loss_first, loss_last;
    int64_t last_line_ns, samples_since_line;
    enum status status; /* of writing metrics: the first failure */
};

/* Local, blocking. Opens what watches (rank, control, exec and fault are set before) (`folder`
 * NULL: only counts, for ranks that leave the writing to rank 0); steps from `first_step` on. Its
 * memory counts towards the run's. */
enum status watch_open(const struct job *job, const char *folder, int64_t first_step,
                       struct watch *out);
struct exec_observer watch_exec_observer(struct watch *watch);
struct train_observer watch_train_observer(struct watch *watch);

/* Local. Fills in what was measured. */
void watch_summary(const struct watch *watch, struct summary *summary);
/* Local, blocking. Writes the trace and closes everything. */
enum status watch_close(struct watch *watch);

#endif
