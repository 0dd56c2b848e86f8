/* Convolutions that cuDNN has no engine for (groups of odd sizes, types it lacks): a thread an
 * element, channels last, sums in double. Twins: op/convolution.c. Slow, and right for every shape. */
#include "backend/cuda/device.h"

static __device__ int64_t x_at(const cuda_conv &a, int64_t b, int64_t c, int64_t h, int64_t w) {
    return ((b * a.in[0] + h) * a.in[1] + w) * a.in_channels + c;
}

static __device__ int64_t w_at(const cuda_conv &a, int64_t o, int64_t c, int64_t i, int64_t j) {
    return ((o * a.kernel[0] + i) * a.kernel[1] + j) * a.group_in + c;
}

static __device__ int64_t y_at(const cuda_conv &a, int64_t b, int64_t o, int64_t h, int64_t w) {
    return ((b * a.out[0] + h) * a.out[1] + w) * a.out_channels + o;
}

/* Row or column that tap k of output o reads. */
static __device__ int64_t tap(const cuda_conv &a, int axis, int64_t o, int64_t k) {
    return o * a.stride[axis] - a.pad[axis] + k * a.dilation[axis];
}

KERNEL_OF(conv, cuda_conv) {
    EACH(n, a.batch * a.out[0] * a.out[1] * a.out_channels) {
        int64_t o = n % a.out_channels, w = n / a.out_channels % a.out[1];
        int64_t h = n / a.out_channels / a.out[1] % a.out[0], b = n / a.out_channels / a.out[1] / a.out[0];
        int64_t first = o / a.group_out * a.group_in;
        double sum = 0;
        for (int64_t i = 0; i < a.kernel[0]; i++)
            for (int64_t j = 0; j < a.kernel[1]; j++) {
                int64_t row = tap(a, 0, h, i), column = tap(a, 1, w, j);
                if (row < 0 || row >= a.in[0] || column < 0 || column >= a.in[1]) continue;
                for (int64_t c = 0; c < a.group_in; c++)
                    sum += (double)get(a.x, x_at(a, b, first + c, row, column)) *
                           get(a.w, w_at(a, o, c, i, j));
            }
        put(a.y, n, (float)sum);
    }
}

/* The output whose tap k reads `at`; false when there is none. */
static __device__ bool output_of(const cuda_conv &a, int axis, int64_t at, int64_t k, int64_t *o) {
    int64_t from = at + a.pad[axis] - k * a.dilation[axis];
    *o = from / a.stride[axis];
    return from >= 0 && from % a.stride[axis] == 0 && *o < a.out[axis];
}

KERNEL_OF(conv_bwd_data, cuda_conv) {
    EACH(n, a.batch * a.in[0] * a.in[1] * a.in_channels) {
        int64_t c = n % a.in_channels, column = n / a.in_channels % a.in[1];
        int64_t row = n / a.in_channels / a.in[1] % a.in[0], b = n / a.in_channels / a.in[1] / a.in[0];
        int64_t group = c / a.group_in, h, w;
        double sum = 0;
        for (int64_t i = 0; i < a.kernel[0]; i++)
            for (int64_t j = 0; j < a.kernel[1]; j++) {
                if (!output_of(a, 0, row, i, &h) || !output_of(a, 1, column, j, &w)) continue;
                for (int64_t o = group * a.group_out; o < (group + 1) * a.group_out; o++)
                    sum += (double)get(a.y, y_at(a, b, o, h, w)) *
                           get(a.w, w_at(a, o, c % a.group_in, i, j));
            }
        put(a.x, n, (float)sum);
    }
}

/* A block an element of dw. */
KERNEL_OF(conv_bwd_weight, cuda_conv) {
    EACH_ROW(n, a.out_channels * a.kernel[0] * a.kernel[1] * a.group_in) {
        int64_t c = n % a.group_in, j = n / a.group_in % a.kernel[1];
        int64_t i = n / a.group_in / a.kernel[1] % a.kernel[0], o = n / a.group_in / a.kernel[1] / a.kernel[0];
        int64_t channel = o / a.group_out * a.group_in + c;
        double sum = 0;
        EACH_COLUMN(k, a.batch * a.out[0] * a.out[1]) {
            int64_t w = k % a.out[1], h = k / a.out[1] % a.out[0], b = k / a.out[1] / a.out[0];
            int64_t row = tap(a, 0, h, i), column = tap(a, 1, w, j);
            if (row < 0 || row >= a.in[0] || column < 0 || column >= a.in[1]) continue;
            sum += (double)get(a.x, x_at(a, b, channel, row, column)) * get(a.y, y_at(a, b, o, h, w));
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) put(a.w, n, (float)sum);
    }
}
