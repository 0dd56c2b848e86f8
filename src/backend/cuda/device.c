/* The cuda backend: devices, memory, streams and events by the driver's API, on the primary
 * context, which cuBLASLt and cuDNN share. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/stream.h"
#include "base/log.h"
#include "base/mem.h"

extern const struct backend backend_cuda;

/* What kernels that need tensor cores with bf16 and 64-bit atomics run on. */
enum { OLDEST_MAJOR = 8 };

static _Atomic int failed_before; /* the result that was said last */

enum status cuda_fail(CUresult result, const char *what) {
    const char *text = NULL;
    cuda_call.cuGetErrorString(result, &text);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail(STATUS_MEMORY, "the GPU has no memory left (%s)", what);
    /* A kernel that failed makes every later call fail alike: said once. */
    if (atomic_exchange(&failed_before, (int)result) == (int)result) return STATUS_BUG;
    return fail(STATUS_BUG, "CUDA: %s\n  at %s, or in a kernel enqueued before",
                text ? text : "unknown error", what);
}

static _Thread_local CUcontext entered;

enum status cuda_enter(struct cuda_device *device) {
    if (entered == device->context) return STATUS_OK;
    TRY_CUDA(cuCtxSetCurrent(device->context));
    entered = device->context;
    return STATUS_OK;
}

/* --- opening --- */

static CUresult look_for_devices(int *count) {
    CUresult result = cuda_call.cuInit(0);
    if (result == CUDA_SUCCESS) result = cuda_call.cuDeviceGetCount(count);
    return result == CUDA_ERROR_NO_DEVICE ? CUDA_SUCCESS : result;
}

enum status cuda_count(int *count) {
    *count = 0;
    TRY(cuda_library_open(CUDA_LIBRARY_DRIVER));
    CUresult result = look_for_devices(count);
    if (result == CUDA_SUCCESS && *count > 0) return STATUS_OK;
    const char *text = "it has no device", *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (result != CUDA_SUCCESS) cuda_call.cuGetErrorString(result, &text);
    return fail(STATUS_USAGE,
                "--device cuda: the NVIDIA driver says: %s%-s%s%-s\n  --device cpu runs here", text,
                visible ? "\n  CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "",
                visible ? "'" : "");
}

/* "cuda:0 NVIDIA H200, cuda:1 ..." */
void cuda_list(int count, char *text, size_t bytes) {
    size_t used = 0;
    for (int i = 0; i < count && used < bytes; i++) {
        char name[128] = "?";
        CUdevice device;
        if (cuda_call.cuDeviceGet(&device, i) == CUDA_SUCCESS)
            cuda_call.cuDeviceGetName(name, sizeof name, device);
        used += (size_t)snprintf(text + used, bytes - used, "%scuda:%d %s", i ? ", " : "", i, name);
    }
}

static int attribute(CUdevice device, CUdevice_attribute which) {
    int value = 0;
    cuda_call.cuDeviceGetAttribute(&value, which, device);
    return value;
}

static enum status find_device(struct cuda_device *self) {
    int count, index = self->base.index;
    char list[1024], name[128] = "?";
    TRY(cuda_count(&count));
    cuda_list(count, list, sizeof list);
    if (index >= count)
        return fail(STATUS_USAGE, "device cuda:%d does not exist\n  there %s: %s", index,
                    count == 1 ? "is" : "are", list);
    TRY_CUDA(cuDeviceGet(&self->device, index));
    self->major = attribute(self->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    self->minor = attribute(self->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    self->processors = attribute(self->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (self->major >= OLDEST_MAJOR) return STATUS_OK;
    cuda_call.cuDeviceGetName(name, sizeof name, self->device);
    return fail(STATUS_USAGE,
                "cuda:%d, %s, is of compute capability %d.%d; %d.0 or newer is needed\n"
                "  another of: %s; or --device cpu",
                index, name, self->major, self->minor, OLDEST_MAJOR, list);
}

static void cuda_close(struct device *device) {
    struct cuda_device *self = cuda_device_of(device);
    if (self->context && cuda_enter(self) == STATUS_OK) {
        if (self->dnn) cuda_call.cudnnDestroy(self->dnn);
        if (self->blas) cuda_call.cublasLtDestroy(self->blas);
        if (self->module) cuda_call.cuModuleUnload(self->module);
        cuda_watch_close(self);
        cuda_call.cuCtxSetCurrent(NULL);
        entered = NULL;
        cuda_call.cuDevicePrimaryCtxRelease(self->device);
    }
    while (self->layouts) {
        struct cuda_layout *next = self->layouts->next;
        free(self->layouts);
        self->layouts = next;
    }
    free(self);
}

static enum status start(struct cuda_device *self) {
    TRY(find_device(self));
    TRY_CUDA(cuDevicePrimaryCtxRetain(&self->context, self->device));
    TRY(cuda_enter(self));
    TRY(cuda_load_kernels(self));
    cuda_watch_open(self);
    return STATUS_OK;
}

static enum status cuda_open(int index, int threads, struct device **out) {
    struct cuda_device *self = MEM_NEW(struct cuda_device);
    self->base = (struct device){.backend = &backend_cuda, .index = index, .threads = threads};
    enum status status = start(self);
    if (status == STATUS_OK)
        *out = &self->base;
    else
        cuda_close(&self->base);
    return status;
}

enum status cuda_need_blas(struct cuda_device *device) {
    if (device->blas) return STATUS_OK;
    TRY(cuda_library_open(CUDA_LIBRARY_CUBLASLT));
    cublasStatus_t status = cuda_call.cublasLtCreate(&device->blas);
    if (status == CUBLAS_STATUS_SUCCESS) return STATUS_OK;
    return fail(STATUS_USAGE, "cuBLASLt does not start: %s\n  %s\n  --device cpu runs without it",
                cuda_call.cublasLtGetStatusString(status),
                cuda_library_path(CUDA_LIBRARY_CUBLASLT));
}

enum status cuda_need_dnn(struct cuda_device *device) {
    if (device->dnn) return STATUS_OK;
    TRY(cuda_library_open(CUDA_LIBRARY_CUDNN));
    cudnnStatus_t status = cuda_call.cudnnCreate(&device->dnn);
    if (status == CUDNN_STATUS_SUCCESS) return STATUS_OK;
    return fail(STATUS_USAGE, "cuDNN does not start: %s\n  %s\n  --device cpu runs without it",
                cuda_call.cudnnGetErrorString(status), cuda_library_path(CUDA_LIBRARY_CUDNN));
}

/* --- what it is --- */

static void cuda_describe(struct device *device, char *text, size_t bytes) {
    struct cuda_device *self = cuda_device_of(device);
    char name[128] = "?", driver[64];
    size_t memory = 0;
    cuda_call.cuDeviceGetName(name, sizeof name, self->device);
    cuda_call.cuDeviceTotalMem(&memory, self->device);
    cuda_library_version(CUDA_LIBRARY_DRIVER, driver, sizeof driver);
    int used = snprintf(text, bytes, "%s, %.0f GiB, sm_%d%d, driver for %s", name,
                        (double)memory / (double)(1 << 30), self->major, self->minor, driver);
    static const enum cuda_library shown[] = {CUDA_LIBRARY_CUBLASLT, CUDA_LIBRARY_CUDNN};
    for (size_t i = 0; i < sizeof shown / sizeof *shown && used < (int)bytes; i++) {
        cuda_library_version(shown[i], driver, sizeof driver);
        if (cuda_library_path(shown[i]))
            used += snprintf(text + used, bytes - (size_t)used, ", %s %s",
                             cuda_library_name(shown[i]), driver);
    }
}

static void cuda_isa(int index, char *text, size_t bytes) {
    int count = 0;
    CUdevice device;
    char said[512];
    snprintf(text, bytes, "sm");
    log_capture(said, sizeof said); /* whoever opens the device says what is missing */
    enum status status = cuda_library_open(CUDA_LIBRARY_DRIVER);
    log_capture(NULL, 0);
    if (status != STATUS_OK || look_for_devices(&count) != CUDA_SUCCESS || index >= count ||
        cuda_call.cuDeviceGet(&device, index) != CUDA_SUCCESS)
        return;
    snprintf(text, bytes, "sm_%d%d",
             attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
             attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

static enum status cuda_takes(struct device *device, enum dtype dtype) {
    (void)device;
    if (dtype == DTYPE_F32 || dtype_is_narrow(dtype)) return STATUS_OK;
    return fail(STATUS_USAGE, "--dtype %s: device cuda has f32, tf32, bf16 and f16",
                dtype_name(dtype));
}

/* About what an H200 does: 40 flops a ps in f32, 4 bytes a ps, and 3 us to launch. */
static double cuda_cost_ns(struct device *device, const struct op_call *call) {
    (void)device;
    struct op_cost cost = op_cost(call);
    return 3e3 + fmax(cost.flops / 4e4, cost.bytes / 4e3);
}

/* --- memory --- */

static enum status cuda_memory_new(struct device *device, size_t bytes, const char *what,
                                   void **out) {
    CUdeviceptr memory = 0;
    size_t room = 0, all = 0, need = bytes ? bytes : 1;
    TRY(cuda_enter(cuda_device_of(device)));
    CUresult result = cuda_call.cuMemAlloc(&memory, need);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        cuda_call.cuMemGetInfo(&room, &all);
        return fail(STATUS_MEMORY,
                    "no memory for %s on cuda:%d: %.1f MiB asked for, %.1f of %.1f free", what,
                    device->index, (double)need / (1 << 20), (double)room / (1 << 20),
                    (double)all / (1 << 20));
    }
    if (result != CUDA_SUCCESS) return cuda_fail(result, what);
    TRY_CUDA(cuMemsetD8Async(memory, 0, need, NULL));
    TRY_CUDA(cuStreamSynchronize(NULL));
    struct cuda_device *self = cuda_device_of(device);
    self->taken += need;
    cuda_note_taken((ptrdiff_t)need);
    if (self->taken > self->peak) self->peak = self->taken;
    *out = (void *)(uintptr_t)memory;
    return STATUS_OK;
}

static void cuda_memory_free(struct device *device, void *memory, size_t bytes) {
    if (!memory || cuda_enter(cuda_device_of(device)) != STATUS_OK) return;
    cuda_call.cuMemFree((CUdeviceptr)(uintptr_t)memory);
    cuda_device_of(device)->taken -= bytes ? bytes : 1;
    cuda_note_taken(-(ptrdiff_t)(bytes ? bytes : 1));
}

/* What kernels of cuBLASLt and cuDNN take when they are loaded, at their first run. Measured on
 * resnet50, vit-base, bert-base and gpt2-nano: 11 to 13 MiB of products, 6 more of convolutions. */
enum { BLAS_BYTES = 12 << 20, DNN_BYTES = 6 << 20 };

static void cuda_memory_bytes(struct device *device, struct device_bytes *out) {
    struct cuda_device *self = cuda_device_of(device);
    *out = (struct device_bytes){.peak = self->peak,
                                 .taken = self->taken,
                                 .libraries = cuda_library_bytes(self),
                                 .expected =
                                     (self->blas ? BLAS_BYTES : 0) + (self->dnn ? DNN_BYTES : 0)};
    cuda_call.cuDeviceTotalMem(&out->all, self->device);
}

static enum status cuda_pinned_new(struct device *device, size_t bytes, const char *what,
                                   void **out) {
    size_t need = bytes ? bytes : 1;
    TRY(cuda_enter(cuda_device_of(device)));
    CUresult result = cuda_call.cuMemHostAlloc(out, need, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail(STATUS_MEMORY, "no pinned memory of the host for %s: %.1f MiB asked for", what,
                    (double)need / (1 << 20));
    if (result != CUDA_SUCCESS) return cuda_fail(result, what);
    memset(*out, 0, need);
    return STATUS_OK;
}

static void cuda_pinned_free(struct device *device, void *memory, size_t bytes) {
    (void)bytes;
    if (memory && cuda_enter(cuda_device_of(device)) == STATUS_OK) cuda_call.cuMemFreeHost(memory);
}

/* Ranks that are threads share memory: it may be pinned already. */
static enum status cuda_pin(struct device *device, void *memory, size_t bytes) {
    TRY(cuda_enter(cuda_device_of(device)));
    if (bytes == 0) return STATUS_OK;
    CUresult result = cuda_call.cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return STATUS_OK;
    return cuda_fail(result, "cuMemHostRegister");
}

static void cuda_unpin(struct device *device, void *memory, size_t bytes) {
    if (memory && bytes && cuda_enter(cuda_device_of(device)) == STATUS_OK)
        cuda_call.cuMemHostUnregister(memory);
}

static enum status cuda_copy_in(struct device *device, void *to, const void *host, size_t bytes,
                                struct stream *stream) {
    TRY(cuda_enter(cuda_device_of(device)));
    if (bytes)
        TRY_CUDA(
            cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, host, bytes, cuda_stream_of(stream)));
    return STATUS_OK;
}

static enum status cuda_copy_out(struct device *device, void *host, const void *from, size_t bytes,
                                 struct stream *stream) {
    TRY(cuda_enter(cuda_device_of(device)));
    if (bytes)
        TRY_CUDA(
            cuMemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)from, bytes, cuda_stream_of(stream)));
    return STATUS_OK;
}

/* --- streams and events --- */

CUstream cuda_stream_of(struct stream *stream) {
    return stream ? stream->stream : NULL;
}

static enum status cuda_stream_new(struct device *device, struct stream **out) {
    CUstream made;
    TRY(cuda_enter(cuda_device_of(device)));
    TRY_CUDA(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    struct stream *stream = MEM_NEW(struct stream);
    *stream = (struct stream){cuda_device_of(device), made};
    *out = stream;
    return STATUS_OK;
}

static void cuda_stream_free(struct device *device, struct stream *stream) {
    if (stream && cuda_enter(cuda_device_of(device)) == STATUS_OK)
        cuda_call.cuStreamDestroy(stream->stream);
    free(stream);
}

static enum status cuda_stream_wait(struct device *device, struct stream *stream) {
    TRY(cuda_enter(cuda_device_of(device)));
    TRY_CUDA(cuStreamSynchronize(cuda_stream_of(stream)));
    return STATUS_OK;
}

static enum status cuda_event_new(struct device *device, bool timed, struct event **out) {
    CUevent made;
    TRY(cuda_enter(cuda_device_of(device)));
    TRY_CUDA(cuEventCreate(&made, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
    struct event *event = MEM_NEW(struct event);
    *event = (struct event){cuda_device_of(device), made};
    *out = event;
    return STATUS_OK;
}

static void cuda_event_free(struct device *device, struct event *event) {
    if (event && cuda_enter(cuda_device_of(device)) == STATUS_OK)
        cuda_call.cuEventDestroy(event->event);
    free(event);
}

/* A failure is sticky: whoever waits for the stream hears of it. */
static void cuda_event_record(struct event *event, struct stream *stream) {
    cuda_call.cuEventRecord(event->event, cuda_stream_of(stream));
}

static void cuda_stream_wait_event(struct stream *stream, struct event *event) {
    cuda_call.cuStreamWaitEvent(cuda_stream_of(stream), event->event, 0);
}

static enum status cuda_event_wait(struct event *event) {
    TRY(cuda_enter(event->device));
    TRY_CUDA(cuEventSynchronize(event->event));
    return STATUS_OK;
}

static enum status cuda_event_done(struct event *event, bool *done) {
    TRY(cuda_enter(event->device));
    CUresult result = cuda_call.cuEventQuery(event->event);
    *done = result == CUDA_SUCCESS;
    if (*done || result == CUDA_ERROR_NOT_READY) return STATUS_OK;
    return cuda_fail(result, "cuEventQuery");
}

static enum status cuda_event_ns(struct event *begin, struct event *end, int64_t *ns) {
    float ms;
    TRY(cuda_enter(begin->device));
    TRY_CUDA(cuEventElapsedTime(&ms, begin->event, end->event));
    *ns = (int64_t)((double)ms * 1e6);
    return STATUS_OK;
}

const struct backend backend_cuda = {
    .name = "cuda",
    .apart = true,
    .help = "NVIDIA GPUs of compute capability 8.0 and newer",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .isa = cuda_isa,
    .part = cuda_backend_part,
    .takes = cuda_takes,
    .supports = cuda_supports,
    .cost_ns = cuda_cost_ns,
    .plain = cuda_plain,
    .kernel_create = cuda_kernel_create,
    .kernel_free = cuda_kernel_free,
    .kernel_run = cuda_kernel_run,
    .memory_new = cuda_memory_new,
    .memory_free = cuda_memory_free,
    .memory_bytes = cuda_memory_bytes,
    .pinned_new = cuda_pinned_new,
    .pinned_free = cuda_pinned_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .array_copy = cuda_array_copy,
    .array_fill = cuda_array_fill,
    .array_add = cuda_array_add,
    .array_squares = cuda_array_squares,
    .array_sum = cuda_array_sum,
    .array_decide = cuda_array_decide,
    .array_check = cuda_array_check,
    .array_update = cuda_array_update,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .stream_wait = cuda_stream_wait,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .stream_wait_event = cuda_stream_wait_event,
    .event_wait = cuda_event_wait,
    .event_done = cuda_event_done,
    .event_ns = cuda_event_ns,
    .reach = &cuda_reach,
    .watch = &cuda_watch,
    .blend = &cuda_blend,
};
