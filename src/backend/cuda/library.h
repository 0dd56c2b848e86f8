/* The libraries of NVIDIA, opened when the device is first asked for and never linked: a binary
 * with CUDA starts where none of them is.
 *
 * Each is a row of libraries.def; its functions are the rows of calls.def and are called as
 * cuda_call.cuMemAlloc(...). A library is looked for by its plain name, as the loader finds it,
 * then in the places where distributions, NVIDIA's installer and pip put it. Of several cuDNN the
 * newest is taken. All stay open until the process ends. */
#ifndef BACKEND_CUDA_LIBRARY_H
#define BACKEND_CUDA_LIBRARY_H

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>

#include "base/status.h"

enum cuda_library {
#define LIBRARY(NAME, ...) CUDA_LIBRARY_##NAME,
#include "backend/cuda/libraries.def"
#undef LIBRARY
    CUDA_LIBRARY_COUNT
};

/* NVML has no header where only the compiler is installed: these are its own types, as documented.
 */
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;
typedef int nvmlReturn_t;
typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates);
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length);

/* All calls of the libraries that are open; NULL before. */
struct cuda_calls {
#define CALL(library, name) __typeof__(&name) name;
#include "backend/cuda/calls.def"
#undef CALL
};
extern struct cuda_calls cuda_call;

/* Local, blocking; once a process, from any thread. Opens a library and finds its calls.
 * STATUS_USAGE, logged, names the library, where it was looked for and --device cpu. */
enum status cuda_library_open(enum cuda_library library);
/* Local. What a library is called; its path once it is open, NULL before; its version as text. */
const char *cuda_library_name(enum cuda_library library);
const char *cuda_library_path(enum cuda_library library);
void cuda_library_version(enum cuda_library library, char *text, size_t bytes);

#endif
