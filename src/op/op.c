/* The table of operations, and what all shape rules and gradient rules share (rule.h).
 *
 * op_infer works on a copy, so that a rule may append outputs as it goes and a call that failed is
 * left as it was. */
#include "op/rule.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/shown.h"

#define OP(NAME, name, doc) extern const struct op_def op_##name;
#include "op/op.def"
#undef OP

static const struct op_def *const defs[OP_COUNT] = {
#define OP(NAME, name, doc) [OP_##NAME] = &op_##name,
#include "op/op.def"
#undef OP
};

const struct op_def *op_def(enum op op) {
    CHECK((unsigned)op < OP_COUNT, "operation %d is not in op.def", (int)op);
    return defs[op];
}

enum op op_of_activation(enum activation activation) {
    static const enum op ops[ACTIVATION_COUNT] = {
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc) [ACTIVATION_##NAME] = OP_##NAME,
#include "op/op.def"
#undef OP
    };
    CHECK(activation > ACTIVATION_NONE && activation < ACTIVATION_COUNT, "activation %d",
          (int)activation);
    return ops[activation];
}

bool activation_needs_input(enum activation activation) {
    return activation != ACTIVATION_NONE &&
           op_def(op_of_activation(activation))->function->from_input;
}

struct op_cost op_cost(const struct op_call *call) {
    const struct op_def *def = op_def(call->op);
    return def->cost ? def->cost(call) : op_cost_of(call, 0);
}

static enum status check_dimensions(const struct op_call *call, char *why, size_t why_bytes) {
    if (call->in_count < 0 || call->in_count > OP_MAX_IN)
        MISFIT("%d inputs; 0 to %d are possible", call->in_count, OP_MAX_IN);
    for (int i = 0; i < call->in_count; i++) {
        const struct shape *shape = &call->in[i].shape;
        if (shape->rank < 0 || shape->rank > SHAPE_MAX_RANK)
            MISFIT("input %d has rank %d; 0 to %d are possible", i, shape->rank, SHAPE_MAX_RANK);
        for (int d = 0; d < shape->rank; d++)
            if (shape->dim[d] < 1) MISFIT("input %d is %s: empty", i, TEXT(*shape));
    }
    return STATUS_OK;
}

static enum status check_sizes(const struct op_call *call, char *why, size_t why_bytes) {
    for (int i = 0; i < call->in_count + call->out_count; i++) {
        bool in = i < call->in_count;
        const struct shape *shape = in ? &call->in[i].shape : &call->out[i - call->in_count].shape;
        if (!shape_is_countable(shape))
            MISFIT("%s %d is %s: too large", in ? "input" : "output", in ? i : i - call->in_count,
                   TEXT(*shape));
    }
    return STATUS_OK;
}

enum status op_infer(struct op_call *call, char *why, size_t why_bytes) {
    struct op_call copy = *call;
    copy.out_count = 0;
    TRY(check_dimensions(&copy, why, why_bytes));
    TRY(check_sizes(&copy, why, why_bytes));
    TRY(op_def(copy.op)->infer(&copy, why, why_bytes));
    TRY(check_sizes(&copy, why, why_bytes));
    *call = copy;
    return STATUS_OK;
}

bool op_label_counts(int32_t label, int64_t classes) {
    if (label == LABEL_IGNORE) return false;
    CHECK(label >= 0 && label < classes, "label %d of %lld classes", (int)label,
          (long long)classes);
    return true;
}

enum status op_misfit(char *why, size_t why_bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    shown_vformat(why, why_bytes, format, args);
    va_end(args);
    return STATUS_USAGE;
}

enum status op_operands(const struct op_call *call, const struct op_operand *operands, int required,
                        int count, char *why, size_t why_bytes) {
    if (call->in_count < required || call->in_count > count) {
        if (required == count) MISFIT("%d inputs; %d are needed", call->in_count, required);
        MISFIT("%d inputs; %d to %d are needed", call->in_count, required, count);
    }
    for (int i = 0; i < call->in_count; i++) {
        const struct op_operand *o = &operands[i];
        const struct tensor_type *have = &call->in[i];
        if (have->dtype != o->dtype)
            MISFIT("%s is of type %s; %s is needed", o->name, dtype_name(have->dtype),
                   dtype_name(o->dtype));
        if (have->shape.rank >= o->rank_min && have->shape.rank <= o->rank_max) continue;
        if (o->rank_min == o->rank_max)
            MISFIT("%s is %s; rank %d is needed", o->name, TEXT(have->shape), o->rank_min);
        MISFIT("%s is %s; rank %d to %d is needed", o->name, TEXT(have->shape), o->rank_min,
               o->rank_max);
    }
    return STATUS_OK;
}

enum status op_wants(const struct op_call *call, int index, const char *name,
                     const struct shape *shape, const char *reason, char *why, size_t why_bytes) {
    if (shape_equal(&call->in[index].shape, shape)) return STATUS_OK;
    MISFIT("%s is %s; %s needs %s", name, TEXT(call->in[index].shape), reason, TEXT(*shape));
}

void op_out(struct op_call *call, enum dtype dtype, const struct shape *shape) {
    CHECK(call->out_count < OP_MAX_OUT, "%s has too many outputs", op_def(call->op)->name);
    struct shape clean = {.rank = shape->rank}; /* dimensions beyond the rank are zero */
    for (int d = 0; d < shape->rank; d++) clean.dim[d] = shape->dim[d];
    call->out[call->out_count++] = (struct tensor_type){dtype, clean};
}

struct shape op_shape_rows(const struct shape *shape) {
    struct shape rows = *shape;
    rows.dim[--rows.rank] = 0;
    return rows;
}

struct shape op_shape_last(const struct shape *shape, int64_t last) {
    struct shape out = *shape;
    out.dim[out.rank - 1] = last;
    return out;
}

int64_t op_columns(const struct shape *shape) {
    return shape->rank ? shape->dim[shape->rank - 1] : 1;
}

int64_t op_rows(const struct shape *shape) {
    return shape_count(shape) / op_columns(shape);
}

struct op_cost op_cost_of(const struct op_call *call, double flops) {
    struct op_cost cost = {.flops = flops};
    for (int i = 0; i < call->in_count; i++) cost.bytes += (double)tensor_type_bytes(&call->in[i]);
    for (int i = 0; i < call->out_count; i++)
        cost.bytes += (double)tensor_type_bytes(&call->out[i]);
    return cost;
}

struct op_cost op_cost_elementwise(const struct op_call *call) {
    return op_cost_of(call, (double)shape_count(&call->out[0].shape));
}

bool op_grad_begin(struct op_grad *grad) {
    for (int i = 0; i < grad->call->in_count; i++) grad->d_in[i] = -1;
    return grad->d_out[0] >= 0;
}

int op_emit(struct op_grad *grad, enum op op, const struct op_attrs *attrs, enum op_half half,
            int in_count, const int *in) {
    static const struct op_attrs none;
    int out[OP_MAX_OUT] = {-1, -1, -1, -1};
    grad->emit(grad, op, attrs ? attrs : &none, half, in_count, in, out);
    return out[0];
}

int op_grad_activation(struct op_grad *grad) {
    const struct op_attrs *attrs = &grad->call->attrs;
    if (attrs->activation == ACTIVATION_NONE) return grad->d_out[0];
    const struct op_function *function = op_def(op_of_activation(attrs->activation))->function;
    CHECK(attrs->saves || !function->from_input, "%s: the activation's input is gone",
          op_def(grad->call->op)->name);
    int in[] = {grad->d_out[0], grad->out[function->from_input]};
    return op_emit(grad, function->backward, NULL, OP_HALF_I, 2, in);
}

struct op_attrs op_attrs_bwd(const struct op_call *call, const struct shape *like) {
    struct op_attrs attrs = call->attrs;
    attrs.activation = ACTIVATION_NONE;
    attrs.has_bias = false;
    attrs.like = *like;
    return attrs;
}

float op_activate(enum activation activation, double value) {
    if (activation == ACTIVATION_NONE) return (float)value;
    return (float)op_def(op_of_activation(activation))->function->value(value);
}

enum status op_activation_known(const struct op_call *call, char *why, size_t why_bytes) {
    enum activation activation = call->attrs.activation;
    if ((unsigned)activation < ACTIVATION_COUNT && !activation_needs_input(activation))
        return STATUS_OK;
    MISFIT("activation %d is none of none, relu, tanh", (int)activation);
}
