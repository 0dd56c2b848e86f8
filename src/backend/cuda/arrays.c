/* Arithmetic on arrays of device memory. Rules of src/optim become kernels here: their step's
 * numbers are made on the host as the rules make them. */
#include <math.h>
#include <string.h>

#include "backend/blend.h"
#include "backend/cuda/cuda.h"
#include "backend/host.h"
#include "base/log.h"

static struct cuda_reals reals(const struct elements *e) {
    CHECK(e->dtype == DTYPE_F32 || dtype_is_narrow(e->dtype), "arithmetic on an array of %s",
          dtype_name(e->dtype));
    return (struct cuda_reals){e->data, e->dtype};
}

enum status cuda_array_copy(struct device *device, void *to, const void *from, size_t bytes,
                            struct stream *stream) {
    TRY(cuda_enter(cuda_device_of(device)));
    if (bytes)
        TRY_CUDA(cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                                   cuda_stream_of(stream)));
    return STATUS_OK;
}

enum status cuda_array_fill(struct device *device, const struct elements *to, float value,
                            struct stream *stream) {
    struct cuda_fill args = {reals(to), to->count, value};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_fill, to->count, &args,
                                cuda_stream_of(stream));
}

enum status cuda_array_add(struct device *device, const struct elements *into,
                           const struct elements *from, struct stream *stream) {
    struct cuda_array_add args = {reals(into), reals(from), into->count};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_add, into->count, &args,
                                cuda_stream_of(stream));
}

enum status cuda_array_squares(struct device *device, const struct elements *of, double *sums,
                               struct stream *stream) {
    enum { A_GRID_BLOCK = 8 }; /* blocks of elements: sixteen threads each */
    struct cuda_squares args = {reals(of), of->count, NORM_BLOCK, sums};
    int64_t blocks = (of->count + NORM_BLOCK - 1) / NORM_BLOCK;
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_rows(cuda_device_of(device), CUDA_KERNEL_array_squares,
                            (blocks + A_GRID_BLOCK - 1) / A_GRID_BLOCK, &args,
                            cuda_stream_of(stream));
}

enum status cuda_array_sum(struct device *device, const double *sums, int64_t count,
                           struct exact_sum *total, struct stream *stream) {
    struct cuda_exact_sum args = {sums, count, total->limb, &total->terms, &total->special};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_sum, count, &args,
                                cuda_stream_of(stream));
}

enum status cuda_array_decide(struct device *device, const struct exact_sum *squares,
                              const struct exact_sum *losses, const struct optim_limits *limits,
                              struct optim_decision *out, int32_t *stop, struct stream *stream) {
    struct cuda_decide args = {.limb = squares->limb,
                               .special = &squares->special,
                               .losses = losses ? &losses->special : NULL,
                               .clip = limits->clip,
                               .unscale = limits->unscale,
                               .leaves = limits->leaves,
                               .norm = &out->norm,
                               .scale = &out->scale,
                               .skip = &out->skip,
                               .stop = stop};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_decide, 1, &args,
                                cuda_stream_of(stream));
}

enum status cuda_array_check(struct device *device, const struct elements *of, int32_t *bad,
                             struct stream *stream) {
    struct cuda_check args = {reals(of), of->count, bad};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_check, of->count, &args,
                                cuda_stream_of(stream));
}

static enum status array_blend(struct device *device, const struct elements *into, float keep,
                               const struct elements *from, float share, struct stream *stream) {
    struct cuda_array_blend args = {reals(into), from ? reals(from) : (struct cuda_reals){0},
                                    into->count, keep, share};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_blend, into->count, &args,
                                cuda_stream_of(stream));
}

static enum status array_swap(struct device *device, const struct elements *one,
                              const struct elements *other, struct stream *stream) {
    struct cuda_array_swap args = {reals(one), reals(other), one->count};
    TRY(cuda_enter(cuda_device_of(device)));
    return cuda_launch_elements(cuda_device_of(device), CUDA_KERNEL_array_swap, one->count, &args,
                                cuda_stream_of(stream));
}

const struct backend_blend cuda_blend = {.blend = array_blend, .swap = array_swap};

/* --- updates --- */

static enum status update_sgd(struct cuda_device *device, const struct optim_update *update,
                              const struct optim_span *span, int32_t *bad, CUstream stream) {
    const struct optim_step *step = update->step;
    float mu = (float)step->config->momentum;
    bool nesterov = step->config->nesterov;
    struct cuda_sgd args = {
        .param = (float *)update->param.data + span->begin,
        .buffer = (float *)update->state[0].data + span->begin,
        .gradient = (const float *)update->gradient.data + span->begin,
        .decided = update->decision ? &update->decision->scale : NULL,
        .skip = update->decision ? &update->decision->skip : NULL,
        .bad = bad,
        .count = span->count,
        .mu = mu,
        .lr = step->lr,
        .scale = step->gradient_scale,
        .decay = span->decay ? (float)step->config->weight_decay : 0,
        .direct = nesterov ? 1 : 0,
        .through = nesterov ? mu : 1,
    };
    return cuda_launch_elements(device, CUDA_KERNEL_update_sgd, span->count, &args, stream);
}

static enum status update_adam(struct cuda_device *device, const struct optim_update *update,
                               const struct optim_span *span, int32_t *bad, CUstream stream) {
    const struct optim_step *step = update->step;
    const struct optim_config *config = step->config;
    bool decoupled = strcmp(update->rule->name, "adamw") == 0;
    double t = (double)step->step + 1;
    double correct1 = 1 - pow(config->beta1, t), correct2 = 1 - pow(config->beta2, t);
    float decay = span->decay ? (float)config->weight_decay : 0;
    struct cuda_adam args = {
        .param = (float *)update->param.data + span->begin,
        .m = (float *)update->state[0].data + span->begin,
        .v = (float *)update->state[1].data + span->begin,
        .gradient = (const float *)update->gradient.data + span->begin,
        .decided = update->decision ? &update->decision->scale : NULL,
        .skip = update->decision ? &update->decision->skip : NULL,
        .bad = bad,
        .count = span->count,
        .beta1 = (float)config->beta1,
        .beta2 = (float)config->beta2,
        .rest1 = (float)(1 - config->beta1),
        .rest2 = (float)(1 - config->beta2),
        .epsilon = (float)config->epsilon,
        .rate = (float)((double)step->lr / correct1),
        .root = (float)sqrt(correct2),
        .scale = step->gradient_scale,
        .l2 = decoupled ? 0 : decay,
        .shrink = decoupled ? 1 - step->lr * decay : 1,
    };
    return cuda_launch_elements(device, CUDA_KERNEL_update_adam, span->count, &args, stream);
}

typedef enum status update_span(struct cuda_device *device, const struct optim_update *update,
                                const struct optim_span *span, int32_t *bad, CUstream stream);

static update_span *rule_of(const struct optim_rule *rule) {
    static const struct {
        const char *name;
        update_span *update;
    } rules[] = {{"sgd", update_sgd}, {"adam", update_adam}, {"adamw", update_adam}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rule->name, rules[i].name) == 0) return rules[i].update;
    return NULL;
}

enum status cuda_array_update(struct device *device, const struct optim_update *update,
                              int32_t *bad, struct stream *stream) {
    update_span *rule = rule_of(update->rule);
    host_check_update(update);
    if (!rule)
        return fail(STATUS_USAGE, "device cuda has no kernel for --optimizer %s",
                    update->rule->name);
    TRY(cuda_enter(cuda_device_of(device)));
    for (int i = 0; i < update->span_count; i++)
        TRY(rule(cuda_device_of(device), update, &update->spans[i], bad, cuda_stream_of(stream)));
    return STATUS_OK;
}
