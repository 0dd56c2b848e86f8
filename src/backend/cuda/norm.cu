/* Batch norm, alone and over all ranks, and layer norm. Twins: op/norm.c, op/sync_norm.c.
 *
 * Sums are kept in double, a pair a channel, in chunks of the rows that follow from the shape alone:
 * bits repeat. With the channels last a warp reads 32 neighbours at once. */
#include "backend/cuda/device.h"

KERNEL_OF(moments, cuda_moments) {
    __shared__ double first[8][33], second[8][33];
    int64_t c = (int64_t)blockIdx.x * 32 + threadIdx.x, begin = (int64_t)blockIdx.y * a.chunk_rows;
    int64_t rows = a.planes.batch * a.planes.plane;
    int64_t end = begin + a.chunk_rows < rows ? begin + a.chunk_rows : rows;
    bool backward = a.dy.data != nullptr;
    double s = 0, t = 0;
    if (c < a.planes.channels) {
        double mean = backward ? a.mean[c] : 0;
        for (int64_t r = begin + threadIdx.y; r < end; r += 8) {
            int64_t i = plane_at(a.planes, r, c);
            if (a.mask && !a.mask[i]) continue;
            double x = get(a.x, i), g = backward ? (double)get(a.dy, i) : x;
            s += g;
            t += g * (x - mean);
        }
    }
    first[threadIdx.y][threadIdx.x] = s;
    second[threadIdx.y][threadIdx.x] = t;
    __syncthreads();
    if (threadIdx.y != 0 || c >= a.planes.channels) return;
    for (int k = 1; k < 8; k++) s += first[k][threadIdx.x], t += second[k][threadIdx.x];
    double *to = a.partial + (int64_t)blockIdx.y * 2 * a.planes.channels + c;
    to[0] = s;
    to[a.planes.channels] = t;
}

/* The sums of the chunks of channel c, for blocks of 32 channels by 8 threads: true in the one that has
 * them. */
static __device__ bool add_chunks(const double *partial, int64_t chunks, int64_t channels, int64_t c,
                                  double *s, double *t) {
    __shared__ double first[8][33], second[8][33];
    *s = *t = 0;
    for (int64_t k = threadIdx.y; c < channels && k < chunks; k += 8) {
        *s += partial[k * 2 * channels + c];
        *t += partial[k * 2 * channels + channels + c];
    }
    first[threadIdx.y][threadIdx.x] = *s;
    second[threadIdx.y][threadIdx.x] = *t;
    __syncthreads();
    if (threadIdx.y != 0 || c >= channels) return false;
    for (int k = 1; k < 8; k++) *s += first[k][threadIdx.x], *t += second[k][threadIdx.x];
    return true;
}

/* With the channels last and in whole groups of eight: a thread has one group and takes rows in turn,
 * `a.together` threads of a block the same group. Rows of a chunk are added in order. */
KERNEL_OF(moments_wide, cuda_moments) {
    __shared__ double sums[256][WIDE];
    int64_t channels = a.planes.channels, groups = channels / WIDE;
    int together = (int)(256 / groups), group = (int)(threadIdx.x % groups);
    int row = (int)(threadIdx.x / groups);
    int64_t begin = (int64_t)blockIdx.x * a.chunk_rows, rows = a.planes.batch * a.planes.plane;
    int64_t end = begin + a.chunk_rows < rows ? begin + a.chunk_rows : rows;
    bool backward = a.dy.data != nullptr;
    double s[WIDE] = {0}, t[WIDE] = {0};
    float mean[WIDE] = {0};
    if (backward)
        for (int k = 0; k < WIDE; k++) mean[k] = a.mean[group * WIDE + k];
    for (int64_t r = begin + row; r < end && row < together; r += together) {
        float x[WIDE], g[WIDE];
        int64_t i = r * channels + group * WIDE;
        get8(a.x, i, x);
        if (backward)
            get8(a.dy, i, g);
        else
            for (int k = 0; k < WIDE; k++) g[k] = x[k];
        uint64_t mask = a.mask ? *(const uint64_t *)(a.mask + i) : ~(uint64_t)0;
        for (int k = 0; k < WIDE; k++) {
            if (!(mask >> (8 * k) & 0xFF)) continue;
            s[k] += g[k];
            t[k] += (double)g[k] * ((double)x[k] - mean[k]);
        }
    }
    double *to = a.partial + (int64_t)blockIdx.x * 2 * channels;
    for (int half = 0; half < 2; half++) {
        __syncthreads();
        for (int k = 0; k < WIDE; k++) sums[threadIdx.x][k] = half ? t[k] : s[k];
        __syncthreads();
        for (int64_t c = threadIdx.x; c < channels; c += 256) {
            double sum = 0;
            for (int r = 0; r < together; r++) sum += sums[r * groups + c / WIDE][c % WIDE];
            to[half * channels + c] = sum;
        }
    }
}

#define CHANNEL ((int64_t)blockIdx.x * 32 + threadIdx.x)

KERNEL_OF(moments_end, cuda_moments_end) {
    int64_t c = CHANNEL;
    double s, t;
    if (!add_chunks(a.partial, a.chunks, a.channels, c, &s, &t)) return;
    double mean = s / a.rows, var = t / a.rows - mean * mean;
    a.mean[c] = (float)mean;
    a.var[c] = (float)(var < 0 ? 0 : var);
    if (a.count && c == 0) *a.count = (float)a.rows;
}

KERNEL_OF(norm_bwd_end, cuda_norm_bwd_end) {
    int64_t c = CHANNEL;
    double s, t;
    if (!add_chunks(a.partial, a.chunks, a.channels, c, &s, &t)) return;
    double inverse = 1 / sqrt((double)a.var[c] + a.epsilon);
    a.dshift[c] = (float)s;
    a.dscale[c] = (float)(t * inverse);
    if (a.sums) {
        a.sums[c] = (float)s;
        a.sums[a.channels + c] = (float)t;
    }
    if (a.pull) {
        a.pull[c] = (float)(s / a.rows);
        a.pull[a.channels + c] = (float)(t * inverse * inverse / a.rows);
    }
}

/* The same of the sums of all ranks, added in rank order. */
KERNEL_OF(norm_pull, cuda_norm_pull) {
    EACH(c, a.channels) {
        double s = 0, t = 0, n = *a.count, inverse = 1 / sqrt((double)a.var[c] + a.epsilon);
        for (int64_t r = 0; r < a.ranks; r++) {
            s += a.sums[r * 2 * a.channels + c];
            t += a.sums[r * 2 * a.channels + a.channels + c];
        }
        a.pull[c] = (float)(s / n);
        a.pull[a.channels + c] = (float)(t * inverse * inverse / n);
    }
}

KERNEL_OF(norm_apply, cuda_norm_apply) {
    EACH(i, a.planes.batch * a.planes.channels * a.planes.plane) {
        int64_t c = channel_of(a.planes, i);
        float factor = a.scale[c] / sqrtf(a.var[c] + a.epsilon);
        float sum = (get(a.x, i) - a.mean[c]) * factor + a.shift[c];
        if (a.residual.data) sum += get(a.residual, i);
        float y = activate(a.activation, sum);
        put(a.y, i, y);
        if (a.mask) a.mask[i] = !(y <= 0);
    }
}

KERNEL_OF(norm_bwd, cuda_norm_bwd) {
    EACH(i, a.planes.batch * a.planes.channels * a.planes.plane) {
        int64_t c = channel_of(a.planes, i);
        float inverse = 1 / sqrtf(a.var[c] + a.epsilon), away = get(a.x, i) - a.mean[c];
        float g = a.mask && !a.mask[i] ? 0 : get(a.dy, i);
        if (a.dresidual.data) put(a.dresidual, i, g);
        float within = g - a.pull[c] - away * a.pull[a.planes.channels + c];
        put(a.dx, i, a.scale[c] * inverse * within);
    }
}

/* With the channels last in whole groups of eight: a thread keeps its group, whose factors it makes
 * once. */
#define EACH_OF_GROUP(i, planes)                                                                   \
    for (int64_t groups = (planes).channels / WIDE, all = (int64_t)gridDim.x * blockDim.x / groups * groups,  \
                 thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x,                          \
                 i = thread < all ? thread * WIDE : INT64_MAX;                                     \
         i < (planes).batch * (planes).plane * (planes).channels; i += all * WIDE)

KERNEL_OF(norm_apply_wide, cuda_norm_apply) {
    float factor[WIDE], mean[WIDE], shift[WIDE], v[WIDE], w[WIDE];
    int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) % (a.planes.channels / WIDE) * WIDE;
    for (int k = 0; k < WIDE; k++) {
        factor[k] = a.scale[first + k] / sqrtf(a.var[first + k] + a.epsilon);
        mean[k] = a.mean[first + k], shift[k] = a.shift[first + k];
    }
    EACH_OF_GROUP(i, a.planes) {
        uint64_t mask = 0;
        get8(a.x, i, v);
        if (a.residual.data) get8(a.residual, i, w);
        for (int k = 0; k < WIDE; k++) {
            float sum = (v[k] - mean[k]) * factor[k] + shift[k];
            if (a.residual.data) sum += w[k];
            v[k] = activate(a.activation, sum);
            mask |= (uint64_t)!(v[k] <= 0) << (8 * k);
        }
        put8(a.y, i, v);
        if (a.mask) *(uint64_t *)(a.mask + i) = mask;
    }
}

KERNEL_OF(norm_bwd_wide, cuda_norm_bwd) {
    float factor[WIDE], mean[WIDE], pull[WIDE], lean[WIDE], g[WIDE], x[WIDE];
    int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) % (a.planes.channels / WIDE) * WIDE;
    for (int k = 0; k < WIDE; k++) {
        factor[k] = a.scale[first + k] * (1 / sqrtf(a.var[first + k] + a.epsilon));
        mean[k] = a.mean[first + k];
        pull[k] = a.pull[first + k], lean[k] = a.pull[a.planes.channels + first + k];
    }
    EACH_OF_GROUP(i, a.planes) {
        get8(a.dy, i, g);
        get8(a.x, i, x);
        uint64_t mask = a.mask ? *(const uint64_t *)(a.mask + i) : ~(uint64_t)0;
        for (int k = 0; k < WIDE; k++)
            if (!(mask >> (8 * k) & 0xFF)) g[k] = 0;
        if (a.dresidual.data) put8(a.dresidual, i, g);
        for (int k = 0; k < WIDE; k++)
            g[k] = factor[k] * (g[k] - pull[k] - (x[k] - mean[k]) * lean[k]);
        put8(a.dx, i, g);
    }
}

/* Chan's rule, in rank order. */
KERNEL_OF(norm_merge, cuda_norm_merge) {
    EACH(c, a.channels) {
        double mean = 0, squares = 0, count = 0;
        const float *stats = a.stats;
        for (int64_t r = 0; r < a.ranks; r++, stats += 2 * a.channels + 1) {
            double n = stats[2 * a.channels];
            if (n == 0) continue;
            double away = stats[c] - mean, share = n / (count + n);
            squares += stats[a.channels + c] * n + away * away * count * share;
            mean += away * share;
            count += n;
        }
        a.mean[c] = (float)mean;
        a.var[c] = (float)(squares / count);
        if (c == 0) {
            double total = 0;
            for (int64_t r = 0; r < a.ranks; r++)
                total += a.stats[r * (2 * a.channels + 1) + 2 * a.channels];
            *a.count = (float)total;
        }
    }
}

KERNEL_OF(norm_track, cuda_norm_track) {
    EACH(c, a.channels) {
        double m = a.momentum, n = a.count ? *a.count : a.values;
        a.running_mean[c] = (float)((1 - m) * a.running_mean[c] + m * a.mean[c]);
        a.running_var[c] = (float)((1 - m) * a.running_var[c] + m * a.var[c] * (n / (n - 1)));
        if (c == 0) *a.batches += 1;
    }
}

/* --- layer norm: a warp a row --- */

KERNEL_OF(layer_norm, cuda_layer_norm) {
    EACH_WARP_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        float sum = 0, squares = 0;
        EACH_LANE(c, a.columns) sum += get(a.x, at + c);
        float mean = warp_sum(sum) / (float)a.columns;
        EACH_LANE(c, a.columns) {
            float d = get(a.x, at + c) - mean;
            squares += d * d;
        }
        float var = warp_sum(squares) / (float)a.columns, inverse = 1 / sqrtf(var + a.epsilon);
        EACH_LANE(c, a.columns)
            put(a.y, at + c, (get(a.x, at + c) - mean) * inverse * a.scale[c] + a.shift[c]);
        if (threadIdx.x % 32 == 0) a.mean[r] = mean, a.var[r] = var;
    }
}

KERNEL_OF(layer_norm_bwd, cuda_layer_norm_bwd) {
    EACH_WARP_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        float mean = a.mean[r], inverse = 1 / sqrtf(a.var[r] + a.epsilon), s = 0, t = 0;
        EACH_LANE(c, a.columns) {
            float g = get(a.dy, at + c) * a.scale[c];
            s += g;
            t += g * (get(a.x, at + c) - mean) * inverse;
        }
        s = warp_sum(s) / (float)a.columns;
        t = warp_sum(t) / (float)a.columns;
        EACH_LANE(c, a.columns) {
            float g = get(a.dy, at + c) * a.scale[c], normal = (get(a.x, at + c) - mean) * inverse;
            put(a.dx, at + c, inverse * (g - s - normal * t));
        }
    }
}

/* Rows of whole groups of eight, at most four groups a lane: all of a row is read once, 16 bytes at
 * a time, and stays in registers. */
enum { LANE_GROUPS = 4 };

KERNEL_OF(layer_norm_bwd_wide, cuda_layer_norm_bwd) {
    int lane = threadIdx.x % 32, groups = (int)(a.columns / WIDE);
    EACH_WARP_ROW(r, a.rows) {
        int64_t at = r * a.columns;
        float mean = a.mean[r], inverse = 1 / sqrtf(a.var[r] + a.epsilon), s = 0, t = 0;
        float g[LANE_GROUPS][WIDE], normal[LANE_GROUPS][WIDE];
#pragma unroll
        for (int k = 0; k < LANE_GROUPS; k++) {
            int c = (lane + 32 * k) * WIDE;
            if (lane + 32 * k >= groups) break;
            get8(a.dy, at + c, g[k]);
            get8(a.x, at + c, normal[k]);
            for (int i = 0; i < WIDE; i++) {
                g[k][i] *= a.scale[c + i];
                normal[k][i] = (normal[k][i] - mean) * inverse;
                s += g[k][i];
                t += g[k][i] * normal[k][i];
            }
        }
        s = warp_sum(s) / (float)a.columns;
        t = warp_sum(t) / (float)a.columns;
#pragma unroll
        for (int k = 0; k < LANE_GROUPS; k++) {
            if (lane + 32 * k >= groups) break;
            for (int i = 0; i < WIDE; i++) g[k][i] = inverse * (g[k][i] - s - normal[k][i] * t);
            put8(a.dx, at + (lane + 32 * k) * WIDE, g[k]);
        }
    }
}

KERNEL_OF(layer_norm_sums, cuda_layer_norm_bwd) {
    __shared__ double first[8][33], second[8][33];
    int64_t c = (int64_t)blockIdx.x * 32 + threadIdx.x, begin = (int64_t)blockIdx.y * a.chunk_rows;
    int64_t end = begin + a.chunk_rows < a.rows ? begin + a.chunk_rows : a.rows;
    double s = 0, t = 0;
    if (c < a.columns)
        for (int64_t r = begin + threadIdx.y; r < end; r += 8) {
            float dy = get(a.dy, r * a.columns + c), x = get(a.x, r * a.columns + c);
            s += dy;
            t += dy * (x - a.mean[r]) / sqrtf(a.var[r] + a.epsilon);
        }
    first[threadIdx.y][threadIdx.x] = s;
    second[threadIdx.y][threadIdx.x] = t;
    __syncthreads();
    if (threadIdx.y != 0 || c >= a.columns) return;
    for (int k = 1; k < 8; k++) s += first[k][threadIdx.x], t += second[k][threadIdx.x];
    double *to = a.partial + (int64_t)blockIdx.y * 2 * a.columns + c;
    to[0] = s;
    to[a.columns] = t;
}

/* As moments_wide, of a table's columns. */
KERNEL_OF(layer_norm_sums_wide, cuda_layer_norm_bwd) {
    __shared__ double sums[256][WIDE];
    int64_t groups = a.columns / WIDE, begin = (int64_t)blockIdx.x * a.chunk_rows;
    int together = (int)(256 / groups), group = (int)(threadIdx.x % groups);
    int row = (int)(threadIdx.x / groups);
    int64_t end = begin + a.chunk_rows < a.rows ? begin + a.chunk_rows : a.rows;
    double s[WIDE] = {0}, t[WIDE] = {0};
    for (int64_t r = begin + row; r < end && row < together; r += together) {
        float x[WIDE], dy[WIDE], mean = a.mean[r], inverse = 1 / sqrtf(a.var[r] + a.epsilon);
        get8(a.dy, r * a.columns + group * WIDE, dy);
        get8(a.x, r * a.columns + group * WIDE, x);
        for (int k = 0; k < WIDE; k++) {
            s[k] += dy[k];
            t[k] += dy[k] * (x[k] - mean) * inverse;
        }
    }
    double *to = a.partial + (int64_t)blockIdx.x * 2 * a.columns;
    for (int half = 0; half < 2; half++) {
        __syncthreads();
        for (int k = 0; k < WIDE; k++) sums[threadIdx.x][k] = half ? t[k] : s[k];
        __syncthreads();
        for (int64_t c = threadIdx.x; c < a.columns; c += 256) {
            double sum = 0;
            for (int r = 0; r < together; r++) sum += sums[r * groups + c / WIDE][c % WIDE];
            to[half * a.columns + c] = sum;
        }
    }
}

KERNEL_OF(layer_norm_sums_end, cuda_layer_norm_bwd) {
    int64_t c = CHANNEL;
    double s, t;
    if (!add_chunks(a.partial, a.chunks, a.columns, c, &s, &t)) return;
    a.dshift[c] = (float)s;
    a.dscale[c] = (float)t;
}
