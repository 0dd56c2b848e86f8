/* Options meet model, data and machine here: everything left open is decided, and what does not fit
 * together is said. */
#include "cli/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "launch/cores.h"

static enum status find_model(const char *name, const struct model **out) {
    int count;
    const struct model *all = model_all(&count);
    *out = model_find(name);
    if (*out) return STATUS_OK;
    const char **names = MEM_ARRAY(const char *, count);
    for (int i = 0; i < count; i++) names[i] = all[i].name;
    const char *near = text_nearest(name, names, count);
    char quoted[TEXT_QUOTED_BYTES], list[512] = "";
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? " " : "", names[i]);
    }
    free(names);
    return fail(STATUS_USAGE, "--model %s: no such model%s%s%s\n  there are: %s",
                text_quoted(name, quoted), near ? "; did you mean " : "", near ? near : "",
                near ? "?" : "", list);
}

/* Synthetic data follow the model: a model of tokens gets tokens. */
static char *data_spec_for(const struct model *model, const char *spec) {
    bool synthetic = strncmp(spec, "synthetic", 9) == 0 && (spec[9] == 0 || spec[9] == ':');
    if (!synthetic || model->input != MODEL_MASKED_TOKENS || strstr(spec, "kind="))
        return mem_text(spec);
    const char *rest = spec[9] == ':' ? spec + 10 : "";
    return mem_format("synthetic:kind=tokens%s%s", *rest ? "," : "", rest);
}

/* Options about images, patches or tokens that this model would never look at. As in
 * base/option_check.c a file may hold them, for several models; on the command line they are a
 * mistake. */
static enum status check_meant(const struct job *job) {
    const struct model *model = job->config.model;
    bool images = model->input == MODEL_IMAGES;
    const struct {
        enum option_id id;
        bool acts;
        const char *with;
    } rows[] = {
        {OPTION_image_size, images, "models of images"},
        {OPTION_classes, images, "models of images"},
        {OPTION_patch, images && model->heads > 0, "vision transformers: vit-micro, vit-tiny ..."},
        {OPTION_seq, !images, "models of tokens: bert-tiny"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].acts || job->options.source[rows[i].id] != OPTION_FROM_COMMAND_LINE) continue;
        return fail(STATUS_USAGE, "--%s has no effect with --model %s\n  it acts with %s",
                    option_rows[rows[i].id].name, model->name, rows[i].with);
    }
    return STATUS_OK;
}

static enum status open_data(struct job *job) {
    struct options *options = &job->options;
    struct dataset_config config = {
        .image_size = option_is_set(options, OPTION_image_size) ? options->image_size : 0,
        .seq = option_is_set(options, OPTION_seq) ? options->seq : 0};
    job->data_spec = data_spec_for(job->config.model, options->data);
    if (!job->dataset) {
        TRY(dataset_open(job->data_spec, &config, &job->dataset));
        job->owns_dataset = true;
    }
    job->config.dataset = job->dataset;
    bool images = dataset_field(job->dataset, "image") >= 0;
    if (images != (job->config.model->input == MODEL_IMAGES))
        return fail(STATUS_USAGE, "--model %s reads %s, --data %s has %s\n  try --data %s",
                    job->config.model->name, images ? "tokens" : "images", options->data,
                    images ? "images" : "tokens", images ? "wiki:DIR or synthetic" : "digits");
    return STATUS_OK;
}

static enum status resolve_shape(struct job *job) {
    struct options *options = &job->options;
    const struct dataset *data = job->dataset;
    struct model_config *shape = &job->config.shape;
    if (!option_is_set(options, OPTION_classes))
        options->classes = data->classes, option_resolve(options, OPTION_classes);
    if (options->classes < data->classes)
        return fail(STATUS_USAGE, "--classes %lld: --data %s has %lld classes",
                    (long long)options->classes, options->data, (long long)data->classes);
    *shape = (struct model_config){
        .classes = options->classes,
        .vocabulary = data->vocab,
        .patch = option_is_set(options, OPTION_patch) ? options->patch : 0,
        .dropout = option_is_set(options, OPTION_dropout) ? (float)options->dropout : -1,
        .smoothing = (float)options->label_smoothing};
    int image = dataset_field(data, "image"), ids = dataset_field(data, "input_ids");
    if (image >= 0) {
        const struct shape *pixels = &data->field[image].shape;
        shape->channels = pixels->dim[0], shape->height = pixels->dim[1],
        shape->width = pixels->dim[2];
    }
    if (ids >= 0) {
        shape->sequence = data->field[ids].shape.dim[0];
        shape->predictions = data->field[dataset_field(data, "masked_positions")].shape.dim[0];
    }
    return STATUS_OK;
}

/* The family's defaults hold for the family's optimizer; another one has its own. */
static void resolve_optimizer(struct job *job) {
    struct options *options = &job->options;
    const struct model *model = job->config.model;
    if (!option_is_set(options, OPTION_optimizer))
        options->optimizer = (char *)model->optimizer, option_resolve(options, OPTION_optimizer);
    bool own = strcmp(options->optimizer, model->optimizer) == 0,
         sgd = strcmp(options->optimizer, "sgd") == 0;
    bool adamw = strcmp(options->optimizer, "adamw") == 0;
    if (!option_is_set(options, OPTION_lr))
        options->lr = own ? model->lr : sgd ? 0.1 : 1e-3, option_resolve(options, OPTION_lr);
    if (!option_is_set(options, OPTION_weight_decay))
        options->weight_decay = own     ? model->weight_decay
                                : sgd   ? 1e-4
                                : adamw ? 0.01
                                        : 0,
        option_resolve(options, OPTION_weight_decay);
    if (!option_is_set(options, OPTION_clip))
        options->clip = own ? model->clip : adamw ? 1 : 0, option_resolve(options, OPTION_clip);
    struct run_config *config = &job->config;
    config->optimizer = optim_find(options->optimizer);
    config->optim = (struct optim_config){.lr = options->lr,
                                          .momentum = options->momentum,
                                          .weight_decay = options->weight_decay,
                                          .beta1 = options->beta1,
                                          .beta2 = options->beta2,
                                          .epsilon = options->eps,
                                          .nesterov = options->nesterov};
    config->clip = options->clip;
    config->decay_bias = config->decay_norm = true;
    for (int i = 0; i < options->no_decay.count; i++) {
        if (strcmp(options->no_decay.item[i], "bias") == 0) config->decay_bias = false;
        if (strcmp(options->no_decay.item[i], "norm") == 0) config->decay_norm = false;
    }
}

static enum sum_order sum_of(const char *name) {
    if (strcmp(name, "tree") == 0) return SUM_TREE;
    return strcmp(name, "replicas-first") == 0 ? SUM_REPLICAS_FIRST : SUM_REPLICA;
}

static void resolve_strategy(struct job *job) {
    struct options *options = &job->options;
    if (option_is_set(options, OPTION_strategy)) return;
    options->strategy = job->config.ranks > 1 ? "ddp" : "single";
    option_resolve(options, OPTION_strategy);
}

/* One replica has nobody to share with: then batch norm is the ordinary one, as in torch. */
static void resolve_sync_bn(struct job *job) {
    job->config.sync_bn = job->options.sync_bn && job->config.replicas > 1;
}

static void resolve_batch(struct job *job) {
    const struct options *options = &job->options;
    bool dealt = option_is_set(options, OPTION_deal);
    job->config.schedule = "single";
    job->config.sync = job->config.ranks > 1 ? "allreduce" : "none";
    job->config.batch = options->batch;
    job->config.replicas = dealt ? (int)options->deal.replicas : job->config.ranks;
    job->config.micro_batches =
        dealt ? (int)options->deal.micro_batches : (int)options->micro_batches;
    job->config.sum = sum_of(options->sum);
    job->config.drop_last = options->drop_last;
}

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

static enum status resolve_machine(struct job *job, const struct rank_info *info) {
    struct options *options = &job->options;
    struct cores_share share;
    TRY(share_of(job, info, &share));
    if (!option_is_set(options, OPTION_threads))
        options->threads = cores_threads(&share), option_resolve(options, OPTION_threads);
    job->local_ranks = share.ranks;
    job->config.threads = (int)options->threads;
    job->config.device = options->device;
    job->config.seed = (uint64_t)options->seed;
    job->config.workers = (int)options->workers;
    job->config.saves = job->config.rank == 0 || options->save_ranks || job->threads;
    return STATUS_OK;
}

int64_t job_period_steps(const struct job *job, struct option_period period) {
    return period.epochs > 0 ? period.epochs * job->plan->steps_per_epoch : period.steps;
}

/* Needs the plan's steps per epoch, so it comes after planning. */
static void resolve_length(struct job *job) {
    struct options *options = &job->options;
    struct lr_config *lr = &job->plan->config.lr;
    bool by_steps = option_is_set(options, OPTION_steps),
         by_epochs = option_is_set(options, OPTION_epochs);
    int64_t total = by_epochs ? options->epochs * job->plan->steps_per_epoch : options->steps;
    if (by_steps && options->steps < total) total = options->steps;
    static const char *const names[] = {"const", "step", "cosine", "linear"};
    int policy = 0;
    while (strcmp(names[policy], options->lr_policy) != 0) policy++;
    int64_t warmup = options->warmup.fraction > 0
                         ? (int64_t)llround(options->warmup.fraction * (double)total)
                         : options->warmup.steps;
    int64_t step_size = option_is_set(options, OPTION_lr_step)
                            ? job_period_steps(job, options->lr_step)
                            : total / 3;
    *lr = (struct lr_config){.policy = (enum lr_policy)policy,
                             .base = options->lr,
                             .gamma = options->lr_gamma,
                             .warmup_steps = warmup,
                             .total_steps = total,
                             .step_size = step_size};
    job->config.lr = *lr;
}

bool job_wants_threads(const struct options *options) {
    bool dp = options->strategy && strcmp(options->strategy, "dp") == 0;
    return dp || strcmp(options->spawn, "threads") == 0;
}

/* What `auto` will find: shared memory where all ranks are started by one launcher. */
static void resolve_comm(struct job *job, const struct rank_info *info) {
    const struct options *options = &job->options;
    bool spread = options->nodes > 1 || option_is_set(options, OPTION_hostfile) ||
                  option_is_set(options, OPTION_nodes_file);
    job->config.comm = spread ? "hosts" : "shm";
    if (info->ranks == 1)
        job->config.comm = NULL;
    else if (info->comm)
        job->config.comm = info->comm;
    else if (strcmp(options->comm, "auto") != 0 && !job_wants_threads(options))
        job->config.comm = options->comm;
}

/* Of ranks that share a process the first measures for all. */
static void measure_before(struct job *job, const struct rank_info *info) {
    job->before = info->before;
    if (job->before.own_bytes) return;
    job->before = mem_resident_parts();
    mem_reset_peak();
}

static enum status make_plan(struct job *job, const struct rank_info *info) {
    struct bytes text = {0};
    const char *path = option_is_set(&job->options, OPTION_program) ? job->options.program : NULL;
    enum { PROGRAM_LIMIT = 512 << 20 }; /* the text of the largest takes a third of it */
    if (path) TRY(file_read(path, PROGRAM_LIMIT, &text));
    measure_before(job, info);
    enum status status =
        plan_new(&job->config, path ? path : "program", path ? &text : NULL, &job->plan);
    if (status == STATUS_OK) job_estimate_memory(job, info);
    job->available_bytes = machine_memory("").usable_bytes;
    bytes_free(&text);
    return status;
}

static enum status open_parts(struct job *job, const struct rank_info *info) {
    TRY(find_model(job->options.model, &job->config.model));
    TRY(check_meant(job));
    TRY(open_data(job));
    TRY(resolve_shape(job));
    resolve_optimizer(job);
    resolve_strategy(job);
    TRY(options_solve_batch(&job->options, job->config.ranks));
    resolve_batch(job);
    resolve_sync_bn(job);
    TRY(resolve_machine(job, info));
    resolve_comm(job, info);
    TRY(make_plan(job, info));
    resolve_length(job);
    return STATUS_OK;
}

enum status job_open(const struct options *options, const struct rank_info *info, struct job *out) {
    static const struct rank_info alone = {.rank = 0, .ranks = 1, .local_ranks = 1};
    if (!info) info = &alone;
    struct job job = {.options = *options,
                      .dataset = info->dataset,
                      .to_start = info->to_start,
                      .threads = info->ranks > 1 && job_wants_threads(options),
                      .config = {.rank = info->rank, .ranks = info->ranks}};
    enum status status = open_parts(&job, info);
    if (status == STATUS_OK)
        *out = job;
    else
        job_close(&job);
    return status;
}

void job_close(struct job *job) {
    plan_free(&job->plan);
    if (job->owns_dataset) dataset_free(&job->dataset);
    free(job->data_spec);
    *job = (struct job){0};
}

static double graph_ns(const struct plan *plan, const struct graph *graph) {
    double sum = 0;
    for (int i = 0; i < graph->node_count; i++) {
        struct op_call call = graph_call(graph, &graph->nodes[i]);
        if (graph->nodes[i].kernel) sum += plan->device->backend->cost_ns(plan->device, &call);
    }
    return sum;
}

double job_step_ns(const struct job *job) {
    const struct plan *plan = job->plan;
    return graph_ns(plan, plan->micro[0].graph) * plan->config.micro_batches *
           (plan->config.ranks == 1 ? plan->config.replicas : 1);
}

static double evaluation_ns(const struct job *job) {
    const struct plan *plan = job->plan;
    const struct micro_plan *micro = plan_micro(plan, plan->eval_batch, false);
    int64_t round = plan->eval_batch * plan->config.ranks,
            test = plan->config.dataset->count[SPLIT_TEST];
    return micro ? graph_ns(plan, micro->graph) * (double)((test + round - 1) / round) : 0;
}

/* How many threads of this machine's ranks share a core. */
static double threads_per_core(const struct job *job) {
    double threads = (double)job->local_ranks * job->config.threads,
           each = threads / machine_cores("").online;
    return each > 1 ? each : 1;
}

double job_wait_limit_s(const struct job *job, bool evaluating) {
    double predicted_ns = evaluating ? evaluation_ns(job) : job_step_ns(job),
           limit_s = 3 * predicted_ns * 1e-9 * threads_per_core(job);
    return limit_s > job->options.stall_after_s ? limit_s : job->options.stall_after_s;
}
