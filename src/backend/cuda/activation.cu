/* Elementwise functions, their gradients, dropout, sums and biases. Twins: op/activation.c,
 * op/shape.c (add), op/linear.c (bias and activation of a product). */
#include "backend/cuda/device.h"
#include "backend/cuda/random.h"

KERNEL_OF(map, cuda_map) {
    float v[WIDE];
    EACH8(i, a.count) {
        get8(a.x, i, v);
        for (int k = 0; k < WIDE; k++) v[k] = activate(a.activation, v[k]);
        put8(a.y, i, v);
    }
    EACH_REST(i, a.count) put(a.y, i, activate(a.activation, get(a.x, i)));
}

static __device__ __forceinline__ float slope_relu(float dy, float y) {
    return y <= 0 ? 0 : dy;
}

static __device__ float slope_gelu(float dy, float x) {
    float slope = 0.5f * (1 + erff(x * 0.70710678118654752440f)) +
                  x * 0.39894228040143267794f * expf(-0.5f * x * x);
    return dy * slope;
}

/* In double: far from zero its terms overflow a float, and the twin's do not. */
static __device__ float slope_gelu_tanh(float dy, float f) {
    double x = f, root = 0.79788456080286535588, cubic = 0.044715;
    double t = tanh(root * (x + cubic * x * x * x));
    double inner = root * (1 + 3 * cubic * x * x);
    return (float)(dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner));
}

static __device__ __forceinline__ float slope_tanh(float dy, float y) {
    return dy * (1 - y * y);
}

static __device__ __forceinline__ float slope_silu(float dy, float x) {
    float gate = 1 / (1 + expf(-x));
    return dy * gate * (1 + x * (1 - gate));
}

static __device__ __forceinline__ float slope(int activation, float dy, float kept) {
    switch (activation) {
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc)                                                                \
    case ACTIVATION_##NAME: return slope_##name(dy, kept);
#include "op/op.def"
#undef OP
    default: return dy;
    }
}

KERNEL_OF(map_bwd, cuda_map_bwd) {
    float v[WIDE], s[WIDE];
    EACH8(i, a.count) {
        get8(a.dy, i, v);
        get8(a.saved, i, s);
        for (int k = 0; k < WIDE; k++) v[k] = slope(a.activation, v[k], s[k]);
        put8(a.dx, i, v);
    }
    EACH_REST(i, a.count) put(a.dx, i, slope(a.activation, get(a.dy, i), get(a.saved, i)));
}

/* The element's number is its place in the plain order, whatever the layout. */
static __device__ void drop_one(const cuda_dropout &a, int64_t i, int64_t sample) {
    int64_t e = i % sample;
    if (a.planes.last) e = e % a.planes.channels * a.planes.plane + e / a.planes.channels;
    uint64_t stream = rng_key(a.key[i / sample], a.place);
    bool keep = rng_uniform(stream, (uint64_t)e) >= a.probability;
    put(a.y, i, get(a.x, i) * (keep ? a.scale : 0));
}

KERNEL_OF(dropout, cuda_dropout) {
    int64_t sample = a.planes.channels * a.planes.plane, count = a.planes.batch * sample;
    if (a.planes.last || sample % WIDE) {
        EACH(i, count) drop_one(a, i, sample);
        return;
    }
    EACH8(i, count) {
        float v[WIDE], u[WIDE];
        uint64_t stream = rng_key(a.key[i / sample], a.place), block = (uint64_t)(i % sample) / 4;
        rng_uniforms4(stream, block, u);
        rng_uniforms4(stream, block + 1, u + 4);
        get8(a.x, i, v);
        for (int k = 0; k < WIDE; k++) v[k] *= u[k] >= a.probability ? a.scale : 0;
        put8(a.y, i, v);
    }
}

KERNEL_OF(add, cuda_add) {
    if (a.period % WIDE) {
        EACH(i, a.count)
            put(a.y, i, activate(a.activation, get(a.a, i) + get(a.b, i % a.period)));
        return;
    }
    EACH8(i, a.count) {
        float v[WIDE], w[WIDE];
        get8(a.a, i, v);
        get8(a.b, a.period == a.count ? i : i % a.period, w);
        for (int k = 0; k < WIDE; k++) v[k] = activate(a.activation, v[k] + w[k]);
        put8(a.y, i, v);
    }
}

KERNEL_OF(bias, cuda_bias) {
    EACH(i, a.count) {
        float sum = get(a.x, i) + (a.bias ? a.bias[i % a.columns] : 0);
        if (a.saved.data) put(a.saved, i, sum);
        put(a.y, i, activate(a.activation, sum));
    }
}
