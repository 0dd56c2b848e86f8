/* See kit.h. */
#include "kit.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../options_line.h"
#include "base/file.h"
#include "base/mem.h"
#include "plan/resolve.h"

void kit_options(const char *line, struct options *out) {
    cr_assert_eq(options_of_line(COMMAND_TRAIN, line, out), STATUS_OK);
}

static enum status make_plan(struct kit_plan *plan, int rank, int ranks) {
    struct resolve_place place = {.rank = rank, .ranks = ranks, .threads = 1, .saves = rank == 0};
    const struct model *model = model_find(plan->options.model);
    struct run_config config;
    struct bytes text = {0};
    const char *path = option_is_set(&plan->options, OPTION_program) ? plan->options.program : NULL;
    if (plan->owns_dataset) TRY(resolve_data(&plan->options, model, &plan->dataset));
    TRY(resolve_run(&plan->options, model, plan->dataset, &place, &config));
    if (path) TRY(file_read(path, 1 << 24, &text));
    struct plan_given given = {.name = path, .program = path ? &text : NULL};
    enum status status = plan_new(&config, &given, &plan->plan);
    bytes_free(&text);
    return status;
}

enum status kit_plan(const struct options *options, int rank, int ranks, struct dataset *dataset,
                     struct kit_plan *out) {
    *out = (struct kit_plan){.options = *options, .dataset = dataset, .owns_dataset = !dataset};
    enum status status = make_plan(out, rank, ranks);
    if (status != STATUS_OK) kit_plan_free(out);
    return status;
}

void kit_plan_free(struct kit_plan *plan) {
    plan_free(&plan->plan);
    if (plan->owns_dataset) dataset_free(&plan->dataset);
    *plan = (struct kit_plan){0};
}

static enum status take_comm(void *context, const struct plan *plan, struct comm **out) {
    struct comm **comm = context;
    (void)plan;
    *out = *comm;
    *comm = NULL;
    return STATUS_OK;
}

enum status kit_engine(const struct plan *plan, struct train_state *state, struct comm **comm,
                       struct engine **out) {
    struct engine_config config = {.plan = plan,
                                   .state = state,
                                   .meeting = {.context = comm, .open = comm ? take_comm : NULL}};
    return engine_open(&config, out);
}

static struct kit_run *open_line(const struct engine_observer *observer, const char *line) {
    struct kit_run *run = MEM_NEW(struct kit_run);
    kit_options(line, &run->options);
    cr_assert_eq(kit_plan(&run->options, 0, 1, NULL, &run->planned), STATUS_OK);
    run->state = train_fresh();
    if (observer) run->state.observer = *observer;
    cr_assert_eq(kit_engine(run->planned.plan, &run->state, NULL, &run->engine), STATUS_OK);
    return run;
}

struct kit_run *kit_open_watched(const struct engine_observer *observer, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return open_line(observer, line);
}

struct kit_run *kit_open(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return open_line(NULL, line);
}

void kit_close(struct kit_run **run) {
    engine_close(&(*run)->engine);
    kit_plan_free(&(*run)->planned);
    options_free(&(*run)->options);
    free(*run);
    *run = NULL;
}

struct step_result kit_steps(struct kit_run *run, int64_t steps) {
    struct step_result result = {0};
    int64_t total = run->planned.plan->config.steps;
    for (int64_t i = 0; i != steps && engine_next_step(run->engine) < total; i++)
        cr_assert_eq(engine_step(run->engine, &result), STATUS_OK);
    return result;
}

uint64_t kit_hash(const struct kit_run *run) {
    uint64_t params, buffers;
    cr_assert_eq(engine_param_hash(run->engine, &params), STATUS_OK);
    cr_assert_eq(store_buffer_hash(engine_store(run->engine), &buffers), STATUS_OK);
    return params ^ buffers;
}

int kit_find_param(const struct state_layout *layout, const char *name) {
    int param = 0;
    while (param < layout->param_count && strcmp(layout->params[param].name, name) != 0) param++;
    cr_assert_lt(param, layout->param_count, "no parameter %s", name);
    return param;
}

static float *plain_of(const struct store *store, int param, int64_t *count) {
    *count = shape_count(&store->layout->params[param].type.shape);
    float *plain = MEM_ARRAY(float, *count);
    cr_assert_eq(store_get(store, state_param_array(store->layout, param), param, plain),
                 STATUS_OK);
    return plain;
}

float *kit_param(const struct kit_run *run, const char *name, int64_t *count) {
    const struct store *store = engine_store(run->engine);
    return plain_of(store, kit_find_param(store->layout, name), count);
}

void kit_set_param(struct kit_run *run, const char *name, int64_t at, float value) {
    struct store *store = engine_store(run->engine);
    int param = kit_find_param(store->layout, name);
    int64_t count;
    float *plain = plain_of(store, param, &count);
    plain[at] = value;
    cr_assert_eq(store_put(store, state_param_array(store->layout, param), param, plain),
                 STATUS_OK);
    free(plain);
}

double kit_distance(const struct kit_run *a, const struct kit_run *b) {
    const struct store *sa = engine_store(a->engine), *sb = engine_store(b->engine);
    double most = 0;
    cr_assert_eq(sa->layout->param_count, sb->layout->param_count);
    for (int p = 0; p < sa->layout->param_count; p++) {
        int64_t count, other;
        float *x = plain_of(sa, p, &count), *y = plain_of(sb, p, &other);
        cr_assert_eq(count, other);
        for (int64_t i = 0; i < count; i++) most = fmax(most, fabs((double)x[i] - y[i]));
        free(x);
        free(y);
    }
    return most;
}

char *kit_folder(void) {
    char *path = mem_text("/tmp/stretto-exec-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    return path;
}

char *kit_place;

void kit_enter(void) {
    kit_place = kit_folder();
    cr_assert_eq(chdir(kit_place), 0);
}

void kit_leave(void) {
    cr_assert_eq(chdir("/"), 0);
    folder_remove(kit_place);
    free(kit_place);
}

struct kit_files kit_files;

void kit_files_begin(void) {
    kit_files.folder = kit_folder();
    kit_files.weights = folder_path(kit_files.folder, "weights.safetensors");
}

void kit_files_end(void) {
    folder_remove(kit_files.folder);
    free(kit_files.folder);
    free(kit_files.weights);
}
