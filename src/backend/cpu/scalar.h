/* Functions of one number, written so that a loop around them becomes vector code: no branches, no
 * calls, no tables. Errors are a few units in the last place, which training does not feel; libm's
 * own would cost ten times as much. */
#ifndef BACKEND_CPU_SCALAR_H
#define BACKEND_CPU_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float scalar_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t scalar_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x = 2^n e^r with |r| <= ln(2)/2. Adding 1.5 * 2^23 rounds to an integer and leaves it in the
 * low bits. Exactly zero below the smallest normal number, so that masked attention scores vanish;
 * from 88.4 on n is 128, whose bits are those of infinity. */
static inline float scalar_exp(float x) {
    const float round = 12582912.0f, low = -87.33654f, high = 89.0f;
    float bounded = x < low ? low : x > high ? high : x;
    float shifted = bounded * 1.44269504f + round, n = shifted - round;
    float r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    float value =
        (p * r * r + r + 1.0f) * scalar_from_bits((scalar_bits(shifted) << 23) + 0x3F800000u);
    return x < low ? 0.0f : value;
}

/* Near zero the quotient cancels; there a series takes over. */
static inline float scalar_tanh(float x) {
    float a = fabsf(x), e = scalar_exp(-2.0f * a), far = (1.0f - e) / (1.0f + e), s = x * x;
    float near =
        a * (1.0f + s * (-0.33333333f + s * (0.13333333f - s * (0.053968254f - s * 0.021869489f))));
    return copysignf(a < 0.3f ? near : far, x);
}

/* Phi(x), the normal distribution function, and e^(-x^2/2), which both gelu and its derivative
 * need. The polynomial in t = 1/(1 + p|z|) for erf(z) is number 7.1.26 of Abramowitz and Stegun
 * (error 1.5e-7). */
static inline float scalar_phi(float x, float *density) {
    float z = fabsf(x) * 0.70710678f, e = scalar_exp(-z * z), t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float tail = 0.5f * p * t * e; /* 1 - Phi(|x|) */
    *density = e;
    return x < 0.0f ? tail : 1.0f - tail;
}

#endif
