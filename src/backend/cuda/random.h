/* Random numbers on the device: twins of base/rng.c and base/philox.c, bit for bit. */
#ifndef BACKEND_CUDA_RANDOM_H
#define BACKEND_CUDA_RANDOM_H

#include <stdint.h>

static __device__ __forceinline__ uint64_t rng_mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static __device__ __forceinline__ uint64_t rng_key(uint64_t parent, uint64_t word) {
    return rng_mix(rng_mix(parent) ^ word);
}

/* Four uniform numbers: those of elements 4 index to 4 index + 3. */
static __device__ __forceinline__ void rng_uniforms4(uint64_t key, uint64_t index, float out[4]) {
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k0;
        c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)q;
        c[3] = (uint32_t)p;
    }
    for (int k = 0; k < 4; k++) out[k] = (float)(int32_t)(c[k] >> 8) * 0x1p-24f;
}

static __device__ float rng_uniform(uint64_t key, uint64_t element) {
    float four[4];
    rng_uniforms4(key, element >> 2, four);
    uint32_t which = element & 3;
    return which == 0 ? four[0] : which == 1 ? four[1] : which == 2 ? four[2] : four[3];
}

#endif
