/* See narrow_gain.h. */
#include "run/narrow_gain.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/log.h"

/* Of transformers of medium size, and of the middle of residual networks. */
static struct op_call product_call(void) {
    struct op_call call = {.op = OP_LINEAR, .in_count = 2};
    call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(512, 768)};
    call.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(768, 768)};
    return call;
}

static struct op_call convolution_call(void) {
    struct op_call call = {.op = OP_CONV2D, .in_count = 2};
    for (int i = 0; i < 2; i++)
        call.attrs.conv.stride[i] = call.attrs.conv.pad[i] = call.attrs.conv.dilation[i] = 1;
    call.attrs.conv.groups = 1;
    call.in[0] = (struct tensor_type){DTYPE_F32, SHAPE(8, 64, 28, 28)};
    call.in[1] = (struct tensor_type){DTYPE_F32, SHAPE(64, 64, 3, 3)};
    return call;
}

/* A kernel and its memory. */
struct trial {
    struct kernel *kernel;
    void *in[2], *out, *scratch;
    double least_ns;
};

static void trial_free(struct trial *trial) {
    struct kernel *kernel = trial->kernel;
    if (!kernel) return;
    struct device *device = kernel->device;
    for (int i = 0; i < 2; i++)
        if (trial->in[i]) device->backend->memory_free(device, trial->in[i], kernel->in[i]->bytes);
    if (trial->out) device->backend->memory_free(device, trial->out, kernel->out[0]->bytes);
    if (trial->scratch) device->backend->memory_free(device, trial->scratch, kernel->scratch_bytes);
    kernel_free(&trial->kernel);
}

static enum status trial_new(struct device *device, struct op_call call, enum dtype dtype,
                             struct trial *out) {
    const struct layout *none[OP_MAX_IN] = {0};
    static const char what[] = "a trial of bf16";
    const struct backend *backend = device->backend;
    char why[128];
    CHECK(op_infer(&call, why, sizeof why) == STATUS_OK, "%s", why);
    call.in[0].dtype = call.in[1].dtype = call.out[0].dtype = dtype;
    TRY(kernel_create(device, &call, none, &out->kernel));
    for (int i = 0; i < 2; i++)
        TRY(backend->memory_new(device, out->kernel->in[i]->bytes, what, &out->in[i]));
    TRY(backend->memory_new(device, out->kernel->out[0]->bytes, what, &out->out));
    size_t scratch = out->kernel->scratch_bytes;
    return scratch ? backend->memory_new(device, scratch, what, &out->scratch) : STATUS_OK;
}

/* Of this thread: other processes do not count. */
static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* On zeros. */
static enum status trial_run(struct trial *trial) {
    double begin = cpu_ns();
    TRY(kernel_run(trial->kernel, trial->in, &trial->out, trial->scratch, NULL));
    double ns = cpu_ns() - begin;
    if (trial->least_ns == 0 || ns < trial->least_ns) trial->least_ns = ns;
    return STATUS_OK;
}

/* By turns, and the least of each. */
static enum status gain_of(struct device *device, struct op_call call, double *out) {
    enum { RUNS = 6 };
    SCOPED(trial_free) struct trial wide = {0}, narrow = {0};
    enum status status = trial_new(device, call, DTYPE_F32, &wide);
    if (status == STATUS_OK) status = trial_new(device, call, DTYPE_BF16, &narrow);
    for (int i = 0; i < RUNS && status == STATUS_OK; i++) {
        status = trial_run(&wide);
        if (status == STATUS_OK) status = trial_run(&narrow);
    }
    *out = wide.least_ns / narrow.least_ns;
    return status;
}

enum status narrow_gain_measure(struct device *device, struct narrow_gain *out) {
    TRY(gain_of(device, product_call(), &out->product));
    return gain_of(device, convolution_call(), &out->convolution);
}

double narrow_gain_of(const struct graph *graph, const struct narrow_gain *gain) {
    double products = 0, convolutions = 0;
    for (int i = 0; i < graph->node_count; i++) {
        struct op_call call = graph_call(graph, &graph->nodes[i]);
        double flops = op_cost(&call).flops;
        if (call.op <= OP_CONV2D_BWD_WEIGHT)
            convolutions += flops;
        else if (op_def(call.op)->flags & OP_PRODUCT)
            products += flops;
    }
    double time = products / gain->product + convolutions / gain->convolution;
    return time > 0 ? (products + convolutions) / time : 1;
}

/* --- of a run --- */

static bool measure_here(const char *name, struct narrow_gain *out) {
    SCOPED(device_close) struct device *device = NULL;
    enum status status = device_open(name, 0, 1, &device);
    if (status == STATUS_OK) status = narrow_gain_measure(device, out);
    return status == STATUS_OK;
}

static bool measure_apart(const char *name, struct narrow_gain *out) {
    int ends[2], how = 0;
    char said[256];
    if (pipe(ends) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        struct narrow_gain gain;
        log_capture(said, sizeof said);
        bool done = measure_here(name, &gain) && write(ends[1], &gain, sizeof gain) == sizeof gain;
        _exit(done ? 0 : 1);
    }
    close(ends[1]);
    bool got = child > 0 && read(ends[0], out, sizeof *out) == sizeof *out;
    close(ends[0]);
    while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    return got;
}

void narrow_gain_say(const struct planned_run *planned) {
    const struct run_config *config = &planned->plan->config;
    struct narrow_gain gain;
    if (config->dtype != DTYPE_BF16 || strcmp(config->device, "cpu") != 0) return;
    if (!measure_apart(config->device, &gain)) return;
    double all = narrow_gain_of(planned->plan->micro[0].graph, &gain);
    if (all >= 1) return;
    log_note("--dtype bf16 is slower than f32 here: products and convolutions of %s at %.2f of its "
             "speed (see stretto doctor)",
             config->model->name, all);
}
