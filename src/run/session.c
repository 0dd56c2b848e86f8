/* See session.h. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/display.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "data/outline.h"
#include "launch/waiting.h"
#include "model/pretrained.h"
#include "plan/resolve.h"
#include "planned/paths.h"
#include "run/kept_costs.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/run_timeline.h"
#include "run/session.h"
#include "run/transition.h"
#include "stretto.h"
#include "view/explain.h"
#include "view/view_forecast.h"

static bool first_rank(const struct session *session) {
    return session->planned.plan->config.rank == 0;
}

const struct plan *session_plan(const struct session *session) {
    if (session->engine) return engine_plan(session->engine);
    return session->later ? session->later : session->planned.plan;
}

double session_wait_limit_s(const struct session *session) {
    struct control_doing doing = {0};
    if (session->recorder.row) control_row_get(session->recorder.row, &doing);
    return planned_wait_limit_s(&session->planned, strcmp(doing.text, "EVAL") == 0);
}

static void add_fact(struct session *session, enum fact_kind kind, const char *key,
                     char *value_owned) {
    CHECK(session->fact_count < CHECKPOINT_MAX_FACTS, "more than %d facts of a run",
          CHECKPOINT_MAX_FACTS);
    session->facts[session->fact_count++] = (struct checkpoint_fact){
        .key = key, .value = arena_text(&session->arena, value_owned), .kind = kind};
    free(value_owned);
}

/* Where no step of an epoch is short there is none to leave out: a run may be resumed with a
 * strategy that leaves it out. */
static bool drops_last(const struct run_config *config) {
    return config->drop_last && config->dataset->count[SPLIT_TRAIN] % config->batch != 0;
}

/* The value of an option as the run has it: what was left open is in its plan. The caller frees it.
 */
static char *fact_text(const struct session *session, enum option_id id) {
    const struct plan *plan = session->planned.plan;
    const struct run_config *config = &plan->config;
    struct option_word policy = {.acts = lr_policy_acts(config->lr.policy)};
    char device[128];
    switch ((int)id) {
    case OPTION_deal: return mem_format("%dx%d", config->replicas, config->micro_batches);
    case OPTION_drop_last: return mem_text(drops_last(config) ? "on" : "off");
    case OPTION_eval_batch: return mem_format("%lld", (long long)config->eval_batch);
    case OPTION_dropout: return mem_format("%g", (double)config->shape.dropout);
    case OPTION_lr_step:
        return mem_format("%lld", (long long)(option_word_acts(&policy, option_rows[id].name)
                                                  ? config->lr.step_size
                                                  : 0));
    case OPTION_steps: return mem_format("%lld", (long long)config->steps);
    case OPTION_threads: return mem_format("%d", config->threads);
    case OPTION_device:
        plan->device->backend->describe(plan->device, device, sizeof device);
        return mem_text(device);
    }
    return option_text(&session->planned.options, id);
}

static void add_options(struct session *session, enum option_resume resume, enum fact_kind kind) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].resume == resume)
            add_fact(session, kind, option_rows[id].name, fact_text(session, (enum option_id)id));
    }
}

/* How many updates old the weights are that each stage reads: "2,1,0"; "0" where steps flush. The
 * caller frees it. */
static char *staleness_text(const struct program *program) {
    char *text = mem_text(program->ahead > 0 ? "" : "0");
    for (int s = 0; program->ahead > 0 && s < program->grid.stages; s++) {
        char *longer =
            mem_format("%s%s%d", text, s ? "," : "", program_of(program, s)->chunk[0].older);
        free(text);
        text = longer;
    }
    return text;
}

/* What decides the course of training must be the same on resume; what only shapes it may change,
 * and is said. Which option is what is a column of the table. */
void session_facts(struct session *session) {
    uint64_t data = session->planned.plan->config.dataset->content_hash;
    add_options(session, OPTION_RESUME_FIXED, FACT_FIXED);
    add_fact(session, FACT_FIXED, "data-hash", mem_format("%016llx", (unsigned long long)data));
    char *clock;
    if (session->planned.costs->simulated &&
        kept_costs_name(&session->planned.options, &clock) == STATUS_OK)
        add_fact(session, FACT_CLOCK, "clock-costs", clock);
    add_options(session, OPTION_RESUME_TOLD, FACT_TOLD);
    add_options(session, OPTION_RESUME_RAN_ON, FACT_RAN_ON);
    add_fact(session, FACT_RAN_ON, "staleness", staleness_text(session->planned.plan->program));
    add_fact(session, FACT_RAN_ON, "version", mem_text(stretto_version()));
    add_fact(session, FACT_RAN_ON, "compiler", mem_text(__VERSION__));
}

/* No other program has a model or data set of the program's own, so the program's name is kept. */
static char *own_program(const struct run_config *config) {
    char program[4096] = "";
    bool own = config->model->own || config->dataset->ops->own;
    ssize_t length = own ? readlink("/proc/self/exe", program, sizeof program - 1) : 0;
    if (length <= 0) return mem_text("");
    program[length] = 0;
    return mem_format(OPTION_PROGRAM_LINE "%s\n", program);
}

/* Beside the weights, for Hugging Face's from_pretrained. */
static enum status write_pretrained(const struct session *session) {
    const struct run_config *config = &session->planned.plan->config;
    SCOPED_FREE char *text = pretrained_config(config->model, &config->shape);
    if (!text) return STATUS_OK;
    SCOPED_FREE char *path = folder_path(session->folder, "config.json");
    return file_write_text(path, text);
}

/* Files by paths that mean the same from any folder. */
static enum status write_texts(struct session *session) {
    struct options options = session->planned.options;
    paths_make_absolute(&options, &session->arena);
    SCOPED_FREE char *yaml = options_write_yaml(&options),
                     *program = own_program(&session->planned.plan->config),
                     *whole = mem_format("%s%s", program, yaml),
                     *config = folder_path(session->folder, "config.yml"),
                     *data = folder_path(session->folder, "data.json");
    TRY(file_write_text(config, whole));
    TRY(outline_write(session->planned.plan->config.dataset, data));
    TRY(write_pretrained(session));
    if (session->planned.costs->simulated)
        TRY(kept_costs_write(&session->planned.options, session->folder));
    return agreed_program_save(session->planned.plan, session->folder);
}

/* What a step should take, before any was run, and the plan with it. */
static enum status predict(void *context) {
    struct session *session = context;
    const struct options *options = &session->planned.options;
    SCOPED(view_forecast_close) struct view_forecast view = {0};
    if (!first_rank(session)) return STATUS_OK;
    TRY(view_forecast_open(&session->planned, false, &view));
    const struct sim_rank *own = &view.forecast.result.rank[0];
    const struct profile *profile = view.costs.profile;
    session->predicted = (struct session_forecast){.p50_ms = view.forecast.result.step * 1e-6,
                                                   .low_ms = view.forecast.low * 1e-6,
                                                   .high_ms = view.forecast.high * 1e-6,
                                                   .passes_ms = own->busy * 1e-6,
                                                   .waits_ms = (own->waits + own->exposed) * 1e-6,
                                                   .crowd = view.costs.crowd,
                                                   .estimated = profile && profile->misses > 0};
    if (!options->quiet && !options->json) {
        explain_print(&view, false, display_out());
        fputs("\n", display_out());
    }
    view_forecast_close(&view);
    return STATUS_OK;
}

/* Replicas get what the first one has read; but slices each reads itself. */
bool session_reads_model(const struct session *session) {
    const struct run_config *config = &session->planned.plan->config;
    bool own = config->cell.first_replica == 0 || config->sliced & SLICED_PARAMS;
    return own && config->cell.role == GRID_STAGE;
}

/* The ranks of replica 0 read files; the start list brings everything to the others. A checkpoint
 * is read in place of --weights. */
static enum status load_values(struct session *session) {
    const struct options *options = &session->planned.options;
    if (!session_reads_model(session)) return STATUS_OK;
    if (session->use) return checkpoint_load_model(session->engine, options->argument[0]);
    if (!resume_reads_weights(options)) return STATUS_OK;
    return checkpoint_load_weights(session->engine, options->weights);
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

/* What only rank 0 writes as the run begins. */
static enum status begin_folder(struct session *session, int64_t first_step) {
    if (!first_rank(session)) return STATUS_OK;
    TRY(write_texts(session));
    SCOPED_FREE char *line = command_line();
    TRY(transition_begin(session, first_step));
    enum status status = history_open(session->folder, line, first_step, &session->history);
    session->recorder.history = session->history;
    session->recorder.begin_ns = session->begin_ns;
    return status;
}

/* Whether the folder holds the results of a run that came to its end, of this very checkpoint where
 * there is one (`step` > 0). Where it was killed between its last checkpoint and its results, these
 * are still to be written. */
static bool has_results(struct session *session, int64_t step, int64_t total) {
    SCOPED_FREE char *model = folder_path(session->folder, "model.safetensors"),
                     *parts = folder_path(session->folder, "model.safetensors.index.json"),
                     *path = folder_path(session->folder, "summary.json");
    struct summary *summary = &session->summary;
    bool there = (file_exists(model) || file_exists(parts)) && file_exists(path) &&
                 summary_read(path, summary) == STATUS_OK && summary->exit == 0 &&
                 summary->steps >= total && (step == 0 || summary->steps == step);
    if (!there) summary_free(summary);
    return there;
}

/* What was asked for and cannot be had of steps that are done. */
static void warn_done(const struct options *options, int64_t step, bool done) {
    bool named = options->source[OPTION_trace] == OPTION_FROM_COMMAND_LINE;
    if (done && option_is_given(options, OPTION_save_profile))
        log_warning("--save-profile %s is not written: no step is run", options->save_profile);
    if (named && step > 0 && options->trace.last <= step)
        log_warning("--trace %lld-%lld has no effect: the run is at step %lld already",
                    (long long)options->trace.first, (long long)options->trace.last,
                    (long long)step);
}

/* Rank 0 looks, and says where the run goes on. */
static bool look_done(struct session *session, int64_t step) {
    int64_t total = session->planned.plan->config.steps;
    bool done = has_results(session, step, total);
    warn_done(&session->planned.options, step, done);
    long long steps = done ? (long long)session->summary.steps : 0;
    if (done)
        log_note("nothing to do: %s is at step %lld%s %lld%s, its results are there\n"
                 "  a larger --steps or --epochs trains on, --overwrite starts anew",
                 session->folder, steps, steps > total ? ", beyond the" : " of", (long long)total,
                 steps > total ? " of this run" : "");
    else if (step == 0)
        log_note("no checkpoint in %s/checkpoints: starting at step 1", session->folder);
    else if (step == total)
        log_note("%s is at step %lld of %lld: its results are written anew", session->folder,
                 (long long)step, (long long)total);
    return done;
}

enum status session_check_step(struct session *session, int64_t step) {
    int64_t total = session->planned.plan->config.steps;
    char done[TEXT_BYTES];
    if (step <= total || has_results(session, step, total)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--out %s has done %s, --steps or --epochs ends the run at %lld\n"
                "  name at least as many, or start anew in another folder",
                session->folder, text_count(step, "step", done), (long long)total);
}

static enum status find_done(struct session *session, int64_t step) {
    int32_t *all = MEM_ARRAY(int32_t, comm_size(engine_comm(session->engine))), own = 0;
    if (first_rank(session)) own = look_done(session, step);
    enum status status =
        comm_exchange(comm_world(engine_comm(session->engine)), &own, sizeof own, all);
    session->done = status == STATUS_OK && all[0];
    free(all);
    return status;
}

enum status session_open(struct session *session, enum status (*prepare)(void *session)) {
    struct engine_config config = {.plan = session_plan(session),
                                   .state = &session->state,
                                   .meeting = session->meeting,
                                   .prepare = prepare,
                                   .context = session};
    TRY(engine_open(&config, &session->engine));
    return engine_agree(session->engine, load_values(session));
}

static enum status resume(struct session *session, const struct checkpoint_config *checkpoint) {
    struct checkpoint_state *done = &session->state.done;
    bool found;
    TRY(checkpoint_resume(checkpoint, session->engine, done, &found));
    TRY(find_done(session, done->step));
    bool looks = first_rank(session) && !session->done;
    return engine_agree(session->engine,
                        looks ? session_check_step(session, done->step) : STATUS_OK);
}

static enum status prepare(struct session *session, const struct checkpoint_config *checkpoint) {
    session->recorder.profiling = session->profiling = profiling_new(&session->planned);
    session->recorder.engine = &session->engine;
    session->state.observer = recorder_engine_observer(&session->recorder);
    TRY(transition_open(session));
    TRY(session_open(session, predict));
    if (session->planned.options.resume) TRY(transition_resume(session, checkpoint->folder));
    if (session->planned.options.resume) TRY(resume(session, checkpoint));
    if (session->done) return STATUS_OK;
    TRY(engine_start(session->engine));
    struct comm *comm = engine_comm(session->engine);
    session->sent_before = comm_sent_bytes(comm);
    int64_t step = engine_next_step(session->engine);
    enum status status = begin_folder(session, step);
    const char *folder = first_rank(session) ? session->folder : NULL;
    if (status == STATUS_OK)
        status = recorder_open(&session->planned, folder, step, &session->recorder);
    return comm_agree(comm_world(comm), status);
}

/* Ranks that are threads of this process all say it. */
static _Atomic int stopped_by;

void session_stopped_by(int signal) {
    stopped_by = signal;
}

int session_stop_signal(void) {
    return stopped_by;
}

static void say_stopped(const struct session *session) {
    bool signalled = session->result.cause == STOP_SIGNAL;
    int signal =
        signalled ? session->result.signal : SIGALRM; /* a time limit is a timer's signal */
    session_stopped_by(signal);
    if (!first_rank(session)) return;
    log_note("stopped by %s after step %lld, saved; --resume continues it",
             signalled ? process_stop_name(signal) : "--time-limit",
             (long long)session->result.steps);
}

static enum status train(struct session *session, const struct checkpoint_config *checkpoint) {
    const struct planned_run *planned = &session->planned;
    const struct options *options = &planned->options;
    struct train_observer observer = recorder_train_observer(&session->recorder);
    bool limited = option_is_set(options, OPTION_time_limit_s);
    struct train_config config = {
        .eval_every = resolve_period(&session_plan(session)->config, options->eval_every),
        .save_every = resolve_period(&session_plan(session)->config, options->save_every),
        .eval_at_end = options->eval_every.steps > 0 || options->eval_every.epochs > 0,
        .deadline_ns = limited ? session->begin_ns + (int64_t)(options->time_limit_s * 1e9) : 0,
        .checkpoint = *checkpoint,
        .next_plan = course_changes(&session->planned.course) ? transition_next : NULL,
        .plan_until = transition_until,
        .plan_changed = transition_done,
        .context = session,
    };
    enum status status = train_all(&session->engine, &config, &observer, &session->result);
    if (status == STATUS_STOPPED) say_stopped(session);
    return status;
}

/* Rank 0 does not hold the whole model. */
static bool is_spread(const struct session *session) {
    const struct run_config *config = &session_plan(session)->config;
    return config->grid.stages > 1 || config->grid.drivers > 0 || config->sliced & SLICED_PARAMS;
}

/* Writes what a run leaves at its end, each file whatever became of the others. */
static enum status write_results(struct session *session, bool good) {
    struct recorder *recorder = &session->recorder;
    char *model = folder_path(session->folder, "model.safetensors"),
         *summary = folder_path(session->folder, "summary.json");
    if (good && !is_spread(session))
        recorder_lacks(recorder, checkpoint_write_model(session->engine, model, NULL),
                       "model.safetensors");
    if (good && !is_spread(session) && file_exists(model))
        recorder_lacks(recorder, run_folder_remove_parts(session->folder), "the model");
    if (good && is_spread(session)) recorder_lacks(recorder, session->model_status, "the model");
    struct run_timeline *timeline = good ? run_timeline_new(session) : NULL;
    run_timeline_summary(timeline, &session->summary);
    recorder_close(recorder);
    if (good && *recorder->lacks) session->summary.exit = status_exit_code(STATUS_DATA);
    recorder_lacks(recorder, summary_write(&session->summary, summary), "summary.json");
    recorder_lacks(recorder, result_report(session, run_timeline_get(timeline)), "report.html");
    run_timeline_free(&timeline);
    free(model);
    free(summary);
    if (!*recorder->lacks) return STATUS_OK;
    return fail(STATUS_DATA, "%s lacks %s\n  that could not be written; all else is there",
                session->folder, recorder->lacks);
}

/* The end of a run, also of one that failed in training: what was measured is kept. */
static enum status finish_first(struct session *session, enum status status) {
    bool good = status == STATUS_OK || status == STATUS_STOPPED;
    int signal = session->result.signal ? session->result.signal : SIGALRM;
    int exit_code = status == STATUS_STOPPED ? 128 + signal : status_exit_code(status);
    enum status finishing = result_fill(session, exit_code);
    if (finishing == STATUS_OK)
        finishing = write_results(session, good);
    else
        recorder_close(&session->recorder);
    const struct options *options = &session->planned.options;
    if (finishing == STATUS_OK && !options->quiet && options->json) result_print_json(session);
    if (!good) return status;
    if (finishing == STATUS_OK && !options->quiet && !options->json) result_print(session);
    return finishing == STATUS_OK ? status : finishing;
}

static enum status finish_other(struct session *session, enum status status) {
    enum status closing = recorder_close(&session->recorder);
    return closing == STATUS_OK ? status : closing;
}

static enum status save_rank(struct session *session) {
    SCOPED_FREE char *path = mem_format("%s/rank-%d.safetensors", session->folder,
                                        comm_rank(engine_comm(session->engine)));
    enum status status = checkpoint_write_model(session->engine, path, NULL);
    return engine_agree(session->engine, status);
}

static enum status finish(struct session *session, enum status status) {
    bool good = status == STATUS_OK || status == STATUS_STOPPED;
    result_measure(session);
    if (good && session->planned.options.save_ranks)
        recorder_lacks(&session->recorder, save_rank(session), "rank-N.safetensors");
    if (good && is_spread(session))
        session->model_status = checkpoint_save_model(session->engine, session->folder);
    if (good) TRY(result_gather(session)); /* ranks that failed cannot be asked */
    if (good) TRY(recorder_gather(&session->recorder, engine_comm(session->engine)));
    enum status finished =
        first_rank(session) ? finish_first(session, status) : finish_other(session, status);
    /* Last: it takes memory that is not the run's, and one that cannot be written does not cost the
     * results. All ranks take part, whatever became of those. */
    enum status profiled = STATUS_OK;
    if (status == STATUS_OK && session->profiling)
        profiled = profiling_save(session->profiling, session->engine,
                                  session->planned.options.save_profile);
    return finished == STATUS_OK ? profiled : finished;
}

/* Of a model that is not trained here. */
static enum status use_model(struct session *session) {
    TRY(session_open(session, NULL));
    if (session->recorder.row) control_row_set(session->recorder.row, -1, "EVAL");
    TRY(engine_start(session->engine));
    return session->use(session);
}

enum status session_run(struct session *session) {
    if (session->use) return use_model(session);
    const struct options *options = &session->planned.options;
    summary_init(&session->summary);
    if (session->fact_count == 0) session_facts(session);
    SCOPED_FREE char *checkpoints = folder_path(session->folder, "checkpoints");
    struct checkpoint_config checkpoint = {.folder = checkpoints,
                                           .keep = (int)options->keep,
                                           .facts = session->facts,
                                           .fact_count = session->fact_count};
    int here =
        session->planned.threads ? session->planned.plan->config.ranks : 1; /* of this process */
    bool first_here = here == 1 || first_rank(session);
    SCOPED(waiting_free)
    struct waiting *waiting =
        first_here ? waiting_new(here, session->planned.plan->config.threads) : NULL;
    enum status status = prepare(session, &checkpoint);
    if (session->done && first_rank(session) && options->json && !options->quiet)
        result_print_json(session);
    if (status == STATUS_OK && !session->done)
        status = finish(session, train(session, &checkpoint));
    return status;
}

void session_free(struct session *session) {
    recorder_free(&session->recorder);
    profiling_free(&session->profiling);
    engine_close(&session->engine);
    summary_free(&session->summary);
    history_free(&session->history);
    arena_free(&session->arena);
    free(session->all);
}
