/* Many blocks are made in vectors by hand, a block in a lane of 64 bits. Each word of it is the
 * lower half of a lane: the product of two lower halves is one instruction, and what is left in the
 * upper halves reaches no result. Rejected: a loop over philox_block for the compiler to turn into
 * vectors, which makes several instructions of each product and is 4 times slower. */
#include "base/philox.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 10 };
#define UNROLLED _Pragma("GCC unroll 10")
static const uint32_t factor0 = 0xD2511F53u, factor1 = 0xCD9E8D57u, /* of words 0 and 2 */
    raise0 = 0x9E3779B9u, raise1 = 0xBB67AE85u;                     /* of the key, each round */

void philox_block(uint64_t key, uint64_t index, uint32_t out[4]) {
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ROUNDS; round++, k0 += raise0, k1 += raise1) {
        uint64_t a = (uint64_t)factor0 * c0, b = (uint64_t)factor1 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Whole vectors of blocks; returns how many blocks that were. */
typedef int64_t make_blocks(uint64_t key, uint64_t first, int64_t count, int words, uint32_t *out);

#if defined(__x86_64__)
/* Vectors that are made together, as many as the registers hold: while one waits for its products,
 * another does not. With AVX2 there is no room for a second one's. */
enum { TOGETHER_512 = 4 };
#define EACH_VECTOR(v) _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

AVX512 INLINE void store_512(const __m512i c[4], int words, uint32_t *out) {
    const __m512i low = _mm512_set1_epi64(UINT32_MAX),
                  left = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0),
                  right = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    __m512i head = _mm512_or_si512(_mm512_and_si512(c[0], low), _mm512_slli_epi64(c[1], 32)),
            tail = _mm512_or_si512(_mm512_and_si512(c[2], low), _mm512_slli_epi64(c[3], 32));
    if (words == 2) {
        _mm512_storeu_si512(out, head);
        return;
    }
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(head, left, tail));
    _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi64(head, right, tail));
}

AVX512 INLINE int64_t loop_512(uint64_t key, uint64_t first, int64_t count, int words,
                               const int vectors, uint32_t *out) {
    enum { LANES = 8 };
    const __m512i iota = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), f0 = _mm512_set1_epi64(factor0),
                  f1 = _mm512_set1_epi64(factor1), zero = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + vectors * LANES <= count; i += vectors * LANES) {
        __m512i c[TOGETHER_512][4];
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        EACH_VECTOR(v) {
            c[v][0] = _mm512_add_epi64(iota, _mm512_set1_epi64((int64_t)first + i + v * LANES));
            c[v][1] = _mm512_srli_epi64(c[v][0], 32), c[v][2] = c[v][3] = zero;
        }
        UNROLLED
        for (int round = 0; round < ROUNDS; round++, k0 += raise0, k1 += raise1) {
            EACH_VECTOR(v) {
                __m512i a = _mm512_mul_epu32(f0, c[v][0]), b = _mm512_mul_epu32(f1, c[v][2]);
                c[v][0] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(b, 32), c[v][1]),
                                           _mm512_set1_epi64(k0));
                c[v][2] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(a, 32), c[v][3]),
                                           _mm512_set1_epi64(k1));
                c[v][1] = b, c[v][3] = a;
            }
        }
        EACH_VECTOR(v) store_512(c[v], words, out + (i + v * LANES) * words);
    }
    return i;
}

AVX512 static int64_t make_512(uint64_t key, uint64_t first, int64_t count, int words,
                               uint32_t *out) {
    int64_t i = loop_512(key, first, count, words, TOGETHER_512, out);
    return i + loop_512(key, first + (uint64_t)i, count - i, words, 1, out + i * words);
}

__attribute__((target("avx2"))) static int64_t make_256(uint64_t key, uint64_t first, int64_t count,
                                                        int words, uint32_t *out) {
    enum { LANES = 4 };
    const __m256i iota = _mm256_set_epi64x(3, 2, 1, 0), f0 = _mm256_set1_epi64x(factor0),
                  f1 = _mm256_set1_epi64x(factor1), low = _mm256_set1_epi64x(UINT32_MAX);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES, out += LANES * words) {
        __m256i c0 = _mm256_add_epi64(iota, _mm256_set1_epi64x((int64_t)first + i)),
                c1 = _mm256_srli_epi64(c0, 32), c2 = _mm256_setzero_si256(), c3 = c2;
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        UNROLLED
        for (int round = 0; round < ROUNDS; round++, k0 += raise0, k1 += raise1) {
            __m256i a = _mm256_mul_epu32(f0, c0), b = _mm256_mul_epu32(f1, c2);
            c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), c1),
                                  _mm256_set1_epi64x(k0));
            c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), c3),
                                  _mm256_set1_epi64x(k1));
            c1 = b;
            c3 = a;
        }
        __m256i head = _mm256_or_si256(_mm256_and_si256(c0, low), _mm256_slli_epi64(c1, 32)),
                tail = _mm256_or_si256(_mm256_and_si256(c2, low), _mm256_slli_epi64(c3, 32));
        if (words == 2) {
            _mm256_storeu_si256((__m256i *)out, head);
            continue;
        }
        __m256i even = _mm256_unpacklo_epi64(head, tail), odd = _mm256_unpackhi_epi64(head, tail);
        _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256((__m256i *)out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
    }
    return i;
}

static make_blocks *vectors(void) {
    if (__builtin_cpu_supports("avx512f")) return make_512;
    return __builtin_cpu_supports("avx2") ? make_256 : NULL;
}
#else
static make_blocks *vectors(void) {
    return NULL;
}
#endif

void philox_blocks(uint64_t key, uint64_t first, int64_t count, int words, uint32_t *out) {
    make_blocks *make = vectors();
    for (int64_t i = make ? make(key, first, count, words, out) : 0; i < count; i++) {
        uint32_t block[4];
        philox_block(key, first + (uint64_t)i, block);
        memcpy(out + i * words, block, (size_t)words * sizeof *out);
    }
}
