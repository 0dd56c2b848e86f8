/* What the family files share: checking operands, naming outputs, counting bytes, emitting
 * gradients. Internal to src/op.
 *
 * A shape rule reads top to bottom as the operation's signature: op_operands() checks number, types
 * and ranks against a table, MISFIT() reports what one line of conditions found, op_out() names the
 * outputs. */
#ifndef OP_RULE_H
#define OP_RULE_H

#include "op/op.h"

/* One row of a signature. */
struct op_operand {
    const char *name;
    enum dtype dtype;
    int rank_min, rank_max;
};

/* Local. Writes the reason and returns STATUS_USAGE; logs nothing. */
enum status op_misfit(char *why, size_t why_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define MISFIT(...) return op_misfit(why, why_bytes, __VA_ARGS__)
/* The text of a shape lvalue, alive until the end of the enclosing block. */
#define TEXT(shape) shape_text(&(shape), (char[SHAPE_TEXT_BYTES]){0})

/* Local. Are there `required` to `count` inputs, of the types and ranks of the table? */
enum status op_operands(const struct op_call *call, const struct op_operand *operands, int required,
                        int count, char *why, size_t why_bytes);
/* Local. Is input `index` of exactly this shape? `reason` says whose shape asks for it. */
enum status op_wants(const struct op_call *call, int index, const char *name,
                     const struct shape *shape, const char *reason, char *why, size_t why_bytes);

/* Local. Appends an output to the call. */
void op_out(struct op_call *call, enum dtype dtype, const struct shape *shape);
/* Local. The shape without its last dimension; with another last dimension. */
struct shape op_shape_rows(const struct shape *shape);
struct shape op_shape_last(const struct shape *shape, int64_t last);
/* Local. The last dimension (1 for a scalar), and how many rows of it there are. */
int64_t op_columns(const struct shape *shape);
int64_t op_rows(const struct shape *shape);

/* Local. Bytes of all tensors of the call; and the cost of `flops` over them. */
double op_bytes(const struct op_call *call);
struct op_cost op_cost_of(const struct op_call *call, double flops);
/* Local. Cost functions for `n` operations per element of the first output. */
struct op_cost op_cost_elementwise(const struct op_call *call);

/* Local. Starts a gradient rule: no input has a gradient yet. False when none flows in. */
bool op_grad_begin(struct op_grad *grad);
/* Local. Emits an operation, returns its first output. `attrs` may be NULL. */
int op_emit(struct op_grad *grad, enum op op, const struct op_attrs *attrs, enum op_half half,
            int in_count, const int *in);
/* Local. The gradient before the call's fused activation, made from the output; gelu's from output
 * 1, which the call must have. */
int op_grad_activation(struct op_grad *grad);
/* Local. The forward attributes as its backward operations carry them: activation undone already,
 * `like` set. */
struct op_attrs op_attrs_bwd(const struct op_call *call, const struct shape *like);

/* Local. The activation of one value. */
float op_activate(enum activation activation, double value);
/* Local. gelu, exact and as tanh approximates it. */
double op_gelu_of(double x);
double op_gelu_tanh_of(double x);
/* Local. Is the activation one of those that all fused operations know? */
enum status op_activation_known(const struct op_call *call, char *why, size_t why_bytes);

#endif
