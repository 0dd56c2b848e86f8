/* Weights [O,I] rounded to bf16 in oneDNN's blocks: P pairs of inputs, each with N outputs,
 * [P][N][2]. Its own reorders of these go element by element, and take longer than the optimizer.
 *
 * They come from f32 blocks [K][N], as gradients have them, or from rows. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/clones.h"

/* How both sides lie. */
struct weights {
    int64_t outputs, inputs;       /* of the tensor */
    int64_t block, pairs;          /* N, P */
    int64_t blocks[2], step[2];    /* of the rounded ones: outputs, inputs; elements between two */
    int64_t from_inputs, from_pad; /* K, 0: rows; inputs with their padding */
    int64_t from_step[2];
};

static inline uint32_t rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t even = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : even;
}

/* Two inputs of a block of outputs, NULL: zeros. */
VECTOR_CLONES static void pair_up(const float *restrict first, const float *restrict second,
                                  int64_t count, uint32_t *restrict to) {
    if (second)
#pragma omp simd
        for (int64_t a = 0; a < count; a++) to[a] = rounded(first[a]) | rounded(second[a]) << 16;
    else if (first)
#pragma omp simd
        for (int64_t a = 0; a < count; a++) to[a] = rounded(first[a]);
    else
        memset(to, 0, (size_t)count * sizeof *to);
}

static const float *input_of(const struct weights *w, const float *from, int64_t block, int64_t i) {
    if (i >= w->from_pad) return NULL;
    return from + block * w->from_step[0] + i / w->from_inputs * w->from_step[1] +
           i % w->from_inputs * w->block;
}

static void from_blocks(const struct weights *w, const float *from, int64_t o, int64_t i,
                        uint32_t *to) {
    for (int64_t p = 0; p < w->pairs; p++) {
        int64_t input = 2 * (i * w->pairs + p);
        pair_up(input_of(w, from, o, input), input_of(w, from, o, input + 1), w->block,
                to + p * w->block);
    }
}

/* One output's inputs, to every N-th pair. */
static void from_row(const float *from, int64_t inputs, const struct weights *w, uint32_t *to) {
    for (int64_t p = 0; p < w->pairs; p++, from += 2, inputs -= 2)
        to[p * w->block] = inputs > 1    ? rounded(from[0]) | rounded(from[1]) << 16
                           : inputs == 1 ? rounded(from[0])
                                         : 0;
}

static void from_rows(const struct weights *w, const float *from, int64_t o, int64_t i,
                      uint32_t *to) {
    int64_t input = 2 * i * w->pairs;
    for (int64_t a = 0; a < w->block; a++) {
        int64_t output = o * w->block + a;
        bool there = output < w->outputs;
        from_row(there ? from + output * w->inputs + input : NULL, there ? w->inputs - input : 0, w,
                 to + a);
    }
}

/* Is `to` of such blocks, and `from` of one of the two forms? */
static bool weights_of(const struct layout *from, const struct layout *to, struct weights *out) {
    struct dnn_blocks f, t;
    if (from->type.dtype != DTYPE_F32 || to->type.dtype != DTYPE_BF16) return false;
    if (to->type.shape.rank != 2 || !dnn_md_blocks(cpu_md(from), &f) ||
        !dnn_md_blocks(cpu_md(to), &t) || f.rank != 2 || t.rank != 2)
        return false;
    if (t.inner_count != 3 || t.inner_dim[0] != 1 || t.inner_dim[1] != 0 || t.inner_dim[2] != 1 ||
        t.inner_size[2] != 2)
        return false;
    struct weights w = {.outputs = t.dim[0], .inputs = t.dim[1]};
    w.pairs = t.inner_size[0], w.block = t.inner_size[1];
    w.blocks[0] = t.padded[0] / w.block, w.blocks[1] = t.padded[1] / (2 * w.pairs);
    memcpy(w.step, t.stride, sizeof w.step);
    *out = w;
    if (from->plain) return true;
    if (f.inner_count != 2 || f.inner_dim[0] != 1 || f.inner_dim[1] != 0 ||
        f.inner_size[1] != w.block)
        return false;
    out->from_inputs = f.inner_size[0], out->from_pad = f.padded[1];
    memcpy(out->from_step, f.stride, sizeof out->from_step);
    return true;
}

static void run_round(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                      void *scratch) {
    (void)scratch;
    struct weights w;
    weights_of(kernel->base.in[0], kernel->base.out[0], &w);
    const float *from = in[0];
    uint16_t *to = out[0];
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t o = 0; o < w.blocks[0]; o++)
        for (int64_t i = 0; i < w.blocks[1]; i++) {
            uint32_t *block = (uint32_t *)(to + o * w.step[0] + i * w.step[1]);
            if (w.from_inputs)
                from_blocks(&w, from, o, i, block);
            else
                from_rows(&w, from, o, i, block);
        }
}

enum status cpu_round_weights(struct cpu_kernel *kernel, const struct layout *const in[]) {
    struct weights w;
    (void)in;
    if (!weights_of(kernel->base.in[0], kernel->base.out[0], &w)) return STATUS_NO;
    cpu_step_loop(kernel, run_round);
    cpu_name(kernel, "loop:round");
    return STATUS_OK;
}
