/* A run meets its machine here: cores, memory, how its ranks will talk. What follows from these and
 * the options is decided in src/plan. */
#include "planned/planned.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/option_registry.h"
#include "exec/weights.h"
#include "launch/cores.h"
#include "launch/openmp.h"
#include "plan/resolve.h"
#include "plan/strategy.h"

/* A rank that was started knows its host from its identity; a launcher, and ranks that are threads,
 * know how many they are. */
static enum status share_of(const struct planned_run *planned, const struct rank_info *info,
                            struct cores_share *out) {
    struct launch_config config;
    struct launch_identity identity = {.source = LAUNCH_ALONE, .world = 1};
    int count = info->local_ranks ? info->local_ranks : (int)planned->options.local_ranks;
    launch_config_of(&planned->options, &config);
    if (!info->local_ranks) TRY(launch_identity(&config, &identity));
    if (identity.world > 1 || (identity.source != LAUNCH_ALONE && count == 1))
        cores_of_rank(&config, &identity, out);
    else
        cores_of_ranks(count, out);
    return STATUS_OK;
}

static enum status open_data(struct planned_run *planned, const struct model *model) {
    if (planned->dataset) return STATUS_OK;
    TRY(resolve_data(&planned->options, model, &planned->dataset));
    planned->owns_dataset = true;
    return STATUS_OK;
}

/* Weights that are given decide the size of patches, whatever the default is for these images. A
 * host that has no such file learns of it when options are compared. */
static enum status take_patch(struct planned_run *planned, const struct model *model) {
    struct options *options = &planned->options;
    bool uses = options->command & (COMMAND_EVAL | COMMAND_PREDICT),
         weights = option_is_set(options, OPTION_weights) && !options->resume;
    const char *path = uses ? options->argument[0] : weights ? options->weights : NULL;
    const struct option_word word = {.acts = model_acts(model)};
    int image = dataset_field(planned->dataset, "image");
    int64_t side;
    if (!path || !file_exists(path) || option_is_set(options, OPTION_patch) || image < 0 ||
        !option_word_acts(&word, "patch"))
        return STATUS_OK;
    TRY(weights_patch(path, &side));
    if (side <= 0) return STATUS_OK;
    const int64_t *dim = planned->dataset->field[image].shape.dim;
    if (dim[1] % side || dim[2] % side)
        return fail(STATUS_USAGE,
                    "%s has patches of %lldx%lld pixels, which do not divide images of %lldx%lld\n"
                    "  --image-size N, a multiple of %lld; or --patch N, without its patches",
                    path, (long long)side, (long long)side, (long long)dim[1], (long long)dim[2],
                    (long long)side);
    options->patch = side, option_resolve(options, OPTION_patch);
    return STATUS_OK;
}

enum status planned_open_data(struct planned_run *planned) {
    const struct model *model = model_find(planned->options.model);
    CHECK(model, "no model is called %s", planned->options.model);
    TRY(open_data(planned, model));
    return take_patch(planned, model);
}

struct rank_info planned_info_to_forecast(const struct options *options, int ranks) {
    bool processes = ranks > 1 && !strategy_uses_threads(options);
    return (struct rank_info){
        .ranks = ranks, .local_ranks = ranks, .to_start = processes, .weighed = processes};
}

/* Every rank reads it itself. */
static enum status open_course(struct planned_run *planned) {
    const struct options *options = &planned->options;
    if (!option_is_set(options, OPTION_course)) return STATUS_OK;
    planned->course_file = arena_new(&planned->arena, sizeof *planned->course_file);
    return course_file_read(options->course, &planned->arena, planned->course_file);
}

/* The machine is known here; what follows from it and the options is decided in src/plan. */
static enum status resolve(struct planned_run *planned, const struct rank_info *info,
                           struct run_config *out) {
    const struct model *model = model_find(planned->options.model);
    struct cores_share share;
    TRY(planned_open_data(planned));
    TRY(open_course(planned));
    TRY(share_of(planned, info, &share));
    planned->cores = share;
    planned->local_ranks = share.ranks;
    planned->first_local = info->first_local;
    struct resolve_place place = {.rank = info->rank,
                                  .ranks = info->ranks,
                                  .first_local = info->first_local,
                                  .threads = (int)cores_threads(&share),
                                  .spread = info->spread,
                                  .saves = planned->options.save_ranks || planned->threads,
                                  .dry = info->to_start,
                                  .weighed = info->weighed,
                                  .forward = info->forward,
                                  .loads = info->loads,
                                  .forward_batch = info->forward_batch,
                                  .course = planned->course_file};
    return resolve_run(&planned->options, model, planned->dataset, &place, out);
}

/* Where ranks share a process, the first one measures for all. */
static void measure_before(struct planned_run *planned, const struct rank_info *info) {
    planned->before = info->before;
    if (planned->before.own_bytes) return;
    planned->before = mem_resident_parts();
    mem_reset_peak();
}

/* Whether this process speaks_for_all for all ranks. */
static bool speaks_for_all(const struct planned_run *planned, const struct rank_info *info) {
    return info->rank == 0 || planned->options.command == COMMAND_EXPLAIN;
}

/* Once more for each plan of a run. */
static enum status plan_once(struct planned_run *planned, const struct rank_info *info,
                             const struct run_config *config, const struct plan_given *given) {
    plan_free(&planned->plan);
    free(planned->position);
    planned->position = NULL;
    TRY(plan_new(config, given, &planned->plan));
    course_free(&planned->course);
    TRY(course_new(planned->plan, &planned->course));
    TRY(planned_estimate_memory(planned, info));
    if (speaks_for_all(planned, info)) TRY(planned_estimate_positions(planned));
    return planned_count_course(planned);
}

/* What the choice did not count: of the process beside its arrays, known once there is a plan; and
 * of evaluation, where its larger micro-batches take more than any order does. */
static int64_t uncounted(const struct planned_run *planned) {
    return (int64_t)planned_most_bytes(planned) - planned->plan->choice.most_bytes;
}

/* Where auto has left too little for that, it chooses again with so much less, if anything fits. */
static enum status plan_to_fit(struct planned_run *planned, const struct rank_info *info,
                               const struct run_config *config, const struct plan_given *given) {
    struct rank_info again = *info;
    int64_t limit = config->memory_limit;
    TRY(plan_once(planned, info, config, given));
    const struct choice *choice = &planned->plan->choice;
    bool over = limit > 0 && choice->row_count && (int64_t)planned_most_bytes(planned) > limit;
    if (!over || limit - uncounted(planned) < choice->least_bytes) return STATUS_OK;
    struct run_config less = resolve_for_limit(config, limit - uncounted(planned));
    again.library_bytes = planned->plan->memory.library;
    return plan_once(planned, &again, &less, given);
}

/* What planning took of this process is a part of what it needs, but not of what ranks to start do:
 * their launcher keeps it. */
static void measure_machine(struct planned_run *planned) {
    struct machine_memory memory = machine_memory("");
    planned->total_bytes = memory.most_bytes;
    planned->available_bytes = memory.usable_bytes;
    if (planned->available_bytes > 0 && !planned->to_start)
        planned->available_bytes += (int64_t)planned_taken_bytes(planned);
}

static enum status make_plan(struct planned_run *planned, const struct rank_info *info,
                             const struct run_config *config) {
    SCOPED(bytes_free) struct bytes text = {0};
    SCOPED(bytes_free) struct bytes saved = {0};
    const char *path =
        option_is_set(&planned->options, OPTION_program) ? planned->options.program : NULL;
    enum { PROGRAM_LIMIT = 512 << 20 }; /* the text of the largest takes a third of it */
    if (path) TRY(file_read(path, PROGRAM_LIMIT, &text));
    measure_before(planned, info);
    if (!info->agreed) agreed_program_find(&planned->options, config, &saved);
    struct plan_given given = {.name = path,
                               .program = path ? &text : NULL,
                               .agreed = saved.count ? &saved : info->agreed};
    if (info->weighed && !config->dry) planned_probe_positions(planned, config, &given);
    TRY(plan_to_fit(planned, info, config, &given));
    measure_machine(planned);
    return STATUS_OK;
}

enum status planned_open(const struct options *options, const struct rank_info *info,
                         struct planned_run *out) {
    static const struct rank_info alone = {.rank = 0, .ranks = 1, .local_ranks = 1};
    struct run_config config;
    if (!info) info = &alone;
    struct planned_run planned = {.options = *options,
                                  .dataset = info->dataset,
                                  .to_start = info->to_start,
                                  .threads = info->ranks > 1 && strategy_uses_threads(options)};
    enum status status = resolve(&planned, info, &config);
    if (status == STATUS_OK) status = openmp_check_stacks(config.threads);
    if (status == STATUS_OK)
        status = resolve_costs(&planned.options, speaks_for_all(&planned, info),
                               planned.local_ranks, &config, &planned.costs);
    if (status == STATUS_OK) status = make_plan(&planned, info, &config);
    if (status == STATUS_OK)
        *out = planned;
    else
        planned_close(&planned);
    return status;
}

struct rank_info planned_info_beside(const struct planned_run *first, int rank, int ranks,
                                     const struct bytes *agreed) {
    return (struct rank_info){.rank = rank,
                              .ranks = ranks,
                              .dataset = first->dataset,
                              .before = first->before,
                              .library_bytes = first->plan->memory.library,
                              .agreed = agreed->count ? agreed : NULL,
                              .forward_batch = first->plan->config.forward_batch,
                              .forward = first->plan->config.forward,
                              .loads = first->plan->config.weights};
}

void planned_close(struct planned_run *planned) {
    plan_free(&planned->plan);
    course_free(&planned->course);
    arena_free(&planned->arena);
    cost_free(&planned->costs);
    free(planned->position);
    free(planned->position_planning);
    if (planned->owns_dataset) dataset_free(&planned->dataset);
    *planned = (struct planned_run){0};
}

double planned_crowd(const struct planned_run *planned) {
    double threads = (double)planned->local_ranks * planned->plan->config.threads,
           each = threads / machine_cores("").online;
    return each > 1 ? each : 1;
}

double planned_wait_limit_s(const struct planned_run *planned, bool evaluating) {
    double predicted_ns =
               evaluating ? plan_evaluation_ns(planned->plan) : plan_step_ns(planned->plan),
           limit_s = 3 * predicted_ns * 1e-9 * planned_crowd(planned);
    return limit_s > planned->options.stall_after_s ? limit_s : planned->options.stall_after_s;
}
