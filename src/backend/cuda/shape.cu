/* Moving elements between layouts, and sums of columns. Twins: op/shape.c; the sums also make the
 * gradients of biases (op/linear.c, op/convolution.c). */
#include "backend/cuda/device.h"

KERNEL_OF(copy, cuda_copy) {
    EACH(i, a.count) {
        int64_t rest = i, from = 0, to = 0;
        for (int d = a.rank - 1; d >= 0; d--) {
            int64_t at = rest % a.dim[d];
            rest /= a.dim[d];
            from += at * a.from_step[d];
            to += at * a.to_step[d];
        }
        put(a.to, to, get(a.from, from));
    }
}

/* Blocks of 32 columns by 8 rows; the eight are added in order. */
KERNEL_OF(column_sums, cuda_column_sums) {
    __shared__ double sums[8][33];
    int64_t c = (int64_t)blockIdx.x * 32 + threadIdx.x, begin = (int64_t)blockIdx.y * a.chunk_rows;
    int64_t end = begin + a.chunk_rows < a.rows ? begin + a.chunk_rows : a.rows;
    double sum = 0;
    if (c < a.columns)
        for (int64_t r = begin + threadIdx.y; r < end; r += 8) sum += get(a.x, r * a.columns + c);
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || c >= a.columns) return;
    for (int k = 1; k < 8; k++) sum += sums[k][threadIdx.x];
    a.partial[blockIdx.y * a.columns + c] = sum;
}

KERNEL_OF(column_sums_end, cuda_column_sums) {
    EACH(c, a.columns) {
        double sum = 0;
        for (int64_t k = 0; k < a.chunks; k++) sum += a.partial[k * a.columns + c];
        put(a.y, c, (float)sum);
    }
}
