/* Moving elements: sums over the batch in a loop of our own, transposes as oneDNN reorders between
 * strided views. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/clones.h"

VECTOR_CLONES static void sum_rows(const float *x, int64_t rows, int64_t step, int64_t count,
                                   float *y) {
    memset(y, 0, (size_t)count * sizeof *y);
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] += x[r * step + i];
}

enum { SUM_COLUMNS = 1024 };

static void run_sum_batch(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    const float *x = in[0];
    float *y = out[0];
    int64_t columns = kernel->columns;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < columns; at += SUM_COLUMNS) {
        int64_t count = columns - at < SUM_COLUMNS ? columns - at : SUM_COLUMNS;
        sum_rows(x + at, kernel->rows, columns, count, y + at);
    }
}

enum status cpu_sum_batch(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct shape *x = &kernel->call.in[0].shape;
    kernel->rows = x->dim[0];
    kernel->columns = shape_span(x, 1, x->rank);
    cpu_step_loop(kernel, run_sum_batch);
    cpu_name(kernel, "loop:sum");
    return STATUS_OK;
}

enum status cpu_transpose(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    const struct shape *x = &kernel->call.in[0].shape, *y = &kernel->call.out[0].shape;
    enum dtype dtype = kernel->call.in[0].dtype;
    if (dtype != kernel->call.out[0].dtype || x->rank == 0) return STATUS_NO;
    int64_t stride[SHAPE_MAX_RANK];
    for (int i = 0; i < y->rank; i++)
        stride[i] = shape_span(x, kernel->call.attrs.transpose.order[i] + 1, x->rank);
    struct dnn_spec spec = {.kind = DNN_REORDER};
    spec.src = dnn_md_new(dtype, y->rank, y->dim, stride);
    spec.dst = dnn_md_new(dtype, y->rank, y->dim, NULL);
    struct cpu_bind bind[] = {{DNNL_ARG_FROM, CPU_IN, 0, 0}, {DNNL_ARG_TO, CPU_OUT, 0, 0}};
    enum status status = cpu_step(kernel, &spec, 2, bind);
    dnn_spec_free(&spec);
    return status;
}
