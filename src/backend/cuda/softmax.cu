/* Softmax over rows, the losses made of it, right answers. Twins: op/softmax.c. A block a row; what
 * is summed over rows is written a row each and added in a fixed order by one block. */
#include "backend/cuda/device.h"

/* The largest of a row, and sum(exp(x - largest)). */
static __device__ float sum_exp(const cuda_reals &x, int64_t at, int64_t columns, float *sum) {
    float most = -INFINITY, s = 0;
    EACH_COLUMN(c, columns) {
        float v = get(x, at + c);
        most = v > most ? v : most;
    }
    most = block_max(most);
    EACH_COLUMN(c, columns) s += expf(get(x, at + c) - most);
    *sum = block_sum(s);
    return most;
}

KERNEL_OF(softmax, cuda_softmax) {
    EACH_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        float sum, most = sum_exp(a.x, at, a.columns, &sum), total = logf(sum);
        EACH_COLUMN(c, a.columns) {
            float x = get(a.x, at + c) - most;
            put(a.y, at + c, a.logarithm ? x - total : expf(x) / sum);
        }
    }
}

KERNEL_OF(softmax_bwd, cuda_softmax_bwd) {
    EACH_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        float sum = 0;
        EACH_COLUMN(c, a.columns) {
            float dy = get(a.dy, at + c);
            sum += a.logarithm ? dy : dy * get(a.y, at + c);
        }
        sum = block_sum(sum);
        EACH_COLUMN(c, a.columns) {
            float dy = get(a.dy, at + c), y = get(a.y, at + c);
            put(a.dx, at + c, a.logarithm ? dy - expf(y) * sum : y * (dy - sum));
        }
    }
}

/* What class c is worth in the target distribution of `label`. */
static __device__ float target(const cuda_loss &a, int64_t c, int32_t label) {
    return (c == label ? 1 - a.smoothing : 0) + a.smoothing / (float)a.columns;
}

/* A label out of range is a bug of the reader of the data: its loss is not a number. */
static __device__ double row_loss(const cuda_loss &a, int64_t at, double total, int32_t label) {
    if (label < 0 || label >= a.columns) return NAN;
    if (a.smoothing == 0) return total - get(a.x, at + label);
    double loss = 0;
    EACH_COLUMN(c, a.columns) loss += target(a, c, label) * (total - get(a.x, at + c));
    return block_sum(loss);
}

KERNEL_OF(loss, cuda_loss) {
    EACH_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        float sum = 1, most = a.most ? sum_exp(a.x, at, a.columns, &sum) : 0;
        double total = a.most ? most + log((double)sum) : 0;
        double loss = a.label[r] == LABEL_IGNORE ? 0 : row_loss(a, at, total, a.label[r]);
        if (threadIdx.x != 0) continue;
        a.row[r] = loss;
        if (a.most) a.most[r] = most, a.sum[r] = sum;
    }
}

KERNEL_OF(loss_bwd, cuda_loss) {
    EACH(i, a.rows * a.columns) {
        int64_t r = i / a.columns, c = i % a.columns;
        int32_t label = a.label[r];
        float p = a.most ? expf(get(a.x, i) - a.most[r]) / a.sum[r] : 0;
        put(a.dx, i, label == LABEL_IGNORE ? 0 : (p - target(a, c, label)) * *a.seed);
    }
}

KERNEL_OF(sum_rows, cuda_sum_rows) {
    double sum = 0;
    EACH_COLUMN(r, a.rows) sum += a.row[r];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *a.sum = sum;
}

/* How many classes come before the label: greater ones, equal ones of lower index, and NaN. */
KERNEL_OF(top_k, cuda_top_k) {
    EACH_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        int32_t label = a.label[r];
        bool counts = label >= 0 && label < a.columns;
        float its = counts ? get(a.x, at + label) : 0;
        int rank = 0;
        EACH_COLUMN(c, a.columns) {
            float x = get(a.x, at + c);
            rank += x == its ? c < label : !(x < its);
        }
        rank = block_sum(rank);
        if (threadIdx.x == 0) a.right[r] = !counts ? 0 : rank < 1 ? 3 : rank < 5 ? 2 : 1;
    }
}

KERNEL_OF(top_k_end, cuda_top_k) {
    int64_t one = 0, five = 0, counted = 0;
    EACH_COLUMN(r, a.rows) {
        one += a.right[r] == 3;
        five += a.right[r] >= 2;
        counted += a.right[r] >= 1;
    }
    one = block_sum(one), five = block_sum(five), counted = block_sum(counted);
    if (threadIdx.x == 0)
        a.counts[0] = (double)one, a.counts[1] = (double)five, a.counts[2] = (double)counted;
}
