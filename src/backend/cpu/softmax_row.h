/* Rows of attention's softmax, in vectors of the instruction set. All local. */
#ifndef BACKEND_CPU_SOFTMAX_ROW_H
#define BACKEND_CPU_SOFTMAX_ROW_H

#include <stdint.h>

enum { SOFTMAX_WIDE = 16 };

struct softmax_rows {
    /* p[count] and s[count] become the softmax of scale * s over the keys that the mask allows
     * (NULL: all); s may be written up to the next multiple of SOFTMAX_WIDE. A row with nothing
     * allowed becomes zero; one with all its scores at -infinity becomes NaN, as any softmax of
     * such a row. */
    void (*row)(float *s, int64_t count, float scale, const int32_t *mask, float *p);
    /* dp becomes scale * p * (dp - sum of dp * p). */
    void (*bwd)(const float *p, int64_t count, float scale, float *dp);
    /* y[i * y_step] = the dot product of row i of x, x_step apart, with z, over `depth`. */
    void (*dots)(const float *x, int64_t x_step, const float *z, int64_t depth, int64_t rows,
                 float *y, int64_t y_step);
};

/* Those of the instruction set that oneDNN uses. */
const struct softmax_rows *softmax_rows(void);
/* Those of any: they write nothing behind `count`, and p may be s. */
extern const struct softmax_rows softmax_rows_any;

#endif
