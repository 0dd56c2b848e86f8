/* What is narrow in a run with --dtype bf16 or f16. Parameters, their gradients, statistics and
 * losses are f32 whatever the run's type; activations and their gradients are narrow, and so are
 * the operands of products. The rules of op.def know f32 alone: which tensors are narrow is decided
 * once on the whole graph (graph_narrow), by the fields of each operation. An operation without
 * them keeps f32: a new one is right before it is fast. */
#ifndef OP_PRECISION_H
#define OP_PRECISION_H

#include "op/op.h"

/* Local. May this output be narrow? Is this input rounded to the narrow type where it is f32? Must
 * the first input be f32, because a loss is made from it? */
bool op_narrow_out(enum op op, int output);
bool op_narrow_in(enum op op, int input);
bool op_exact_in(enum op op);

/* Local. The call with every narrow tensor as f32: what it computes between reading and rounding.
 */
struct op_call op_call_wide(const struct op_call *call);
/* Local. Is any tensor of the call narrow? */
bool op_call_is_narrow(const struct op_call *call);

#endif
