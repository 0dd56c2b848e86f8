/* Philox for keyed draws; MT19937 (Matsumoto and Nishimura 1998) for
 * torch's permutations. Normals use Box-Muller on two words of the element's own block, so that
 * element i never depends on element i-1. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "base/philox.h"

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

void rng_block(uint64_t key, uint64_t index, uint32_t out[4]) {
    philox_block(key, index, out);
}

void rng_words(uint64_t key, uint64_t first, int64_t count, uint32_t *out) {
    philox_blocks(key, first, count, 4, out);
}

uint32_t rng_word(uint64_t key, uint64_t index) {
    uint32_t block[4];
    rng_block(key, index >> 2, block);
    return block[index & 3];
}

static inline float uniform_of(uint32_t word) {
    return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

float rng_uniform(uint64_t key, uint64_t index) {
    return uniform_of(rng_word(key, index));
}

VECTOR_CLONES static void to_uniforms(const uint32_t *words, int64_t count, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) out[i] = uniform_of(words[i]);
}

void rng_uniforms(uint64_t key, uint64_t first, int64_t count, float *out) {
    enum { BLOCKS = 128 };
    uint32_t words[4 * BLOCKS];
    int64_t skip = first % 4; /* words of the first block that are not wanted */
    for (int64_t done = 0; done < count; skip = 0) {
        int64_t room = 4 * BLOCKS - skip, now = count - done < room ? count - done : room;
        rng_words(key, (first + (uint64_t)done) / 4, (skip + now + 3) / 4, words);
        to_uniforms(words + skip, now, out + done);
        done += now;
    }
}

/* Logarithm and cosine in plain arithmetic: a loop over them becomes vector code, and the bits do
 * not depend on the system's libm or the processor. Far closer than a float can tell. */

/* Natural logarithm of a normal number above 0: 2 atanh((m - 1) / (m + 1)) of its fraction m, in
 * [sqrt(1/2), sqrt(2)), and its exponent. */
static inline double plain_log(double x) {
    enum { FRACTION_BITS = 52, EXPONENT_BIAS = 1023 };
    static const uint64_t half_root = 0x3FE6A09E667F3BCD; /* sqrt(1/2) */
    uint64_t bits;
    double m;
    memcpy(&bits, &x, sizeof bits);
    uint64_t above = (bits - half_root) >> FRACTION_BITS; /* wraps where x is below */
    int32_t exponent = (int32_t)(uint32_t)(above << 20) >> 20;
    bits -= (uint64_t)(int64_t)exponent << FRACTION_BITS;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), q = s * s, sum = 1.0 / 19;
    sum = sum * q + 1.0 / 17;
    sum = sum * q + 1.0 / 15;
    sum = sum * q + 1.0 / 13;
    sum = sum * q + 1.0 / 11;
    sum = sum * q + 1.0 / 9;
    sum = sum * q + 1.0 / 7;
    sum = sum * q + 1.0 / 5;
    sum = sum * q + 1.0 / 3;
    return 2 * s * (sum * q + 1) + 0.693147180559945309 * (double)exponent;
}

/* Cosine of word / 2^32 of a turn: the nearest quarter is taken off exactly, then Taylor. */
static inline double turn_cos(uint32_t word) {
    uint32_t quarter = (word + (1u << 29)) >> 30;
    double x = (double)(int32_t)(word - (quarter << 30)) * (6.283185307179586477 * 0x1p-32);
    double q = x * x, even = -1.0 / 87178291200, odd = 1.0 / 6227020800;
    even = even * q + 1.0 / 479001600;
    even = even * q - 1.0 / 3628800;
    even = even * q + 1.0 / 40320;
    even = even * q - 1.0 / 720;
    even = even * q + 1.0 / 24;
    even = even * q - 0.5;
    even = even * q + 1;
    odd = odd * q - 1.0 / 39916800;
    odd = odd * q + 1.0 / 362880;
    odd = odd * q - 1.0 / 5040;
    odd = odd * q + 1.0 / 120;
    odd = odd * q - 1.0 / 6;
    odd = x * (odd * q + 1);
    double value = quarter & 1 ? odd : even;
    return (quarter + 1) & 2 ? -value : value;
}

/* Box-Muller. */
VECTOR_CLONES static void to_normals(const uint32_t *words, int64_t count, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        double u = ((double)words[2 * i] + 0.5) * 0x1p-32;
        out[i] = (float)(sqrt(-2.0 * plain_log(u)) * turn_cos(words[2 * i + 1]));
    }
}

void rng_normals(uint64_t key, uint64_t first, int64_t count, float *out) {
    enum { BLOCKS = 128 };
    uint32_t words[2 * BLOCKS];
    for (int64_t done = 0; done < count; done += BLOCKS) {
        int64_t now = count - done < BLOCKS ? count - done : BLOCKS;
        philox_blocks(key, first + (uint64_t)done, now, 2, words);
        to_normals(words, now, out + done);
    }
}

float rng_normal(uint64_t key, uint64_t index) {
    float out;
    rng_normals(key, index, 1, &out);
    return out;
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
