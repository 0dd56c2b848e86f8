/* Sums of products for blocks of 16 columns:
 *
 *     m[row][16] (+)= sum over blocks b and depth d of  v(b, row, d) * u[b][d][16]
 *
 * Blocks of v and u lie v_step and u_step floats apart. Rows of v are [row][16], with a depth of at
 * most 16; turned they are [d][16], of any depth, and there are 16 rows. */
#ifndef BACKEND_CPU_PRODUCT_H
#define BACKEND_CPU_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

enum { CPU_PRODUCT_WIDE = 16 };
struct cpu_product {
    const float *v, *u;
    float *m;
    int64_t v_step, u_step;
    int blocks, depth, rows;
    bool turned, fresh; /* fresh: m is written, not added to */
};
typedef void cpu_product_loop(const struct cpu_product *product);
/* Local. The one for the instruction set that oneDNN uses. */
cpu_product_loop *cpu_product_of(void);

#endif
