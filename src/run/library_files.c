/* The parameters of a library run, by name and in files: include/stretto.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/api.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/versions.h"
#include "run/library.h"
#include "run/outputs.h"
#include "run/transition.h"
#include "tensor/safetensors.h"

enum { CHECKPOINTS_KEPT = 2 };

/* --- parameters --- */

struct tensor_ref {
    bool param;
    int item;
    const struct state_item *of; /* in the layout of this process's first rank */
    void *values;
    size_t bytes;
};

static bool tensor_at(const struct stretto_run *run, int index, struct tensor_ref *out) {
    const struct state_layout *layout = library_planned(run)->plan->store;
    bool param = index < layout->param_count;
    int item = param ? index : index - layout->param_count;
    if (index < 0 || (!param && item >= layout->buffer_count)) return false;
    *out = (struct tensor_ref){.param = param,
                               .item = item,
                               .of = param ? state_param(layout, item) : &layout->buffers[item]};
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
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = api_check(out, "stretto_tensor");
    if (status == STATUS_OK && index < 0)
        status = fail(STATUS_USAGE, "tensor %d: they are counted from 0", index);
    if (status != STATUS_OK) return library_leave(&entry, status);
    if (!tensor_at(run, index, &tensor)) return library_leave(&entry, STATUS_OK), STRETTO_END;
    return library_leave(&entry, describe(&tensor, out));
}

int stretto_tensor_find(struct stretto_run *run, const char *name, struct stretto_tensor *out) {
    struct entry entry;
    enum status status;
    struct tensor_ref tensor;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = tensor_find(run, name, &tensor);
    return library_leave(&entry, status == STATUS_OK ? describe(&tensor, out) : status);
}

static bool is_first_replica(const struct local_rank *rank) {
    const struct grid_cell *cell = &session_plan(rank->session)->config.cell;
    return cell->role == GRID_STAGE && cell->first_replica == 0;
}

static enum status keep_param(void *context, int param, const void *plain) {
    struct tensor_ref *tensor = context;
    if (param == tensor->item) memcpy(tensor->values, plain, tensor->bytes);
    return STATUS_OK;
}

/* One rank of the first replica answers for it; where parameters are in slices, all put them
 * together. */
static enum status get_task(struct local_rank *rank, void *context) {
    const struct tensor_ref *wanted = context;
    const struct store *store = engine_store(rank->session->engine);
    const struct state_layout *layout = store->layout;
    const struct state_item *item =
        wanted->param ? state_param(layout, wanted->item) : &layout->buffers[wanted->item];
    bool answers = is_first_replica(rank) && state_answers(item),
         sliced = wanted->param && session_plan(rank->session)->config.sliced & SLICED_PARAMS;
    struct tensor_ref own = *wanted;
    TRY(engine_settle(rank->session->engine));
    if (sliced) {
        own.values = mem_new(own.bytes);
        enum status status = engine_each_param(rank->session->engine, keep_param, &own);
        if (status == STATUS_OK && answers) memcpy(wanted->values, own.values, own.bytes);
        free(own.values);
        TRY(status);
    } else if (answers) {
        int array = wanted->param ? state_param_array(layout, wanted->item)
                                  : state_array(layout, ARRAY_BUFFER, 0);
        TRY(store_get(store, array, wanted->item, wanted->values));
    }
    return local_ranks_share(rank, answers, wanted->values, wanted->bytes);
}

static enum status set_task(struct local_rank *rank, void *context) {
    const struct tensor_ref *given = context;
    struct store *store = engine_store(rank->session->engine);
    const struct state_layout *layout = store->layout;
    TRY(engine_settle(rank->session->engine));
    if (!state_holds(given->param ? state_param(layout, given->item)
                                  : &layout->buffers[given->item]))
        return STATUS_OK; /* another stage has it */
    if (given->param) return versions_put(store, given->item, given->values);
    return store_put(store, state_array(layout, ARRAY_BUFFER, 0), given->item, given->values);
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
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = find_sized(run, name, values, bytes, &tensor);
    if (status == STATUS_OK) status = local_ranks_do(run->ranks, get_task, &tensor);
    return library_leave(&entry, status);
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
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = find_sized(run, name, values, bytes, &tensor);
    if (status == STATUS_OK) status = check_finite(&tensor);
    if (status == STATUS_OK) status = local_ranks_do(run->ranks, set_task, &tensor);
    return library_leave(&entry, status);
}

/* --- files --- */

static enum status load_task(struct local_rank *rank, void *context) {
    struct engine *engine = rank->session->engine;
    TRY(engine_agree(engine, engine_settle(engine)));
    enum status status =
        session_reads_model(rank->session) ? checkpoint_load_weights(engine, context) : STATUS_OK;
    TRY(engine_agree(engine, status));
    TRY(engine_start(engine));
    return versions_fill(engine_store(engine)); /* no pass reads what was there before */
}

int stretto_load(struct stretto_run *run, const char *path) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = path && *path ? local_ranks_try(run->ranks, load_task, (void *)(uintptr_t)path)
                           : fail(STATUS_USAGE, "stretto_load: no file was named");
    return library_leave(&entry, status);
}

/* A file under way: tensors are put together one at a time, as a pipeline or ZeRO has them on
 * several ranks, and in the order of the file, which the process that writes it tells the others.
 */
struct saving {
    struct stretto_run *run;
    void *values; /* room for the largest */
    int64_t next; /* tensor; -1: that was the last */
};

static enum status next_task(struct local_rank *rank, void *context) {
    struct saving *saving = context;
    return local_ranks_share(rank, comm_rank(engine_comm(rank->session->engine)) == 0,
                             &saving->next, sizeof saving->next);
}

static enum status get_next(struct saving *saving, struct tensor_ref *out) {
    TRY(local_ranks_do(saving->run->ranks, next_task, saving));
    if (saving->next < 0) return STATUS_OK;
    CHECK(tensor_at(saving->run, (int)saving->next, out), "no tensor %d", (int)saving->next);
    out->values = saving->values;
    return local_ranks_do(saving->run->ranks, get_task, out);
}

static enum status write_next(void *context, size_t item, struct safetensors_sink *sink) {
    struct saving *saving = context;
    struct tensor_ref tensor;
    saving->next = (int64_t)item;
    TRY(get_next(saving, &tensor));
    return safetensors_emit(sink, tensor.values, tensor.bytes);
}

static enum status agree_task(struct local_rank *rank, void *context) {
    return engine_agree(rank->session->engine, *(enum status *)context);
}

static enum status write_file(struct saving *saving, const char *path,
                              const struct safetensors_content *content) {
    struct stretto_run *run = saving->run;
    struct tensor_ref tensor;
    enum status status = STATUS_OK, had = STATUS_OK;
    bool writes = run->start.info.rank == 0;
    struct output output = {.kind = OUTPUT_TENSORS, .path = path, .label = "stretto_save"};
    if (writes) status = outputs_judge(&output, &run->options);
    if (writes && status == STATUS_OK) status = safetensors_write(path, content, NULL);
    TRY(rank_threads_failed(run->ranks->threads));
    if (writes) saving->next = -1;
    do had = get_next(saving, &tensor);
    while (had == STATUS_OK && saving->next >= 0);
    TRY(had);
    return local_ranks_try(run->ranks, agree_task, &status);
}

static enum status save(struct stretto_run *run, const char *path) {
    static const struct safetensors_pair format = {"format", "pt"};
    const struct state_layout *layout = library_planned(run)->plan->store;
    int count = layout->param_count + layout->buffer_count;
    struct tensor_item *items = MEM_ARRAY(struct tensor_item, count);
    struct saving saving = {.run = run};
    struct safetensors_content content = {.items = items,
                                          .item_count = (size_t)count,
                                          .metadata = &format,
                                          .metadata_count = 1,
                                          .source = write_next,
                                          .context = &saving};
    struct tensor_ref tensor;
    size_t most = 0;
    for (int i = 0; i < count && tensor_at(run, i, &tensor); i++) {
        items[i] = (struct tensor_item){.name = tensor.of->name,
                                        .dtype = tensor.of->type.dtype,
                                        .shape = tensor.of->type.shape};
        if (tensor.bytes > most) most = tensor.bytes;
    }
    saving.values = mem_new(most);
    enum status status = write_file(&saving, path, &content);
    free(saving.values);
    free(items);
    return status;
}

int stretto_save(struct stretto_run *run, const char *path) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    status = path ? save(run, path) : fail(STATUS_USAGE, "no file was named");
    return library_leave(&entry, status);
}

struct checkpoint_call {
    const char *folder;
    bool again; /* the folder of the checkpoint before */
    bool found;
};

static struct checkpoint_call call_of(const struct stretto_run *run, const char *folder) {
    bool again = folder && run->saved_in && strcmp(run->saved_in, folder) == 0;
    return (struct checkpoint_call){.folder = folder, .again = again};
}

static void keep_folder(struct stretto_run *run, const char *folder) {
    char *kept = mem_text(folder);
    free(run->saved_in);
    run->saved_in = kept;
}

static struct checkpoint_config checkpoint_of(struct local_rank *rank,
                                              const struct checkpoint_call *call) {
    struct session *session = rank->session;
    if (session->fact_count == 0) session_facts(session);
    return (struct checkpoint_config){.folder = call->folder,
                                      .keep = CHECKPOINTS_KEPT,
                                      .facts = session->facts,
                                      .fact_count = session->fact_count};
}

static enum status find_step(void *context, const char *name) {
    (void)context;
    bool is = strncmp(name, "step-", 5) == 0 && text_is_digits(name + 5);
    return is ? STATUS_NO : STATUS_OK;
}

/* Older checkpoints in it are removed as newer ones come, so they must be ours. */
static enum status make_folder(const char *folder) {
    TRY(outputs_judge_folder(folder, "stretto_checkpoint"));
    if (file_exists(folder) && folder_each(folder, find_step, NULL) == STATUS_NO &&
        !checkpoint_is_ours(folder))
        return fail(STATUS_USAGE,
                    "stretto_checkpoint %s: the folder holds steps of another program", folder);
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) return STATUS_OK;
    return fail(STATUS_DATA, "%s: cannot be made: %s", folder, strerror(errno));
}

static enum status save_task(struct local_rank *rank, void *context) {
    const struct checkpoint_call *call = context;
    struct engine *engine = rank->session->engine;
    struct checkpoint_state *done = &rank->session->state.done;
    struct checkpoint_config config = checkpoint_of(rank, call);
    bool first = comm_rank(engine_comm(engine)) == 0;
    TRY(engine_agree(engine, engine_settle(engine)));
    TRY(engine_compare_copies(engine));
    TRY(engine_agree(engine, first ? make_folder(call->folder) : STATUS_OK));
    if (!call->again) done->saved_step = -1;
    if (done->saved_step == done->step) return STATUS_OK;
    TRY(checkpoint_save(&config, engine, done, STATUS_OK));
    done->saved_step = done->step;
    return STATUS_OK;
}

int stretto_checkpoint(struct stretto_run *run, const char *folder) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    struct checkpoint_call call = call_of(run, folder);
    status = library_trains(run, "stretto_checkpoint");
    if (status == STATUS_OK)
        status = folder ? local_ranks_try(run->ranks, save_task, &call)
                        : fail(STATUS_USAGE, "no folder was named");
    if (status == STATUS_OK) keep_folder(run, folder);
    return library_leave(&entry, status);
}

static enum status resume_task(struct local_rank *rank, void *context) {
    struct checkpoint_call *call = context;
    struct checkpoint_config config = checkpoint_of(rank, call);
    bool found = false;
    TRY(engine_agree(rank->session->engine, engine_settle(rank->session->engine)));
    TRY(transition_resume(rank->session, config.folder));
    struct engine *engine = rank->session->engine;
    TRY(checkpoint_resume(&config, engine, &rank->session->state.done, &found));
    if (rank->index == 0) call->found = found;
    return found ? engine_start(engine) : STATUS_OK;
}

int stretto_resume(struct stretto_run *run, const char *folder) {
    struct entry entry;
    enum status status;
    if (!library_enter(&entry, run, &status)) return library_leave(&entry, status);
    struct checkpoint_call call = call_of(run, folder);
    status = library_trains(run, "stretto_resume");
    if (status == STATUS_OK)
        status = folder && *folder ? local_ranks_try(run->ranks, resume_task, &call)
                                   : fail(STATUS_USAGE, "stretto_resume: no folder was named");
    if (status == STATUS_OK && call.found) keep_folder(run, folder);
    int code = library_leave(&entry, status);
    return code == 0 && !call.found ? STRETTO_END : code;
}
