/* The runs of the public library: include/stretto.h. Each call is a task for the crew (run/crew.h);
 * what can be refused without the ranks is refused before. */
#include "stretto.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/api.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/crew.h"
#include "run/option_files.h"
#include "tensor/safetensors.h"

enum { ERROR_BYTES = 4000, CHECKPOINTS_KEPT = 2 };

struct stretto_run {
    struct stretto_config config;
    struct options options;
    struct start start;
    struct crew *crew;
    struct log_sink sink;
    pthread_mutex_t use;      /* one call at a time */
    pthread_mutex_t messages; /* guards the log function and the text */
    bool in_call;
    /* Errors of the call under way, and those that came before it: data are read ahead, so that a
     * sample that cannot be read is told of some steps before it is missed. The first of several is
     * the cause, the others its echoes. */
    char error[ERROR_BYTES], earlier[ERROR_BYTES];
};

static void take_message(void *context, enum log_level level, const char *text) {
    static const int levels[] = {[LOG_ERROR] = STRETTO_LOG_ERROR,
                                 [LOG_WARNING] = STRETTO_LOG_WARNING,
                                 [LOG_NOTE] = STRETTO_LOG_NOTE,
                                 [LOG_ANSWER] = STRETTO_LOG_NOTE};
    struct stretto_run *run = context;
    pthread_mutex_lock(&run->messages);
    char *error = run->in_call ? run->error : run->earlier;
    if (level == LOG_ERROR && !*error) snprintf(error, ERROR_BYTES, "%s", text);
    if (run->config.log) run->config.log(run->config.log_context, levels[level], text);
    pthread_mutex_unlock(&run->messages);
}

/* --- around every call --- */

struct entry {
    struct stretto_run *run; /* NULL: it was closed */
    const struct log_sink *before;
};

/* Whether the call can go on; otherwise *status says why not. */
static bool enter(struct entry *entry, struct stretto_run *run, enum status *status) {
    *entry = (struct entry){.run = run};
    *status = STATUS_USAGE;
    if (!run) {
        api_set_error("the run is closed, or was never opened");
        return false;
    }
    pthread_mutex_lock(&run->use);
    entry->before = log_use(&run->sink);
    pthread_mutex_lock(&run->messages);
    run->in_call = true;
    *run->error = 0;
    pthread_mutex_unlock(&run->messages);
    if (!run->crew || run->crew->status == STATUS_OK) return true;
    *status = fail(run->crew->status, "the run has failed before: close it, and resume another");
    return false;
}

static int leave(struct entry *entry, enum status status) {
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

static int count_options(const char *const *options) {
    int count = 0;
    while (options && options[count]) count++;
    return count;
}

static enum status open_run(struct stretto_run *run) {
    TRY(options_parse(COMMAND_TRAIN, count_options(run->config.options),
                      (char *const *)run->config.options, &run->options));
    run->options.quiet = true;
    if (run->options.resume || run->options.help)
        return fail(STATUS_USAGE,
                    "--%s is of the command\n  stretto_resume goes on from a checkpoint",
                    run->options.help ? "help" : "resume");
    TRY(option_files_apply(&run->options));
    TRY(find_start(run));
    run->start.info.forward_batch = run->config.forward_batch;
    return crew_open(&run->options, &run->start, &run->crew);
}

static enum status check_version(int header) {
    if (header / 10000 == STRETTO_VERSION_MAJOR && header <= STRETTO_VERSION) return STATUS_OK;
    return fail(STATUS_USAGE,
                "compiled with the header of version %d.%d.%d, linked to the library of version %s",
                header / 10000, header / 100 % 100, header % 100, stretto_version());
}

static enum status check_open(int header, const struct stretto_config *given,
                              struct stretto_config *out) {
    TRY(check_version(header));
    TRY(api_take(given, offsetof(struct stretto_config, log), out, sizeof *out, "stretto_config"));
    if (out->forward_batch >= 0) return STATUS_OK;
    return fail(STATUS_USAGE, "a forward batch of %lld samples", (long long)out->forward_batch);
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
    if (code != 0) return code;
    struct stretto_run *run = MEM_NEW(struct stretto_run);
    *run = (struct stretto_run){.config = config, .sink = {run, take_message}};
    pthread_mutex_init(&run->use, NULL);
    pthread_mutex_init(&run->messages, NULL);
    enter(&entry, run, &status);
    status = open_run(run);
    code = leave(&entry, status);
    if (status == STATUS_OK)
        *out = run;
    else
        stretto_close(&run);
    return code;
}

void stretto_close(struct stretto_run **pointer) {
    struct stretto_run *run = pointer ? *pointer : NULL;
    if (!run) return;
    pthread_mutex_lock(&run->use);
    const struct log_sink *before = log_use(&run->sink);
    crew_close(&run->crew);
    options_free(&run->options);
    log_use(before);
    pthread_mutex_unlock(&run->use);
    pthread_mutex_destroy(&run->messages);
    pthread_mutex_destroy(&run->use);
    free(run);
    *pointer = NULL;
}

/* --- plan, steps, evaluation --- */

static const struct job *job_of(const struct stretto_run *run) {
    return &run->crew->rank[0].session->job;
}

int stretto_plan(struct stretto_run *run, struct stretto_plan *out) {
    struct entry entry;
    enum status status;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    const struct plan *plan = job_of(run)->plan;
    struct stretto_plan full = {.params = graph_param_elements(plan->micro[0].graph),
                                .steps = plan->config.steps,
                                .steps_per_epoch = plan->config.steps_per_epoch,
                                .batch = plan->config.batch,
                                .predicted_peak_bytes = (int64_t)job_most_bytes(job_of(run)),
                                .ranks = run->crew->world,
                                .rank = run->start.info.rank};
    return leave(&entry, api_give(&full, sizeof full, out, "stretto_plan"));
}

static enum status step_task(struct crew_rank *rank, void *context) {
    struct step_result result, *out = context;
    struct exec *exec = rank->session->exec;
    TRY(exec_step(exec, &result));
    if (exec_next_step(exec) == rank->session->job.plan->config.steps) {
        TRY(exec_settle(exec));
        TRY(exec_drain(exec));
    }
    exec_norm(exec, result.step, &result.grad_norm);
    if (rank->index == 0) *out = result;
    return STATUS_OK;
}

int stretto_step(struct stretto_run *run, struct stretto_step *out) {
    struct entry entry;
    enum status status;
    struct step_result result;
    struct stretto_step full = {0};
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    if (exec_next_step(run->crew->rank[0].session->exec) >= job_of(run)->plan->config.steps)
        return leave(&entry, STATUS_OK), STRETTO_END;
    status = api_give(&full, sizeof full, out, "stretto_step");
    if (status == STATUS_OK) status = crew_do(run->crew, step_task, &result);
    if (status != STATUS_OK) return leave(&entry, status);
    full = (struct stretto_step){.step = result.step,
                                 .epoch = result.epoch,
                                 .loss = result.loss,
                                 .acc1 = result.acc1,
                                 .lr = result.lr,
                                 .grad_norm = result.grad_norm,
                                 .step_ms = (double)result.times.total_ns * 1e-6};
    return leave(&entry, api_give(&full, sizeof full, out, "stretto_step"));
}

static enum status lr_task(struct crew_rank *rank, void *context) {
    exec_set_lr(rank->session->exec, *(double *)context);
    return STATUS_OK;
}

int stretto_set_lr(struct stretto_run *run, double lr) {
    struct entry entry;
    enum status status;
    double asked = lr >= 0 ? lr : NAN;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = isinf(lr) ? fail(STATUS_USAGE, "a learning rate of %g", lr)
                       : crew_try(run->crew, lr_task, &asked);
    return leave(&entry, status);
}

static enum status evaluate_task(struct crew_rank *rank, void *context) {
    struct eval_result result;
    TRY(exec_settle(rank->session->exec));
    TRY(exec_evaluate(rank->session->exec, &result));
    if (rank->index == 0) *(struct eval_result *)context = result;
    return STATUS_OK;
}

int stretto_evaluate(struct stretto_run *run, struct stretto_eval *out) {
    struct entry entry;
    enum status status;
    struct eval_result result;
    struct stretto_eval full = {0};
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = api_give(&full, sizeof full, out, "stretto_eval");
    if (status == STATUS_OK) status = crew_do(run->crew, evaluate_task, &result);
    if (status != STATUS_OK) return leave(&entry, status);
    full = (struct stretto_eval){
        .samples = result.samples, .loss = result.loss, .acc1 = result.acc1, .acc5 = result.acc5};
    return leave(&entry, api_give(&full, sizeof full, out, "stretto_eval"));
}

/* --- forward --- */

/* A part of the samples that were given, behind which there may be room without any. */
struct forward {
    int64_t samples; /* of a pass */
    void *field[DATASET_MAX_FIELDS];
    float *output;
};

static const struct value *output_of(const struct stretto_run *run) {
    const struct graph *graph = job_of(run)->plan->micro[0].graph;
    return &graph->values[graph->losses[0].scores];
}

static int64_t output_elements(const struct stretto_run *run) {
    const struct value *output = output_of(run);
    if (output->type.dtype != DTYPE_F32 || output->type.shape.rank < 1) return -1;
    return shape_span(&output->type.shape, 1, output->type.shape.rank);
}

int64_t stretto_output_elements(struct stretto_run *run) {
    struct entry entry;
    enum status status;
    if (!enter(&entry, run, &status)) return leave(&entry, status), -1;
    int64_t elements = output_elements(run);
    leave(&entry, STATUS_OK);
    return elements;
}

int64_t stretto_field_elements(struct stretto_run *run, const char *name) {
    struct entry entry;
    enum status status;
    if (!enter(&entry, run, &status)) return leave(&entry, status), -1;
    const struct dataset *data = job_of(run)->dataset;
    int field = name ? dataset_field(data, name) : -1;
    if (field < 0)
        status =
            fail(STATUS_USAGE, "data set %s has no field \"%s\"", data->spec, name ? name : "");
    leave(&entry, field < 0 ? status : STATUS_OK);
    return field < 0 ? -1 : shape_count(&data->field[field].shape);
}

static enum status forward_task(struct crew_rank *rank, void *context) {
    struct forward *forward = context;
    struct exec *exec = rank->session->exec;
    const struct graph *graph = rank->session->job.plan->micro[0].graph;
    const struct shape *shape = &graph->values[graph->losses[0].scores].type.shape;
    size_t bytes = (size_t)(forward->samples * shape_span(shape, 1, shape->rank)) * sizeof(float);
    bool here;
    TRY(exec_apply(exec, forward->samples, forward->field, forward->output, &here));
    return crew_share(rank, here, forward->output, bytes);
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

static enum status check_forward(const struct stretto_run *run, int64_t samples,
                                 const void *const field[], int field_count, const float *output,
                                 int64_t count) {
    const struct dataset *data = job_of(run)->dataset;
    int64_t elements = output_elements(run);
    if (elements < 0)
        return fail(STATUS_USAGE, "model %s has no output of f32\n  stretto_output names it",
                    job_of(run)->plan->config.model->name);
    if (samples < 1 || !field || !output)
        return fail(STATUS_USAGE, "%lld samples%s%s", (long long)samples,
                    field ? "" : ", no fields", output ? "" : ", no room for the output");
    if (field_count != data->field_count)
        return fail(STATUS_USAGE, "%d fields were given, data set %s has %d", field_count,
                    data->spec, data->field_count);
    if (count != samples * elements)
        return fail(STATUS_USAGE,
                    "the output of %lld samples has %lld elements, there is room for %lld",
                    (long long)samples, (long long)(samples * elements), (long long)count);
    for (int f = 0; f < field_count; f++)
        if (field[f]) TRY(check_integers(data, f, samples, field[f]));
    return STATUS_OK;
}

static enum status run_forward(struct stretto_run *run, int64_t samples, const void *const field[],
                               float *output) {
    const struct dataset *data = job_of(run)->dataset;
    const struct exec *exec = run->crew->rank[0].session->exec;
    struct forward forward = {.samples = exec_apply_samples(exec, samples)};
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
        status = crew_do(run->crew, forward_task, &forward);
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
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = check_forward(run, samples, field, field_count, output, count);
    if (status == STATUS_OK) status = run_forward(run, samples, field, output);
    return leave(&entry, status);
}

/* --- parameters --- */

struct tensor_ref {
    bool param;
    int item;
    const struct store_item *of; /* in the layout of this process's first rank */
    void *values;
    size_t bytes;
};

static bool tensor_at(const struct stretto_run *run, int index, struct tensor_ref *out) {
    const struct store_layout *layout = job_of(run)->plan->store;
    bool param = index < layout->param_count;
    int item = param ? index : index - layout->param_count;
    if (index < 0 || (!param && item >= layout->buffer_count)) return false;
    *out = (struct tensor_ref){
        .param = param, .item = item, .of = param ? &layout->params[item] : &layout->buffers[item]};
    out->bytes = tensor_type_bytes(&out->of->type);
    return true;
}

static enum status tensor_find(const struct stretto_run *run, const char *name,
                               struct tensor_ref *out) {
    for (int i = 0; name && tensor_at(run, i, out); i++)
        if (strcmp(out->of->name, name) == 0) return STATUS_OK;
    return fail(STATUS_USAGE, "the model has no parameter \"%s\"", name ? name : "");
}

static enum status describe(const struct tensor_ref *tensor, struct stretto_tensor *out) {
    const struct tensor_type *type = &tensor->of->type;
    struct stretto_tensor full = {.name = tensor->of->name,
                                  .dtype = (int)type->dtype,
                                  .trained = tensor->param,
                                  .rank = type->shape.rank,
                                  .count = shape_count(&type->shape)};
    memcpy(full.dim, type->shape.dim, sizeof full.dim);
    return api_give(&full, sizeof full, out, "stretto_tensor");
}

int stretto_tensor_at(struct stretto_run *run, int index, struct stretto_tensor *out) {
    struct entry entry;
    enum status status;
    struct tensor_ref tensor;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    if (!tensor_at(run, index, &tensor)) return leave(&entry, STATUS_OK), STRETTO_END;
    return leave(&entry, describe(&tensor, out));
}

int stretto_tensor_find(struct stretto_run *run, const char *name, struct stretto_tensor *out) {
    struct entry entry;
    enum status status;
    struct tensor_ref tensor;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = tensor_find(run, name, &tensor);
    return leave(&entry, status == STATUS_OK ? describe(&tensor, out) : status);
}

static bool is_first_replica(const struct crew_rank *rank) {
    const struct grid_cell *cell = &rank->session->job.plan->config.cell;
    return cell->role == GRID_STAGE && cell->first_replica == 0;
}

static enum status keep_param(void *context, int param, const void *plain) {
    struct tensor_ref *tensor = context;
    if (param == tensor->item) memcpy(tensor->values, plain, tensor->bytes);
    return STATUS_OK;
}

/* One rank of the first replica answers for it; where parameters are in slices, all put them
 * together. */
static enum status get_task(struct crew_rank *rank, void *context) {
    const struct tensor_ref *wanted = context;
    const struct store *store = exec_store(rank->session->exec);
    const struct store_layout *layout = store->layout;
    const struct store_item *item =
        wanted->param ? &layout->params[wanted->item] : &layout->buffers[wanted->item];
    bool answers = is_first_replica(rank) && store_answers(item),
         sliced = wanted->param && rank->session->job.plan->config.sliced & SLICED_PARAMS;
    struct tensor_ref own = *wanted;
    TRY(exec_settle(rank->session->exec));
    if (sliced) {
        own.values = mem_new(own.bytes);
        enum status status = exec_each_param(rank->session->exec, keep_param, &own);
        if (status == STATUS_OK && answers) memcpy(wanted->values, own.values, own.bytes);
        free(own.values);
        TRY(status);
    } else if (answers) {
        enum array_kind kind = wanted->param ? ARRAY_PARAM : ARRAY_BUFFER;
        TRY(store_get(store, store_array(layout, kind, 0), wanted->item, wanted->values));
    }
    return crew_share(rank, answers, wanted->values, wanted->bytes);
}

static enum status set_task(struct crew_rank *rank, void *context) {
    const struct tensor_ref *given = context;
    struct store *store = exec_store(rank->session->exec);
    enum array_kind kind = given->param ? ARRAY_PARAM : ARRAY_BUFFER;
    TRY(exec_settle(rank->session->exec));
    return store_put(store, store_array(store->layout, kind, 0), given->item, given->values);
}

static enum status find_sized(const struct stretto_run *run, const char *name, const void *values,
                              size_t bytes, struct tensor_ref *out) {
    TRY(tensor_find(run, name, out));
    out->values = (void *)(uintptr_t)values;
    if (!values) return fail(STATUS_USAGE, "%s: no values", name);
    if (out->bytes == bytes) return STATUS_OK;
    return fail(STATUS_USAGE, "%s has %lld elements, %zu bytes; %zu bytes were given", name,
                (long long)shape_count(&out->of->type.shape), out->bytes, bytes);
}

int stretto_get(struct stretto_run *run, const char *name, void *values, size_t bytes) {
    struct entry entry;
    enum status status;
    struct tensor_ref tensor;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = find_sized(run, name, values, bytes, &tensor);
    if (status == STATUS_OK) status = crew_do(run->crew, get_task, &tensor);
    return leave(&entry, status);
}

static enum status check_finite(const struct tensor_ref *tensor) {
    const float *value = tensor->values;
    for (int64_t i = 0;
         tensor->of->type.dtype == DTYPE_F32 && i < shape_count(&tensor->of->type.shape); i++)
        if (!isfinite(value[i]))
            return fail(STATUS_USAGE, "%s: element %lld is %g", tensor->of->name, (long long)i,
                        (double)value[i]);
    return STATUS_OK;
}

int stretto_set(struct stretto_run *run, const char *name, const void *values, size_t bytes) {
    struct entry entry;
    enum status status;
    struct tensor_ref tensor;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = find_sized(run, name, values, bytes, &tensor);
    if (status == STATUS_OK) status = check_finite(&tensor);
    if (status == STATUS_OK) status = crew_do(run->crew, set_task, &tensor);
    return leave(&entry, status);
}

/* --- files --- */

static enum status load_task(struct crew_rank *rank, void *context) {
    struct exec *exec = rank->session->exec;
    struct comm_group *world = comm_world(rank->session->comm);
    TRY(comm_agree(world, exec_settle(exec)));
    enum status status =
        is_first_replica(rank) ? checkpoint_load_weights(exec, context) : STATUS_OK;
    TRY(comm_agree(world, status));
    return exec_start(exec);
}

int stretto_load(struct stretto_run *run, const char *path) {
    struct entry entry;
    enum status status;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = path ? crew_try(run->crew, load_task, (void *)(uintptr_t)path)
                  : fail(STATUS_USAGE, "no file was named");
    return leave(&entry, status);
}

/* All tensors, put together here: a pipeline or ZeRO has them on several ranks. */
static enum status collect(struct stretto_run *run, struct tensor_item *items, int count) {
    struct tensor_ref tensor;
    for (int i = 0; i < count && tensor_at(run, i, &tensor); i++) {
        tensor.values = mem_new(tensor.bytes);
        items[i] = (struct tensor_item){.name = tensor.of->name,
                                        .dtype = tensor.of->type.dtype,
                                        .shape = tensor.of->type.shape,
                                        .data = tensor.values};
        TRY(crew_do(run->crew, get_task, &tensor));
    }
    return STATUS_OK;
}

static enum status save(struct stretto_run *run, const char *path) {
    static const struct safetensors_pair format = {"format", "pt"};
    const struct store_layout *layout = job_of(run)->plan->store;
    int count = layout->param_count + layout->buffer_count;
    struct tensor_item *items = MEM_ARRAY(struct tensor_item, count);
    struct safetensors_content content = {
        .items = items, .item_count = (size_t)count, .metadata = &format, .metadata_count = 1};
    enum status status = collect(run, items, count);
    if (status == STATUS_OK && run->start.info.rank == 0)
        status = safetensors_write(path, &content, NULL);
    for (int i = 0; i < count; i++) free((void *)(uintptr_t)items[i].data);
    free(items);
    return status;
}

int stretto_save(struct stretto_run *run, const char *path) {
    struct entry entry;
    enum status status;
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = path ? save(run, path) : fail(STATUS_USAGE, "no file was named");
    return leave(&entry, status);
}

struct checkpoint_call {
    const char *folder;
    bool found;
};

static struct checkpoint_config checkpoint_of(struct crew_rank *rank,
                                              const struct checkpoint_call *call) {
    struct session *session = rank->session;
    if (session->fact_count == 0) session_facts(session);
    return (struct checkpoint_config){.folder = call->folder,
                                      .keep = CHECKPOINTS_KEPT,
                                      .facts = session->facts,
                                      .fact_count = session->fact_count};
}

static enum status make_folder(const char *folder) {
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) return STATUS_OK;
    return fail(STATUS_DATA, "%s: cannot be made: %s", folder, strerror(errno));
}

static enum status save_task(struct crew_rank *rank, void *context) {
    const struct checkpoint_call *call = context;
    struct exec *exec = rank->session->exec;
    struct comm *comm = rank->session->comm;
    struct checkpoint_config config = checkpoint_of(rank, call);
    TRY(comm_agree(comm_world(comm), exec_settle(exec)));
    TRY(exec_compare_copies(exec));
    TRY(comm_agree(comm_world(comm), comm_rank(comm) == 0 ? make_folder(call->folder) : STATUS_OK));
    rank->saved.step = exec_next_step(exec);
    if (rank->saved.saved_step == rank->saved.step) return STATUS_OK;
    TRY(checkpoint_save(&config, exec, &rank->saved, STATUS_OK));
    rank->saved.saved_step = rank->saved.step;
    return STATUS_OK;
}

int stretto_checkpoint(struct stretto_run *run, const char *folder) {
    struct entry entry;
    enum status status;
    struct checkpoint_call call = {.folder = folder};
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status =
        folder ? crew_try(run->crew, save_task, &call) : fail(STATUS_USAGE, "no folder was named");
    return leave(&entry, status);
}

static enum status resume_task(struct crew_rank *rank, void *context) {
    struct checkpoint_call *call = context;
    struct exec *exec = rank->session->exec;
    struct checkpoint_config config = checkpoint_of(rank, call);
    bool found = false;
    TRY(comm_agree(comm_world(rank->session->comm), exec_settle(exec)));
    TRY(checkpoint_resume(&config, exec, &rank->saved, &found));
    if (rank->index == 0) call->found = found;
    return found ? exec_start(exec) : STATUS_OK;
}

int stretto_resume(struct stretto_run *run, const char *folder) {
    struct entry entry;
    enum status status;
    struct checkpoint_call call = {.folder = folder};
    if (!enter(&entry, run, &status)) return leave(&entry, status);
    status = folder ? crew_try(run->crew, resume_task, &call)
                    : fail(STATUS_USAGE, "no folder was named");
    int code = leave(&entry, status);
    return code == 0 && !call.found ? STRETTO_END : code;
}
