/* Keyed draws: normals against the C library's functions, and in any pieces the same. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/philox.h"
#include "base/rng.h"

enum { COUNT = 200000 };
static float normals[COUNT], pieces[COUNT];

static double by_the_library(uint64_t key, uint64_t index) {
    uint32_t word[4];
    rng_block(key, index, word);
    double u = ((double)word[0] + 0.5) * 0x1p-32, v = (double)word[1] * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586477 * v);
}

/* The first values of the authors' known answers. */
Test(base_rng, blocks_are_philox) {
    static const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t block[4];
    rng_block(0, 0, block);
    cr_assert_arr_eq(block, zero, sizeof zero);
}

/* Vectors of blocks, and what is left over, also where the index outgrows a word. */
Test(base_rng, words_are_those_of_each_block) {
    enum { MOST = 53 }; /* several vectors, one, and less than one */
    uint64_t key = rng_key(1, 2), first = (UINT64_C(3) << 32) - 11;
    uint32_t words[4 * MOST + 1], pairs[2 * MOST + 1], block[4];
    for (int count = 0; count <= MOST; count++) {
        words[4 * count] = pairs[2 * count] = 7;
        rng_words(key, first, count, words);
        philox_blocks(key, first, count, 2, pairs);
        for (int i = 0; i < count; i++) {
            rng_block(key, first + (uint64_t)i, block);
            cr_assert_arr_eq(words + 4 * i, block, sizeof block, "block %d of %d", i, count);
            cr_assert_arr_eq(pairs + 2 * i, block, sizeof block / 2, "pair %d of %d", i, count);
        }
        cr_assert(words[4 * count] == 7 && pairs[2 * count] == 7, "%d: beyond the end", count);
    }
}

Test(base_rng, uniforms_are_those_of_each_element) {
    uint64_t key = rng_key(3, 4);
    for (uint64_t first = 0; first < 5; first++) {
        rng_uniforms(key, first, 1100, pieces);
        for (int i = 0; i < 1100; i++)
            cr_assert_float_eq(pieces[i], rng_uniform(key, first + (uint64_t)i), 0,
                               "element %d from %d on", i, (int)first);
    }
}

Test(base_rng, normals_are_box_muller) {
    rng_normals(7, 0, COUNT, normals);
    for (int i = 0; i < COUNT; i++) {
        double want = by_the_library(7, (uint64_t)i);
        cr_assert_float_eq(normals[i], want, 1e-7 * fabs(want) + 1e-14, "%d: %.9g, not %.9g", i,
                           normals[i], want);
    }
}

Test(base_rng, normals_do_not_depend_on_their_neighbours) {
    rng_normals(7, 5, COUNT, normals);
    for (int64_t at = 0, length = 1; at < COUNT; at += length, length = 1 + (7 * length) % 300)
        rng_normals(7, (uint64_t)(5 + at), at + length < COUNT ? length : COUNT - at, pieces + at);
    cr_expect_arr_eq(normals, pieces, sizeof normals);
    for (int i = 0; i < COUNT; i += 997) cr_expect_eq(rng_normal(7, (uint64_t)(5 + i)), normals[i]);
}

Test(base_rng, normals_have_the_moments_of_the_standard_normal) {
    double sum = 0, squares = 0, fourth = 0;
    rng_normals(11, 0, COUNT, normals);
    for (int i = 0; i < COUNT; i++) {
        double x = normals[i];
        sum += x, squares += x * x, fourth += x * x * x * x;
    }
    cr_expect_float_eq(sum / COUNT, 0, 4 / sqrt(COUNT));
    cr_expect_float_eq(squares / COUNT, 1, 4 * sqrt(2.0 / COUNT));
    cr_expect_float_eq(fourth / COUNT, 3, 4 * sqrt(96.0 / COUNT));
}
