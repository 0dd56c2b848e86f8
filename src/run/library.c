/* The runs of the public library: include/stretto.h. Each call is a task for the ranks
 * (run/local_ranks.h); what can be refused without the ranks is refused before. */
#include "stretto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/api.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/library.h"
#include "run/option_files.h"
#include "run/transition.h"

static void take_message(void *context, enum log_level level, const char *text) {
    static const int levels[] = {[LOG_ERROR] = STRETTO_LOG_ERROR,
                                 [LOG_WARNING] = STRETTO_LOG_WARNING,
                                 [LOG_NOTE] = STRETTO_LOG_NOTE,
                                 [LOG_ANSWER] = STRETTO_LOG_NOTE};
    struct stretto_run *run = context;
    pthread_mutex_lock(&run->messages);
    char *error = run->in_call ? run->error : run->earlier;
    if (level == LOG_ERROR && !*error) snprintf(error, LIBRARY_ERROR_BYTES, "%s", text);
    if (run->config.log) run->config.log(run->config.log_context, levels[level], text);
    pthread_mutex_unlock(&run->messages);
}

/* --- around every call --- */

/* Also the locks of a run are of no use to a child of fork: another thread may have held them. */
static bool is_forked(const struct stretto_run *run) {
    return run->process != getpid();
}

bool library_enter(struct entry *entry, struct stretto_run *run, enum status *status) {
    *entry = (struct entry){0};
    *status = STATUS_USAGE;
    if (!run || is_forked(run)) {
        api_set_error(run ? "the run was opened before a fork, and its threads are in the parent\n"
                            "  open another run in this process"
                          : "the run is closed, or was never opened");
        return false;
    }
    entry->run = run;
    pthread_mutex_lock(&run->use);
    entry->before = log_use(&run->sink);
    pthread_mutex_lock(&run->messages);
    run->in_call = true;
    *run->error = 0;
    pthread_mutex_unlock(&run->messages);
    if (!run->ranks || rank_threads_failed(run->ranks->threads) == STATUS_OK) return true;
    *status = fail(rank_threads_failed(run->ranks->threads),
                   "the run has failed before: close it, and resume another");
    return false;
}

int library_leave(struct entry *entry, enum status status) {
    struct stretto_run *run = entry->run;
    if (!run) return status_exit_code(status);
    pthread_mutex_lock(&run->messages);
    if (status != STATUS_OK)
        api_set_error(*run->error     ? run->error
                      : *run->earlier ? run->earlier
                                      : status_text(status));
    else if (!*run->earlier)
        memcpy(run->earlier, run->error, sizeof run->earlier);
    run->in_call = false;
    pthread_mutex_unlock(&run->messages);
    log_use(entry->before);
    pthread_mutex_unlock(&run->use);
    return status_exit_code(status);
}

/* --- opening --- */

/* The library has no process to start others from: ranks of this machine are its threads. */
static enum status find_start(struct stretto_run *run) {
    struct options *options = &run->options;
    TRY(start_find(options, &run->start));
    if (run->start.kind != START_LAUNCHER) return STATUS_OK;
    const char *many = options_asking_ranks(options);
    if (many)
        return fail(STATUS_USAGE,
                    "--%s asks for other processes, which the library does not start\n"
                    "  start this program by mpirun or srun, or use stretto_main",
                    many);
    options->spawn = "threads";
    option_derive(options, OPTION_spawn);
    return start_find(options, &run->start);
}

struct word_list {
    char **item;
    size_t count, capacity;
};

static void list_add(struct word_list *list, const char *word) {
    list->item = mem_grow(list->item, &list->capacity, list->count + 1, sizeof *list->item);
    list->item[list->count++] = (char *)(uintptr_t)word;
}

/* The caller's model and both kinds of options in one list, of which the later ones hold; texts of
 * options are kept in the run's arena. */
static enum status parse_options(struct stretto_run *run) {
    const struct stretto_config *config = &run->config;
    char *words = arena_text(&run->arena, config->words ? config->words : "");
    struct word_list all = {0};
    if (config->model) {
        list_add(&all, "--model");
        list_add(&all, config->model->name);
    }
    for (const char *const *given = config->options; given && *given; given++)
        list_add(&all, *given);
    for (char *word; (word = strsep(&words, " \t\n"));)
        if (*word) list_add(&all, word);
    enum status status = options_parse(COMMAND_TRAIN, (int)all.count, all.item, &run->options);
    free(all.item);
    return status;
}

static enum status begin_task(struct local_rank *rank, void *context) {
    (void)context;
    rank->session->state.observer = recorder_position_observer(&rank->session->recorder);
    TRY(transition_open(rank->session));
    TRY(session_open(rank->session, NULL));
    return engine_start(rank->session->engine);
}

/* A call is a step of all ranks; such replicas have none in common. */
static enum status check_steps(const struct stretto_run *run) {
    const struct run_config *config = &run->ranks->rank[0].session->planned.plan->config;
    if (!config->chooses) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--sync %s: replicas are at steps of their own, and the library makes one for all "
                "at each call\n  --sync allreduce, or stretto_main",
                config->sync);
}

static enum status open_run(struct stretto_run *run) {
    TRY(parse_options(run));
    run->options.quiet = true;
    if (run->options.help)
        return fail(STATUS_USAGE, "--help is of the command\n  stretto train --help lists options");
    if (run->options.resume)
        return fail(STATUS_USAGE,
                    "--resume is of the command\n  stretto_resume goes on from a checkpoint");
    TRY(run_option_files_apply(&run->options, &run->options));
    TRY(find_start(run));
    run->start.folderless = true;
    run->start.info.forward_batch = run->config.forward_batch;
    run->start.info.forward = run->config.forward_only;
    run->start.info.loads = true; /* stretto_load */
    TRY(local_ranks_open(&run->options, &run->start, true, &run->ranks));
    TRY(check_steps(run));
    return local_ranks_do(run->ranks, begin_task, NULL);
}

static enum status check_version(int header) {
    if (header < 0) return fail(STATUS_USAGE, "there is no header of version %d", header);
    if (header / 10000 == STRETTO_VERSION_MAJOR && header <= STRETTO_VERSION) return STATUS_OK;
    return fail(STATUS_USAGE,
                "compiled with the header of version %d.%d.%d, linked to the library of version %s",
                header / 10000, header / 100 % 100, header % 100, stretto_version());
}

enum { FORWARD_BATCH_MOST = 16777216 }; /* as of --micro-batch-size */

static enum status check_open(int header, const struct stretto_config *given,
                              struct stretto_config *out) {
    TRY(check_version(header));
    TRY(api_take(given, offsetof(struct stretto_config, log), out, sizeof *out, "stretto_config"));
    if (out->forward_batch >= 0 && out->forward_batch <= FORWARD_BATCH_MOST) return STATUS_OK;
    return fail(STATUS_USAGE, "a forward batch of %lld samples, must be 0 to %d",
                (long long)out->forward_batch, (int)FORWARD_BATCH_MOST);
}

int stretto_open_version(int header, const struct stretto_config *given, struct stretto_run **out) {
    struct stretto_config config;
    struct api_call call;
    struct entry entry;
    enum status status;
    if (out) *out = NULL;
    api_begin(&call);
    status = out ? check_open(header, given, &config)
                 : fail(STATUS_USAGE, "there is no place for the run");
    int code = api_end(&call, status);
    if (code == 0 && config.model) code = stretto_add_model(config.model);
    if (code != 0) return code;
    struct stretto_run *run = MEM_NEW(struct stretto_run);
    *run = (struct stretto_run){.config = config, .process = getpid(), .sink = {run, take_message}};
    pthread_mutex_init(&run->use, NULL);
    pthread_mutex_init(&run->messages, NULL);
    library_enter(&entry, run, &status);
    status = open_run(run);
    code = library_leave(&entry, status);
    if (status == STATUS_OK)
        *out = run;
    else
        stretto_close(&run);
    return code;
}

void stretto_close(struct stretto_run **pointer) {
    struct stretto_run *run = pointer ? *pointer : NULL;
    if (!run) return;
    *pointer = NULL;
    if (is_forked(run)) return; /* its memory goes with the process */
    pthread_mutex_lock(&run->use);
    const struct log_sink *before = log_use(&run->sink);
    local_ranks_close(&run->ranks);
    options_free(&run->options);
    free(run->saved_in);
    arena_free(&run->arena);
    log_use(before);
    pthread_mutex_unlock(&run->use);
    pthread_mutex_destroy(&run->messages);
    pthread_mutex_destroy(&run->use);
    free(run);
}

/* --- plan, steps, evaluation --- */

const struct planned_run *library_planned(const struct stretto_run *run) {
    return &run->ranks->rank[0].session->planned;
}

int stretto_plan(struct stretto_run *run, struct stretto_plan *out) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    const struct plan *plan = library_planned(run)->plan;
    struct stretto_plan full = {.params = graph_param_elements(plan->micro[0].graph),
                                .steps = plan->config.steps,
                                .steps_per_epoch = plan->config.steps_per_epoch,
                                .batch = plan->config.batch,
                                .predicted_peak_bytes =
                                    (int64_t)planned_most_bytes(library_planned(run)),
                                .ranks = run->ranks->world,
                                .rank = run->start.info.rank};
    return library_leave(&entry, api_give(&full, sizeof full, out, "stretto_plan"));
}

enum status library_trains(const struct stretto_run *run, const char *call) {
    if (!library_planned(run)->plan->config.forward) return STATUS_OK;
    return fail(STATUS_USAGE, "%s: the run was opened with forward_only, it has nothing to train",
                call);
}

static enum status step_task(struct local_rank *rank, void *context) {
    struct step_result result, *out = context;
    TRY(transition_step(rank->session));
    struct engine *engine = rank->session->engine;
    TRY(engine_step(engine, &result));
    bool ends = engine_steps_left(engine) == 0;
    if (ends || engine_plan(engine)->program->ahead > 0) TRY(engine_settle(engine));
    if (ends) TRY(engine_drain(engine));
    engine_norm(engine, result.step, &result.grad_norm);
    if (rank->index == 0) *out = result;
    return STATUS_OK;
}

int stretto_step(struct stretto_run *run, struct stretto_step *out) {
    struct entry entry;
    enum status status;
    struct step_result result;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = library_trains(run, "stretto_step");
    if (status == STATUS_OK) status = api_check(out, "stretto_step");
    if (status != STATUS_OK) return library_leave(&entry, status);
    if (engine_steps_left(run->ranks->rank[0].session->engine) <= 0)
        return library_leave(&entry, STATUS_OK), STRETTO_END;
    status = local_ranks_do(run->ranks, step_task, &result);
    if (status != STATUS_OK) return library_leave(&entry, status);
    struct stretto_step full = {.step = result.step,
                                .epoch = result.epoch,
                                .loss = result.loss,
                                .acc1 = result.acc1,
                                .lr = result.lr,
                                .grad_norm = result.grad_norm,
                                .step_ms = (double)result.times.total_ns * 1e-6};
    return library_leave(&entry, api_give(&full, sizeof full, out, "stretto_step"));
}

int stretto_set_lr(struct stretto_run *run, double lr) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = isinf(lr) ? fail(STATUS_USAGE, "a learning rate of %g", lr) : STATUS_OK;
    for (int r = 0; r < run->ranks->count && status == STATUS_OK; r++)
        run->ranks->rank[r].session->state.lr = lr >= 0 ? lr : NAN;
    return library_leave(&entry, status);
}

static enum status evaluate_task(struct local_rank *rank, void *context) {
    struct eval_result result;
    local_ranks_say(rank, "EVAL");
    TRY(engine_settle(rank->session->engine));
    TRY(engine_evaluate(rank->session->engine, &result));
    if (rank->index == 0) *(struct eval_result *)context = result;
    return STATUS_OK;
}

int stretto_evaluate(struct stretto_run *run, struct stretto_eval *out) {
    struct entry entry;
    enum status status;
    struct eval_result result;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = api_check(out, "stretto_eval");
    if (status == STATUS_OK) status = local_ranks_do(run->ranks, evaluate_task, &result);
    if (status != STATUS_OK) return library_leave(&entry, status);
    struct stretto_eval full = {
        .samples = result.samples, .loss = result.loss, .acc1 = result.acc1, .acc5 = result.acc5};
    return library_leave(&entry, api_give(&full, sizeof full, out, "stretto_eval"));
}

/* --- forward --- */

/* A part of the samples that were given, behind which there may be room without any. */
struct forward {
    int64_t samples; /* of a pass */
    void *field[DATASET_MAX_FIELDS];
    float *output;
};

static const struct value *output_of(const struct stretto_run *run) {
    const struct graph *graph = library_planned(run)->plan->micro[0].graph;
    return &graph->values[graph->output];
}

static int64_t output_elements(const struct stretto_run *run) {
    const struct value *output = output_of(run);
    if (output->type.shape.rank < 1) return -1;
    return shape_span(&output->type.shape, 1, output->type.shape.rank);
}

int64_t stretto_output_elements(struct stretto_run *run) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status), -1;
    int64_t elements = output_elements(run);
    library_leave(&entry, STATUS_OK);
    return elements;
}

int64_t stretto_field_elements(struct stretto_run *run, const char *name) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status), -1;
    const struct dataset *data = library_planned(run)->dataset;
    int field = name ? dataset_field(data, name) : -1;
    if (field < 0)
        status =
            fail(STATUS_USAGE, "data set %s has no field \"%s\"", data->spec, name ? name : "");
    library_leave(&entry, field < 0 ? status : STATUS_OK);
    return field < 0 ? -1 : shape_count(&data->field[field].shape);
}

static enum status forward_task(struct local_rank *rank, void *context) {
    struct forward *forward = context;
    struct engine *engine = rank->session->engine;
    const struct graph *graph = session_plan(rank->session)->micro[0].graph;
    const struct shape *shape = &graph->values[graph->output].type.shape;
    size_t bytes = (size_t)(forward->samples * shape_span(shape, 1, shape->rank)) * sizeof(float);
    bool here;
    local_ranks_say(rank, "FORWARD");
    TRY(engine_apply(engine, forward->samples, forward->field, forward->output, &here));
    return local_ranks_share(rank, here, forward->output, bytes);
}

/* Kernels read tables by what stands in integer fields. */
static enum status check_integers(const struct dataset *data, int f, int64_t samples,
                                  const int32_t *value) {
    const struct field *field = &data->field[f];
    int64_t each = shape_count(&field->shape);
    for (int64_t i = 0; field->dtype == DTYPE_I32 && field->limit > 0 && i < samples * each; i++)
        if ((value[i] < 0 || value[i] >= field->limit) &&
            !(field->is_label && value[i] == LABEL_IGNORE))
            return fail(STATUS_USAGE, "%s of sample %lld is %d; 0 to %lld are possible",
                        field->name, (long long)(i / each), (int)value[i],
                        (long long)field->limit - 1);
    return STATUS_OK;
}

/* Whether the output depends on this value. */
static bool output_reads(const struct graph *graph, int value) {
    SCOPED_FREE bool *reads = MEM_ARRAY(bool, graph->value_count);
    reads[graph->output] = true;
    for (int n = graph->node_count - 1; n >= 0; n--) {
        const struct node *node = &graph->nodes[n];
        bool wanted = false;
        for (int i = 0; i < node->out_count; i++) wanted |= reads[node->out[i]];
        for (int i = 0; wanted && i < node->in_count; i++)
            if (node->in[i] != NO_VALUE) reads[node->in[i]] = true;
    }
    return reads[value];
}

static enum status check_field(const struct stretto_run *run, int f, int64_t samples,
                               const void *values) {
    const struct dataset *data = library_planned(run)->dataset;
    const struct graph *graph = library_planned(run)->plan->micro[0].graph;
    if (values) return check_integers(data, f, samples, values);
    int input = graph_input_find(graph, data->field[f].name);
    if (input == NO_VALUE || !output_reads(graph, input)) return STATUS_OK;
    return fail(STATUS_USAGE, "field %d, \"%s\" of data set %s, is NULL: the output depends on it",
                f, data->field[f].name, data->spec);
}

/* Whether an array of so many samples can be in memory at all: what an overflow, or a count that
 * was never set, makes of them cannot. */
static bool has_room(int64_t samples, size_t sample_bytes) {
    const size_t most = (size_t)1 << 47; /* addresses of a process */
    size_t bytes;
    return !__builtin_mul_overflow((size_t)samples, sample_bytes, &bytes) && bytes <= most;
}

static enum status check_samples(const struct stretto_run *run, int64_t samples, int64_t count) {
    const struct dataset *data = library_planned(run)->dataset;
    int64_t elements = output_elements(run), all;
    bool room = has_room(samples, (size_t)elements * sizeof(float));
    for (int f = 0; f < data->field_count; f++)
        room &= has_room(samples, dataset_field_bytes(data, f));
    if (!room || __builtin_mul_overflow(samples, elements, &all))
        return fail(STATUS_USAGE, "%lld samples are more than memory can have", (long long)samples);
    if (count == all) return STATUS_OK;
    return fail(STATUS_USAGE,
                "the output of %lld samples has %lld elements, there is room for %lld",
                (long long)samples, (long long)all, (long long)count);
}

static enum status check_forward(const struct stretto_run *run, int64_t samples,
                                 const void *const field[], int field_count, const float *output,
                                 int64_t count) {
    const struct dataset *data = library_planned(run)->dataset;
    if (output_elements(run) < 0)
        return fail(STATUS_USAGE, "model %s has no output of f32\n  stretto_output names it",
                    library_planned(run)->plan->config.model->name);
    if (samples < 1 || !field || !output)
        return fail(STATUS_USAGE, "%lld samples%s%s", (long long)samples,
                    field ? "" : ", no fields", output ? "" : ", no room for the output");
    if (field_count != data->field_count)
        return fail(STATUS_USAGE, "%d fields were given, data set %s has %d", field_count,
                    data->spec, data->field_count);
    TRY(check_samples(run, samples, count));
    for (int f = 0; f < field_count; f++) TRY(check_field(run, f, samples, field[f]));
    return STATUS_OK;
}

static enum status run_forward(struct stretto_run *run, int64_t samples, const void *const field[],
                               float *output) {
    const struct dataset *data = library_planned(run)->dataset;
    const struct engine *engine = run->ranks->rank[0].session->engine;
    struct forward forward = {.samples = engine_apply_samples(engine, samples)};
    size_t each = (size_t)output_elements(run) * sizeof(float), at = 0, all = (size_t)samples;
    size_t room = (size_t)forward.samples;
    enum status status = STATUS_OK;
    forward.output = mem_new(room * each);
    for (int f = 0; f < data->field_count; f++)
        forward.field[f] = mem_new(room * dataset_field_bytes(data, f));
    for (; at < all && status == STATUS_OK; at += room) {
        size_t part = all - at < room ? all - at : room;
        for (int f = 0; f < data->field_count; f++) {
            size_t bytes = dataset_field_bytes(data, f);
            if (field[f])
                memcpy(forward.field[f], (const char *)field[f] + at * bytes, part * bytes);
        }
        status = local_ranks_do(run->ranks, forward_task, &forward);
        if (status == STATUS_OK) memcpy((char *)output + at * each, forward.output, part * each);
    }
    for (int f = 0; f < data->field_count; f++) free(forward.field[f]);
    free(forward.output);
    return status;
}

int stretto_forward(struct stretto_run *run, int64_t samples, const void *const field[],
                    int field_count, float *output, int64_t count) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = check_forward(run, samples, field, field_count, output, count);
    if (status == STATUS_OK) status = run_forward(run, samples, field, output);
    return library_leave(&entry, status);
}
