/* GPUs that are not there: libcuda, cuBLASLt, cuDNN, NCCL and NVML in one library, for tests of
 * what a run says and opens where the real ones cannot be had. The build puts it under the names of
 * all five into one folder, for LD_LIBRARY_PATH.
 *
 * Memory is the host's, streams do at once what they are given, and kernels do nothing: every
 * result is zero, so a training runs to its end with loss 0. Functions have the types of the real
 * headers. The environment says what there is:
 *
 *     STUB_GPUS      compute capabilities, "90,90" (two of sm_90)
 *     STUB_MEMORY    MiB of each (4096)
 *     STUB_DRIVER    the version of CUDA that the driver is for (that of the headers)
 *     STUB_CUDNN, STUB_NCCL   their versions (those of the headers)
 *     STUB_MIG       1: they are parts of GPUs (MIG), with UUIDs of that kind
 *     STUB_APART     1: no two reach one another
 *     STUB_LOADS     0: the driver takes no kernels
 *     STUB_FAILS     n: the n-th launch of a kernel fails, as is seen later
 *     STUB_LOG       file; a line for each context: "context GPU"
 *
 * CUDA_VISIBLE_DEVICES takes numbers and UUIDs. GPU g is busy for 10 * (g + 1) percent, as NVML
 * says. */
#include <cuda.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { MOST = 16, BASE_BYTES = 500 << 20 };

/* --- the machine --- */

static const char *text_of(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static long number_of(const char *name, long otherwise) {
    const char *value = text_of(name, NULL);
    return value ? strtol(value, NULL, 10) : otherwise;
}

static int all_gpus(int sm[MOST]) {
    int count = 0;
    for (const char *at = text_of("STUB_GPUS", ""); *at && count < MOST; at += *at == ',')
        sm[count++] = (int)strtol(at, (char **)&at, 10);
    return count;
}

static void uuid_text(int gpu, char text[64]) {
    snprintf(text, 64, "%s-%08x-1111-2222-3333-444444444444",
             number_of("STUB_MIG", 0) ? "MIG" : "GPU", gpu + 1);
}

/* Of one entry of CUDA_VISIBLE_DEVICES; -1: there is none. */
static int gpu_named(const char *entry, size_t length, int count) {
    char *end, uuid[64];
    long number = strtol(entry, &end, 10);
    if (end == entry + length && length > 0)
        return number >= 0 && number < count ? (int)number : -1;
    for (int g = 0; g < count; g++) {
        uuid_text(g, uuid);
        if (length > 4 && strncmp(entry, uuid, length) == 0) return g;
    }
    return -1;
}

/* GPUs that the program sees, in its order: the list ends at the first that is none. */
static int visible(int gpu[MOST], int sm[MOST]) {
    int all[MOST], count = all_gpus(all), seen = 0;
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    for (int g = 0; !at && g < count; g++) gpu[seen] = g, sm[seen++] = all[g];
    for (; at && *at && seen < MOST; at += *at == ',') {
        size_t length = strcspn(at, ",");
        int found = gpu_named(at, length, count);
        if (found < 0) break;
        gpu[seen] = found, sm[seen++] = all[found];
        at += length;
    }
    return seen;
}

static struct {
    _Atomic size_t taken[MOST];
    _Atomic long launches;
    _Atomic int failed;
} state;

static _Thread_local int current; /* the GPU of this thread's context */

#define ALIVE()                                                                                    \
    if (state.failed) return CUDA_ERROR_ILLEGAL_ADDRESS

/* --- the driver --- */

EXPORT CUresult cuInit(unsigned flags) {
    int gpu[MOST], sm[MOST];
    (void)flags;
    return visible(gpu, sm) ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    *version = (int)number_of("STUB_DRIVER", CUDA_VERSION);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
            : error == CUDA_ERROR_NO_DEVICE     ? "no CUDA-capable device is detected"
            : error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ? "the provided PTX was compiled with an "
                                                            "unsupported toolchain."
            : error == CUDA_ERROR_NOT_SUPPORTED           ? "operation not supported"
                                                          : "another error";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    int gpu[MOST], sm[MOST];
    *count = visible(gpu, sm);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int index) {
    int gpu[MOST], sm[MOST];
    if (index < 0 || index >= visible(gpu, sm)) return CUDA_ERROR_INVALID_DEVICE;
    *device = gpu[index];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    (void)device;
    snprintf(name, (size_t)bytes, "Stub");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    memset(uuid, 0x44, sizeof *uuid);
    memcpy(uuid->bytes,
           (const char[]){0, 0, 0, (char)(device + 1), 0x11, 0x11, 0x22, 0x22, 0x33, 0x33}, 10);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    int sm[MOST];
    if (device >= all_gpus(sm)) return CUDA_ERROR_INVALID_DEVICE;
    *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? sm[device] / 10
             : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? sm[device] % 10
             : which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 100
                                                                     : 1;
    return CUDA_SUCCESS;
}

static size_t all_bytes(void) {
    return (size_t)number_of("STUB_MEMORY", 4096) << 20;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = all_bytes();
    return CUDA_SUCCESS;
}

/* A context is the number of its GPU, plus one. */
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    const char *path = getenv("STUB_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) fprintf(log, "context %d\n", device), fclose(log);
    *context = (CUcontext)(uintptr_t)(device + 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    (void)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    current = (int)(uintptr_t)context - 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void) {
    ALIVE();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    (void)image;
    if (!number_of("STUB_LOADS", 1)) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    *module = (CUmodule)(uintptr_t)1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    (void)module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    (void)module;
    *function = (CUfunction)(uintptr_t)name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CUstream stream, void **parameters, void **extra) {
    (void)function, (void)shared, (void)stream, (void)parameters, (void)extra;
    ALIVE();
    if (!(gx && gy && gz && bx && by && bz)) return CUDA_ERROR_INVALID_VALUE;
    if (++state.launches == number_of("STUB_FAILS", 0)) state.failed = 1;
    return CUDA_SUCCESS;
}

/* Allocations have their size and GPU in front. */
struct head {
    size_t bytes;
    int gpu;
    char pad[512 - sizeof(size_t) - sizeof(int)];
};

EXPORT CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
    ALIVE();
    if (state.taken[current] + bytes + BASE_BYTES > all_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    struct head *head = aligned_alloc(512, (sizeof *head + bytes + 511) / 512 * 512);
    if (!head) return CUDA_ERROR_OUT_OF_MEMORY;
    head->bytes = bytes;
    head->gpu = current;
    state.taken[current] += bytes;
    *out = (CUdeviceptr)(uintptr_t)(head + 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree(CUdeviceptr memory) {
    struct head *head = (struct head *)(uintptr_t)memory - 1;
    state.taken[head->gpu] -= head->bytes;
    free(head);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo(size_t *room, size_t *all) {
    *all = all_bytes();
    *room = *all - BASE_BYTES - state.taken[current];
    return CUDA_SUCCESS;
}

static CUresult copy(void *to, const void *from, size_t bytes) {
    ALIVE();
    memcpy(to, from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    return copy((void *)(uintptr_t)to, from, bytes);
}
EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    return copy(to, (const void *)(uintptr_t)from, bytes);
}
EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}
EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    (void)stream;
    return copy((void *)(uintptr_t)to, from, bytes);
}
EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    return copy(to, (const void *)(uintptr_t)from, bytes);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                CUstream stream) {
    (void)stream;
    ALIVE();
    memset((void *)(uintptr_t)to, value, count);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFreeHost(void *memory) {
    free(memory);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
    (void)memory, (void)bytes, (void)flags;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostUnregister(void *memory) {
    (void)memory;
    return CUDA_SUCCESS;
}

/* --- streams and events --- */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    (void)flags;
    *stream = (CUstream)malloc(1);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy(CUstream stream) {
    free(stream);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    ALIVE();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamQuery(CUstream stream) {
    (void)stream;
    ALIVE();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    ALIVE();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value,
                                     unsigned flags) {
    (void)stream, (void)flags;
    ALIVE();
    *(volatile uint32_t *)(uintptr_t)at = value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(struct timespec));
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy(CUevent event) {
    free(event);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)stream;
    ALIVE();
    clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)event);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUevent event) {
    (void)event;
    ALIVE();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
    (void)event;
    ALIVE();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
    const struct timespec *b = (const void *)begin, *e = (const void *)end;
    *ms = (float)((double)(e->tv_sec - b->tv_sec) * 1e3 + (double)(e->tv_nsec - b->tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}

/* --- other GPUs, other processes: handles of memory are not to be had --- */

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice one, CUdevice other) {
    *can = one != other && !number_of("STUB_APART", 0);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned flags) {
    (void)context, (void)flags;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory) {
    (void)handle, (void)memory;
    return CUDA_ERROR_NOT_SUPPORTED;
}
EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *memory, CUipcMemHandle handle, unsigned flags) {
    (void)memory, (void)handle, (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}
EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
    (void)memory;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
    (void)handle, (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}
EXPORT CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) {
    (void)event, (void)handle;
    return CUDA_ERROR_NOT_SUPPORTED;
}
