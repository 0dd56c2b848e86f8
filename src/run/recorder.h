/* Who watches a run: joins the engine's observers to metrics, trace and progress, and adds up
 * what the summary needs. */
#ifndef RUN_RECORDER_H
#define RUN_RECORDER_H

#include "base/load.h"
#include "control/status_table.h"
#include "exec/train.h"
#include "planned/planned.h"
#include "record/history.h"
#include "record/metrics.h"
#include "record/progress.h"
#include "record/summary.h"
#include "record/trace.h"
#include "run/fault.h"
#include "run/profiling.h"

/* Steps at the start of a run that throughput and step times leave out: caches are cold and kernels
 * are first met. */
enum { RECORDER_WARMUP_STEPS = 5 };
/* Those in which memory of a device is measured: what is taken later is an error. */
enum { RECORDER_MEASURED_STEPS = 2 };
/* Steps that this rank may be ahead of the last row that is whole. */
enum { RECORDER_ROWS = 32 };

struct recorder {
    int rank;
    struct control_row *row; /* what this rank is doing, for whoever asks; or NULL */
    void (*print_positions)(
        void *position_context); /* where all ranks are; NULL: this one is alone */
    void *position_context;
    struct engine **engine;      /* the session's */
    struct profiling *profiling; /* of --save-profile, the session's; or NULL */
    struct history *history;     /* of the run, the session's; rank 0 */
    int64_t begin_ns;            /* of this start */
    struct fault fault;          /* of this rank, for tests */
    bool lines;                  /* progress as lines, never a bar: another launcher shows it */
    const struct planned_run *planned;
    const char *folder;
    struct metrics *metrics;
    struct trace_config trace_config;
    struct trace *trace;   /* this rank's */
    struct trace **traces; /* [trace_count], once gathered: those of all ranks, this one first */
    int trace_count;
    FILE *spool; /* where the events of the others are, a file without a name; NULL: none came */
    enum status spooled; /* whether they came */
    struct progress *progress;
    int64_t log_every;
    int64_t steps_seen, timed_steps, timed_samples;
    int64_t skipped;                     /* samples of the steps seen */
    struct step_times timed;             /* sums over timed steps */
    double *step_ms, *busy_ms, *span_ms; /* of timed steps, the newest RECORDER_MAX_TIMED: all of
                                            it, in passes, from the first pass to the last */
    int64_t busy_ns, first_ns, last_ns;  /* of the step under way; first 0: no pass yet */
    struct load load;                    /* as the timed steps began; at_ns 0: not yet */
    struct device_load {
        int64_t samples, above; /* in all; those above 95% */
        double busy, memory;    /* sums, in percent */
        int64_t at_ns;          /* of the last one */
    } device_load;
    /* Of a device with memory of its own: the bytes taken after an instruction, by its category; by
     * which one was enqueued last, -1: none. */
    double device_bytes[TIME_COUNT];
    int device_at;
    double loss_first, loss_last;  /* of the whole run, on rank 0 */
    int64_t line_samples, line_ns; /* since the row before: samples, and the time of their steps */
    /* Where replicas draw numbers: when the row before was whole, and how many numbers were done;
     * samples a second by it, 0: not known yet. */
    int64_t drawn_ns, drawn_numbers;
    double drawn_rate;
    struct recorder_row {
        struct metrics_row row; /* what this rank measured; what all ranks tell is still to come */
        bool due;               /* it goes into metrics.jsonl */
    } rows[RECORDER_ROWS];      /* by the step, those behind the last whole one */
    enum status status;         /* of writing metrics: the first failure */
    char lacks[256]; /* what the folder lacks because it could not be written; "": nothing */
};

/* How a rank's steps are spent, in the median: all of a step, in passes (F, B, I, W, R), and from
 * its first pass to its last. 0: nothing was timed. */
struct recorder_use {
    double step_ms, busy_ms, span_ms;
};

/* Local. The plan that the run is at. */
const struct plan *recorder_plan(const struct recorder *recorder);

/* Local, blocking. Opens what records (all up to fault is set before, and the engine is open);
 * `folder` NULL: counts and traces only, for ranks that leave the writing to rank 0; steps from
 * `first_step` on. Its memory counts towards the run's. */
enum status recorder_open(const struct planned_run *planned, const char *folder, int64_t first_step,
                          struct recorder *out);
struct engine_observer recorder_engine_observer(struct recorder *recorder);
/* Local. One that tells where the rank is and nothing else; of one that is not opened. */
struct engine_observer recorder_position_observer(struct recorder *recorder);
/* Local, in the rank's own thread, while it waits. Where its device is, which may be behind what
 * was enqueued last. */
void recorder_note_reached(struct recorder *recorder);
/* Local. How the records of rows that this writes become texts: for control_describe_records, in
 * every process that reads such rows. */
void recorder_describe_position(const void *record, char text[CONTROL_DOING_BYTES]);
struct train_observer recorder_train_observer(struct recorder *recorder);

/* Local, blocking. What this start took so far into the history; of rank 0. */
enum status recorder_note_times(struct recorder *recorder);
/* Local. What this rank measured; ... and the bubbles of all ranks together, as the simulator
 * defines them (sim/run.h). */
struct recorder_use recorder_use(const struct recorder *recorder);
void recorder_bubbles(const struct recorder_use *const *all, int ranks, struct summary *summary);
/* Local. Who used the cores since the first timed step; -1 where it is not known. */
struct load recorder_load(const struct recorder *recorder);
/* Local. Fills in what was measured, but for bubbles. */
void recorder_summary(const struct recorder *recorder, struct summary *summary);
/* Collective over the ranks, blocking. Brings the traces of all ranks to rank 0. */
enum status recorder_gather(struct recorder *recorder, struct comm *comm);
/* Local. Notes, where `status` is a failure, what the folder lacks: the end of a run names it all.
 */
void recorder_lacks(struct recorder *recorder, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Local, blocking. Writes the trace and closes everything; notes what it could not write. */
enum status recorder_close(struct recorder *recorder);
/* Local. Gives back memory, also of one that never was closed because the run did not begin. */
void recorder_free(struct recorder *recorder);

#endif
