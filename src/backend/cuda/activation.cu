/* Elementwise functions, their gradients, dropout, sums and biases. Twins: op/activation.c,
 * op/shape.c (add), op/linear.c (bias and activation of a product). */
#include "backend/cuda/device.h"

KERNEL_OF(map, cuda_map) {
    EACH(i, a.count) put(a.y, i, activate(a.function, get(a.x, i)));
}

static __device__ float gelu_gradient(float dy, float x) {
    float slope = 0.5f * (1 + erff(x * 0.70710678118654752440f)) +
                  x * 0.39894228040143267794f * expf(-0.5f * x * x);
    return dy * slope;
}

/* In double: far from zero its terms overflow a float, and the twin's do not. */
static __device__ float gelu_tanh_gradient(float dy, float f) {
    double x = f, root = 0.79788456080286535588, cubic = 0.044715;
    double t = tanh(root * (x + cubic * x * x * x));
    double inner = root * (1 + 3 * cubic * x * x);
    return (float)(dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner));
}

KERNEL_OF(map_bwd, cuda_map_bwd) {
    EACH(i, a.count) {
        float dy = get(a.dy, i), s = get(a.saved, i), dx;
        switch (a.function) {
        case CUDA_RELU: dx = s <= 0 ? 0 : dy; break;
        case CUDA_GELU: dx = gelu_gradient(dy, s); break;
        case CUDA_GELU_TANH: dx = gelu_tanh_gradient(dy, s); break;
        default: dx = dy * (1 - s * s); break;
        }
        put(a.dx, i, dx);
    }
}

/* The element's number is its place in the plain order, whatever the layout. */
KERNEL_OF(dropout, cuda_dropout) {
    int64_t sample = a.planes.channels * a.planes.plane;
    EACH(i, a.planes.batch * sample) {
        int64_t e = i % sample;
        if (a.planes.last) e = e % a.planes.channels * a.planes.plane + e / a.planes.channels;
        uint64_t stream = rng_key(a.key[i / sample], a.place);
        bool keep = rng_uniform(stream, (uint64_t)e) >= a.probability;
        put(a.y, i, get(a.x, i) * (keep ? a.scale : 0));
    }
}

KERNEL_OF(add, cuda_add) {
    EACH(i, a.count) {
        float b = get(a.b, a.period == a.count ? i : i % a.period);
        put(a.y, i, activate(a.function, get(a.a, i) + b));
    }
}

KERNEL_OF(bias, cuda_bias) {
    EACH(i, a.count) {
        float sum = get(a.x, i) + (a.bias ? a.bias[i % a.columns] : 0);
        if (a.saved.data) put(a.saved, i, sum);
        put(a.y, i, activate(a.function, sum));
    }
}
