/* One rank's run, from its plan to its results. Rank 0 also keeps the run's folder and speaks for
 * all. */
#ifndef RUN_SESSION_H
#define RUN_SESSION_H

#include "exec/checkpoint.h"
#include "exec/train.h"
#include "planned/planned.h"
#include "record/summary.h"
#include "run/recorder.h"
#include "run/start.h"

/* What each rank measures of itself. */
struct rank_figures {
    uint64_t param_hash, buffer_hash; /* of what the rank holds of replica 0; else 0 */
    bool hashed;                      /* they are known */
    double samples_per_s;
    double step_flops; /* of a step of the model, without what runs again */
    struct recorder_use use;
    struct load load; /* of the timed steps */
    int64_t peak_bytes, predicted_bytes, sent_bytes_per_step;
    int64_t reduced_bytes_per_step;
    struct train_laws laws; /* by --hetero base */
    struct train_stale stale;
    struct train_groups groups;
};

/* Of a step, by the simulator: with 90% probability from low to high; of rank 0's, in passes, and
 * waiting for others and messages. */
struct session_forecast {
    double p50_ms, low_ms, high_ms, passes_ms, waits_ms;
    double crowd;   /* threads to a core that it counts with */
    bool estimated; /* operations that its profile lacks */
};

struct session {
    session_use *use; /* NULL: it trains */
    struct planned_run planned;
    struct engine_meeting meeting;
    struct train_state state;
    char
        *folder; /* of the run, the caller's; other ranks than 0 write their own files there only */
    struct lock *lock; /* of the folder, the caller's; or NULL */
    struct engine *engine;
    struct history *history;           /* of rank 0 */
    bool done;                         /* there was nothing to do */
    struct recorder recorder;          /* of rank 0 */
    struct profiling *profiling;       /* of --save-profile; or NULL */
    struct session_forecast predicted; /* of rank 0 */
    int host_cores; /* that ranks of this machine share; 0: as the planned run knows */
    struct train_result result;
    int64_t begin_ns;
    struct checkpoint_fact facts[CHECKPOINT_MAX_FACTS];
    int fact_count;
    struct arena arena;
    struct plan *later, *before; /* of the part of the course that the run is at, where that is not
                                    the first; of the part before, until it is left */
    int64_t decided;             /* by the rule norm: behind this step, the last time */
    uint64_t sent_before;        /* the first step: the start is no part of a step's bytes */
    uint64_t sent;               /* in the steps of the parts before */
    enum status model_status;    /* of writing a model that no rank holds alone */
    struct rank_figures figures; /* of this rank */
    struct rank_figures *all;    /* of all ranks, once gathered */
    struct summary summary;
};

/* Collective over the ranks, blocking. All up to lock, and begin_ns, are set; the state is that of
 * a training that has not begun. STATUS_STOPPED after a stop on request. */
enum status session_run(struct session *session);
/* Collective, blocking. The part of it that opens the engine, with initial values or those of
 * --weights; its start list is to be run. `prepare` is that of engine_config. */
enum status session_open(struct session *session, enum status (*prepare)(void *session));
/* Local. Gives back all but what the caller owns. */
void session_free(struct session *session);

/* Local. The plan that the run is at: the engine's, or before there is one the first. */
const struct plan *session_plan(const struct session *session);

/* Local. Whether this rank reads files of parameters. */
bool session_reads_model(const struct session *session);

/* Local. planned_wait_limit_s for what this rank does now. */
double session_wait_limit_s(const struct session *session);

/* Local. Which signal runs of this process were stopped by; 0: none. */
void session_stopped_by(int signal);
int session_stop_signal(void);

/* Local. Parts of it: what a checkpoint remembers of the run; the summary, the table for people,
 * the report. */
void session_facts(struct session *session);
/* Local, blocking. Refuses (STATUS_USAGE) to resume at a step behind the run's last one, unless
 * the folder holds the results of that step: then there is nothing to do. */
enum status session_check_step(struct session *session, int64_t step);
/* This rank's, measured as it is predicted; what was predicted of a rank. Ranks of one process
 * share its memory evenly in both. */
int64_t result_peak_bytes(const struct session *session);
int64_t result_predicted_bytes(const struct session *session, int rank);
void result_measure(struct session *session);
/* Collective, blocking: every rank's own figures to all. */
enum status result_gather(struct session *session);
enum status result_fill(struct session *session, int exit_code);
void result_print(const struct session *session);
/* The last line of --json: where the run is, what it came to. */
void result_print_json(const struct session *session);
struct timeline;
/* With the timeline of a step, or NULL. */
enum status result_report(const struct session *session, const struct timeline *timeline);

#endif
