/* See watch.h. */
#include "run/recorder.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "exec/stop.h"
#include "job/events.h"
#include "run/run_folder.h"
#include "run/traces.h"

enum { WATCH_MAX_TIMED = 4096 };

/* SIGUSR1 asks where the ranks are. */
static void report_position(const struct recorder *watch, int64_t step, const char *text) {
    if (watch->print_positions)
        watch->print_positions(watch->position_context);
    else
        log_answer("rank %d is at step %lld %s", watch->rank, (long long)step, text);
}

/* What this rank does is a record in its row: a text would take ten times as long as all else that
 * the executor does for an instruction. */
struct position {
    struct instr instr;
    int32_t rank;
};
_Static_assert(sizeof(struct position) <= CONTROL_DOING_BYTES, "a position has no room in a row");
_Static_assert((int)INSTR_TEXT_BYTES <= (int)CONTROL_DOING_BYTES, "its text neither");

void recorder_describe_position(const void *record, char text[CONTROL_DOING_BYTES]) {
    struct position position;
    memcpy(&position, record, sizeof position);
    text[0] = 0;
    if (position.instr.op < INSTR_COUNT_) instr_text(&position.instr, position.rank, text);
}

static void corrupt_gradient(const struct plan *plan, const struct store *store,
                             const struct instr *instr) {
    const struct bucket_list *buckets =
        &plan->chunk[grid_chunk(&plan->program->grid, instr->stage)].buckets;
    int bucket = instr->bucket == INSTR_ALL ? 0 : instr->bucket;
    struct elements all = store_bucket_gradient(store, instr->grad, &buckets->items[bucket]);
    ((float *)all.data)[0] = NAN;
}

/* `instr` NULL: no instruction of a step. */
static void trigger_fault(struct recorder *watch, const struct instr *instr, const char *what,
                          int64_t step) {
    enum fault_action action = fault_trigger(&watch->fault, what, step);
    fault_corrupt(engine_store(*watch->engine), action);
    if (action == FAULT_NAN_GRADIENT && instr && strchr(instr_row(instr)->operands, 'b'))
        corrupt_gradient(watch->job->plan, engine_store(*watch->engine), instr);
}

static void on_starting(void *context, const struct instr *instr, int64_t step, int64_t now_ns) {
    struct recorder *watch = context;
    struct position position = {*instr, watch->rank};
    char text[INSTR_TEXT_BYTES];
    if (watch->row)
        control_row_set_record(watch->row, step + 1, now_ns, &position, sizeof position);
    if (stop_take_report()) report_position(watch, step + 1, instr_text(instr, watch->rank, text));
    if (watch->fault.action != FAULT_NONE)
        trigger_fault(watch, instr, instr_row(instr)->name, step + 1);
}

static void on_starting_other(void *context, const char *what, int64_t steps) {
    struct recorder *watch = context;
    if (watch->row) control_row_set(watch->row, steps, what);
    if (stop_take_report()) report_position(watch, steps, what);
    if (watch->fault.action != FAULT_NONE) trigger_fault(watch, NULL, what, steps);
}

/* The passes, which bubbles count. */
static void count_pass(struct recorder *watch, int64_t begin_ns, int64_t end_ns) {
    if (watch->first_ns == 0) watch->first_ns = begin_ns;
    watch->last_ns = end_ns;
    watch->busy_ns += end_ns - begin_ns;
}

/* Steps in a trace count from 1, as everywhere that people look. */
static void on_instr(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                     int64_t end_ns) {
    struct trace_event event = events_ran(instr, step, begin_ns, end_ns);
    struct recorder *watch = context;
    if (instr_runs_nodes(instr)) count_pass(watch, begin_ns, end_ns);
    if (watch->profiling) profiling_instr(watch->profiling, instr, begin_ns, end_ns);
    trace_record(watch->trace, &event);
}

static void on_node(void *context, const struct graph *graph, const struct node *node, int64_t ns) {
    profiling_node(((struct recorder *)context)->profiling, graph, node, ns);
}

static void on_posted(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                      int64_t end_ns) {
    struct recorder *watch = context;
    struct trace_event event = events_posted(instr, step, begin_ns, end_ns);
    event.message = events_message(instr, &watch->job->plan->config.grid, watch->rank);
    trace_record(watch->trace, &event);
}

/* A broadcast is communication and nothing else: its own waits would say the same again. */
static void on_waited(void *context, const struct instr *waiter, const struct instr *awaited,
                      int64_t step, int64_t begin_ns, int64_t end_ns) {
    if (waiter == awaited && instr_row(awaited)->time == TIME_COMM) return;
    struct trace_event event = events_waited(waiter, awaited, step, begin_ns, end_ns);
    trace_record(((struct recorder *)context)->trace, &event);
}

static void time_step(struct recorder *watch, const struct step_result *result) {
    const struct step_times *times = &result->times;
    int at = (int)(watch->timed_steps % WATCH_MAX_TIMED);
    if (watch->steps_seen <= WATCH_WARMUP_STEPS) return;
    watch->step_ms[at] = (double)times->total_ns * 1e-6;
    watch->busy_ms[at] = (double)watch->busy_ns * 1e-6;
    watch->span_ms[at] = (double)(watch->last_ns - watch->first_ns) * 1e-6;
    watch->timed_steps++;
    watch->timed_samples += result->samples;
    watch->timed.total_ns += times->total_ns;
    for (int t = 0; t < TIME_COUNT; t++) watch->timed.of[t] += times->of[t];
    watch->timed.idle_ns += times->idle_ns;
    watch->timed.hidden_ns += times->hidden_ns;
}

static bool line_due(const struct recorder *watch, const struct step_result *result) {
    const struct plan *plan = watch->job->plan;
    int64_t done = result->step + 1;
    return watch->steps_seen == 1 || done % watch->log_every == 0 ||
           done % plan->config.steps_per_epoch == 0 || done == plan->config.steps;
}

void recorder_lacks(struct recorder *watch, enum status status, const char *format, ...) {
    size_t used = strlen(watch->lacks);
    if (status == STATUS_OK) return;
    if (used > 0) used += (size_t)snprintf(watch->lacks + used, sizeof watch->lacks - used, ", ");
    va_list args;
    va_start(args, format);
    shown_vformat(watch->lacks + used, sizeof watch->lacks - used, format, args);
    va_end(args);
}

/* A row that is lost does not end the training; a later save does, and the end says so. */
static void write_row(struct recorder *watch, const struct metrics_row *row) {
    enum status status = metrics_write(watch->metrics, row);
    if (watch->status != STATUS_OK) return;
    watch->status = status;
    recorder_lacks(watch, status, "metrics.jsonl and events from step %lld on",
                   (long long)row->step);
}

/* The row of a step is whole when the norm of its gradients is known: see on_norm. */
static void on_step(void *context, const struct step_result *result) {
    struct recorder *watch = context;
    struct metrics_row *row = &watch->step_row;
    watch->steps_seen++;
    watch->skipped += result->skipped;
    watch->line_samples += result->samples;
    watch->line_ns += result->times.total_ns;
    time_step(watch, result);
    if (watch->steps_seen == WATCH_WARMUP_STEPS) watch->load = load_now("");
    watch->busy_ns = watch->first_ns = watch->last_ns = 0;
    if (watch->profiling) profiling_instr(watch->profiling, NULL, 0, 0);
    if (watch->profiling && watch->steps_seen >= WATCH_WARMUP_STEPS)
        profiling_begin(watch->profiling);
    *row = metrics_row_new(METRICS_TRAIN, result->step + 1, result->epoch + 1);
    row->loss = result->loss;
    row->lr = result->lr;
    row->acc1 = result->acc1;
    row->samples_per_s = (double)watch->line_samples / ((double)watch->line_ns * 1e-9);
    row->step_ms = (double)result->times.total_ns * 1e-6;
    row->data_ms = (double)result->times.of[TIME_DATA] * 1e-6;
    row->ranks = result->ranks;
    for (int r = 0; r < result->ranks; r++) {
        watch->rank_loss[r] = result->rank_loss[r];
        watch->rank_ms[r] = result->rank_ms[r];
    }
    row->rank_loss = watch->rank_loss;
    row->rank_ms = watch->rank_ms;
    watch->step_row_due = line_due(watch, result);
    if (watch->metrics && watch->step_row_due) watch->line_samples = watch->line_ns = 0;
}

static void on_norm(void *context, int64_t step, double norm) {
    struct recorder *watch = context;
    struct metrics_row *row = &watch->step_row;
    row->grad_norm = norm;
    if (step == 0) watch->loss_first = row->loss;
    watch->loss_last = row->loss;
    if (!watch->metrics) return;
    progress_step(watch->progress, row);
    if (watch->step_row_due) write_row(watch, row);
}

static void on_evaluated(void *context, int64_t steps, const struct eval_result *result) {
    struct recorder *watch = context;
    if (!watch->metrics) return;
    int64_t per_epoch = watch->job->plan->config.steps_per_epoch;
    struct metrics_row row =
        metrics_row_new(METRICS_EVAL, steps, (steps + per_epoch - 1) / per_epoch);
    row.loss = result->loss;
    row.acc1 = result->acc1;
    row.acc5 = result->acc5;
    row.eval_ms = (double)result->ns * 1e-6;
    write_row(watch, &row);
    progress_eval(watch->progress, &row);
}

static enum status on_saving(void *context, int64_t steps) {
    struct recorder *watch = context;
    if (watch->status != STATUS_OK)
        return fail(watch->status, "%s: step %lld is not saved: the folder lacks %s", watch->folder,
                    (long long)steps, watch->lacks);
    if (!watch->metrics) return STATUS_OK;
    TRY(recorder_note_times(watch));
    return metrics_sync(watch->metrics);
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

enum status recorder_note_times(struct recorder *watch) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct history_times times = {.wall_s = (double)(clock_ns() - watch->begin_ns) * 1e-9,
                                  .user_s = seconds_of(usage.ru_utime),
                                  .sys_s = seconds_of(usage.ru_stime)};
    return history_note(watch->history, &times);
}

static enum status open_trace(struct recorder *watch) {
    watch->trace_config = events_trace_config(watch->job->plan, &watch->job->options, watch->rank);
    return trace_open(&watch->trace_config, &watch->trace);
}

/* Every step of a range test is a point of its curve. */
static int64_t rows_every(const struct job *job) {
    bool all = job->plan->config.lr.policy == LR_RANGE &&
               !option_is_given(&job->options, OPTION_log_every);
    return all ? 1 : job->options.log_every;
}

enum status recorder_open(const struct job *job, const char *folder, int64_t first_step,
                          struct recorder *out) {
    const struct options *options = &job->options;
    struct recorder watch = {.rank = out->rank,
                             .row = out->row,
                             .print_positions = out->print_positions,
                             .position_context = out->position_context,
                             .engine = out->engine,
                             .profiling = out->profiling,
                             .history = out->history,
                             .begin_ns = out->begin_ns,
                             .fault = out->fault,
                             .lines = out->lines,
                             .job = job,
                             .folder = folder,
                             .log_every = rows_every(job),
                             .loss_first = NAN,
                             .loss_last = NAN};
    watch.step_ms = MEM_ARRAY(double, WATCH_MAX_TIMED);
    watch.busy_ms = MEM_ARRAY(double, WATCH_MAX_TIMED);
    watch.span_ms = MEM_ARRAY(double, WATCH_MAX_TIMED);
    watch.rank_loss = MEM_ARRAY(double, job->plan->config.ranks);
    watch.rank_ms = MEM_ARRAY(double, job->plan->config.ranks);
    enum status status = open_trace(&watch);
    if (status == STATUS_OK && folder)
        status = metrics_open(folder, options->resume ? first_step : METRICS_FRESH, &watch.metrics);
    *out = watch;
    if (status != STATUS_OK || !folder) return status;
    watch.loss_first = metrics_past(watch.metrics)->loss_first;
    watch.loss_last = metrics_past(watch.metrics)->loss_last;
    watch.progress = progress_open(
        &(struct progress_config){.first_step = first_step,
                                  .total_steps = job->plan->config.steps,
                                  .steps_per_epoch = job->plan->config.steps_per_epoch,
                                  .log_every = options->log_every,
                                  .json = options->json,
                                  .quiet = options->quiet,
                                  .columns = watch.lines ? -1 : 0});
    *out = watch;
    return STATUS_OK;
}

struct engine_observer recorder_engine_observer(struct recorder *watch) {
    return (struct engine_observer){.context = watch,
                                    .starting = on_starting,
                                    .instr = on_instr,
                                    .node = watch->profiling ? on_node : NULL,
                                    .posted = on_posted,
                                    .waited = on_waited};
}

struct engine_observer recorder_position_observer(struct recorder *watch) {
    return (struct engine_observer){.context = watch, .starting = on_starting};
}

struct train_observer recorder_train_observer(struct recorder *watch) {
    return (struct train_observer){.context = watch,
                                   .starting = on_starting_other,
                                   .step = on_step,
                                   .norm = on_norm,
                                   .evaluated = on_evaluated,
                                   .saving = on_saving};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of those that were kept; sorts them. */
static double quantile(const struct recorder *watch, double *values, int tenth) {
    int64_t count = watch->timed_steps < WATCH_MAX_TIMED ? watch->timed_steps : WATCH_MAX_TIMED;
    if (count == 0) return 0;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count * tenth / 10];
}

struct recorder_use recorder_use(const struct recorder *watch) {
    return (struct recorder_use){.step_ms = quantile(watch, watch->step_ms, 5),
                                 .busy_ms = quantile(watch, watch->busy_ms, 5),
                                 .span_ms = quantile(watch, watch->span_ms, 5)};
}

struct load recorder_load(const struct recorder *watch) {
    static const struct load unknown = {-1, -1, -1, -1, -1};
    struct load now = load_now("");
    return watch->timed_steps > 0 ? load_between(&watch->load, &now) : unknown;
}

void recorder_bubbles(const struct recorder_use *const *all, int ranks, struct summary *summary) {
    double step = 0, busy = 0, span = 0;
    for (int r = 0; r < ranks; r++) {
        busy += all[r]->busy_ms / ranks;
        if (all[r]->step_ms > step) step = all[r]->step_ms;
        if (all[r]->span_ms > span) span = all[r]->span_ms;
    }
    if (step > 0) summary->bubble = 1 - busy / step;
    if (span > 0) summary->span_bubble = 1 - busy / span;
}

static void fill_step_times(const struct recorder *watch, struct summary *summary) {
    if (watch->timed_steps == 0) return;
    summary->step_ms.p50 = quantile(watch, watch->step_ms, 5);
    summary->step_ms.p90 = quantile(watch, watch->step_ms, 9);
    double per_step = 1e-6 / (double)watch->timed_steps;
    summary->samples_per_s = (double)watch->timed_samples / ((double)watch->timed.total_ns * 1e-9);
    summary->time_ms.data = (double)watch->timed.of[TIME_DATA] * per_step;
    summary->time_ms.forward = (double)watch->timed.of[TIME_FORWARD] * per_step;
    summary->time_ms.backward = (double)watch->timed.of[TIME_BACKWARD] * per_step;
    summary->time_ms.optimizer = (double)watch->timed.of[TIME_OPTIMIZER] * per_step;
    summary->time_ms.comm_exposed =
        (double)(watch->timed.of[TIME_COMM] - watch->timed.idle_ns) * per_step;
    summary->time_ms.comm_hidden = (double)watch->timed.hidden_ns * per_step;
    summary->time_ms.idle = (double)watch->timed.idle_ns * per_step;
}

static void fill_evaluation(const struct metrics_past *past, struct summary *summary) {
    summary->eval_loss = past->eval_loss;
    summary->acc1 = past->acc1;
    summary->acc5 = past->acc5;
}

void recorder_summary(const struct recorder *watch, struct summary *summary) {
    fill_step_times(watch, summary);
    summary->steps_not_timed = watch->steps_seen - watch->timed_steps;
    summary->damaged_samples = watch->job->plan->config.dataset->damaged;
    summary->skipped_samples = watch->skipped;
    summary->loss_first = watch->loss_first;
    summary->loss_last = watch->loss_last;
    if (watch->metrics) fill_evaluation(metrics_past(watch->metrics), summary);
}

/* Without a name: nothing of it is left, whatever ends the run. */
static void open_spool(struct recorder *watch) {
    char *path = mem_format("%s/trace.json.tmp.%d", watch->folder, (int)getpid());
    watch->spool = fopen(path, "w+be");
    if (!watch->spool)
        fail(STATUS_DATA, "%s: cannot write: %s", path, strerror(errno));
    else
        unlink(path);
    free(path);
}

enum status recorder_gather(struct recorder *watch, struct comm *comm) {
    if (comm_size(comm) == 1) return STATUS_OK;
    if (watch->folder) open_spool(watch);
    int file = watch->spool ? fileno(watch->spool) : -1;
    TRY(traces_gather(comm, watch->trace, &watch->trace_config, file, &watch->traces,
                      &watch->spooled));
    if (watch->traces) watch->trace_count = comm_size(comm);
    return STATUS_OK;
}

/* Ranks whose traces could not be gathered leave this one's. */
static enum status write_traces(const struct recorder *watch) {
    char *path = folder_path(watch->folder, "trace.json");
    enum status status = watch->traces ? trace_write(path, watch->traces, watch->trace_count)
                                       : trace_write(path, &watch->trace, 1);
    free(path);
    return status;
}

void recorder_free(struct recorder *watch) {
    for (int r = 1; r < watch->trace_count; r++) trace_free(&watch->traces[r]);
    free(watch->traces);
    if (watch->spool) fclose(watch->spool);
    watch->spool = NULL;
    trace_free(&watch->trace);
    free(watch->step_ms);
    free(watch->busy_ms);
    free(watch->span_ms);
    free(watch->rank_loss);
    free(watch->rank_ms);
    watch->rank_loss = watch->rank_ms = NULL;
    watch->traces = NULL;
    watch->step_ms = watch->busy_ms = watch->span_ms = NULL;
    watch->trace_count = 0;
}

enum status recorder_close(struct recorder *watch) {
    enum status status = STATUS_OK, closed = STATUS_OK;
    if (watch->metrics) {
        progress_close(&watch->progress);
        status = write_traces(watch);
        recorder_lacks(watch, status, "trace.json");
        if (status == STATUS_OK)
            recorder_lacks(watch, watch->spooled, "the other ranks in trace.json");
        closed = metrics_close(&watch->metrics);
        if (watch->status == STATUS_OK) recorder_lacks(watch, closed, "rows of metrics.jsonl");
    }
    recorder_free(watch);
    return status != STATUS_OK ? status : closed;
}
