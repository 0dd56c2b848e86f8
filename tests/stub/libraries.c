/* cuBLASLt, cuDNN, NCCL and NVML of tests/stub/cuda.c: whatever is asked of them can be done, and
 * nothing is. */
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static long number_of(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value && *value ? strtol(value, NULL, 10) : otherwise;
}

/* --- cuBLASLt --- */

EXPORT size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}
EXPORT const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "done" : "an error";
}
EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    *handle = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                     const void *alpha, const void *a, cublasLtMatrixLayout_t al,
                                     const void *b, cublasLtMatrixLayout_t bl, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t cl, void *d,
                                     cublasLtMatrixLayout_t dl,
                                     const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                                     size_t bytes, cudaStream_t stream) {
    (void)handle, (void)description, (void)alpha, (void)a, (void)al, (void)b, (void)bl, (void)beta;
    (void)c, (void)cl, (void)d, (void)dl, (void)algorithm, (void)workspace, (void)bytes,
        (void)stream;
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t found[],
    int *count) {
    (void)handle, (void)description, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *count = asked > 0;
    if (asked > 0) memset(found, 0, sizeof *found);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
    (void)compute, (void)scale;
    *out = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t of) {
    free(of);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of,
                                                     cublasLtMatmulDescAttributes_t which,
                                                     const void *value, size_t bytes) {
    (void)of, (void)which, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t step) {
    (void)type, (void)rows, (void)columns, (void)step;
    *out = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t of) {
    free(of);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                       cublasLtMatrixLayoutAttribute_t which,
                                                       const void *value, size_t bytes) {
    (void)of, (void)which, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    *out = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t of) {
    free(of);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t of, cublasLtMatmulPreferenceAttributes_t which, const void *value,
    size_t bytes) {
    (void)of, (void)which, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- cuDNN --- */

EXPORT size_t cudnnGetVersion(void) {
    return (size_t)number_of("STUB_CUDNN", CUDNN_VERSION);
}
EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_SUCCESS ? "done" : "an error";
}
EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = malloc(1);
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out) {
    (void)type;
    *out = malloc(1);
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t of) {
    free(of);
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of,
                                              cudnnBackendAttributeName_t which,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void *values) {
    (void)of, (void)which, (void)type, (void)count, (void)values;
    return CUDNN_STATUS_SUCCESS;
}
/* One engine without notes, that takes no workspace. */
EXPORT cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t of,
                                              cudnnBackendAttributeName_t which,
                                              cudnnBackendAttributeType_t type, int64_t asked,
                                              int64_t *count, void *values) {
    (void)of;
    *count = asked > 0 && which != CUDNN_ATTR_ENGINE_NUMERICAL_NOTE;
    if (*count && type == CUDNN_TYPE_INT64) *(int64_t *)values = 0;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t of) {
    (void)of;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack) {
    (void)handle, (void)plan, (void)pack;
    return CUDNN_STATUS_SUCCESS;
}

/* --- NCCL --- */

EXPORT ncclResult_t ncclGetVersion(int *version) {
    *version = (int)number_of("STUB_NCCL", NCCL_VERSION_CODE);
    return ncclSuccess;
}
EXPORT const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "done" : "an error";
}
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    memset(id, 1, sizeof *id);
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int count, ncclUniqueId id, int rank) {
    (void)count, (void)id, (void)rank;
    *comm = malloc(1);
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    free(comm);
    return ncclSuccess;
}
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
    free(comm);
    return ncclSuccess;
}
EXPORT ncclResult_t ncclGroupStart(void) {
    return ncclSuccess;
}
EXPORT ncclResult_t ncclGroupEnd(void) {
    return ncclSuccess;
}
EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    (void)from, (void)to, (void)count, (void)type, (void)op, (void)root, (void)comm, (void)stream;
    return ncclSuccess;
}
EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream) {
    (void)from, (void)to, (void)count, (void)type, (void)root, (void)comm, (void)stream;
    return ncclSuccess;
}

/* --- NVML: a handle is the number of the GPU, plus one --- */

EXPORT int nvmlInit_v2(void) {
    return 0;
}
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "999.1");
    return 0;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    const char *kind = number_of("STUB_MIG", 0) ? "MIG-" : "GPU-";
    if (strncmp(uuid, kind, 4) != 0) return 6;
    *handle = (void *)(uintptr_t)strtoul(uuid + 4, NULL, 16);
    return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void *handle, unsigned rates[2]) {
    rates[0] = 10 * (unsigned)(uintptr_t)handle;
    rates[1] = 5;
    return 0;
}
/* Its own process numbers, as in a container: none is ours. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *infos) {
    (void)handle, (void)infos;
    *count = 0;
    return 0;
}
