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

/* Bits of inputs or outputs: the first `count`; number `index`. */
#define OP_FIRST(count) ((1u << (count)) - 1)
#define OP_AT(index) (1u << (index))

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

/* Local. The cost of `flops` and the bytes of all tensors of the call. */
struct op_cost op_cost_of(const struct op_call *call, double flops);
/* Local. Cost functions for `n` operations per element of the first output. */
struct op_cost op_cost_elementwise(const struct op_call *call);

/* Local. Starts a gradient rule: no input has a gradient yet. False when none flows in. */
bool op_grad_begin(struct op_grad *grad);
/* Local. Emits an operation, returns its first output. `attrs` may be NULL. */
int op_emit(struct op_grad *grad, enum op op, const struct op_attrs *attrs, enum op_half half,
            int in_count, const int *in);
/* Local. The gradient ahead of the call's fused activation: made from the output, or from output 1
 * (attrs.saves), which the call must have then. */
int op_grad_activation(struct op_grad *grad);
/* Local. The forward attributes as its backward operations carry them: activation undone already,
 * `like` set. */
struct op_attrs op_attrs_bwd(const struct op_call *call, const struct shape *like);

/* Local. The activation of one value. */
float op_activate(enum activation activation, double value);
/* Local. Is the activation one whose gradient is made from the output? */
enum status op_activation_known(const struct op_call *call, char *why, size_t why_bytes);

/* A line that grows word by word and never overflows. */
struct op_line {
    char *text;
    size_t used;
};
/* Local. Appends a word; the second one "name 2", "name 2x1", or nothing when both are `usual`. */
void op_say(struct op_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void op_say_pair(struct op_line *line, const char *name, const int pair[2], int usual);

#endif
