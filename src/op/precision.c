/* See precision.h. */
#include "op/precision.h"

#define AT(index) (1u << (index))

struct precision {
    unsigned out, in; /* bits of outputs and inputs */
    bool exact;
};

static const struct precision table[OP_COUNT] = {
    [OP_CONV2D] = {AT(0), AT(0) | AT(1), false},
    [OP_CONV2D_BWD_DATA] = {AT(0), AT(0) | AT(1), false},
    [OP_CONV2D_BWD_WEIGHT] = {0, AT(0) | AT(1), false},
    [OP_LINEAR] = {AT(0) | AT(1), AT(0) | AT(1), false},
    [OP_LINEAR_BWD_DATA] = {AT(0), AT(0) | AT(1), false},
    [OP_LINEAR_BWD_WEIGHT] = {0, AT(0) | AT(1), false},
    [OP_MATMUL] = {AT(0), AT(0) | AT(1), false},
    [OP_ATTENTION] = {AT(2) - 1, AT(3) - 1, false},
    [OP_ATTENTION_BWD] = {AT(3) - 1, AT(5) - 1, false},
    /* mean, variance and the gradients of scale and shift are f32 */
    [OP_BATCH_NORM] = {AT(0), 0, false},
    [OP_BATCH_NORM_BWD] = {AT(0) | AT(3), 0, false},
    [OP_BATCH_NORM_EVAL] = {AT(0), 0, false},
    [OP_BATCH_NORM_APPLY] = {AT(0), 0, false},
    [OP_BATCH_NORM_BWD_APPLY] = {AT(0) | AT(1), 0, false},
    [OP_LAYER_NORM] = {AT(0), 0, false},
    [OP_LAYER_NORM_BWD] = {AT(0), 0, false},
    [OP_RELU] = {AT(0), 0, false},
    [OP_RELU_BWD] = {AT(0), 0, false},
    [OP_GELU] = {AT(0), 0, false},
    [OP_GELU_BWD] = {AT(0), 0, false},
    [OP_GELU_TANH] = {AT(0), 0, false},
    [OP_GELU_TANH_BWD] = {AT(0), 0, false},
    [OP_TANH] = {AT(0), 0, false},
    [OP_TANH_BWD] = {AT(0), 0, false},
    [OP_DROPOUT] = {AT(0), 0, false},
    [OP_SOFTMAX] = {AT(0), 0, false},
    [OP_SOFTMAX_BWD] = {AT(0), 0, false},
    /* logits, probabilities and losses are f32; what goes back from them is not */
    [OP_LOG_SOFTMAX] = {0, 0, true},
    [OP_LOG_SOFTMAX_BWD] = {AT(0), 0, false},
    [OP_NLL] = {0, 0, true},
    [OP_CROSS_ENTROPY] = {0, 0, true},
    [OP_CROSS_ENTROPY_BWD] = {AT(0), 0, false},
    [OP_TOP_K] = {0, 0, true},
    [OP_EMBEDDING] = {AT(0), 0, false},
    [OP_GATHER_ROWS] = {AT(0), 0, false},
    [OP_GATHER_ROWS_BWD] = {AT(0), 0, false},
    [OP_MAX_POOL] = {AT(0), 0, false},
    [OP_MAX_POOL_BWD] = {AT(0), 0, false},
    [OP_AVG_POOL] = {AT(0), 0, false},
    [OP_AVG_POOL_BWD] = {AT(0), 0, false},
    [OP_ADD] = {AT(0), 0, false},
    [OP_SUM_BATCH] = {AT(0), 0, false},
    [OP_CONCAT] = {AT(0), 0, false},
    [OP_SLICE] = {AT(0), 0, false},
    [OP_SLICE_BWD] = {AT(0), 0, false},
    [OP_EXPAND] = {AT(0), 0, false},
    [OP_TRANSPOSE] = {AT(0), 0, false},
    [OP_REORDER] = {AT(0), 0, false},
};

bool op_narrow_out(enum op op, int output) {
    return table[op].out >> output & 1;
}

bool op_narrow_in(enum op op, int input) {
    return table[op].in >> input & 1;
}

bool op_exact_in(enum op op) {
    return table[op].exact;
}

bool op_call_is_narrow(const struct op_call *call) {
    for (int i = 0; i < call->in_count; i++)
        if (op_dtype_is_narrow(call->in[i].dtype)) return true;
    for (int i = 0; i < call->out_count; i++)
        if (op_dtype_is_narrow(call->out[i].dtype)) return true;
    return false;
}

struct op_call op_call_wide(const struct op_call *call) {
    struct op_call wide = *call;
    for (int i = 0; i < wide.in_count; i++)
        if (op_dtype_is_narrow(wide.in[i].dtype)) wide.in[i].dtype = DTYPE_F32;
    for (int i = 0; i < wide.out_count; i++)
        if (op_dtype_is_narrow(wide.out[i].dtype)) wide.out[i].dtype = DTYPE_F32;
    return wide;
}
