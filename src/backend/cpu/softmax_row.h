/* Rows of attention's softmax, in vectors of the instruction set. All local. */
#ifndef BACKEND_CPU_SOFTMAX_ROW_H
#define BACKEND_CPU_SOFTMAX_ROW_H

#include <stdint.h>

enum { SOFTMAX_WIDE = 16 };

/* Rows of scores and of probabilities: row i begins at s + i * s_step and p + i * p_step, and sees
 * the keys [0, seen + i * more) of all `tokens`, those of them that the mask allows (NULL: all). */
struct softmax_block {
    float *s, *p;
    int64_t s_step, p_step, rows, seen, more, tokens;
    float scale;
    const int32_t *mask;
};

/* What is made of a row does not depend on the others. */
struct softmax_rows {
    /* p becomes the softmax of scale * s, and zero for the tokens that are not seen. s is spent,
     * and may be written up to the next multiple of SOFTMAX_WIDE. A row with nothing allowed
     * becomes zero; one with all its scores at -infinity becomes NaN, as any softmax of such a
     * row. */
    void (*forward)(const struct softmax_block *block);
    /* s, a gradient of p, becomes scale * p * (s - sum of s * p). Knows no mask: p is zero there. s
     * may be written as far as by forward. */
    void (*backward)(const struct softmax_block *block);
    /* y[i * y_step] = the dot product of row i of x, x_step apart, with z, over `depth`. */
    void (*dots)(const float *x, int64_t x_step, const float *z, int64_t depth, int64_t rows,
                 float *y, int64_t y_step);
};

/* Those of the instruction set that oneDNN uses. */
const struct softmax_rows *softmax_rows(void);
/* Those of any: they write nothing behind what a row sees, and p may be s. */
extern const struct softmax_rows softmax_rows_any;

#endif
