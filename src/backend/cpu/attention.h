/* What the two kernels of attention, in f32 and in bf16, read off a call. Local. */
#ifndef BACKEND_CPU_ATTENTION_H
#define BACKEND_CPU_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "op/op.h"

struct cpu_attention {
    int64_t batch, heads, tokens, depth, channels;
    int64_t stride; /* elements between two tokens of q, k, v */
    bool packed, masked, causal;
    int key, mask;   /* inputs, -1: none */
    enum dtype type; /* of q, k, v */
};

/* Of ATTENTION and its backward. */
struct cpu_attention cpu_attention_of(const struct op_call *call);

#endif
