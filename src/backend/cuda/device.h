/* What the kernels share: reading and writing elements, sums over a block in a fixed order, random
 * numbers. Device code, included by .cu files alone.
 *
 * Blocks of rows have ROW_THREADS threads. Everything is built without contraction of multiply and
 * add (-fmad=false), so that a formula of ours has the bits it has in C. */
#ifndef BACKEND_CUDA_DEVICE_H
#define BACKEND_CUDA_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/args_rows.h"

#define KERNEL_OF(name, type) extern "C" __global__ void stretto_##name(const type a)

enum { ROW_THREADS = 128 };

static __device__ __forceinline__ float get(const cuda_reals &r, int64_t i) {
    if (r.dtype == DTYPE_F32) return ((const float *)r.data)[i];
    if (r.dtype == DTYPE_BF16) return __bfloat162float(((const __nv_bfloat16 *)r.data)[i]);
    return __half2float(((const __half *)r.data)[i]);
}

static __device__ __forceinline__ void put(const cuda_reals &r, int64_t i, float value) {
    if (r.dtype == DTYPE_F32)
        ((float *)r.data)[i] = value;
    else if (r.dtype == DTYPE_BF16)
        ((__nv_bfloat16 *)r.data)[i] = __float2bfloat16_rn(value);
    else
        ((__half *)r.data)[i] = __float2half_rn(value);
}

/* for (int64_t i ...) over `count` elements, all threads of the grid together. */
#define EACH(i, count)                                                                             \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                  \
         i += (int64_t)gridDim.x * blockDim.x)
/* Rows dealt to blocks, their columns to threads. */
#define EACH_ROW(r, rows) for (int64_t r = blockIdx.x; r < (rows); r += gridDim.x)
#define EACH_COLUMN(c, columns) for (int64_t c = threadIdx.x; c < (columns); c += ROW_THREADS)

/* --- over a block of ROW_THREADS: the same pairs in the same order every time --- */

template <class T> static __device__ T block_sum(T value) {
    __shared__ T shared[ROW_THREADS];
    __syncthreads(); /* the last one's readers are done */
    shared[threadIdx.x] = value;
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}

/* NaN is passed over, as by a comparison. */
static __device__ float block_max(float value) {
    __shared__ float shared[ROW_THREADS];
    __syncthreads();
    shared[threadIdx.x] = value;
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float other = shared[threadIdx.x + half];
            if (other > shared[threadIdx.x]) shared[threadIdx.x] = other;
        }
    }
    __syncthreads();
    return shared[0];
}

/* --- functions; twins in op/activation.c --- */

static __device__ __forceinline__ float gelu(float x) {
    return x * 0.5f * (1 + erff(x * 0.70710678118654752440f));
}

static __device__ __forceinline__ float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
}

static __device__ __forceinline__ float activate(int function, float x) {
    switch (function) {
    case CUDA_RELU: return x < 0 ? 0 : x; /* NaN stays NaN */
    case CUDA_GELU: return gelu(x);
    case CUDA_GELU_TANH: return gelu_tanh(x);
    case CUDA_TANH: return tanhf(x);
    default: return x;
    }
}

/* --- random numbers; twins in base/rng.c and base/philox.c --- */

static __device__ __forceinline__ uint64_t rng_mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static __device__ __forceinline__ uint64_t rng_key(uint64_t parent, uint64_t word) {
    return rng_mix(rng_mix(parent) ^ word);
}

static __device__ float rng_uniform(uint64_t key, uint64_t element) {
    uint64_t index = element >> 2;
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k0;
        c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)q;
        c[3] = (uint32_t)p;
    }
    uint32_t which = element & 3, word = which == 0   ? c[0]
                                         : which == 1 ? c[1]
                                         : which == 2 ? c[2]
                                                      : c[3];
    return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

/* --- where the elements of planes are --- */

static __device__ __forceinline__ int64_t channel_of(const cuda_planes &p, int64_t i) {
    return p.last ? i % p.channels : i / p.plane % p.channels;
}

/* Row r (sample times plane) of channel c. */
static __device__ __forceinline__ int64_t plane_at(const cuda_planes &p, int64_t r, int64_t c) {
    if (p.last) return r * p.channels + c;
    return (r / p.plane * p.channels + c) * p.plane + r % p.plane;
}

#endif
