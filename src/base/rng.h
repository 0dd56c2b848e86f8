/* Random numbers that depend on what they are for, never on who draws them.
 *
 * rng_key() folds any number of identifying words (seed, step, sample, place ...) into a 64-bit
 * key; rng_word() is a counter-based generator (Philox 4x32, 10 rounds) addressed by (key, index):
 * any element can be drawn alone, in any order, on any rank. struct mt19937 is the classic
 * generator, kept only because torch's permutations are made with it. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

/* Local. A key from a parent key and one more word; chain calls to add words. */
uint64_t rng_key(uint64_t parent, uint64_t word);
/* Local. A key from a parent key and a name. */
uint64_t rng_key_text(uint64_t parent, const char *text);

/* Local. Four random words for block `index` of stream `key`. */
void rng_block(uint64_t key, uint64_t index, uint32_t out[4]);
/* Local. The same for `count` blocks from `first` on, in vector code: `out` has 4 * count words. */
void rng_words(uint64_t key, uint64_t first, int64_t count, uint32_t *out);

/* Local. Element `index` of stream `key`: 32 random bits; uniform in [0,1) with 24 bits; standard
 * normal. */
uint32_t rng_word(uint64_t key, uint64_t index);
float rng_uniform(uint64_t key, uint64_t index);
float rng_normal(uint64_t key, uint64_t index);
/* Local. The same of elements first, first + 1, ..., several times as fast each. */
void rng_uniforms(uint64_t key, uint64_t first, int64_t count, float *out);
void rng_normals(uint64_t key, uint64_t first, int64_t count, float *out);

struct mt19937 {
    uint32_t state[624];
    int next;
};
/* Local. Seeded as torch seeds it: the low 32 bits of the seed. */
void mt19937_seed(struct mt19937 *mt, uint64_t seed);
uint32_t mt19937_next(struct mt19937 *mt);

#endif
