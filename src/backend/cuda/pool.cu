/* Pooling in either layout. Twins: op/pool.c. Backward, a thread gathers what the windows around its
 * element send, in the order of the windows: nothing is added by two threads. */
#include "backend/cuda/device.h"

struct place {
    int64_t b, c, h, w;
};

/* Element i of a tensor of `size` in the order of its own memory. */
static __device__ place place_of(const cuda_pool &a, const int64_t step[4], const int64_t size[2],
                                 int64_t i) {
    place p;
    bool last = step[1] == 1 && a.channels > 1;
    if (last) p.c = i % a.channels, i /= a.channels;
    p.w = i % size[1], i /= size[1];
    p.h = i % size[0], i /= size[0];
    if (!last) p.c = i % a.channels, i /= a.channels;
    p.b = i;
    return p;
}

static __device__ int64_t at(const int64_t step[4], const place &p, int64_t h, int64_t w) {
    return p.b * step[0] + p.c * step[1] + h * step[2] + w * step[3];
}

/* Rows (axis 0) or columns [from, to) that output `o` sees, and how many with padding. */
static __device__ int64_t window(const cuda_pool &a, int axis, int64_t o, int64_t *from, int64_t *to) {
    *from = o * a.stride[axis] - a.pad[axis], *to = *from + a.kernel[axis];
    if (a.adaptive) {
        *from = o * a.in[axis] / a.out[axis];
        *to = ((o + 1) * a.in[axis] + a.out[axis] - 1) / a.out[axis];
    }
    int64_t size = *to - *from;
    if (*from < 0) *from = 0;
    if (*to > a.in[axis]) *to = a.in[axis];
    return size;
}

/* Outputs [from, to) that may see input i: a few too many, each is asked again. */
static __device__ void around(const cuda_pool &a, int axis, int64_t i, int64_t *from, int64_t *to) {
    if (a.adaptive) {
        *from = i * a.out[axis] / a.in[axis] - 1;
        *to = (i + 1) * a.out[axis] / a.in[axis] + 2;
    } else {
        *from = (i + a.pad[axis] - a.kernel[axis]) / a.stride[axis];
        *to = (i + a.pad[axis]) / a.stride[axis] + 1;
    }
    if (*from < 0) *from = 0;
    if (*to > a.out[axis]) *to = a.out[axis];
}

KERNEL_OF(max_pool, cuda_pool) {
    EACH(i, a.batch * a.channels * a.out[0] * a.out[1]) {
        place p = place_of(a, a.y_step, a.out, i);
        int64_t h0, h1, w0, w1;
        window(a, 0, p.h, &h0, &h1), window(a, 1, p.w, &w0, &w1);
        int64_t best = h0 * a.in[1] + w0;
        float most = get(a.x, at(a.x_step, p, h0, w0));
        for (int64_t h = h0; h < h1 && !isnan(most); h++)
            for (int64_t w = w0; w < w1 && !isnan(most); w++) {
                float x = get(a.x, at(a.x_step, p, h, w));
                if (x > most || isnan(x)) most = x, best = h * a.in[1] + w;
            }
        put(a.y, i, most);
        a.where[i] = (int32_t)best;
    }
}

KERNEL_OF(max_pool_bwd, cuda_pool) {
    EACH(i, a.batch * a.channels * a.in[0] * a.in[1]) {
        place p = place_of(a, a.x_step, a.in, i);
        int64_t h0, h1, w0, w1;
        around(a, 0, p.h, &h0, &h1), around(a, 1, p.w, &w0, &w1);
        float sum = 0;
        for (int64_t h = h0; h < h1; h++)
            for (int64_t w = w0; w < w1; w++) {
                int64_t o = at(a.y_step, p, h, w);
                if (a.where[o] == p.h * a.in[1] + p.w) sum += get(a.y, o);
            }
        put(a.x, i, sum);
    }
}

KERNEL_OF(avg_pool, cuda_pool) {
    EACH(i, a.batch * a.channels * a.out[0] * a.out[1]) {
        place p = place_of(a, a.y_step, a.out, i);
        int64_t h0, h1, w0, w1, area = window(a, 0, p.h, &h0, &h1) * window(a, 1, p.w, &w0, &w1);
        double sum = 0;
        for (int64_t h = h0; h < h1; h++)
            for (int64_t w = w0; w < w1; w++) sum += get(a.x, at(a.x_step, p, h, w));
        put(a.y, i, (float)(sum / (double)area));
    }
}

KERNEL_OF(avg_pool_bwd, cuda_pool) {
    EACH(i, a.batch * a.channels * a.in[0] * a.in[1]) {
        place p = place_of(a, a.x_step, a.in, i);
        int64_t h0, h1, w0, w1, from, to;
        around(a, 0, p.h, &h0, &h1), around(a, 1, p.w, &w0, &w1);
        double sum = 0;
        for (int64_t h = h0; h < h1; h++) {
            int64_t height = window(a, 0, h, &from, &to);
            if (p.h < from || p.h >= to) continue;
            for (int64_t w = w0; w < w1; w++) {
                int64_t area = height * window(a, 1, w, &from, &to);
                if (p.w >= from && p.w < to)
                    sum += get(a.y, at(a.y_step, p, h, w)) / (double)area;
            }
        }
        put(a.x, i, (float)sum);
    }
}
