/* Matrix products by cuBLASLt. The algorithm is the first that its heuristics name, found when the
 * kernel is made; sums that are split are added in f32 in a fixed order, so bits repeat.
 *
 * cuBLASLt's matrices lie column by column: what it computes is the transpose, b' a'. */
#include <stdlib.h>

#include "backend/cuda/product.h"
#include "base/log.h"
#include "base/mem.h"

/* What NVIDIA recommends for Hopper; smaller GPUs are content with it. */
enum { WORKSPACE_BYTES = 32 << 20 };

struct cuda_product {
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t first, second, result; /* b, a, c of ours */
    cublasLtMatmulAlgo_t algorithm;
    size_t scratch_bytes;
    float scale;
};

static cudaDataType_t type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? CUDA_R_32F : dtype == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static enum status fail_blas(cublasStatus_t status, const char *what) {
    return fail(STATUS_BUG, "cuBLASLt, %s: %s", what, cuda_call.cublasLtGetStatusString(status));
}

#define TRY_BLAS(call)                                                                             \
    do {                                                                                           \
        cublasStatus_t blas_status_ = cuda_call.call;                                              \
        if (blas_status_ != CUBLAS_STATUS_SUCCESS) return fail_blas(blas_status_, #call);          \
    } while (0)

/* `rows` by `columns` of ours, as it is stored. */
static enum status describe(const struct cuda_matrix *m, int64_t rows, int64_t columns,
                            int64_t batch, cublasLtMatrixLayout_t *out) {
    int32_t count = (int32_t)batch;
    uint64_t stored_rows = (uint64_t)(m->transpose ? columns : rows),
             stored_columns = (uint64_t)(m->transpose ? rows : columns);
    TRY_BLAS(
        cublasLtMatrixLayoutCreate(out, type_of(m->dtype), stored_columns, stored_rows, m->step));
    TRY_BLAS(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count));
    TRY_BLAS(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &m->next, sizeof m->next));
    return STATUS_OK;
}

static enum status set_transpose(cublasLtMatmulDesc_t description,
                                 cublasLtMatmulDescAttributes_t which, bool transpose) {
    int32_t value = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY_BLAS(cublasLtMatmulDescSetAttribute(description, which, &value, sizeof value));
    return STATUS_OK;
}

static enum status prefer(cublasLtMatmulPreference_t preference,
                          const struct cuda_product_spec *spec) {
    uint64_t workspace = WORKSPACE_BYTES;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t align[] = {(uint32_t)spec->b.align, (uint32_t)spec->a.align, (uint32_t)spec->c.align,
                        (uint32_t)spec->c.align};
    static const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    TRY_BLAS(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    TRY_BLAS(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums));
    for (int i = 0; i < 4; i++)
        TRY_BLAS(
            cublasLtMatmulPreferenceSetAttribute(preference, which[i], &align[i], sizeof align[i]));
    return STATUS_OK;
}

static enum status choose(struct cuda_device *device, const struct cuda_product_spec *spec,
                          cublasLtMatmulPreference_t preference, struct cuda_product *product) {
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    TRY(prefer(preference, spec));
    cublasStatus_t status = cuda_call.cublasLtMatmulAlgoGetHeuristic(
        device->blas, product->description, product->first, product->second, product->result,
        product->result, preference, 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0)
        return fail(STATUS_USAGE,
                    "cuBLASLt has no product of %lldx%lld by %lldx%lld, %s, %lld times: %s",
                    (long long)spec->rows, (long long)spec->inner, (long long)spec->inner,
                    (long long)spec->columns, dtype_name(spec->a.dtype), (long long)spec->batch,
                    cuda_call.cublasLtGetStatusString(status));
    product->algorithm = found.algo;
    product->scratch_bytes = found.workspaceSize;
    return STATUS_OK;
}

static enum status make(struct cuda_device *device, const struct cuda_product_spec *spec,
                        struct cuda_product *product) {
    cublasComputeType_t compute = device->base.tf32 && spec->a.dtype == DTYPE_F32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;
    product->scale = spec->scale;
    TRY_BLAS(cublasLtMatmulDescCreate(&product->description, compute, CUDA_R_32F));
    TRY(set_transpose(product->description, CUBLASLT_MATMUL_DESC_TRANSA, spec->b.transpose));
    TRY(set_transpose(product->description, CUBLASLT_MATMUL_DESC_TRANSB, spec->a.transpose));
    if (spec->bias) {
        cublasLtEpilogue_t with = CUBLASLT_EPILOGUE_BIAS;
        int32_t kind = type_of(spec->c.dtype);
        TRY_BLAS(cublasLtMatmulDescSetAttribute(product->description, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                &with, sizeof with));
        TRY_BLAS(cublasLtMatmulDescSetAttribute(
            product->description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &kind, sizeof kind));
    }
    TRY(describe(&spec->b, spec->inner, spec->columns, spec->batch, &product->first));
    TRY(describe(&spec->a, spec->rows, spec->inner, spec->batch, &product->second));
    TRY(describe(&spec->c, spec->rows, spec->columns, spec->batch, &product->result));
    cublasLtMatmulPreference_t preference;
    TRY_BLAS(cublasLtMatmulPreferenceCreate(&preference));
    enum status status = choose(device, spec, preference, product);
    cuda_call.cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

enum status cuda_product_new(struct cuda_device *device, const struct cuda_product_spec *spec,
                             struct cuda_product **out) {
    TRY(cuda_need_blas(device));
    struct cuda_product *product = MEM_NEW(struct cuda_product);
    enum status status = make(device, spec, product);
    if (status == STATUS_OK)
        *out = product;
    else
        cuda_product_free(&product);
    return status;
}

void cuda_product_free(struct cuda_product **product) {
    struct cuda_product *p = *product;
    if (!p) return;
    if (p->description) cuda_call.cublasLtMatmulDescDestroy(p->description);
    if (p->first) cuda_call.cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) cuda_call.cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) cuda_call.cublasLtMatrixLayoutDestroy(p->result);
    free(p);
    *product = NULL;
}

size_t cuda_product_scratch(const struct cuda_product *product) {
    return product->scratch_bytes;
}

enum status cuda_product_run(struct cuda_device *device, const struct cuda_product *product,
                             const void *a, const void *b, const void *bias, void *c, void *scratch,
                             CUstream stream) {
    float zero = 0;
    if (bias)
        TRY_BLAS(cublasLtMatmulDescSetAttribute(
            product->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    TRY_BLAS(cublasLtMatmul(device->blas, product->description, &product->scale, b, product->first,
                            a, product->second, &zero, c, product->result, c, product->result,
                            &product->algorithm, scratch, product->scratch_bytes, stream));
    return STATUS_OK;
}
