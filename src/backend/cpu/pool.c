/* Pooling over images in any channel-blocked layout: the innermost loop runs over the channels of a
 * block, which is vector code in all layouts but row major, where blocks are single channels. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/clones.h"
#include "op/pool.h"

/* The first of equals wins, as does a NaN. */
VECTOR_CLONES static void max_window(const float *x, int64_t width, const struct pool_window *w,
                                     int64_t lanes, float *y, int32_t *where) {
    int64_t start = w->from[0] * width + w->from[1];
    for (int64_t l = 0; l < lanes; l++) y[l] = x[start * lanes + l], where[l] = (int32_t)start;
    for (int64_t i = w->from[0]; i < w->to[0]; i++)
        for (int64_t j = w->from[1]; j < w->to[1]; j++) {
            const float *v = x + (i * width + j) * lanes;
            int32_t at = (int32_t)(i * width + j);
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) {
                int take = (v[l] > y[l]) | ((v[l] != v[l]) & (y[l] == y[l]));
                y[l] = take ? v[l] : y[l];
                where[l] = take ? at : where[l];
            }
        }
}

VECTOR_CLONES static void avg_window(const float *x, int64_t width, const struct pool_window *w,
                                     int64_t lanes, float *y) {
    float factor = 1.0f / (float)w->area;
    memset(y, 0, (size_t)lanes * sizeof *y);
    for (int64_t i = w->from[0]; i < w->to[0]; i++)
        for (int64_t j = w->from[1]; j < w->to[1]; j++)
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) y[l] += x[(i * width + j) * lanes + l];
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++) y[l] *= factor;
}

VECTOR_CLONES static void spread_window(const float *dy, int64_t width, const struct pool_window *w,
                                        int64_t lanes, float *dx) {
    float factor = 1.0f / (float)w->area;
    for (int64_t i = w->from[0]; i < w->to[0]; i++)
        for (int64_t j = w->from[1]; j < w->to[1]; j++)
#pragma omp simd
            for (int64_t l = 0; l < lanes; l++) dx[(i * width + j) * lanes + l] += dy[l] * factor;
}

/* Windows of one chunk (an image and a channel block) of `big`, the side before pooling. */
static struct pool_window next_window(const struct cpu_kernel *kernel, int64_t output) {
    const struct cpu_image *big = &kernel->image, *small = &kernel->image_out;
    int64_t in[2] = {big->height, big->width}, out[2] = {small->height, small->width};
    return pool_window(&kernel->call.attrs, in, out, output / small->width, output % small->width);
}

static void run_pool(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                     void *scratch) {
    (void)scratch;
    const struct cpu_image *x = &kernel->image, *y = &kernel->image_out;
    int64_t lanes = x->lanes;
    bool max = kernel->call.op == OP_MAX_POOL;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->batch * x->blocks; i++) {
        const float *from = (const float *)in[0] + i * x->pixels * lanes;
        for (int64_t o = 0; o < y->pixels; o++) {
            struct pool_window w = next_window(kernel, o);
            int64_t at = (i * y->pixels + o) * lanes;
            if (max)
                max_window(from, x->width, &w, lanes, (float *)out[0] + at, (int32_t *)out[1] + at);
            else
                avg_window(from, x->width, &w, lanes, (float *)out[0] + at);
        }
    }
}

static void run_pool_bwd(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    const struct cpu_image *x = &kernel->image, *y = &kernel->image_out;
    int64_t lanes = x->lanes;
    bool max = kernel->call.op == OP_MAX_POOL_BWD;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->batch * x->blocks; i++) {
        float *dx = (float *)out[0] + i * x->pixels * lanes;
        memset(dx, 0, (size_t)(x->pixels * lanes) * sizeof *dx);
        for (int64_t o = 0; o < y->pixels; o++) {
            int64_t at = (i * y->pixels + o) * lanes;
            const float *dy = (const float *)in[0] + at;
            if (max) {
                const int32_t *where = (const int32_t *)in[1] + at;
                for (int64_t l = 0; l < lanes; l++) dx[where[l] * lanes + l] += dy[l];
            } else {
                struct pool_window w = next_window(kernel, o);
                spread_window(dy, x->width, &w, lanes, dx);
            }
        }
    }
}

/* The layout of the operand that decides, or plain. */
static const struct layout *image_or_plain(struct cpu_kernel *kernel, const struct layout *layout,
                                           const struct tensor_type *type,
                                           struct cpu_image *image) {
    if (layout && cpu_image(layout, image)) return layout;
    layout = cpu_layout(cpu_device_of(kernel), type, NULL);
    cpu_image(layout, image);
    return layout;
}

enum status cpu_pool(struct cpu_kernel *kernel, const struct layout *const in[]) {
    struct cpu_device *device = cpu_device_of(kernel);
    const struct op_call *call = &kernel->call;
    kernel->base.in[0] = image_or_plain(kernel, in[0], &call->in[0], &kernel->image);
    for (int i = 0; i < call->out_count; i++)
        kernel->base.out[i] = cpu_layout_like(device, &call->out[i], &kernel->image);
    cpu_image(kernel->base.out[0], &kernel->image_out);
    cpu_step_loop(kernel, run_pool);
    cpu_name(kernel, "loop:pool");
    return STATUS_OK;
}

/* The layout follows where the maxima were saved, or else dy. */
enum status cpu_pool_bwd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    struct cpu_device *device = cpu_device_of(kernel);
    const struct op_call *call = &kernel->call;
    int lead = call->in_count - 1;
    kernel->base.in[lead] = image_or_plain(kernel, in[lead], &call->in[lead], &kernel->image_out);
    kernel->base.in[0] = cpu_layout_like(device, &call->in[0], &kernel->image_out);
    kernel->base.out[0] = cpu_layout_like(device, &call->out[0], &kernel->image_out);
    cpu_image(kernel->base.out[0], &kernel->image);
    cpu_step_loop(kernel, run_pool_bwd);
    cpu_name(kernel, "loop:pool");
    return STATUS_OK;
}
