/* A run meets its machine here: cores, memory, how its ranks will talk. What follows from these and
 * the options is decided in src/plan. */
#include "job/job.h"

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
static enum status share_of(const struct job *job, const struct rank_info *info,
                            struct cores_share *out) {
    struct launch_config config;
    struct launch_identity identity = {.source = LAUNCH_ALONE, .world = 1};
    int count = info->local_ranks ? info->local_ranks : (int)job->options.local_ranks;
    launch_config_of(&job->options, &config);
    if (!info->local_ranks) TRY(launch_identity(&config, &identity));
    if (identity.world > 1 || (identity.source != LAUNCH_ALONE && count == 1))
        cores_of_rank(&config, &identity, out);
    else
        cores_of_ranks(count, out);
    return STATUS_OK;
}

static enum status open_data(struct job *job, const struct model *model) {
    if (job->dataset) return STATUS_OK;
    TRY(resolve_data(&job->options, model, &job->dataset));
    job->owns_dataset = true;
    return STATUS_OK;
}

/* Weights that are given decide the size of patches, whatever the default is for these images. A
 * host that has no such file learns of it when options are compared. */
static enum status take_patch(struct job *job, const struct model *model) {
    struct options *options = &job->options;
    bool uses = options->command & (COMMAND_EVAL | COMMAND_PREDICT),
         weights = option_is_set(options, OPTION_weights) && !options->resume;
    const char *path = uses ? options->argument[0] : weights ? options->weights : NULL;
    const struct option_word word = {.acts = model_acts(model)};
    int image = dataset_field(job->dataset, "image");
    int64_t side;
    if (!path || !file_exists(path) || option_is_set(options, OPTION_patch) || image < 0 ||
        !option_word_acts(&word, "patch"))
        return STATUS_OK;
    TRY(weights_patch(path, &side));
    if (side <= 0) return STATUS_OK;
    const int64_t *dim = job->dataset->field[image].shape.dim;
    if (dim[1] % side || dim[2] % side)
        return fail(STATUS_USAGE,
                    "%s has patches of %lldx%lld pixels, which do not divide images of %lldx%lld\n"
                    "  --image-size N, a multiple of %lld; or --patch N, without its patches",
                    path, (long long)side, (long long)side, (long long)dim[1], (long long)dim[2],
                    (long long)side);
    options->patch = side, option_resolve(options, OPTION_patch);
    return STATUS_OK;
}

/* The machine is known here; what follows from it and the options is decided in src/plan. */
static enum status resolve(struct job *job, const struct rank_info *info, struct run_config *out) {
    const struct model *model = model_find(job->options.model);
    struct cores_share share;
    CHECK(model, "no model is called %s", job->options.model);
    TRY(open_data(job, model));
    TRY(take_patch(job, model));
    TRY(share_of(job, info, &share));
    job->cores = share;
    job->local_ranks = share.ranks;
    job->first_local = info->first_local;
    struct resolve_place place = {.rank = info->rank,
                                  .ranks = info->ranks,
                                  .threads = (int)cores_threads(&share),
                                  .spread = info->spread,
                                  .saves = job->options.save_ranks || job->threads,
                                  .dry = info->to_start,
                                  .weighed = info->weighed,
                                  .forward = info->forward,
                                  .loads = info->loads,
                                  .forward_batch = info->forward_batch};
    return resolve_run(&job->options, model, job->dataset, &place, out);
}

/* Where ranks share a process, the first one measures for all. */
static void measure_before(struct job *job, const struct rank_info *info) {
    job->before = info->before;
    if (job->before.own_bytes) return;
    job->before = mem_resident_parts();
    mem_reset_peak();
}

/* Whether this process speaks for all ranks. */
static bool speaks(const struct job *job, const struct rank_info *info) {
    return info->rank == 0 || job->options.command == COMMAND_EXPLAIN;
}

/* Once more for each plan of a job. */
static enum status plan_once(struct job *job, const struct rank_info *info,
                             const struct run_config *config, const struct plan_given *given) {
    plan_free(&job->plan);
    free(job->position);
    job->position = NULL;
    TRY(plan_new(config, given, &job->plan));
    TRY(job_estimate_memory(job, info));
    return speaks(job, info) ? job_estimate_positions(job) : STATUS_OK;
}

/* What the choice did not count: of the process beside its arrays, known once there is a plan; and
 * of evaluation, where its larger micro-batches take more than any order does. */
static int64_t uncounted(const struct job *job) {
    return (int64_t)job_most_bytes(job) - job->plan->choice.most_bytes;
}

/* Where auto has left too little for that, it chooses again with so much less, if anything fits. */
static enum status plan_to_fit(struct job *job, const struct rank_info *info,
                               const struct run_config *config, const struct plan_given *given) {
    struct rank_info again = *info;
    int64_t limit = config->memory_limit;
    TRY(plan_once(job, info, config, given));
    const struct choice *choice = &job->plan->choice;
    bool over = limit > 0 && choice->row_count && (int64_t)job_most_bytes(job) > limit;
    if (!over || limit - uncounted(job) < choice->least_bytes) return STATUS_OK;
    struct run_config less = resolve_for_limit(config, limit - uncounted(job));
    again.library_bytes = job->plan->memory.library;
    return plan_once(job, &again, &less, given);
}

/* What planning took of this process is a part of what it needs, but not of what ranks to start do:
 * their launcher keeps it. */
static void measure_machine(struct job *job) {
    struct machine_memory memory = machine_memory("");
    job->total_bytes = memory.most_bytes;
    job->available_bytes = memory.usable_bytes;
    if (job->available_bytes > 0 && !job->to_start)
        job->available_bytes += (int64_t)job_taken_bytes(job);
}

static enum status make_plan(struct job *job, const struct rank_info *info,
                             const struct run_config *config) {
    SCOPED(bytes_free) struct bytes text = {0};
    SCOPED(bytes_free) struct bytes saved = {0};
    const char *path = option_is_set(&job->options, OPTION_program) ? job->options.program : NULL;
    enum { PROGRAM_LIMIT = 512 << 20 }; /* the text of the largest takes a third of it */
    if (path) TRY(file_read(path, PROGRAM_LIMIT, &text));
    measure_before(job, info);
    if (!info->agreed) agreed_program_find(&job->options, config, &saved);
    struct plan_given given = {.name = path,
                               .program = path ? &text : NULL,
                               .agreed = saved.count ? &saved : info->agreed};
    if (info->weighed && !config->dry) job_probe_positions(job, config, &given);
    TRY(plan_to_fit(job, info, config, &given));
    measure_machine(job);
    return STATUS_OK;
}

enum status job_open(const struct options *options, const struct rank_info *info, struct job *out) {
    static const struct rank_info alone = {.rank = 0, .ranks = 1, .local_ranks = 1};
    struct run_config config;
    if (!info) info = &alone;
    struct job job = {.options = *options,
                      .dataset = info->dataset,
                      .to_start = info->to_start,
                      .threads = info->ranks > 1 && strategy_uses_threads(options)};
    enum status status = resolve(&job, info, &config);
    if (status == STATUS_OK) status = openmp_check_stacks(config.threads);
    if (status == STATUS_OK)
        status =
            resolve_costs(&job.options, speaks(&job, info), job.local_ranks, &config, &job.costs);
    if (status == STATUS_OK) status = make_plan(&job, info, &config);
    if (status == STATUS_OK)
        *out = job;
    else
        job_close(&job);
    return status;
}

struct rank_info job_info_beside(const struct job *first, int rank, int ranks,
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

void job_close(struct job *job) {
    plan_free(&job->plan);
    cost_free(&job->costs);
    free(job->position);
    free(job->position_planning);
    if (job->owns_dataset) dataset_free(&job->dataset);
    *job = (struct job){0};
}

double job_crowd(const struct job *job) {
    double threads = (double)job->local_ranks * job->plan->config.threads,
           each = threads / machine_cores("").online;
    return each > 1 ? each : 1;
}

double job_wait_limit_s(const struct job *job, bool evaluating) {
    double predicted_ns = evaluating ? plan_evaluation_ns(job->plan) : plan_step_ns(job->plan),
           limit_s = 3 * predicted_ns * 1e-9 * job_crowd(job);
    return limit_s > job->options.stall_after_s ? limit_s : job->options.stall_after_s;
}
