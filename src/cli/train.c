/* `stretto train`: a run from options to summary. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/folder.h"
#include "cli/resume.h"
#include "cli/watch.h"
#include "exec/stop.h"
#include "record/report.h"
#include "stretto.h"

struct session {
    struct job job;
    char *folder;
    struct exec *exec;
    struct watch watch;
    struct train_result result;
    int64_t begin_ns;
    struct checkpoint_fact facts[CHECKPOINT_MAX_FACTS];
    int fact_count;
    struct arena arena;
    struct summary summary;
};

static void add_fact(struct session *session, enum fact_kind kind, const char *key,
                     char *value_owned) {
    session->facts[session->fact_count++] = (struct checkpoint_fact){
        .key = key, .value = arena_text(&session->arena, value_owned), .kind = kind};
    free(value_owned);
}

/* What decides the course of training must be the same on resume; what only shapes it may change,
 * and is said. */
static void collect_facts(struct session *session) {
    static const enum option_id fixed[] = {OPTION_model,  OPTION_optimizer, OPTION_seed,
                                           OPTION_batch,  OPTION_sum,       OPTION_drop_last,
                                           OPTION_classes};
    static const enum option_id told[] = {OPTION_lr,       OPTION_lr_policy,       OPTION_momentum,
                                          OPTION_nesterov, OPTION_weight_decay,    OPTION_no_decay,
                                          OPTION_clip,     OPTION_label_smoothing, OPTION_warmup,
                                          OPTION_lr_gamma, OPTION_beta1,           OPTION_beta2,
                                          OPTION_eps};
    struct options *options = &session->job.options;
    const struct plan *plan = session->job.plan;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        add_fact(session, FACT_FIXED, option_rows[fixed[i]].name, option_text(options, fixed[i]));
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        add_fact(session, FACT_TOLD, option_rows[told[i]].name, option_text(options, told[i]));
    add_fact(session, FACT_FIXED, "deal",
             mem_format("%dx%d", plan->config.replicas, plan->config.micro_batches));
    add_fact(session, FACT_FIXED, "data-hash",
             mem_format("%016llx", (unsigned long long)plan->config.dataset->content_hash));
    add_fact(session, FACT_FIXED, "dropout", mem_format("%g", (double)plan->config.shape.dropout));
    const struct lr_config *lr = &plan->config.lr;
    add_fact(session, FACT_TOLD, "lr-step",
             mem_format("%lld", (long long)(lr->policy == LR_STEP ? lr->step_size : 0)));
    add_fact(session, FACT_TOLD, "steps",
             mem_format("%lld", (long long)plan->config.lr.total_steps));
    add_fact(session, FACT_RAN_ON, "threads", mem_format("%d", plan->config.threads));
    add_fact(session, FACT_RAN_ON, "version", mem_format("%s", stretto_version()));
    add_fact(session, FACT_RAN_ON, "compiler", mem_format("%s", __VERSION__));
    char device[128];
    plan->device->backend->describe(plan->device, device, sizeof device);
    add_fact(session, FACT_RAN_ON, "device", mem_format("%s", device));
}

static enum status write_texts(struct session *session) {
    char *yaml = options_write_yaml(&session->job.options),
         *path = folder_path(session->folder, "config.yml");
    enum status status = file_write_text(path, yaml);
    free(yaml);
    free(path);
    TRY(status);
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    program_print(session->job.plan->program, stream);
    fclose(stream);
    path = folder_path(session->folder, "program.txt");
    status = file_write_text(path, text);
    free(text);
    free(path);
    return status;
}

/* Weights first, then a checkpoint on top, then what watches: it must know at which step the run
 * begins. */
static enum status prepare(struct session *session, const struct checkpoint_config *checkpoint,
                           struct checkpoint_state *state) {
    const struct options *options = &session->job.options;
    struct exec_observer observer = watch_exec_observer(&session->watch);
    TRY(exec_new(session->job.plan, &observer, &session->exec));
    if (option_is_set(options, OPTION_weights))
        TRY(checkpoint_load_weights(session->exec, options->weights));
    *state = train_fresh();
    if (options->resume) TRY(train_resume(session->exec, checkpoint, state));
    TRY(write_texts(session));
    return watch_open(&session->job, session->folder, state->step, &session->watch);
}

static void say_stopped(const struct session *session) {
    bool signalled = session->result.cause == STOP_SIGNAL;
    int signal = signalled ? stop_signal() : SIGALRM; /* a time limit is a timer's signal */
    cli_stopped_by(signal);
    log_note("stopped by %s after step %lld, saved; --resume goes on",
             signalled ? strsignal(signal) : "--time-limit", (long long)session->result.steps);
}

static enum status train(struct session *session, const struct checkpoint_config *checkpoint,
                         const struct checkpoint_state *state) {
    const struct job *job = &session->job;
    const struct options *options = &job->options;
    struct train_observer observer = watch_train_observer(&session->watch);
    bool limited = option_is_set(options, OPTION_time_limit_s);
    struct train_config config = {
        .eval_every = job_period_steps(job, options->eval_every),
        .save_every = job_period_steps(job, options->save_every),
        .eval_at_end = options->eval_every.steps > 0 || options->eval_every.epochs > 0,
        .deadline_ns = limited ? session->begin_ns + (int64_t)(options->time_limit_s * 1e9) : 0,
        .checkpoint = *checkpoint,
    };
    enum status status = train_all(session->exec, &config, state, &observer, &session->result);
    if (status == STATUS_STOPPED) say_stopped(session);
    return status;
}

static void describe_run(const struct session *session, struct summary *summary) {
    const struct run_config *config = &session->job.plan->config;
    const struct options *options = &session->job.options;
    char device[128];
    session->job.plan->device->backend->describe(session->job.plan->device, device, sizeof device);
    summary->version = stretto_version();
    summary->strategy = options->strategy;
    summary->model = config->model->name;
    summary->data = options->data;
    summary->device = options->device;
    summary->dtype = options->dtype;
    summary->isa = summary_text(summary, device);
    summary->threads = config->threads;
    summary->comm = "self";
    summary->deterministic = SUMMARY_ON;
    summary->seed = options->seed;
    summary->ranks = summary->stages = summary->virtual = 1;
    summary->replicas = config->replicas;
    summary->micro_batches = config->micro_batches;
    summary->batch = config->batch;
    summary->params = graph_param_elements(session->job.plan->micro[0].graph);
    summary->sent_bytes_per_step = summary_ints_new(summary, 1);
    summary->sent_bytes_per_step.item[0] = summary->reduced_bytes_per_step = 0;
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static void measure_run(struct session *session, struct summary *summary) {
    const struct train_result *result = &session->result;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    summary->steps = result->steps;
    summary->epochs = (double)result->steps / (double)session->job.plan->steps_per_epoch;
    if (result->evaluated) {
        summary->eval_loss = result->eval.loss;
        summary->acc1 = result->eval.acc1;
        summary->acc5 = result->eval.acc5;
    }
    summary->peak_bytes = summary_ints_new(summary, 1);
    summary->peak_bytes.item[0] = (int64_t)(mem_peak_bytes() - session->job.resident_before);
    summary->predicted_peak_bytes = summary_ints_new(summary, 1);
    summary->predicted_peak_bytes.item[0] = (int64_t)plan_bytes(session->job.plan);
    summary->predicted_step_ms.p50 = job_step_ns(&session->job) * 1e-6;
    summary->wall_s = (double)(clock_ns() - session->begin_ns) * 1e-9;
    summary->user_s = seconds_of(usage.ru_utime);
    summary->sys_s = seconds_of(usage.ru_stime);
}

static enum status fill_summary(struct session *session, int exit_code) {
    struct summary *summary = &session->summary;
    measure_run(session, summary); /* first: what follows uses memory of its own */
    describe_run(session, summary);
    watch_summary(&session->watch, summary);
    TRY(store_param_hash(exec_store(session->exec), &summary->param_hash.value));
    summary->param_hash.known = summary->buffer_hash.known = true;
    summary->buffer_hash.value = store_buffer_hash(exec_store(session->exec));
    summary->exit = exit_code;
    return STATUS_OK;
}

static void print_result(const struct session *session) {
    const struct summary *summary = &session->summary;
    char size[TEXT_BYTES], predicted[TEXT_BYTES], wall[TEXT_BYTES];
    struct text_table table = {.align = "ll"};
    text_table_cell(&table, "steps"),
        text_table_cell(&table, "%lld (%.2f epochs)", (long long)summary->steps, summary->epochs);
    text_table_cell(&table, "training loss"),
        text_table_cell(&table, "%.4f at first, %.4f at last", summary->loss_first,
                        summary->loss_last);
    if (session->result.evaluated) {
        text_table_cell(&table, "test loss"), text_table_cell(&table, "%.4f", summary->eval_loss);
        if (!isnan(summary->acc1))
            text_table_cell(&table, "accuracy"),
                text_table_cell(&table, "%.2f%% (top 5: %.2f%%)", summary->acc1 * 100,
                                summary->acc5 * 100);
    }
    if (!isnan(summary->samples_per_s)) {
        text_table_cell(&table, "speed");
        text_table_cell(&table, "%.0f samples/s, step %.2f ms (p90 %.2f)", summary->samples_per_s,
                        summary->step_ms.p50, summary->step_ms.p90);
    }
    text_table_cell(&table, "peak memory");
    text_table_cell(&table, "%s (predicted %s)", text_size(summary->peak_bytes.item[0], size),
                    text_size(summary->predicted_peak_bytes.item[0], predicted));
    text_table_cell(&table, "time"),
        text_table_cell(&table, "%s", text_duration(summary->wall_s, wall));
    text_table_cell(&table, "param_hash"),
        text_table_cell(&table, "%016llx", (unsigned long long)summary->param_hash.value);
    text_table_cell(&table, "report");
    text_table_cell(&table, "%s/report.html", session->folder);
    printf("\n");
    text_table_print(&table, 0, stdout);
    text_table_free(&table);
}

static char *text_of(const char *folder, const char *name) {
    enum { TEXT_LIMIT = 64 << 20 };
    char *path = folder_path(folder, name);
    struct bytes bytes;
    char *text = file_read(path, TEXT_LIMIT, &bytes) == STATUS_OK ? (char *)bytes.data : NULL;
    free(path);
    return text;
}

/* The arguments of this process, as the system keeps them. */
static char *command_line(void) {
    char *line = mem_new(4096);
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t count = file ? fread(line, 1, 4095, file) : 0;
    if (file) fclose(file);
    for (size_t i = 0; i + 1 < count; i++) {
        if (line[i] == 0) line[i] = ' ';
    }
    return line;
}

static enum status write_report(const struct session *session) {
    char *line = command_line(), *yaml = text_of(session->folder, "config.yml");
    char *program = text_of(session->folder, "program.txt");
    struct report_input input = {.summary = &session->summary,
                                 .command_line = line,
                                 .config_yaml = yaml,
                                 .program_text = program};
    enum status status = report_write(session->folder, &input);
    free(line);
    free(yaml);
    free(program);
    return status;
}

/* The end of a run, also of one that failed in training: what was measured is kept. */
static enum status finish(struct session *session, enum status status) {
    bool good = status == STATUS_OK || status == STATUS_STOPPED;
    char *model = folder_path(session->folder, "model.safetensors"),
         *summary = folder_path(session->folder, "summary.json");
    int exit_code = status == STATUS_STOPPED ? 128 + (stop_signal() ? stop_signal() : SIGALRM)
                                             : status_exit_code(status);
    enum status finishing = fill_summary(session, exit_code);
    if (finishing == STATUS_OK && good)
        finishing = checkpoint_write_model(session->exec, model, NULL);
    enum status closing = watch_close(&session->watch);
    if (finishing == STATUS_OK) finishing = closing;
    if (finishing == STATUS_OK) finishing = summary_write(&session->summary, summary);
    if (finishing == STATUS_OK) finishing = write_report(session);
    free(model);
    free(summary);
    if (!good) return status;
    const struct options *options = &session->job.options;
    if (finishing == STATUS_OK && !options->quiet && !options->json) print_result(session);
    return finishing == STATUS_OK ? status : finishing;
}

static enum status run_session(struct session *session) {
    const struct options *options = &session->job.options;
    TRY(job_check_memory(&session->job));
    const char *program =
        option_is_set(options, OPTION_save_program) ? options->save_program : NULL;
    if (program && file_exists(program)) /* before --overwrite removes anything */
        return explain_save_program(session->job.plan, program);
    TRY(folder_open(options, &session->folder));
    if (program) TRY(explain_save_program(session->job.plan, program));
    if (!options->quiet && !options->json) explain_print(&session->job, stdout), printf("\n");
    collect_facts(session);
    char *checkpoints = folder_path(session->folder, "checkpoints");
    struct checkpoint_config checkpoint = {.folder = checkpoints,
                                           .keep = (int)options->keep,
                                           .facts = session->facts,
                                           .fact_count = session->fact_count};
    struct checkpoint_state state;
    enum status status = prepare(session, &checkpoint, &state);
    if (status == STATUS_OK) status = finish(session, train(session, &checkpoint, &state));
    free(checkpoints);
    return status;
}

static enum status train_with(const struct options *options) {
    struct session session = {.begin_ns = clock_ns()};
    summary_init(&session.summary);
    TRY(job_open(options, &session.job));
    enum status status = run_session(&session);
    exec_free(&session.exec);
    job_close(&session.job);
    summary_free(&session.summary);
    arena_free(&session.arena);
    free(session.folder);
    return status;
}

enum status train_run(const struct options *options) {
    struct options resumed;
    bool found;
    stop_install();
    log_quiet(options->quiet);
    TRY(resume_options(options, &resumed, &found));
    if (!found) return train_with(options);
    enum status status = train_with(&resumed);
    options_free(&resumed);
    return status;
}
