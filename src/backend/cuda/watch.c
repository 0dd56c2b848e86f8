/* What NVML tells: memory of this process on a GPU, how busy that is. NVML counts GPUs in an order
 * of its own, so they are found by their UUID. */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/cuda/stream.h"
#include "backend/watch.h"
#include "base/log.h"

static struct {
    _Atomic int open;            /* devices of this process */
    _Atomic ptrdiff_t taken;     /* by memory_new, of all of them */
    _Atomic size_t before_bytes; /* what the process had when the first was opened */
} process;

static void write_uuid(const CUuuid *uuid, const char *kind, char *text, size_t bytes) {
    int used = snprintf(text, bytes, "%s-", kind);
    for (int i = 0; i < 16; i++)
        used += snprintf(text + used, bytes - (size_t)used, "%s%02x",
                         i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                         (unsigned char)uuid->bytes[i]);
}

static bool find_handle(struct cuda_device *device, nvmlDevice_t *out) {
    char said[512], text[64];
    CUuuid uuid;
    log_capture(said, sizeof said);
    enum status status = cuda_library_open(CUDA_LIBRARY_NVML);
    log_capture(NULL, 0);
    if (status != STATUS_OK || cuda_call.nvmlInit_v2() != 0 ||
        cuda_call.cuDeviceGetUuid(&uuid, device->device) != CUDA_SUCCESS)
        return false;
    /* A part of a GPU (MIG) has a UUID too, of that kind. */
    write_uuid(&uuid, "GPU", text, sizeof text);
    if (cuda_call.nvmlDeviceGetHandleByUUID(text, out) == 0) return true;
    write_uuid(&uuid, "MIG", text, sizeof text);
    return cuda_call.nvmlDeviceGetHandleByUUID(text, out) == 0;
}

/* 0: not known, as where the process has another number outside of its container. */
static size_t process_bytes(struct cuda_device *device) {
    enum { MOST = 256 };
    nvmlProcessInfo_t infos[MOST];
    nvmlDevice_t handle;
    unsigned count = MOST;
    if (!find_handle(device, &handle) ||
        cuda_call.nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, infos) != 0)
        return 0;
    for (unsigned i = 0; i < count && i < MOST; i++)
        if (infos[i].pid == (unsigned)getpid()) return (size_t)infos[i].usedGpuMemory;
    return 0;
}

void cuda_watch_open(struct cuda_device *device) {
    void *memory = NULL;
    if (atomic_fetch_add(&process.open, 1) == 0) process.before_bytes = process_bytes(device);
    if (cuda_call.cuMemHostAlloc(&memory, sizeof *device->mark,
                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) !=
        CUDA_SUCCESS)
        return;
    device->mark = memory;
    *device->mark = 0;
}

void cuda_watch_close(struct cuda_device *device) {
    if (process.open > 0) process.open--;
    if (device->mark) cuda_call.cuMemFreeHost((void *)(uintptr_t)device->mark);
    device->mark = NULL;
}

void cuda_note_taken(ptrdiff_t bytes) {
    process.taken += bytes;
}

size_t cuda_library_bytes(struct cuda_device *device) {
    size_t now = process_bytes(device), others = process.before_bytes + (size_t)process.taken;
    int count = process.open;
    if (now == 0 || process.before_bytes == 0 || now <= others || count == 0) return 0;
    return (now - others) / (size_t)count;
}

static bool busy_of(struct device *device, double *busy, double *memory) {
    nvmlUtilization_t rates;
    nvmlDevice_t handle;
    if (!find_handle(cuda_device_of(device), &handle) ||
        cuda_call.nvmlDeviceGetUtilizationRates(handle, &rates) != 0)
        return false;
    *busy = rates.gpu;
    *memory = rates.memory;
    return true;
}

static bool seen(void) {
    return access("/dev/nvidia0", R_OK | W_OK) == 0;
}

/* Addresses of pinned memory are the device's too. */
static void mark(struct device *device, struct stream *stream, uint32_t number) {
    const struct cuda_device *self = cuda_device_of(device);
    if (self->mark)
        cuda_call.cuStreamWriteValue32(cuda_stream_of(stream), (CUdeviceptr)(uintptr_t)self->mark,
                                       number, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static uint32_t marked(struct device *device) {
    const struct cuda_device *self = cuda_device_of(device);
    return self->mark ? *self->mark : 0;
}

static bool failed(struct device *device) {
    struct cuda_device *self = cuda_device_of(device);
    if (cuda_call.cuCtxSetCurrent(self->context) != CUDA_SUCCESS) return true;
    CUresult result = cuda_call.cuStreamQuery(NULL);
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

const struct backend_watch cuda_watch = {
    .busy = busy_of, .seen = seen, .mark = mark, .marked = marked, .failed = failed};
