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

template <class A> static __device__ __forceinline__ row_of find_row(const A &a, int64_t row) {
    if (!a.causal && !a.mask && !a.key) return row_of{a.tokens, nullptr, 0, 0};
    uint32_t each = (uint32_t)(a.heads * a.tokens); /* a division of 64 bits takes as long as a row */
    int64_t sample = row >> 31 ? row / each : (uint32_t)row / each, within = row - sample * each;
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

/* Rows of at most 32 N keys, N a lane: each score is read once and stays in a register. */
template <int N> static __device__ __forceinline__ void attend(const cuda_attention &a) {
    EACH_WARP_ROW(r, a.batch * a.heads * a.tokens) {
        int64_t at = r * a.tokens;
        const float *scores = (const float *)a.scores.data + r * a.step;
        int tokens = (int)a.tokens, lane = threadIdx.x % 32;
        row_of row = find_row(a, r);
        float s[N], most = -INFINITY, sum = 0;
        uint32_t allowed = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            int to = lane + 32 * k;
            bool may = to < tokens && may_attend(row, to);
            s[k] = may ? scores[to] : -INFINITY;
            allowed |= (uint32_t)may << k;
            if (s[k] > most) most = s[k];
        }
        most = warp_max(most);
#pragma unroll
        for (int k = 0; k < N; k++) {
            s[k] = allowed >> k & 1 ? expf(s[k] - most) : 0;
            sum += s[k];
        }
        sum = warp_sum(sum);
#pragma unroll
        for (int k = 0; k < N; k++) {
            int to = lane + 32 * k;
            if (to >= tokens) break;
            float p = allowed >> k & 1 ? s[k] / sum : 0;
            put(a.p, at + to, p);
            if (a.kept.data) put(a.kept, r * a.step + to, p * keep_factor(a, row, to));
        }
    }
}

KERNEL_OF(attention_short, cuda_attention) {
    attend<8>(a);
}

KERNEL_OF(attention_long, cuda_attention) {
    attend<32>(a);
}

template <int N> static __device__ __forceinline__ void attend_bwd(const cuda_attention_bwd &a) {
    EACH_WARP_ROW(r, a.batch * a.heads * a.tokens) {
        int64_t at = r * a.tokens, wide = r * a.step;
        const float *dp = (const float *)a.dp.data + wide;
        int tokens = (int)a.tokens, lane = threadIdx.x % 32;
        row_of row = find_row(a, r);
        float g[N], p[N], sum = 0;
        uint32_t allowed = 0, kept = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            int to = lane + 32 * k;
            bool inside = to < tokens, may = inside && may_attend(row, to);
            float keep = inside ? keep_factor(a, row, to) : 0;
            p[k] = inside ? get(a.p, at + to) : 0;
            g[k] = inside ? keep * dp[to] : 0;
            allowed |= (uint32_t)may << k;
            kept |= (uint32_t)(keep != 0) << k;
            if (may) sum += g[k] * p[k];
        }
        sum = warp_sum(sum);
        float factor = a.key ? 1 / (1 - a.dropout) : 1;
#pragma unroll
        for (int k = 0; k < N; k++) {
            int to = lane + 32 * k;
            if (to >= tokens) break;
            put(a.ds, wide + to, allowed >> k & 1 ? p[k] * (g[k] - sum) : 0);
            if (a.kept.data) put(a.kept, wide + to, kept >> k & 1 ? factor * p[k] : 0 * p[k]);
        }
    }
}

KERNEL_OF(attention_bwd_short, cuda_attention_bwd) {
    attend_bwd<8>(a);
}

KERNEL_OF(attention_bwd_long, cuda_attention_bwd) {
    attend_bwd<32>(a);
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
