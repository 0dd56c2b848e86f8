/* The passes of batch norm over a tensor, for batch_norm.c. All local; they run on the team. */
#ifndef BACKEND_CPU_BATCH_NORM_LOOPS_H
#define BACKEND_CPU_BATCH_NORM_LOOPS_H

#include "backend/cpu/cpu.h"

/* A tensor chunk by chunk: one image, one channel block. A bf16 one is widened into the room of the
 * thread that reads it, and rounded from there. */
struct cpu_norm_chunks {
    enum dtype type;
    void *data;
    float *room;
    int64_t size; /* of a chunk */
};

/* The channels of all blocks. Arrays over them have zeros behind the tensor's own. */
static inline int64_t cpu_norm_padded_channels(const struct cpu_image *image) {
    return image->blocks * image->lanes;
}

/* Mean and variance of each channel. `means` is room for two arrays an image. */
void cpu_norm_moments(const struct cpu_image *image, const struct cpu_norm_chunks *x, float *means,
                      float *mean, float *var);

/* Where ReLU stopped a sum, a bit an element: a chunk's elements are rows of 16, or of all channels
 * where those come last; bit r % 32 of word c in line r / 32 is that of row r, column c. Vectors
 * are set and tested as they lie. Words of a chunk; chunks follow one another. */
int64_t cpu_norm_stop_words(const struct cpu_image *image);

/* y = a x + b, + `added` where that is not NULL; relu then leaves in `stopped`, where that is not
 * NULL, what it stopped. Padding channels get zero for a and b, so that they stay zero. */
void cpu_norm_affine_of(const struct cpu_image *image, const float *scale, const float *shift,
                        const float *mean, const float *var, float epsilon, float *a, float *b);
void cpu_norm_affine(const struct cpu_image *image, const struct cpu_norm_chunks *from,
                     const struct cpu_norm_chunks *added, const float *a, const float *b, bool relu,
                     int32_t *stopped, const struct cpu_norm_chunks *to);

/* The channels' coefficients of backward, each an array over the padded channels: a, b, then mean,
 * then what dx is made of. With g = dy where y was positive: dx = p g + q (x - mean) + r. */
enum {
    CPU_NORM_ROW_A,
    CPU_NORM_ROW_B,
    CPU_NORM_ROW_MEAN,
    CPU_NORM_ROW_P,
    CPU_NORM_ROW_Q,
    CPU_NORM_ROW_R,
    CPU_NORM_ROWS
};
struct cpu_norm_coefficients {
    const float *row[CPU_NORM_ROWS];
    bool relu;              /* positive is a x + b, or where there is `stopped` what that tells */
    const int32_t *stopped; /* NULL: there is none */
};
/* An array an image each: the sums of g and of g (x - mean). p, q and r are not read. */
void cpu_norm_backward_sums(const struct cpu_image *image, const struct cpu_norm_chunks *dys,
                            const struct cpu_norm_chunks *xs,
                            const struct cpu_norm_coefficients *all, float *sums, float *dots);
/* `rest`, where it is not NULL, becomes g. */
void cpu_norm_backward_dx(const struct cpu_image *image, const struct cpu_norm_chunks *dys,
                          const struct cpu_norm_chunks *xs, const struct cpu_norm_coefficients *all,
                          const struct cpu_norm_chunks *to, const struct cpu_norm_chunks *rest);

#endif
