/* Philox 4x32-10 (Salmon et al. 2011) for keyed draws; MT19937 (Matsumoto and Nishimura 1998) for
 * torch's permutations. Normals use Box-Muller on two words of the element's own block, so that
 * element i never depends on element i-1. */
#include "base/rng.h"

#include <math.h>

#include "base/clones.h"

/* A strong 64-bit mixer (the finaliser of splitmix64). */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t rng_key(uint64_t parent, uint64_t word) {
    return mix(mix(parent) ^ word);
}

uint64_t rng_key_text(uint64_t parent, const char *text) {
    uint64_t key = mix(parent);
    for (; *text; text++) key = mix(key ^ (unsigned char)*text);
    return key;
}

static inline void philox(uint64_t key, uint64_t index, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void rng_block(uint64_t key, uint64_t index, uint32_t out[4]) {
    philox(key, index, out);
}

VECTOR_CLONES void rng_words(uint64_t key, uint64_t first, int64_t count, uint32_t *out) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) philox(key, first + (uint64_t)i, out + 4 * i);
}

uint32_t rng_word(uint64_t key, uint64_t index) {
    uint32_t block[4];
    rng_block(key, index >> 2, block);
    return block[index & 3];
}

float rng_uniform(uint64_t key, uint64_t index) {
    return (float)(rng_word(key, index) >> 8) * 0x1p-24f;
}

float rng_normal(uint64_t key, uint64_t index) {
    uint32_t block[4];
    rng_block(key, index, block);
    double u = ((double)block[0] + 0.5) * 0x1p-32, v = (double)block[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

void mt19937_seed(struct mt19937 *mt, uint64_t seed) {
    mt->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < 624; i++) {
        uint32_t previous = mt->state[i - 1];
        mt->state[i] = 1812433253u * (previous ^ (previous >> 30)) + i;
    }
    mt->next = 624;
}

static void mt19937_refill(struct mt19937 *mt) {
    for (int i = 0; i < 624; i++) {
        uint32_t y = (mt->state[i] & 0x80000000u) | (mt->state[(i + 1) % 624] & 0x7FFFFFFFu);
        mt->state[i] = mt->state[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908B0DFu : 0);
    }
    mt->next = 0;
}

uint32_t mt19937_next(struct mt19937 *mt) {
    if (mt->next >= 624) mt19937_refill(mt);
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
}
