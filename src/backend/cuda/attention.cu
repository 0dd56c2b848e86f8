/* Attention between its products: the softmax of a row of scores, and its gradient; a block a row.
 * Twin: op/attention.c. A key that mask or causality forbids has probability zero; a row that may
 * attend to nothing is all zero. Dropout's numbers are those of the twin. */
#include "backend/cuda/device.h"

template <class A> static __device__ bool may_attend(const A &a, int64_t row, int64_t to) {
    if (a.causal && to > row % a.tokens) return false;
    return !a.mask || a.mask[row / (a.heads * a.tokens) * a.tokens + to] != 0;
}

/* What dropout multiplies p[row,to] with; `stream` is the sample's. */
template <class A>
static __device__ float keep_factor(const A &a, uint64_t stream, int64_t row, int64_t to) {
    if (!a.key) return 1;
    int64_t element = row % (a.heads * a.tokens) * a.tokens + to;
    return rng_uniform(stream, (uint64_t)element) >= a.dropout ? 1 / (1 - a.dropout) : 0;
}

template <class A> static __device__ uint64_t stream_of(const A &a, int64_t row) {
    return a.key ? rng_key(a.key[row / (a.heads * a.tokens)], a.place) : 0;
}

KERNEL_OF(attention, cuda_attention) {
    EACH_ROW(r, a.batch * a.heads * a.tokens) {
        int64_t at = r * a.tokens;
        uint64_t stream = stream_of(a, r);
        float most = -INFINITY, sum = 0;
        EACH_COLUMN(to, a.tokens) {
            float s = get(a.scores, at + to);
            if (may_attend(a, r, to) && s > most) most = s;
        }
        most = block_max(most);
        EACH_COLUMN(to, a.tokens)
            if (may_attend(a, r, to)) sum += expf(get(a.scores, at + to) - most);
        sum = block_sum(sum);
        EACH_COLUMN(to, a.tokens) {
            float p = may_attend(a, r, to) ? expf(get(a.scores, at + to) - most) / sum : 0;
            put(a.p, at + to, p);
            if (a.kept.data) put(a.kept, at + to, p * keep_factor(a, stream, r, to));
        }
    }
}

KERNEL_OF(attention_bwd, cuda_attention_bwd) {
    EACH_ROW(r, a.batch * a.heads * a.tokens) {
        int64_t at = r * a.tokens;
        uint64_t stream = stream_of(a, r);
        float sum = 0;
        EACH_COLUMN(to, a.tokens) {
            if (!may_attend(a, r, to)) continue;
            sum += keep_factor(a, stream, r, to) * get(a.dp, at + to) * get(a.p, at + to);
        }
        sum = block_sum(sum);
        EACH_COLUMN(to, a.tokens) {
            float p = get(a.p, at + to), keep = keep_factor(a, stream, r, to);
            float ds = p * (keep * get(a.dp, at + to) - sum);
            put(a.ds, at + to, may_attend(a, r, to) ? ds : 0);
            if (a.kept.data) put(a.kept, at + to, keep * p);
        }
    }
}
