/* Attention between its products: the softmax of a row of scores, and its gradient; a warp a row.
 * Twin: op/attention.c. A key that mask or causality forbids has probability zero; a row that may
 * attend to nothing is all zero. Dropout's numbers are those of the twin. */
#include "backend/cuda/device.h"
#include "backend/cuda/random.h"

/* What the elements of a row have in common, so that none divides for itself. */
struct row_of {
    int64_t last;        /* token that causality allows last */
    const int32_t *mask; /* of the sample; nullptr: none */
    uint64_t stream;     /* of the sample's random numbers */
    int64_t element;     /* number of the row's first */
};

template <class A> static __device__ row_of find_row(const A &a, int64_t row) {
    int64_t sample = row / (a.heads * a.tokens), within = row % (a.heads * a.tokens);
    return row_of{a.causal ? within % a.tokens : a.tokens,
                  a.mask ? a.mask + sample * a.tokens : nullptr,
                  a.key ? rng_key(a.key[sample], a.place) : 0, within * a.tokens};
}

static __device__ __forceinline__ bool may_attend(const row_of &row, int64_t to) {
    return to <= row.last && (!row.mask || row.mask[to] != 0);
}

/* What dropout multiplies a probability with. */
template <class A>
static __device__ __forceinline__ float keep_factor(const A &a, const row_of &row, int64_t to) {
    if (!a.key) return 1;
    return rng_uniform(row.stream, (uint64_t)(row.element + to)) >= a.dropout ? 1 / (1 - a.dropout)
                                                                              : 0;
}

KERNEL_OF(attention, cuda_attention) {
    EACH_WARP_ROW(r, a.batch * a.heads * a.tokens) {
        int64_t at = r * a.tokens, wide = r * a.step;
        row_of row = find_row(a, r);
        float most = -INFINITY, sum = 0;
        EACH_LANE(to, a.tokens) {
            float s = get(a.scores, wide + to);
            if (may_attend(row, to) && s > most) most = s;
        }
        most = warp_max(most);
        EACH_LANE(to, a.tokens)
            if (may_attend(row, to)) sum += expf(get(a.scores, wide + to) - most);
        sum = warp_sum(sum);
        EACH_LANE(to, a.tokens) {
            float p = may_attend(row, to) ? expf(get(a.scores, wide + to) - most) / sum : 0;
            put(a.p, at + to, p);
            if (a.kept.data) put(a.kept, wide + to, p * keep_factor(a, row, to));
        }
    }
}

KERNEL_OF(attention_bwd, cuda_attention_bwd) {
    EACH_WARP_ROW(r, a.batch * a.heads * a.tokens) {
        int64_t at = r * a.tokens, wide = r * a.step;
        row_of row = find_row(a, r);
        float sum = 0;
        EACH_LANE(to, a.tokens)
            if (may_attend(row, to))
                sum += keep_factor(a, row, to) * get(a.dp, wide + to) * get(a.p, at + to);
        sum = warp_sum(sum);
        EACH_LANE(to, a.tokens) {
            float p = get(a.p, at + to), keep = keep_factor(a, row, to);
            float ds = p * (keep * get(a.dp, wide + to) - sum);
            put(a.ds, wide + to, may_attend(row, to) ? ds : 0);
            if (a.kept.data) put(a.kept, wide + to, keep * p);
        }
    }
}
