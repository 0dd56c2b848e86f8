/* Where the windows of pooling lie, for the reference kernels and for backends alike. */
#ifndef OP_POOL_H
#define OP_POOL_H

#include "op/op.h"

/* One output's window: rows [from[0], to[0]), columns [from[1], to[1]) inside the image, and its
 * area with padding. */
struct pool_window {
    int64_t from[2], to[2], area;
};

/* Local. The window of the output pixel at `row`, `column`; `in` and `out` are height and width of
 * the image before and after. In the header, since the innermost loops ask for it. */
static inline struct pool_window pool_window(const struct op_attrs *attrs, const int64_t in[2],
                                             const int64_t out[2], int64_t row, int64_t column) {
    int64_t at[2] = {row, column};
    struct pool_window w = {.area = 1};
    for (int a = 0; a < 2; a++) {
        int64_t from = at[a] * attrs->pool.stride[a] - attrs->pool.pad[a],
                to = from + attrs->pool.kernel[a];
        if (attrs->pool.adaptive) {
            from = at[a] * in[a] / out[a];
            to = ((at[a] + 1) * in[a] + out[a] - 1) / out[a];
        }
        w.area *= to - from;
        w.from[a] = from < 0 ? 0 : from;
        w.to[a] = to > in[a] ? in[a] : to;
    }
    return w;
}

#endif
