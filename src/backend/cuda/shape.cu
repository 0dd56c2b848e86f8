/* Moving elements between layouts, and sums of columns. Twins: op/shape.c; the sums also make the
 * gradients of biases (op/linear.c, op/convolution.c). */
#include "backend/cuda/device.h"

/* Where element `i` is on both sides. Division of 32 bits is many times as fast as of 64. */
template <class I>
static __device__ __forceinline__ void find(const cuda_copy &a, I i, int64_t *from, int64_t *to) {
    *from = *to = 0;
    for (int d = a.rank - 1; d > 0; d--) {
        I dim = (I)a.dim[d], rest = i / dim, at = i - rest * dim;
        i = rest;
        *from += at * a.from_step[d];
        *to += at * a.to_step[d];
    }
    if (a.rank > 0) *from += i * a.from_step[0], *to += i * a.to_step[0];
}

template <class I>
static __device__ __forceinline__ void copy_wide(const cuda_copy &a) {
    EACH8(i, a.count) {
        float v[WIDE];
        int64_t from, to;
        find<I>(a, (I)i, &from, &to);
        get8(a.from, from, v);
        put8(a.to, to, v);
    }
}

template <class I>
static __device__ __forceinline__ void copy_each(const cuda_copy &a) {
    EACH(i, a.count) {
        int64_t from, to;
        find<I>(a, (I)i, &from, &to);
        put(a.to, to, get(a.from, from));
    }
}

/* `wide`: rows of both sides lie together, in whole groups of eight that begin at multiples of 16
 * bytes. */
KERNEL_OF(copy, cuda_copy) {
    bool small = a.count <= INT32_MAX;
    if (a.wide)
        small ? copy_wide<uint32_t>(a) : copy_wide<int64_t>(a);
    else
        small ? copy_each<uint32_t>(a) : copy_each<int64_t>(a);
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

/* Columns in whole groups of eight: a thread has one group and takes rows in turn, several threads of a
 * block the same group. blockIdx.y counts pieces of 256 groups. */
KERNEL_OF(column_sums_wide, cuda_column_sums) {
    __shared__ double sums[256][WIDE];
    int64_t first = (int64_t)blockIdx.y * 256, groups = a.columns / WIDE - first;
    if (groups > 256) groups = 256;
    int together = (int)(256 / groups), row = (int)(threadIdx.x / groups);
    int64_t column = (first + threadIdx.x % groups) * WIDE;
    int64_t begin = (int64_t)blockIdx.x * a.chunk_rows;
    int64_t end = begin + a.chunk_rows < a.rows ? begin + a.chunk_rows : a.rows;
    double s[WIDE] = {0};
    for (int64_t r = begin + row; r < end && row < together; r += together) {
        float x[WIDE];
        get8(a.x, r * a.columns + column, x);
        for (int k = 0; k < WIDE; k++) s[k] += x[k];
    }
    for (int k = 0; k < WIDE; k++) sums[threadIdx.x][k] = s[k];
    __syncthreads();
    for (int64_t c = threadIdx.x; c < groups * WIDE; c += 256) {
        double sum = 0;
        for (int r = 0; r < together; r++) sum += sums[r * groups + c / WIDE][c % WIDE];
        a.partial[(int64_t)blockIdx.x * a.columns + first * WIDE + c] = sum;
    }
}

/* The same blocks as above: eight threads a column take the chunks in turn. */
KERNEL_OF(column_sums_end, cuda_column_sums) {
    __shared__ double sums[8][33];
    int64_t c = (int64_t)blockIdx.x * 32 + threadIdx.x;
    double sum = 0;
    if (c < a.columns)
        for (int64_t k = threadIdx.y; k < a.chunks; k += 8) sum += a.partial[k * a.columns + c];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || c >= a.columns) return;
    for (int k = 1; k < 8; k++) sum += sums[k][threadIdx.x];
    put(a.y, c, (float)sum);
}
