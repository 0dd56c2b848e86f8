/* The loops of softmax_row.c in vectors of one instruction set: a file to be included once for
 * each, with V(name) as the function of avx512.h or avx2.h and TARGET as the attribute of its
 * functions. Only softmax_row.c includes it. */

#define INLINE TARGET static inline __attribute__((always_inline))

INLINE void V(fill)(V(vector) x[GROUP], float value) {
    EACH_ROW(r, GROUP) x[r] = V(all)(value);
}

/* Which of the keys from `at` on the rows from `first` on may see; `same`: all rows the same. */
INLINE void V(allowed)(const struct softmax_block *b, int64_t first, int64_t at, const int rows,
                       const bool same, V(mask) allowed[GROUP]) {
    EACH_ROW(r, rows) {
        allowed[r] = same && r > 0 ? allowed[0] : V(left)(b->seen + (first + r) * b->more - at);
        if (b->mask && (r == 0 || !same))
            allowed[r] = V(both)(allowed[r], V(given)(b->mask + at, b->tokens - at));
    }
}

/* `rows` rows from `first` on. */
INLINE void V(group)(const struct softmax_block *b, int64_t first, const int rows,
                     const bool same) {
    float *s = b->s + first * b->s_step, *p = b->p + first * b->p_step;
    const int64_t step = b->s_step, end = b->seen + (first + rows - 1) * b->more;
    V(mask) allowed[GROUP];
    V(vector) most[GROUP], sum[GROUP], factor = V(all)(b->scale * LOG2_E);
    V(fill)(most, -INFINITY), V(fill)(sum, 0);
    bool any[GROUP] = {false};
    for (int64_t i = 0; i < end; i += WIDE) {
        V(allowed)(b, first, i, rows, same, allowed);
        EACH_ROW(r, rows) {
            any[r] |= V(any)(allowed[r]);
            most[r] = V(most)(allowed[r], most[r], V(load)(s + r * step + i));
        }
    }
    V(spread)(V(most_across)(most), most);
    EACH_ROW(r, rows) if (!any[r]) most[r] = V(all)(0);
    for (int64_t i = 0; i < end; i += WIDE) {
        V(allowed)(b, first, i, rows, same, allowed);
        EACH_ROW(r, rows) {
            V(vector) x = V(sub)(V(load)(s + r * step + i), most[r]);
            x = V(kept)(allowed[r], V(power)(V(mul)(factor, x)));
            sum[r] = V(add)(sum[r], x);
            V(store)(s + r * step + i, x);
        }
    }
    V(spread)(V(div)(V(all)(1.0f), V(sum_across)(sum)), sum);
    EACH_ROW(r, rows) if (!any[r]) sum[r] = V(all)(0);
    int64_t i = 0;
    for (; i < end; i += WIDE) EACH_ROW(r, rows)
    V(store_left)(p + r * b->p_step + i, b->tokens - i, V(mul)(V(load)(s + r * step + i), sum[r]));
    for (; i < b->tokens; i += WIDE) EACH_ROW(r, rows)
    V(store_left)(p + r * b->p_step + i, b->tokens - i, V(all)(0));
}

INLINE void V(bwd_group)(const struct softmax_block *b, int64_t first, const int rows) {
    float *s = b->s + first * b->s_step;
    const float *p = b->p + first * b->p_step;
    const int64_t step = b->s_step, p_step = b->p_step, seen = b->seen;
    V(vector) sum[GROUP], factor = V(all)(b->scale);
    V(fill)(sum, 0);
    for (int64_t i = 0; i < seen; i += WIDE) EACH_ROW(r, rows)
    sum[r] = V(fma)(V(load_left)(p + r * p_step + i, seen - i),
                    V(load_left)(s + r * step + i, seen - i), sum[r]);
    V(spread)(V(sum_across)(sum), sum);
    for (int64_t i = 0; i < seen; i += WIDE) EACH_ROW(r, rows) {
            V(vector) share = V(mul)(factor, V(load_left)(p + r * p_step + i, seen - i));
            V(vector) off = V(sub)(V(load)(s + r * step + i), sum[r]);
            V(store)(s + r * step + i, V(mul)(share, off));
        }
}

INLINE void V(dots_group)(const float *x, int64_t x_step, const float *z, int64_t depth,
                          const int rows, float *y, int64_t y_step) {
    V(vector) sum[GROUP];
    float sums[GROUP];
    V(fill)(sum, 0);
    for (int64_t i = 0; i < depth; i += WIDE) {
        V(vector) by = V(load_left)(z + i, depth - i);
        EACH_ROW(r, rows)
        sum[r] = V(fma)(V(load_left)(x + r * x_step + i, depth - i), by, sum[r]);
    }
    _mm_storeu_ps(sums, V(quarter)(V(sum_across)(sum)));
    EACH_ROW(r, rows) y[r * y_step] = sums[r];
}

TARGET static void V(forward)(const struct softmax_block *b) {
#define SAME(at, rows) V(group)(b, at, rows, true)
#define MORE(at, rows) V(group)(b, at, rows, false)
    if (b->more == 0)
        BY_GROUPS(b->rows, SAME);
    else
        BY_GROUPS(b->rows, MORE);
}

TARGET static void V(backward)(const struct softmax_block *b) {
#define BACKWARD(at, rows) V(bwd_group)(b, at, rows)
    BY_GROUPS(b->rows, BACKWARD);
}

TARGET static void V(dots)(const float *x, int64_t x_step, const float *z, int64_t depth,
                           int64_t rows, float *y, int64_t y_step) {
#define DOTS(at, rows)                                                                             \
    V(dots_group)(x + (at)*x_step, x_step, z, depth, rows, y + (at)*y_step, y_step)
    BY_GROUPS(rows, DOTS);
}

#undef SAME
#undef MORE
#undef BACKWARD
#undef DOTS
#undef INLINE
