/* VECTOR_CLONES before a function makes the compiler emit it for several vector widths and choose
 * at load time; its loops need "omp simd" before them, as at -O2 the compiler leaves loops of
 * unknown length scalar (tests/tree/vectors.sh looks). Without contraction of multiply and add
 * (-ffp-contract=off) an elementwise loop gives the same bits in all of them. Off under sanitizers,
 * whose start-up cannot run the choosing code. FUSED_CLONES are for loops of floats in files that
 * allow contraction: the same with the instructions for it ("avx2" has none to the compiler). */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(STRETTO_SANITIZE)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define FUSED_CLONES __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define VECTOR_CLONES
#define FUSED_CLONES
#endif

#endif
