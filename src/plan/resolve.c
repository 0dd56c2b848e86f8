/* See resolve.h. */
#include "plan/resolve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plane.h"
#include "backend/registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option_registry.h"
#include "data/loader.h"
#include "plan/strategy.h"
#include "program/auto.h"
#include "program/schedule.h"
#include "sync/sync.h"

/* A run that is being decided. */
struct resolve {
    struct options *options;
    const struct resolve_place *place;
    struct run_config *config;
};

/* Synthetic data follow the model: a model of tokens gets tokens. */
static char *data_spec_for(const struct model *model, const char *spec) {
    bool synthetic = strncmp(spec, "synthetic", 9) == 0 && (spec[9] == 0 || spec[9] == ':');
    if (!synthetic || model->input & (MODEL_IMAGES | MODEL_OWN) || strstr(spec, "kind="))
        return mem_text(spec);
    const char *rest = spec[9] == ':' ? spec + 10 : "";
    return mem_format("synthetic:kind=%s%s%s", model_reads(model->input)->synthetic,
                      *rest ? "," : "", rest);
}

static const char *data_of(const struct options *options, const struct model *model) {
    return model->data && !option_is_given(options, OPTION_data) ? model->data : options->data;
}

/* Data that are named where a model is used, and no split of them, are new to it. */
static bool are_new(const struct options *options) {
    return options->command & (COMMAND_EVAL | COMMAND_PREDICT) &&
           options->source[OPTION_data] == OPTION_FROM_COMMAND_LINE &&
           !option_is_given(options, OPTION_split);
}

enum status resolve_data(const struct options *options, const struct model *model,
                         struct dataset **out) {
    struct dataset_config config = {
        .image_size = option_is_set(options, OPTION_image_size) ? options->image_size : 0,
        .size_of_model = options->command & (COMMAND_EVAL | COMMAND_PREDICT) &&
                         options->source[OPTION_image_size] == OPTION_FROM_FILE,
        .seq = option_is_set(options, OPTION_seq) ? options->seq : 0,
        .augment = (enum augment_policy)augment_find(options->augment),
        .skip_damaged = strcmp(options->damaged, "skip") == 0,
        .whole = are_new(options),
        .unlabelled = options->command == COMMAND_PREDICT};
    char *spec = data_spec_for(model, data_of(options, model));
    enum status status = dataset_open(spec, &config, out);
    free(spec);
    if (status != STATUS_OK && options->command & (COMMAND_EVAL | COMMAND_PREDICT) &&
        options->source[OPTION_data] == OPTION_FROM_FILE)
        log_note("these are the data that the run was trained on; --data names others");
    return status;
}

static enum status check_data(const struct resolve *resolve) {
    const struct run_config *config = resolve->config;
    if (config->model->input == MODEL_OWN) return STATUS_OK; /* says itself what it lacks */
    const struct model_reads *wanted = model_reads(config->model->input);
    const struct model_reads *has = NULL;
    for (unsigned kind = 1; kind < MODEL_INPUT_END; kind <<= 1) {
        if (dataset_field(config->dataset, model_reads(kind)->field) < 0) continue;
        if (config->model->input & kind) return STATUS_OK;
        has = model_reads(kind);
    }
    return fail(STATUS_USAGE, "--model %s reads %s, --data %s has %s\n  try --data %s%s%s",
                config->model->name, wanted->what, resolve->options->data,
                has ? has->what : "something else", wanted->example, has ? ", or --model " : "",
                has ? has->reader : "");
}

static enum status resolve_shape(struct resolve *resolve) {
    struct options *options = resolve->options;
    const struct dataset *data = resolve->config->dataset;
    struct model_config *shape = &resolve->config->shape;
    if (!option_is_set(options, OPTION_classes)) {
        options->classes = data->classes, option_resolve(options, OPTION_classes);
        /* A program's own data may have no classes; no option could ask for that. */
        if (data->classes < 2) option_derive(options, OPTION_classes);
    }
    if (options->classes < data->classes)
        return fail(STATUS_USAGE, "--data %s has %lld classes, %s %lld", options->data,
                    (long long)data->classes,
                    options->source[OPTION_classes] == OPTION_FROM_COMMAND_LINE ? "--classes is"
                                                                                : "the model",
                    (long long)options->classes);
    *shape = (struct model_config){
        .classes = options->classes,
        .vocabulary = data->vocab,
        .patch = option_is_set(options, OPTION_patch) ? options->patch : 0,
        .layer_norm_epsilon =
            option_is_set(options, OPTION_layer_norm_eps) ? (float)options->layer_norm_eps : 0,
        .dropout = option_is_set(options, OPTION_dropout) ? (float)options->dropout : -1,
        .untie = options->untie,
        .smoothing = (float)options->label_smoothing,
        .data = data};
    int image = dataset_field(data, "image"), ids = dataset_field(data, "input_ids");
    if (image >= 0) {
        const struct shape *pixels = &data->field[image].shape;
        shape->channels = pixels->dim[0], shape->height = pixels->dim[1],
        shape->width = pixels->dim[2];
    }
    int features = dataset_field(data, "features");
    if (features >= 0) shape->features = data->field[features].shape.dim[0];
    int masked = dataset_field(data, "masked_positions");
    if (ids >= 0) shape->sequence = data->field[ids].shape.dim[0];
    if (masked >= 0) shape->predictions = data->field[masked].shape.dim[0];
    return STATUS_OK;
}

/* The family's defaults hold for the family's optimizer; another one has its own. */
static void resolve_optimizer(struct resolve *resolve) {
    struct options *options = resolve->options;
    const struct model *model = resolve->config->model;
    if (!option_is_set(options, OPTION_optimizer))
        options->optimizer = (char *)model->optimizer, option_resolve(options, OPTION_optimizer);
    const struct optim_rule *rule = optim_find(options->optimizer);
    CHECK(rule, "no optimizer is called %s", options->optimizer);
    bool own = strcmp(options->optimizer, model->optimizer) == 0;
    double peak = lr_policy_peak(lr_policy_find(options->lr_policy));
    if (!option_is_set(options, OPTION_lr))
        options->lr = peak > 0 ? peak
                      : own    ? model->lr
                               : rule->lr,
        option_resolve(options, OPTION_lr);
    if (!option_is_set(options, OPTION_weight_decay))
        options->weight_decay = own ? model->weight_decay : rule->weight_decay,
        option_resolve(options, OPTION_weight_decay);
    if (!option_is_set(options, OPTION_clip))
        options->clip = own ? model->clip : rule->clip, option_resolve(options, OPTION_clip);
    struct run_config *config = resolve->config;
    config->optimizer = rule;
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

/* Where each backward follows its forward at once, nothing is kept in between. Block by block less
 * is alive at a time. */
static enum status resolve_recompute(struct resolve *resolve) {
    const char *name = resolve->options->recompute;
    struct run_config *config = resolve->config;
    config->recompute = (enum recompute_policy)recompute_policy_find(name);
    if (config->recompute == RECOMPUTE_NEVER || config->recompute == RECOMPUTE_ALWAYS_BLOCK ||
        pipeline_is(config->schedule))
        return STATUS_OK;
    return fail(STATUS_USAGE,
                "--recompute %s saves nothing with schedule %s: each backward follows its forward "
                "at once\n  --recompute always:block; a pipeline (--strategy 1f1b); or more "
                "--micro-batches",
                name, config->schedule);
}

static bool is_given(const struct options *options, const char *name) {
    enum option_id id;
    return name && option_find(name, &id) && option_is_given(options, id);
}

static const struct sync_policy *find_policy(const struct options *options,
                                             const struct strategy *strategy) {
    const struct sync_policy *policy;
    if (option_is_given(options, OPTION_sync)) return sync_find(options->sync);
    for (int i = 0; (policy = sync_at(i)); i++)
        if (is_given(options, policy->implied_by)) return policy;
    return sync_find(strategy->sync);
}

/* A strategy whose replicas train apart is not turned into another one by an option. */
static enum status check_apart(const struct options *options, const struct strategy *strategy,
                               const struct sync_policy *policy) {
    bool own = sync_find(strategy->sync)->apart;
    if (own && option_is_given(options, OPTION_zero_stage) &&
        !option_is_given(options, OPTION_sync))
        return fail(STATUS_USAGE,
                    "--zero-stage: replicas of strategy %s train apart, and hold everything whole\n"
                    "  --strategy ddp --zero-stage %lld",
                    strategy->name, (long long)options->zero_stage);
    if (policy->apart && option_is_set(options, OPTION_deal))
        return fail(STATUS_USAGE,
                    "--deal: replicas of --sync %s train apart, each on ranks of its own\n"
                    "  -n %d, or --sync allreduce",
                    policy->name, (int)options->deal.replicas);
    return STATUS_OK;
}

/* With one replica there is nothing to keep in step, nor anybody to slice with. */
static enum status resolve_sync(struct resolve *resolve, const struct strategy *strategy) {
    const struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    const struct sync_policy *policy = find_policy(options, strategy);
    CHECK(policy, "no sync policy is called %s", strategy->sync);
    TRY(resolve_policy_options(options, policy));
    TRY(check_apart(options, strategy, policy));
    bool several = group_size(&config->grid, GROUP_REPLICAS, 0) > 1;
    if (!several && option_is_given(options, OPTION_zero_stage) && config->rank == 0)
        log_note("--zero-stage %lld has no effect: each stage has one replica, and nobody to slice "
                 "with",
                 (long long)options->zero_stage);
    int stage = option_is_given(options, OPTION_zero_stage) ? (int)options->zero_stage
                                                            : strategy->zero_stage;
    config->several.sync = policy->name;
    if (policy->whole) config->several.zero_stage = stage ? stage : 1;
    if (!several) policy = sync_find("none");
    config->sync = policy->name;
    config->apart = policy->apart && !config->forward;
    config->chooses = policy->chooses && !config->forward;
    if (policy->whole) config->zero_stage = config->several.zero_stage;
    if (option_is_given(options, OPTION_bucket_size)) config->bucket_bytes = options->bucket_size;
    return STATUS_OK;
}

static enum status resolve_strategy(struct resolve *resolve) {
    struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    bool several = config->ranks > 1;
    if (!option_is_set(options, OPTION_strategy))
        options->strategy = several ? "ddp" : "single", option_derive(options, OPTION_strategy);
    const struct strategy *strategy = strategy_find(options->strategy);
    CHECK(strategy, "no strategy is called %s", options->strategy);
    config->schedule =
        option_is_given(options, OPTION_schedule) ? options->schedule : strategy->schedule;
    TRY(resolve_grid(options, config, &config->grid));
    if (config->forward) config->schedule = SCHEDULE_FORWARD;
    TRY(resolve_recompute(resolve));
    config->cell = grid_cell(&config->grid, config->rank);
    if (resolve->place->dry &&
        config->cell.role != GRID_STAGE) { /* one that has something to show */
        config->rank = group_rank(&config->grid, GROUP_PIPELINE, 0, 0);
        config->cell = grid_cell(&config->grid, config->rank);
    }
    return resolve_sync(resolve, strategy);
}

/* Gradients of several micro-batches are sliced where each is scattered for itself: sums over
 * replicas come first then, and --sum says so. */
static enum status resolve_slices(struct resolve *resolve) {
    struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    bool scatter = strcmp(options->zero_accumulate, "scatter") == 0, several;
    config->several.scatters = scatter;
    config->several.sync_bn = options->sync_bn;
    config->zero_prefetch_bytes =
        option_is_given(options, OPTION_zero_prefetch) ? options->zero_prefetch : -1;
    config->zero_keep_bytes = options->zero_keep;
    if (config->zero_stage == 0) return STATUS_OK;
    several = config->micro_batches > 1;
    config->sliced = SLICED_STATE;
    if (config->zero_stage >= 2 && (scatter || !several)) config->sliced |= SLICED_GRADIENTS;
    if (config->zero_stage == 3) config->sliced |= SLICED_PARAMS;
    if (config->forward) { /* there is nothing else to slice */
        bool params = config->zero_stage == 3;
        config->sliced = params ? SLICED_STATE | SLICED_PARAMS : 0;
        if (!params) config->sync = sync_find(config->sync)->whole;
        return STATUS_OK;
    }
    if (config->zero_stage == 3 && options->save_ranks)
        return fail(STATUS_USAGE, "--save-ranks: with --zero-stage 3 a rank holds slices of the "
                                  "parameters, no whole ones\n  --zero-stage 2");
    if (!(config->sliced & SLICED_GRADIENTS) || !several) return STATUS_OK;
    if (option_is_given(options, OPTION_sum) && config->sum != SUM_REPLICAS_FIRST)
        return fail(STATUS_USAGE,
                    "--zero-accumulate scatter adds gradients in the order replicas-first, not "
                    "--sum %s\n  --zero-accumulate local, or no --sum",
                    options->sum);
    config->sum = SUM_REPLICAS_FIRST;
    options->sum = sum_order_name(config->sum); /* checkpoints say in which order they were made */
    option_resolve(options, OPTION_sum);
    return STATUS_OK;
}

/* Evaluation needs no gradients, so small micro-batches would only make it slow. Its batches are
 * the same however many pipelines share them: so are the bits of its results. */
enum { EVAL_BATCH = 64 };

int64_t resolve_eval_batch(const struct options *options, const struct run_config *config) {
    if (option_is_set(options, OPTION_eval_batch)) return options->eval_batch;
    int64_t micro = config->batch / config->replicas / config->micro_batches;
    return micro > EVAL_BATCH ? micro : EVAL_BATCH;
}

static enum status resolve_batch(struct resolve *resolve) {
    struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    bool dealt = option_is_set(options, OPTION_deal);
    TRY(options_solve_batch(options, dealt ? config->ranks : config->grid.replicas));
    config->batch = options->batch;
    config->replicas = config->grid.replicas;
    config->micro_batches = (int)(dealt ? options->deal.micro_batches : options->micro_batches);
    config->eval_batch = resolve_eval_batch(options, config);
    config->balance = balance_find(options->balance);
    if (option_is_given(options, OPTION_cut)) {
        config->cut = (const char *const *)options->cut.item;
        config->cut_count = options->cut.count;
    }
    if (option_is_given(options, OPTION_virtual_stages))
        config->chunks_asked = (int)options->virtual_stages;
    if (option_is_set(options, OPTION_memory_limit_bytes))
        config->memory_limit = options->memory_limit_bytes;
    config->sum = (enum sum_order)sum_order_find(options->sum);
    TRY(resolve_slices(resolve));
    config->drop_last = options->drop_last;
    /* A single replica shares with nobody: batch norm is the ordinary one then, as in torch. */
    config->sync_bn = options->sync_bn && config->replicas > 1 && !config->forward;
    return STATUS_OK;
}

static bool is_plane(const char *comm) {
    return strcmp(comm, "peer") == 0 || strcmp(comm, "nccl") == 0;
}

const char *resolve_comm(const struct options *options, bool spread) {
    if (strcmp(options->comm, "auto") != 0 && !is_plane(options->comm)) return options->comm;
    return spread ? "hosts" : "shm";
}

/* How many devices the ranks of a machine take in turn: those that --device lists, or one. */
static int devices_listed(const char *text) {
    int count = 1;
    for (const char *at = text; (at = strchr(at, ',')); at++) count++;
    return count;
}

/* Sums in the fixed order are ours, and NCCL wants a GPU a rank. */
static const char *choose_plane(const struct resolve *resolve) {
    const struct options *options = resolve->options;
    bool spread = resolve->place->spread;
    bool share = !spread && devices_listed(options->device) < resolve->config->ranks;
    if (!spread && (options->deterministic || share)) return "peer";
    if (options->deterministic || !plane_exists("nccl")) return spread ? NULL : "peer";
    return "nccl";
}

static enum status resolve_plane(struct resolve *resolve) {
    const struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    const struct backend *backend = backend_find(config->device);
    bool named = is_plane(options->comm), reached = backend && backend->reach;
    config->plane = NULL;
    if (named && !reached)
        return fail(STATUS_USAGE,
                    "--comm %s moves data between GPUs, --device is %s\n"
                    "  --device cuda, or --comm auto",
                    options->comm, config->device);
    if (named && strcmp(options->clock, "virtual") == 0)
        return fail(STATUS_USAGE,
                    "--comm %s: ranks of --clock virtual share memory of the host\n"
                    "  --comm auto",
                    options->comm);
    if (config->ranks == 1 || !reached || strcmp(options->clock, "virtual") == 0) return STATUS_OK;
    if (named && strcmp(options->comm, "peer") == 0 && resolve->place->spread)
        return fail(STATUS_USAGE, "--comm peer is for GPUs of one machine\n"
                                  "  --comm nccl, or auto, for several");
    if (named && strcmp(options->comm, "nccl") == 0 && options->deterministic &&
        option_is_given(options, OPTION_deterministic))
        return fail(STATUS_USAGE,
                    "--comm nccl adds in an order of its own, not in the fixed one of "
                    "--deterministic\n  --comm peer, or --deterministic off");
    config->plane_named = named;
    if (named) config->plane = options->comm;
    if (strcmp(options->comm, "auto") == 0) config->plane = choose_plane(resolve);
    return STATUS_OK;
}

static enum conv_method conv_method(const char *word) {
    if (strcmp(word, "auto") == 0) return CONV_AUTO;
    return strcmp(word, "direct") == 0 ? CONV_DIRECT : CONV_WINOGRAD;
}

static enum dtype dtype_of(const char *word) {
    if (strcmp(word, "bf16") == 0) return DTYPE_BF16;
    return strcmp(word, "f16") == 0 ? DTYPE_F16 : DTYPE_F32;
}

static enum status resolve_device(struct resolve *resolve) {
    struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    TRY(device_named(options->device, resolve->place->rank - resolve->place->first_local,
                     &config->device, &config->device_index));
    config->dtype = dtype_of(options->dtype);
    config->tf32 = strcmp(options->dtype, "tf32") == 0;
    const struct backend *backend = backend_find(config->device);
    if (backend && backend->apart) {
        bool repeats = strcmp(options->clock, "virtual") == 0;
        if (repeats && !options->deterministic)
            return fail(STATUS_USAGE,
                        "--clock virtual: on device %s runs repeat with --deterministic on\n"
                        "  --deterministic on, or --clock wall",
                        config->device);
        if (!repeats && !option_is_set(options, OPTION_deterministic) &&
            strcmp(config->device, "cuda") == 0)
            options->deterministic = false, option_resolve(options, OPTION_deterministic);
        return STATUS_OK;
    }
    if (!config->tf32 && config->dtype != DTYPE_F16) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--dtype %s: device %s has f32 and bf16\n"
                "  %s needs --device cuda",
                options->dtype, config->device, options->dtype);
}

/* Options that a device of its own has nothing to do with; said once, by the first rank. */
static enum status note_idle(struct resolve *resolve) {
    const struct options *options = resolve->options;
    if (resolve->place->rank > 0) return STATUS_OK;
    if (resolve->config->conv == CONV_WINOGRAD)
        log_note("--conv winograd does not act on device %s: its library chooses",
                 resolve->config->device);
    if (option_is_given(options, OPTION_threads))
        log_note("--threads does not act on device %s, but on what the host does for it",
                 resolve->config->device);
    return STATUS_OK;
}

static enum status resolve_machine(struct resolve *resolve) {
    struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    if (!option_is_set(options, OPTION_threads))
        options->threads = resolve->place->threads, option_resolve(options, OPTION_threads);
    config->threads = (int)options->threads;
    config->conv = conv_method(options->conv);
    config->seed = (uint64_t)options->seed;
    config->workers = (int)options->workers;
    config->comm = config->ranks > 1 ? resolve_comm(options, resolve->place->spread) : NULL;
    config->spread = resolve->place->spread;
    config->saves = resolve->place->saves;
    config->dry = resolve->place->dry && !resolve->place->weighed;
    config->forward_batch = resolve->place->forward_batch;
    TRY(resolve_device(resolve));
    TRY(resolve_plane(resolve));
    if (backend_find(config->device)->apart) return note_idle(resolve);
    if (config->conv == CONV_WINOGRAD && strcmp(config->device, "ref") == 0)
        return fail(STATUS_USAGE, "--conv winograd: device ref has direct convolutions alone\n"
                                  "  --conv direct, or --device cpu");
    if (config->conv != CONV_WINOGRAD || config->dtype == DTYPE_F32) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--conv winograd computes in f32, not in --dtype %s\n"
                "  --conv direct, or auto",
                options->dtype);
}

int64_t resolve_period(const struct run_config *config, struct option_period period) {
    return period.epochs > 0 ? period.epochs * config->steps_per_epoch : period.steps;
}

static enum status resolve_epoch(struct resolve *resolve) {
    struct run_config *config = resolve->config;
    struct loader_config loader = {.split = SPLIT_TRAIN,
                                   .batch = config->batch,
                                   .replicas = config->replicas,
                                   .micro_batches = config->micro_batches,
                                   .unpadded = config->unpadded,
                                   .drop_last = config->drop_last};
    config->steps_per_epoch = loader_steps(config->dataset, &loader);
    if (config->steps_per_epoch > 0) return STATUS_OK;
    const char *who = config->overlaps ? config->schedule : "--drop-last", *way = "no --drop-last";
    if (config->overlaps) way = "--strategy 1f1b"; /* it has no short step, whatever is given */
    return fail(STATUS_USAGE,
                "an epoch has no whole step: %lld samples, batch %lld, and %s leaves "
                "the short one out\n  a smaller --batch, or %s",
                (long long)config->dataset->count[SPLIT_TRAIN], (long long)config->batch, who, way);
}

static void resolve_length(struct resolve *resolve) {
    const struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    bool by_steps = option_is_set(options, OPTION_steps),
         by_epochs = option_is_set(options, OPTION_epochs);
    config->steps = by_epochs ? options->epochs * config->steps_per_epoch : options->steps;
    if (by_steps && options->steps < config->steps) config->steps = options->steps;
    if (config->forward) config->steps = 0;
    config->freeze_every = resolve_period(config, options->freeze_every);
}

/* A range test begins at a rate so low that there is nothing to warm up for. */
static enum status resolve_range(struct resolve *resolve) {
    struct options *options = resolve->options;
    const struct run_config *config = resolve->config;
    if (lr_policy_find(options->lr_policy) != LR_RANGE) return STATUS_OK;
    if (config->chooses)
        return fail(STATUS_USAGE,
                    "--lr-policy range ends where the loss comes apart, and with --sync %s each "
                    "replica knows its own loss alone\n  --strategy ddp",
                    config->sync);
    if (!option_is_given(options, OPTION_warmup))
        options->warmup = (struct option_share){0}, option_resolve(options, OPTION_warmup);
    if (options->warmup.fraction > 0 || options->warmup.steps > 0)
        return fail(STATUS_USAGE, "--lr-policy range has no warm-up: it begins at --lr-min");
    if (options->lr_min < options->lr) return STATUS_OK;
    return fail(STATUS_USAGE, "--lr-min %g is not below --lr %g, where --lr-policy range ends",
                options->lr_min, options->lr);
}

static enum status resolve_rate(struct resolve *resolve) {
    const struct options *options = resolve->options;
    struct run_config *config = resolve->config;
    TRY(resolve_range(resolve));
    int64_t warmup = options->warmup.fraction > 0
                         ? (int64_t)llround(options->warmup.fraction * (double)config->steps)
                         : options->warmup.steps;
    int64_t step_size = option_is_set(options, OPTION_lr_step)
                            ? resolve_period(config, options->lr_step)
                            : config->steps / 3;
    config->lr = (struct lr_config){.policy = lr_policy_find(options->lr_policy),
                                    .base = options->lr,
                                    .gamma = options->lr_gamma,
                                    .low = options->lr_min,
                                    .warmup_steps = warmup,
                                    .warmup_log = strcmp(options->warmup_type, "log") == 0,
                                    .total_steps = config->steps,
                                    .step_size = step_size};
    return STATUS_OK;
}

enum status resolve_run(struct options *options, const struct model *model,
                        const struct dataset *dataset, const struct resolve_place *place,
                        struct run_config *out) {
    struct run_config config = {.model = model,
                                .dataset = dataset,
                                .rank = place->rank,
                                .ranks = place->ranks,
                                .costs = &cost_rules};
    struct resolve resolve = {options, place, &config};
    if (data_of(options, model) != options->data)
        options->data = model->data, option_derive(options, OPTION_data);
    bool uses = options->command & (COMMAND_EVAL | COMMAND_PREDICT);
    config.forward = uses || place->forward;
    config.weights = option_is_set(options, OPTION_weights) || place->loads;
    bool train = uses && strcmp(options->split, "train") == 0;
    config.eval_split = train ? SPLIT_TRAIN : SPLIT_TEST;
    TRY(check_data(&resolve));
    TRY(resolve_shape(&resolve));
    resolve_optimizer(&resolve);
    TRY(options_check(options)); /* some act with certain optimizers only */
    TRY(strategy_check(options, config.ranks));
    TRY(resolve_strategy(&resolve));
    TRY(resolve_batch(&resolve));
    TRY(resolve_overlap(options, &config));
    TRY(resolve_apart(options, &config));
    TRY(resolve_freeze(options, place->course, &config));
    TRY(resolve_machine(&resolve));
    TRY(resolve_epoch(&resolve));
    resolve_length(&resolve);
    TRY(resolve_rate(&resolve));
    *out = config;
    return STATUS_OK;
}
