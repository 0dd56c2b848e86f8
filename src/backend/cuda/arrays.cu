/* Arithmetic on arrays, to the bit as backend/host_arrays.c and the rules of src/optim have it. */
#include "backend/cuda/device.h"

KERNEL_OF(array_fill, cuda_fill) {
    EACH(i, a.count) put(a.to, i, a.value);
}

KERNEL_OF(array_add, cuda_array_add) {
    EACH(i, a.count) put(a.into, i, get(a.into, i) + get(a.from, i));
}

/* Sixteen threads a block of NORM_BLOCK, one for each place modulo 16, added in order. */
KERNEL_OF(array_squares, cuda_squares) {
    __shared__ double lanes[ROW_THREADS];
    int lane = threadIdx.x % 16;
    int64_t blocks = (a.count + a.block - 1) / a.block;
    int64_t of = (int64_t)blockIdx.x * (ROW_THREADS / 16) + threadIdx.x / 16;
    int64_t begin = of * a.block, end = begin + a.block < a.count ? begin + a.block : a.count;
    double sum = 0;
    for (int64_t i = begin + lane; i < end; i += 16) sum += (double)get(a.of, i) * (double)get(a.of, i);
    lanes[threadIdx.x] = sum;
    __syncthreads();
    if (lane != 0 || of >= blocks) return;
    sum = 0;
    for (int k = 0; k < 16; k++) sum += lanes[threadIdx.x + k];
    a.sums[of] = sum;
}

KERNEL_OF(array_check, cuda_check) {
    EACH(i, a.count) if (!isfinite(get(a.of, i))) *a.bad = 1;
}

KERNEL_OF(update_sgd, cuda_sgd) {
    EACH(i, a.count) {
        float g = a.gradient[i] * a.scale + a.decay * a.param[i];
        float b = a.mu * a.buffer[i] + g;
        float p = a.param[i] - a.lr * (a.direct * g + a.through * b);
        a.buffer[i] = b;
        a.param[i] = p;
        if (!isfinite(p)) *a.bad = 1;
    }
}

KERNEL_OF(update_adam, cuda_adam) {
    EACH(i, a.count) {
        float p = a.param[i] * a.shrink, g = a.gradient[i] * a.scale + a.l2 * p;
        float m = a.beta1 * a.m[i] + a.rest1 * g, v = a.beta2 * a.v[i] + a.rest2 * g * g;
        p = p - a.rate * m / (sqrtf(v) / a.root + a.epsilon);
        a.m[i] = m;
        a.v[i] = v;
        a.param[i] = p;
        if (!isfinite(p)) *a.bad = 1;
    }
}
