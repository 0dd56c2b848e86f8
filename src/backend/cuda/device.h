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

enum { ROW_THREADS = CUDA_ROW_THREADS };

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

/* Eight neighbours at once, 16 bytes a load: what lets a kernel reach the rate of the memory.
 * Tensors begin at multiples of 64 bytes; i is a multiple of 8. */
enum { WIDE = 8 };

static __device__ __forceinline__ void get8(const cuda_reals &r, int64_t i, float v[WIDE]) {
    if (r.dtype == DTYPE_F32) {
        const float4 *from = (const float4 *)((const float *)r.data + i);
        float4 a = from[0], b = from[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
        return;
    }
    uint4 bits = *(const uint4 *)((const uint16_t *)r.data + i);
    const uint32_t pairs[4] = {bits.x, bits.y, bits.z, bits.w};
    for (int k = 0; k < 4; k++) {
        float2 two;
        if (r.dtype == DTYPE_BF16)
            two = __bfloat1622float2(*(const __nv_bfloat162 *)&pairs[k]);
        else
            two = __half22float2(*(const __half2 *)&pairs[k]);
        v[2 * k] = two.x, v[2 * k + 1] = two.y;
    }
}

static __device__ __forceinline__ void put8(const cuda_reals &r, int64_t i, const float v[WIDE]) {
    if (r.dtype == DTYPE_F32) {
        float4 *to = (float4 *)((float *)r.data + i);
        to[0] = make_float4(v[0], v[1], v[2], v[3]);
        to[1] = make_float4(v[4], v[5], v[6], v[7]);
        return;
    }
    uint32_t pairs[4];
    for (int k = 0; k < 4; k++) {
        if (r.dtype == DTYPE_BF16)
            *(__nv_bfloat162 *)&pairs[k] = __floats2bfloat162_rn(v[2 * k], v[2 * k + 1]);
        else
            *(__half2 *)&pairs[k] = __floats2half2_rn(v[2 * k], v[2 * k + 1]);
    }
    *(uint4 *)((uint16_t *)r.data + i) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/* Over whole groups of eight; what is left behind them is EACH_REST. */
#define EACH8(i, count)                                                                            \
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDE; i + WIDE <= (count); \
         i += (int64_t)gridDim.x * blockDim.x * WIDE)
#define EACH_REST(i, count)                                                                        \
    for (int64_t i = (count) / WIDE * WIDE + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;       \
         i < (count); i += (int64_t)gridDim.x * blockDim.x)

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

/* Rows dealt to warps, their columns to lanes: short rows do not wait for a block. */
#define EACH_WARP_ROW(r, rows)                                                                     \
    for (int64_t r = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32; r < (rows);            \
         r += (int64_t)gridDim.x * blockDim.x / 32)
#define EACH_LANE(c, columns) for (int64_t c = threadIdx.x % 32; c < (columns); c += 32)

static __device__ __forceinline__ float warp_sum(float value) {
    for (int away = 16; away > 0; away /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, away);
    return value;
}

static __device__ __forceinline__ float warp_max(float value) {
    for (int away = 16; away > 0; away /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, value, away);
        value = other > value ? other : value;
    }
    return value;
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

static __device__ __forceinline__ float value_relu(float x) {
    return x < 0 ? 0 : x; /* NaN stays NaN */
}

static __device__ __forceinline__ float value_gelu(float x) {
    return x * 0.5f * (1 + erff(x * 0.70710678118654752440f));
}

static __device__ __forceinline__ float value_gelu_tanh(float x) {
    return 0.5f * x * (1 + tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x)));
}

static __device__ __forceinline__ float value_tanh(float x) {
    return tanhf(x);
}

static __device__ __forceinline__ float value_silu(float x) {
    return x / (1 + expf(-x));
}

static __device__ __forceinline__ float activate(int activation, float x) {
    switch (activation) {
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc)                                                                \
    case ACTIVATION_##NAME:                                                                        \
        return value_##name(x);
#include "op/op.def"
#undef OP
    default: return x;
    }
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
