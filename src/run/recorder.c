/* See recorder.h. */
#include "run/recorder.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backend/watch.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "exec/reached.h"
#include "exec/stop.h"
#include "planned/events.h"
#include "run/traces.h"

enum { RECORDER_MAX_TIMED = 4096 };

const struct plan *recorder_plan(const struct recorder *recorder) {
    return engine_plan(*recorder->engine);
}

/* SIGUSR1 asks where the ranks are. */
static void report_position(const struct recorder *recorder, int64_t step, const char *text) {
    if (recorder->print_positions)
        recorder->print_positions(recorder->position_context);
    else
        log_answer("rank %d is at step %lld %s", recorder->rank, (long long)step, text);
}

/* What this rank does is a record in its row: a text would take ten times as long as all else that
 * the executor does for an instruction. */
struct position {
    struct instr instr;
    int32_t rank;
};
_Static_assert(sizeof(struct position) <= CONTROL_DOING_BYTES, "a position has no room in a row");
_Static_assert((int)INSTR_TEXT_BYTES <= (int)CONTROL_DOING_BYTES,
               "an instruction has no room as text in a row");

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
static void trigger_fault(struct recorder *recorder, const struct instr *instr, const char *what,
                          int64_t step) {
    enum fault_action action = fault_trigger(&recorder->fault, what, step);
    fault_corrupt(engine_store(*recorder->engine), action);
    if (action == FAULT_NAN_GRADIENT && instr && strchr(instr_row(instr)->operands, 'b'))
        corrupt_gradient(recorder_plan(recorder), engine_store(*recorder->engine), instr);
}

/* Its libraries take memory for a kernel when it is first enqueued. */
static void measure_device(struct recorder *recorder, int next) {
    int last = recorder->device_at;
    struct device_bytes bytes;
    recorder->device_at = next;
    if (last < 0 || recorder->steps_seen >= RECORDER_MEASURED_STEPS || !recorder->planned) return;
    struct device *device = recorder_plan(recorder)->device;
    if (!device->backend->apart) return;
    device->backend->memory_bytes(device, &bytes);
    recorder->device_bytes[last] = (double)(bytes.taken + bytes.libraries);
}

static void on_starting(void *context, const struct instr *instr, int64_t step, int64_t now_ns) {
    struct recorder *recorder = context;
    measure_device(recorder, (int)instr_row(instr)->time);
    struct position position = {*instr, recorder->rank};
    char text[INSTR_TEXT_BYTES];
    if (recorder->row)
        control_row_set_record(recorder->row, step + 1, now_ns, &position, sizeof position);
    if (stop_take_report())
        report_position(recorder, step + 1, instr_text(instr, recorder->rank, text));
    if (recorder->fault.action != FAULT_NONE)
        trigger_fault(recorder, instr, instr_row(instr)->name, step + 1);
}

void recorder_note_reached(struct recorder *recorder) {
    int64_t step;
    if (!recorder->row || !recorder->engine || !*recorder->engine) return;
    const struct instr *instr = engine_reached(*recorder->engine, &step);
    if (!instr) return;
    struct position position = {*instr, recorder->rank};
    control_row_set_record(recorder->row, step + 1, clock_ns(), &position, sizeof position);
}

static void on_starting_other(void *context, const char *what, int64_t steps) {
    struct recorder *recorder = context;
    if (recorder->row) control_row_set(recorder->row, steps, what);
    if (stop_take_report()) report_position(recorder, steps, what);
    if (recorder->fault.action != FAULT_NONE) trigger_fault(recorder, NULL, what, steps);
}

/* Between two engines there is nothing to corrupt. */
static void on_changing(void *context, const char *what, int64_t steps) {
    struct recorder *recorder = context;
    if (recorder->row) control_row_set(recorder->row, steps, what);
    fault_trigger(&recorder->fault, what, steps);
}

/* The passes, which bubbles count. */
static void count_pass(struct recorder *recorder, int64_t begin_ns, int64_t end_ns) {
    if (recorder->first_ns == 0) recorder->first_ns = begin_ns;
    recorder->last_ns = end_ns;
    recorder->busy_ns += end_ns - begin_ns;
}

/* Steps in a trace count from 1, as everywhere that people look. */
static void on_instr(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                     int64_t end_ns) {
    struct trace_event event = events_ran(instr, step, begin_ns, end_ns);
    struct recorder *recorder = context;
    events_set_memory(&event, recorder->device_bytes[instr_row(instr)->time]);
    if (instr_runs_nodes(instr)) count_pass(recorder, begin_ns, end_ns);
    if (recorder->profiling) profiling_instr(recorder->profiling, instr, begin_ns, end_ns);
    trace_record(recorder->trace, &event);
}

static void on_node(void *context, const struct graph *graph, const struct node *node, int64_t ns) {
    profiling_node(((struct recorder *)context)->profiling, graph, node, ns);
}

static void on_posted(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                      int64_t end_ns) {
    struct recorder *recorder = context;
    struct trace_event event = events_posted(instr, step, begin_ns, end_ns);
    event.message = events_message(instr, recorder_plan(recorder)->program, recorder->rank);
    trace_record(recorder->trace, &event);
}

/* A broadcast is communication and nothing else: its own waits would say the same again. */
static void on_waited(void *context, const struct instr *waiter, const struct instr *awaited,
                      int64_t step, int64_t begin_ns, int64_t end_ns) {
    if (waiter == awaited && instr_row(awaited)->time == TIME_COMM) return;
    struct trace_event event = events_waited(waiter, awaited, step, begin_ns, end_ns);
    trace_record(((struct recorder *)context)->trace, &event);
}

static void time_step(struct recorder *recorder, const struct step_result *result) {
    const struct step_times *times = &result->times;
    int at = (int)(recorder->timed_steps % RECORDER_MAX_TIMED);
    if (recorder->steps_seen <= RECORDER_WARMUP_STEPS) return;
    recorder->step_ms[at] = (double)times->total_ns * 1e-6;
    recorder->busy_ms[at] = (double)recorder->busy_ns * 1e-6;
    recorder->span_ms[at] = (double)(recorder->last_ns - recorder->first_ns) * 1e-6;
    recorder->timed_steps++;
    recorder->timed_samples += result->samples;
    recorder->timed.total_ns += times->total_ns;
    for (int t = 0; t < TIME_COUNT; t++) recorder->timed.of[t] += times->of[t];
    recorder->timed.idle_ns += times->idle_ns;
    recorder->timed.hidden_ns += times->hidden_ns;
}

static bool line_due(const struct recorder *recorder, const struct step_result *result) {
    const struct run_config *config = &recorder_plan(recorder)->config;
    int64_t done = result->step + 1, in_epoch = result->step_in_epoch + 1;
    return recorder->steps_seen == 1 || done % recorder->log_every == 0 ||
           in_epoch == config->steps_per_epoch ||
           result->epoch * config->steps_per_epoch + in_epoch == config->steps;
}

void recorder_lacks(struct recorder *recorder, enum status status, const char *format, ...) {
    size_t used = strlen(recorder->lacks);
    if (status == STATUS_OK) return;
    if (used > 0)
        used += (size_t)snprintf(recorder->lacks + used, sizeof recorder->lacks - used, ", ");
    va_list args;
    va_start(args, format);
    shown_vformat(recorder->lacks + used, sizeof recorder->lacks - used, format, args);
    va_end(args);
}

/* A row that is lost does not end the training; a later save does, and the end says so. */
static void write_row(struct recorder *recorder, const struct metrics_row *row) {
    enum status status = metrics_write(recorder->metrics, row);
    if (recorder->status != STATUS_OK) return;
    recorder->status = status;
    recorder_lacks(recorder, status, "metrics.jsonl and events from step %lld on",
                   (long long)row->step);
}

/* A few times a second: the driver means over that long itself. */
static void sample_device(struct recorder *recorder) {
    enum { EVERY_NS = 200 * 1000 * 1000, HIGH = 95 };
    struct device *device = recorder_plan(recorder)->device;
    struct device_load *load = &recorder->device_load;
    int64_t now_ns = clock_ns();
    double busy, memory;
    const struct backend_watch *watch = device->backend->watch;
    if (!watch || !watch->busy || now_ns - load->at_ns < EVERY_NS) return;
    load->at_ns = now_ns;
    if (!watch->busy(device, &busy, &memory)) return;
    load->samples++;
    load->above += busy > HIGH;
    load->busy += busy;
    load->memory += memory;
}

static void fill_device(const struct recorder *recorder, struct summary *summary) {
    const struct device_load *load = &recorder->device_load;
    const double *bytes = recorder->device_bytes;
    double count = (double)load->samples;
    if (bytes[TIME_DATA] > 0) summary->device_bytes.load = bytes[TIME_DATA];
    if (bytes[TIME_FORWARD] > 0) summary->device_bytes.forward = bytes[TIME_FORWARD];
    if (bytes[TIME_BACKWARD] > 0) summary->device_bytes.backward = bytes[TIME_BACKWARD];
    if (bytes[TIME_OPTIMIZER] > 0) summary->device_bytes.update = bytes[TIME_OPTIMIZER];
    if (load->samples == 0) return;
    summary->gpu_busy.mean = load->busy / count / 100;
    summary->gpu_busy.above_95 = (double)load->above / count;
    summary->gpu_busy.memory = load->memory / count / 100;
}

/* The row of a step is whole later: see on_row. */
static void on_step(void *context, const struct step_result *result) {
    struct recorder *recorder = context;
    struct recorder_row *at = &recorder->rows[result->step % RECORDER_ROWS];
    struct metrics_row *row = &at->row;
    measure_device(recorder, -1);
    recorder->steps_seen++;
    recorder->line_samples += result->samples;
    recorder->line_ns += result->times.total_ns;
    time_step(recorder, result);
    if (recorder->metrics && recorder->steps_seen > RECORDER_WARMUP_STEPS) sample_device(recorder);
    if (recorder->steps_seen == RECORDER_WARMUP_STEPS) recorder->load = load_now("");
    recorder->busy_ns = recorder->first_ns = recorder->last_ns = 0;
    if (recorder->profiling) profiling_instr(recorder->profiling, NULL, 0, 0);
    if (recorder->profiling && recorder->steps_seen >= RECORDER_WARMUP_STEPS)
        profiling_begin(recorder->profiling);
    *row = metrics_row_new(METRICS_TRAIN, result->step + 1, result->epoch + 1);
    row->lr = result->lr;
    row->samples_per_s = (double)recorder->line_samples / ((double)recorder->line_ns * 1e-9);
    row->step_ms = (double)result->times.total_ns * 1e-6;
    row->data_ms = (double)result->times.of[TIME_DATA] * 1e-6;
    row->virtual_s = engine_virtual_s(*recorder->engine);
    row->loss_scale = result->loss_scale;
    row->steps_skipped = isnan(result->loss_scale)
                             ? NAN
                             : (double)engine_state(*recorder->engine)->done.scale.skipped;
    at->due = line_due(recorder, result);
    if (recorder->metrics && at->due) recorder->line_samples = recorder->line_ns = 0;
}

/* Where replicas draw numbers, this rank may have had none of a row's step, and times are of when
 * numbers were finished, whoever trained them. */
static void fill_drawn(struct recorder *recorder, const struct step_row *told,
                       struct recorder_row *at) {
    const struct run_config *config = &recorder_plan(recorder)->config;
    struct step_result result = {.step = told->step,
                                 .epoch = told->step / config->steps_per_epoch,
                                 .step_in_epoch = told->step % config->steps_per_epoch};
    struct metrics_row *row = &at->row;
    if (row->step != told->step + 1) {
        *row = metrics_row_new(METRICS_TRAIN, told->step + 1, result.epoch + 1);
        row->lr = lr_at(&config->lr, told->step);
        at->due = line_due(recorder, &result);
    }
    double ns = (double)(told->at_ns - recorder->drawn_ns),
           samples = (double)(told->numbers - recorder->drawn_numbers) * (double)config->batch /
                     config->replicas;
    if (recorder->drawn_ns > 0 && ns > 0) recorder->drawn_rate = samples / (ns * 1e-9);
    row->samples_per_s = recorder->drawn_rate > 0 ? recorder->drawn_rate : NAN;
    if (!isnan(row->virtual_s) || !isnan(engine_virtual_s(*recorder->engine)))
        row->virtual_s = (double)told->at_ns * 1e-9;
    if (!at->due && recorder->drawn_ns > 0) return;
    recorder->drawn_ns = told->at_ns;
    recorder->drawn_numbers = told->numbers;
}

static void on_row(void *context, const struct step_row *told) {
    struct recorder *recorder = context;
    struct recorder_row *at = &recorder->rows[told->step % RECORDER_ROWS];
    struct metrics_row *row = &at->row;
    if (recorder_plan(recorder)->config.chooses) fill_drawn(recorder, told, at);
    recorder->skipped += told->skipped;
    row->loss = told->loss;
    row->acc1 = told->acc1;
    row->grad_norm = told->grad_norm;
    row->numbers = (double)told->numbers;
    row->least = (double)told->least;
    row->most = (double)told->most;
    row->group_size = told->group_size;
    row->group_spread = isnan(told->group_size) ? NAN : (double)told->spread;
    row->ranks = told->ranks;
    row->rank_loss = told->rank_loss;
    row->rank_ms = told->rank_ms;
    if (told->step == 0) recorder->loss_first = row->loss;
    recorder->loss_last = row->loss;
    if (!recorder->metrics) return;
    progress_step(recorder->progress, row);
    if (at->due) write_row(recorder, row);
}

static void on_evaluated(void *context, int64_t steps, const struct eval_result *result) {
    struct recorder *recorder = context;
    if (!recorder->metrics) return;
    const struct train_position *next = &engine_state(*recorder->engine)->next;
    struct metrics_row row = metrics_row_new(METRICS_EVAL, steps, next->epoch + (next->sample > 0));
    row.loss = result->loss;
    row.acc1 = result->acc1;
    row.acc5 = result->acc5;
    row.eval_ms = (double)result->ns * 1e-6;
    row.virtual_s = engine_virtual_s(*recorder->engine);
    write_row(recorder, &row);
    progress_eval(recorder->progress, &row);
}

static enum status on_saving(void *context, int64_t steps) {
    struct recorder *recorder = context;
    if (recorder->status != STATUS_OK)
        return fail(recorder->status, "%s: step %lld is not saved: the folder lacks %s",
                    recorder->folder, (long long)steps, recorder->lacks);
    if (!recorder->metrics) return STATUS_OK;
    TRY(recorder_note_times(recorder));
    return metrics_sync(recorder->metrics);
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

enum status recorder_note_times(struct recorder *recorder) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct history_times times = {.wall_s = (double)(clock_ns() - recorder->begin_ns) * 1e-9,
                                  .user_s = seconds_of(usage.ru_utime),
                                  .sys_s = seconds_of(usage.ru_stime)};
    return history_note(recorder->history, &times);
}

static enum status open_trace(struct recorder *recorder) {
    recorder->trace_config =
        events_trace_config(recorder_plan(recorder), &recorder->planned->options, recorder->rank);
    return trace_open(&recorder->trace_config, &recorder->trace);
}

/* Every step of a range test is a point of its curve. */
static int64_t rows_every(const struct planned_run *planned) {
    bool all = planned->plan->config.lr.policy == LR_RANGE &&
               !option_is_given(&planned->options, OPTION_log_every);
    return all ? 1 : planned->options.log_every;
}

enum status recorder_open(const struct planned_run *planned, const char *folder, int64_t first_step,
                          struct recorder *out) {
    const struct options *options = &planned->options;
    struct recorder recorder = {.rank = out->rank,
                                .row = out->row,
                                .print_positions = out->print_positions,
                                .position_context = out->position_context,
                                .engine = out->engine,
                                .profiling = out->profiling,
                                .history = out->history,
                                .begin_ns = out->begin_ns,
                                .fault = out->fault,
                                .lines = out->lines,
                                .planned = planned,
                                .folder = folder,
                                .log_every = rows_every(planned),
                                .loss_first = NAN,
                                .loss_last = NAN};
    recorder.step_ms = MEM_ARRAY(double, RECORDER_MAX_TIMED);
    recorder.busy_ms = MEM_ARRAY(double, RECORDER_MAX_TIMED);
    recorder.span_ms = MEM_ARRAY(double, RECORDER_MAX_TIMED);
    enum status status = open_trace(&recorder);
    if (status == STATUS_OK && folder)
        status =
            metrics_open(folder, options->resume ? first_step : METRICS_FRESH, &recorder.metrics);
    *out = recorder;
    if (status != STATUS_OK || !folder) return status;
    recorder.loss_first = metrics_past(recorder.metrics)->loss_first;
    recorder.loss_last = metrics_past(recorder.metrics)->loss_last;
    recorder.progress = progress_open(&(struct progress_config){
        .first_step = first_step,
        .total_steps = planned->plan->config.steps,
        .steps_per_epoch = planned->plan->config.steps_per_epoch,
        .log_every = options->log_every,
        .numbers = planned->plan->program->ahead > 0 || planned->plan->config.chooses,
        .json = options->json,
        .quiet = options->quiet,
        .columns = recorder.lines ? -1 : 0});
    recorder.device_at = -1;
    *out = recorder;
    return STATUS_OK;
}

struct engine_observer recorder_engine_observer(struct recorder *recorder) {
    return (struct engine_observer){.context = recorder,
                                    .starting = on_starting,
                                    .instr = on_instr,
                                    .node = recorder->profiling ? on_node : NULL,
                                    .posted = on_posted,
                                    .waited = on_waited,
                                    .changing = on_changing};
}

struct engine_observer recorder_position_observer(struct recorder *recorder) {
    return (struct engine_observer){.context = recorder, .starting = on_starting};
}

struct train_observer recorder_train_observer(struct recorder *recorder) {
    return (struct train_observer){.context = recorder,
                                   .starting = on_starting_other,
                                   .step = on_step,
                                   .row = on_row,
                                   .evaluated = on_evaluated,
                                   .saving = on_saving};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of those that were kept; sorts them. */
static double quantile(const struct recorder *recorder, double *values, int tenth) {
    int64_t count =
        recorder->timed_steps < RECORDER_MAX_TIMED ? recorder->timed_steps : RECORDER_MAX_TIMED;
    if (count == 0) return 0;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count * tenth / 10];
}

struct recorder_use recorder_use(const struct recorder *recorder) {
    return (struct recorder_use){.step_ms = quantile(recorder, recorder->step_ms, 5),
                                 .busy_ms = quantile(recorder, recorder->busy_ms, 5),
                                 .span_ms = quantile(recorder, recorder->span_ms, 5)};
}

struct load recorder_load(const struct recorder *recorder) {
    static const struct load unknown = {-1, -1, -1, -1, -1};
    struct load now = load_now("");
    return recorder->timed_steps > 0 ? load_between(&recorder->load, &now) : unknown;
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

static void fill_step_times(const struct recorder *recorder, struct summary *summary) {
    if (recorder->timed_steps == 0) return;
    summary->step_ms.p50 = quantile(recorder, recorder->step_ms, 5);
    summary->step_ms.p90 = quantile(recorder, recorder->step_ms, 9);
    double per_step = 1e-6 / (double)recorder->timed_steps;
    summary->samples_per_s =
        (double)recorder->timed_samples / ((double)recorder->timed.total_ns * 1e-9);
    summary->time_ms.data = (double)recorder->timed.of[TIME_DATA] * per_step;
    summary->time_ms.forward = (double)recorder->timed.of[TIME_FORWARD] * per_step;
    summary->time_ms.backward = (double)recorder->timed.of[TIME_BACKWARD] * per_step;
    summary->time_ms.optimizer = (double)recorder->timed.of[TIME_OPTIMIZER] * per_step;
    summary->time_ms.comm_exposed =
        (double)(recorder->timed.of[TIME_COMM] - recorder->timed.idle_ns) * per_step;
    summary->time_ms.comm_hidden = (double)recorder->timed.hidden_ns * per_step;
    summary->time_ms.idle = (double)recorder->timed.idle_ns * per_step;
}

static void fill_evaluation(const struct metrics_past *past, struct summary *summary) {
    summary->eval_loss = past->eval_loss;
    summary->acc1 = past->acc1;
    summary->acc5 = past->acc5;
}

void recorder_summary(const struct recorder *recorder, struct summary *summary) {
    fill_step_times(recorder, summary);
    summary->steps_not_timed = recorder->steps_seen - recorder->timed_steps;
    summary->damaged_samples = recorder_plan(recorder)->config.dataset->damaged;
    summary->skipped_samples = recorder->skipped;
    fill_device(recorder, summary);
    summary->loss_first = recorder->loss_first;
    summary->loss_last = recorder->loss_last;
    if (recorder->metrics) fill_evaluation(metrics_past(recorder->metrics), summary);
}

/* Without a name: nothing of it is left, whatever ends the run. */
static void open_spool(struct recorder *recorder) {
    SCOPED_FREE char *path = mem_format("%s/trace.json.tmp.%d", recorder->folder, (int)getpid());
    recorder->spool = fopen(path, "w+be");
    if (!recorder->spool)
        fail(STATUS_DATA, "%s: cannot write: %s", path, strerror(errno));
    else
        unlink(path);
}

enum status recorder_gather(struct recorder *recorder, struct comm *comm) {
    if (comm_size(comm) == 1) return STATUS_OK;
    if (recorder->folder) open_spool(recorder);
    int file = recorder->spool ? fileno(recorder->spool) : -1;
    TRY(traces_gather(comm, recorder->trace, &recorder->trace_config, file, &recorder->traces,
                      &recorder->spooled));
    if (recorder->traces) recorder->trace_count = comm_size(comm);
    return STATUS_OK;
}

/* Ranks whose traces could not be gathered leave this one's. */
static enum status write_traces(const struct recorder *recorder) {
    SCOPED_FREE char *path = folder_path(recorder->folder, "trace.json");
    return recorder->traces ? trace_write(path, recorder->traces, recorder->trace_count)
                            : trace_write(path, &recorder->trace, 1);
}

void recorder_free(struct recorder *recorder) {
    for (int r = 1; r < recorder->trace_count; r++) trace_free(&recorder->traces[r]);
    free(recorder->traces);
    if (recorder->spool) fclose(recorder->spool);
    recorder->spool = NULL;
    trace_free(&recorder->trace);
    free(recorder->step_ms);
    free(recorder->busy_ms);
    free(recorder->span_ms);
    recorder->traces = NULL;
    recorder->step_ms = recorder->busy_ms = recorder->span_ms = NULL;
    recorder->trace_count = 0;
}

enum status recorder_close(struct recorder *recorder) {
    enum status status = STATUS_OK, closed = STATUS_OK;
    if (recorder->metrics) {
        progress_close(&recorder->progress);
        status = write_traces(recorder);
        recorder_lacks(recorder, status, "trace.json");
        if (status == STATUS_OK)
            recorder_lacks(recorder, recorder->spooled, "the other ranks in trace.json");
        closed = metrics_close(&recorder->metrics);
        if (recorder->status == STATUS_OK)
            recorder_lacks(recorder, closed, "rows of metrics.jsonl");
    }
    recorder_free(recorder);
    return status != STATUS_OK ? status : closed;
}
