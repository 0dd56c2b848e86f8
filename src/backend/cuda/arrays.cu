/* Arithmetic on arrays, to the bit as backend/host_arrays.c and the rules of src/optim have it. */
#include "backend/cuda/device.h"

KERNEL_OF(array_fill, cuda_fill) {
    EACH(i, a.count) put(a.to, i, a.value);
}

KERNEL_OF(array_add, cuda_array_add) {
    EACH(i, a.count) put(a.into, i, get(a.into, i) + get(a.from, i));
}

KERNEL_OF(array_blend, cuda_array_blend) {
    EACH(i, a.count) {
        float kept = a.keep * get(a.into, i);
        put(a.into, i, a.from.data ? kept + a.share * get(a.from, i) : kept);
    }
}

KERNEL_OF(array_swap, cuda_array_swap) {
    EACH(i, a.count) {
        float kept = get(a.one, i);
        put(a.one, i, get(a.other, i));
        put(a.other, i, kept);
    }
}

/* The fixed tree, as comm/tree_sum.c has it. Sums of 1, 2, 4 ... neighbours wait in a stack, the largest first, as the ones of
 * a binary number: a term that comes is added to those that are as large as itself. What is left at the end are the odd last
 * ones, which are carried up. */
KERNEL_OF(array_tree, cuda_tree) {
    EACH(i, a.count) {
        float stack[8];
        int height = 0;
        for (int t = 0; t < a.terms; t++) {
            cuda_reals term = {(void *)a.term[t], a.dtype};
            float sum = get(term, i);
            for (int full = t; full & 1; full >>= 1) sum = stack[--height] + sum;
            stack[height++] = sum;
        }
        float sum = stack[--height];
        while (height > 0) sum = stack[--height] + sum;
        for (int o = 0; o < a.outs; o++) {
            cuda_reals out = {a.out[o], a.dtype};
            put(out, i, sum);
        }
    }
}

/* Sixteen threads a block of NORM_BLOCK, one for each place modulo 16, added in order. */
KERNEL_OF(array_squares, cuda_squares) {
    __shared__ double lanes[ROW_THREADS];
    int lane = threadIdx.x % 16;
    int64_t blocks = (a.count + a.block - 1) / a.block;
    int64_t of = (int64_t)blockIdx.x * (ROW_THREADS / 16) + threadIdx.x / 16;
    int64_t begin = of * a.block, end = begin + a.block < a.count ? begin + a.block : a.count;
    double sum = 0;
    for (int64_t i = begin + lane; i < end; i += 16) sum += (double)get(a.of, i) * (double)get(a.of, i);
    lanes[threadIdx.x] = sum;
    __syncthreads();
    if (lane != 0 || of >= blocks) return;
    sum = 0;
    for (int k = 0; k < 16; k++) sum += lanes[threadIdx.x + k];
    a.sums[of] = sum;
}

/* Integers are added: any order gives the same. Limb i counts 2^(32 i - 1152), as in base/exact.c. */
KERNEL_OF(array_sum, cuda_exact_sum) {
    EACH(i, a.count) {
        long long bits = __double_as_longlong(a.sums[i]);
        int exponent = (int)(bits >> 52 & 0x7FF);
        unsigned long long mantissa = (unsigned long long)bits & 0xFFFFFFFFFFFFFull;
        if (exponent == 0x7FF) {
            atomicAdd(a.special, a.sums[i]);
            continue;
        }
        if (exponent > 0) mantissa |= 1ull << 52;
        int at = (exponent > 0 ? exponent : 1) - 1075 + 1152, limb = at / 32, shift = at % 32;
        unsigned long long low = mantissa << shift, high = shift ? mantissa >> (64 - shift) : 0;
        unsigned long long part[3] = {low & 0xFFFFFFFFull, low >> 32, high};
        for (int k = 0; k < 3; k++)
            if (part[k])
                atomicAdd((unsigned long long *)&a.limb[limb + k], bits < 0 ? 0 - part[k] : part[k]);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.terms += a.count;
}

/* exact_total of base/exact.c, of a sum that is not negative. */
static __device__ double exact_total(const int64_t *given, double special) {
    enum { LIMBS = 72 };
    int64_t limb[LIMBS], carry = 0;
    if (special != 0) return special;
    for (int i = 0; i < LIMBS; i++) {
        int64_t value = given[i] + carry;
        limb[i] = i + 1 < LIMBS ? value & 0xFFFFFFFFll : value;
        carry = value >> 32;
    }
    int top = LIMBS - 1;
    while (top > 2 && limb[top] == 0) top--;
    /* The highest 64 bits, of which the last also stands for all below it: more than a double has,
     * so that they are rounded once. */
    uint64_t high = (uint64_t)limb[top] << 32 | (uint64_t)limb[top - 1], low = (uint64_t)limb[top - 2];
    if (high == 0) return ldexp((double)low, -1152); /* top is 2 */
    int shift = __clzll((long long)high);
    uint64_t lost = shift < 32 ? low & ((1ull << (32 - shift)) - 1) : 0;
    uint64_t bits = high << shift | (shift < 32 ? low >> (32 - shift) : low << (shift - 32));
    for (int i = 0; i < top - 2; i++) lost |= (uint64_t)limb[i];
    return ldexp(__ull2double_rn(bits | (lost != 0)), top * 32 - 32 - shift - 1152);
}

KERNEL_OF(array_decide, cuda_decide) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    double squares = exact_total(a.limb, *a.special), norm = sqrt(squares) * a.unscale;
    double scale = a.clip > 0 ? a.clip / (norm + 1e-6) : 1;
    bool bad = !isfinite(squares);
    if ((bad && !a.leaves) || (a.losses && *a.losses != 0)) *a.stop = 1;
    *a.norm = norm;
    *a.scale = (scale < 1 ? (float)scale : 1) * (float)a.unscale;
    *a.skip = *a.stop || bad;
}

KERNEL_OF(array_check, cuda_check) {
    EACH(i, a.count) if (!isfinite(get(a.of, i))) *a.bad = 1;
}

KERNEL_OF(update_sgd, cuda_sgd) {
    float scale = a.decided ? *a.decided : a.scale;
    if (a.decided && *a.skip) return;
    EACH(i, a.count) {
        float g = a.gradient[i] * scale + a.decay * a.param[i];
        float b = a.mu * a.buffer[i] + g;
        float p = a.param[i] - a.lr * (a.direct * g + a.through * b);
        a.buffer[i] = b;
        a.param[i] = p;
        if (!isfinite(p)) *a.bad = 1;
    }
}

KERNEL_OF(update_adam, cuda_adam) {
    float scale = a.decided ? *a.decided : a.scale;
    if (a.decided && *a.skip) return;
    EACH(i, a.count) {
        float p = a.param[i] * a.shrink, g = a.gradient[i] * scale + a.l2 * p;
        float m = a.beta1 * a.m[i] + a.rest1 * g, v = a.beta2 * a.v[i] + a.rest2 * g * g;
        p = p - a.rate * m / (sqrtf(v) / a.root + a.epsilon);
        a.m[i] = m;
        a.v[i] = v;
        a.param[i] = p;
        if (!isfinite(p)) *a.bad = 1;
    }
}
