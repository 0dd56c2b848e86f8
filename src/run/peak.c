/* See peak.h. */
#include "run/peak.h"

#include <math.h>

#include "base/clock.h"

/* About 1 ms for each thread: of many tries some are disturbed by nobody, also on a busy machine.
 * No powers of two: rows that lie a page apart meet in the same sets of a cache. */
enum { ROWS_OF_THREAD = 240, SIDE = 480, LEAST_TRIES = 3 };
/* A device that is apart is as fast as it can be on a large product alone. */
enum { APART_SIDE = 8192 };

static const int64_t tries_ns = 100 * 1000 * 1000, longest_ns = 20 * 1000 * 1000;

struct product {
    struct device *device;
    struct kernel *kernel;
    void *in[OP_MAX_IN], *out[OP_MAX_OUT], *scratch;
};

/* Types of narrow activations are set behind the rule, as graph_narrow does. */
static bool product_call(const struct device *device, enum dtype dtype, struct op_call *call) {
    char why[128];
    bool apart = device->backend->apart;
    int64_t side = apart ? APART_SIDE : SIDE,
            rows = apart ? APART_SIDE : (int64_t)ROWS_OF_THREAD * device->threads;
    *call = (struct op_call){.op = OP_LINEAR, .in_count = 2};
    call->in[0] = (struct tensor_type){.dtype = DTYPE_F32, .shape = SHAPE(rows, side)};
    call->in[1] = (struct tensor_type){.dtype = DTYPE_F32, .shape = SHAPE(side, side)};
    if (op_infer(call, why, sizeof why) != STATUS_OK) return false;
    call->in[0].dtype = call->out[0].dtype = dtype;
    if (apart) call->in[1].dtype = dtype;
    return true;
}

/* Numbers of everyday size: zeros take less power, which some processors turn into speed. */
static enum status take(struct device *device, const struct layout *layout, void **out) {
    const struct backend *backend = device->backend;
    TRY(backend->memory_new(device, layout->bytes, "a product", out));
    struct elements all = {
        .data = *out, .dtype = layout->type.dtype, .count = shape_count(&layout->type.shape)};
    return backend->array_fill(device, &all, 0.5f, NULL);
}

static enum status prepare(struct product *product, const struct op_call *call) {
    const struct layout *any[OP_MAX_IN] = {
        product->device->backend->plain(product->device, &call->in[0])};
    TRY(kernel_create(product->device, call, any, &product->kernel));
    struct kernel *kernel = product->kernel;
    for (int i = 0; i < call->in_count; i++)
        TRY(take(product->device, kernel->in[i], &product->in[i]));
    TRY(take(product->device, kernel->out[0], &product->out[0]));
    size_t scratch = kernel->scratch_bytes ? kernel->scratch_bytes : 1;
    return product->device->backend->memory_new(product->device, scratch, "scratch of a product",
                                                &product->scratch);
}

static enum status time_best(struct product *product, int64_t *best_ns) {
    int64_t begin_ns = clock_ns(), now_ns = begin_ns;
    for (int i = 0; i < LEAST_TRIES || now_ns - begin_ns < tries_ns; i++) {
        int64_t before_ns = now_ns;
        TRY(kernel_run(product->kernel, product->in, product->out, product->scratch, NULL));
        TRY(product->device->backend->stream_wait(product->device, NULL));
        now_ns = clock_ns();
        if (i == 0 || now_ns - before_ns < *best_ns) *best_ns = now_ns - before_ns;
    }
    return STATUS_OK;
}

static void give_back(struct product *product) {
    const struct backend *backend = product->device->backend;
    struct kernel *kernel = product->kernel;
    if (!kernel) return;
    for (int i = 0; i < 2; i++)
        if (product->in[i])
            backend->memory_free(product->device, product->in[i], kernel->in[i]->bytes);
    if (product->out[0])
        backend->memory_free(product->device, product->out[0], kernel->out[0]->bytes);
    if (product->scratch)
        backend->memory_free(product->device, product->scratch,
                             kernel->scratch_bytes ? kernel->scratch_bytes : 1);
    kernel_free(&product->kernel);
}

double peak_flops(struct device *device, enum dtype dtype) {
    struct op_call call;
    struct product product = {.device = device};
    int64_t best_ns = 0;
    if (!product_call(device, dtype, &call) || device->dry ||
        (!device->backend->apart && device->backend->cost_ns(device, &call) > (double)longest_ns))
        return NAN;
    enum status status = prepare(&product, &call);
    if (status == STATUS_OK) status = time_best(&product, &best_ns);
    give_back(&product);
    return status == STATUS_OK && best_ns > 0 ? op_cost(&call).flops / ((double)best_ns * 1e-9)
                                              : NAN;
}
