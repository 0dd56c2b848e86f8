/* See precision.h. */
#include "op/precision.h"

bool op_narrow_out(enum op op, int output) {
    return op_def(op)->narrow_out >> output & 1;
}

bool op_narrow_in(enum op op, int input) {
    return op_def(op)->narrow_in >> input & 1;
}

bool op_exact_in(enum op op) {
    return op_def(op)->flags & OP_EXACT_IN;
}

bool op_call_is_narrow(const struct op_call *call) {
    for (int i = 0; i < call->in_count; i++)
        if (dtype_is_narrow(call->in[i].dtype)) return true;
    for (int i = 0; i < call->out_count; i++)
        if (dtype_is_narrow(call->out[i].dtype)) return true;
    return false;
}

struct op_call op_call_wide(const struct op_call *call) {
    struct op_call wide = *call;
    for (int i = 0; i < wide.in_count; i++)
        if (dtype_is_narrow(wide.in[i].dtype)) wide.in[i].dtype = DTYPE_F32;
    for (int i = 0; i < wide.out_count; i++)
        if (dtype_is_narrow(wide.out[i].dtype)) wide.out[i].dtype = DTYPE_F32;
    return wide;
}
