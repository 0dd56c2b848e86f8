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

static bool find_handle(struct cuda_device *device, nvmlDevice_t *out) {
    char said[512], text[64];
    CUuuid uuid;
    log_capture(said, sizeof said);
    enum status status = cuda_library_open(CUDA_LIBRARY_NVML);
    log_capture(NULL, 0);
    if (status != STATUS_OK || cuda_call.nvmlInit_v2() != 0 ||
        cuda_call.cuDeviceGetUuid(&uuid, device->device) != CUDA_SUCCESS)
        return false;
    int used = snprintf(text, sizeof text, "GPU-");
    for (int i = 0; i < 16; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%02x",
                         i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                         (unsigned char)uuid.bytes[i]);
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
    if (atomic_fetch_add(&process.open, 1) == 0) process.before_bytes = process_bytes(device);
}

void cuda_watch_close(struct cuda_device *device) {
    (void)device;
    if (process.open > 0) process.open--;
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

const struct backend_watch cuda_watch = {.busy = busy_of, .seen = seen};
