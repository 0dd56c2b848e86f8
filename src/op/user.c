/* See user.h. Backward reads the gradients that flow, then the forward inputs and outputs it asked
 * for; an own loss has no gradient of its output but the seed of its term instead. */
#include "op/user.h"

#include <string.h>

#include "base/api.h"
#include "base/log.h"
#include "op/rule.h"

_Static_assert((int)STRETTO_OP_MAX_IN + 2 * (int)STRETTO_OP_MAX_OUT <= (int)OP_MAX_IN,
               "backward reads all");
_Static_assert((int)STRETTO_OP_MAX_IN <= (int)OP_MAX_OUT,
               "backward makes a gradient for each input");
_Static_assert((int)STRETTO_MAX_RANK == (int)SHAPE_MAX_RANK, "public shapes are those here");
_Static_assert((int)STRETTO_F32 == (int)DTYPE_F32 && (int)STRETTO_F64 == (int)DTYPE_F64 &&
                   (int)STRETTO_I32 == (int)DTYPE_I32 && (int)STRETTO_I64 == (int)DTYPE_I64,
               "public element types are those here");
_Static_assert((int)STRETTO_IGNORE == (int)LABEL_IGNORE, "the public label is this one");

enum status op_use_init(const struct stretto_op *op, void *context, struct op_use *out) {
    struct op_use use = {.call = {.context = context}};
    TRY(api_take(op, offsetof(struct stretto_op, backward), &use.op, sizeof use.op, "stretto_op"));
    if (!use.op.name || !use.op.forward)
        return fail(STATUS_USAGE, "operation %s has no %s",
                    use.op.name ? use.op.name : "without a name", use.op.name ? "forward" : "name");
    if (!use.op.backward_reads) use.op.backward_reads = STRETTO_READS_IN | STRETTO_READS_OUT;
    *out = use;
    return STATUS_OK;
}

static const struct op_use *use_of(const struct op_call *call) {
    return call->attrs.user.use;
}

/* --- shapes --- */

static struct stretto_type type_of(const struct tensor_type *type) {
    struct stretto_type out = {.dtype = (int)type->dtype, .rank = type->shape.rank};
    memcpy(out.dim, type->shape.dim, sizeof out.dim);
    return out;
}

static enum status add_output(struct op_call *call, int index, const struct stretto_type *type,
                              char *why, size_t why_bytes) {
    bool known = type->dtype == STRETTO_F32 || type->dtype == STRETTO_F64 ||
                 type->dtype == STRETTO_I32 || type->dtype == STRETTO_I64;
    struct shape shape = {.rank = type->rank};
    if (!known) MISFIT("output %d is of type %d, which is none", index, type->dtype);
    if (type->rank < 0 || type->rank > SHAPE_MAX_RANK)
        MISFIT("output %d has rank %d; 0 to %d are possible", index, type->rank, SHAPE_MAX_RANK);
    memcpy(shape.dim, type->dim, (size_t)type->rank * sizeof shape.dim[0]);
    for (int d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 1) MISFIT("output %d is %s: empty", index, TEXT(shape));
    op_out(call, (enum dtype)type->dtype, &shape);
    return STATUS_OK;
}

static enum status user_infer(struct op_call *call, char *why, size_t why_bytes) {
    struct op_use *use = call->attrs.user.use;
    struct stretto_call *own = &use->call;
    if (call->in_count < 1 || call->in_count > STRETTO_OP_MAX_IN)
        MISFIT("%d inputs; 1 to %d are possible", call->in_count, STRETTO_OP_MAX_IN);
    own->in_count = call->in_count;
    own->out_count = 1;
    for (int i = 0; i < call->in_count; i++) own->in[i] = type_of(&call->in[i]);
    own->out[0] = own->in[0];
    if (use->op.shape && use->op.shape(own, why, why_bytes) != 0) {
        if (!*why) MISFIT("its inputs do not fit");
        return STATUS_USAGE;
    }
    if (own->out_count < 1 || own->out_count > STRETTO_OP_MAX_OUT)
        MISFIT("%d outputs; 1 to %d are possible", own->out_count, STRETTO_OP_MAX_OUT);
    for (int i = 0; i < own->out_count; i++) TRY(add_output(call, i, &own->out[i], why, why_bytes));
    return STATUS_OK;
}

static enum status user_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    const struct stretto_call *own = &use_of(call)->call;
    for (int i = 0; i < own->in_count; i++)
        if (call->attrs.user.need >> i & 1) TRY(add_output(call, i, &own->in[i], why, why_bytes));
    return STATUS_OK;
}

int64_t stretto_elements(const struct stretto_type *type) {
    struct shape shape = {0};
    if (!type) return api_refuse("stretto_elements: the type is NULL"), -1;
    if (type->rank < 0 || type->rank > SHAPE_MAX_RANK)
        return api_refuse("stretto_elements: a type of rank %d; 0 to %d are possible", type->rank,
                          SHAPE_MAX_RANK),
               -1;
    shape.rank = type->rank;
    memcpy(shape.dim, type->dim, (size_t)type->rank * sizeof shape.dim[0]);
    if (shape_is_countable(&shape)) return shape_count(&shape);
    return api_refuse("stretto_elements: a tensor of %s is too large, or below 0", TEXT(shape)), -1;
}

/* --- cost --- */

static double flops_of(const struct op_use *use) {
    if (use->op.flops) return use->op.flops(&use->call);
    return (double)stretto_elements(&use->call.in[0]);
}

static struct op_cost user_cost(const struct op_call *call) {
    return op_cost_of(call, flops_of(use_of(call)));
}

static struct op_cost user_bwd_cost(const struct op_call *call) {
    return op_cost_of(call, 2 * flops_of(use_of(call)));
}

/* --- gradient --- */

static void user_grad(struct op_grad *grad) {
    const struct op_use *use = use_of(grad->call);
    struct op_attrs attrs = grad->call->attrs;
    int in[OP_MAX_IN], out[OP_MAX_OUT], count = 0, made = 0;
    op_grad_begin(grad);
    attrs.user.flows = attrs.user.need = 0;
    if (!use->op.backward) return;
    for (int i = 0; i < grad->call->out_count; i++) {
        int flow = i == 0 && grad->seed >= 0 ? grad->seed : grad->d_out[i];
        if (flow < 0) continue;
        attrs.user.flows |= 1u << i;
        in[count++] = flow;
    }
    for (int i = 0; i < grad->call->in_count; i++)
        if (grad->need[i] && grad->call->in[i].dtype == DTYPE_F32) attrs.user.need |= 1u << i;
    if (!attrs.user.need) return;
    if (use->op.backward_reads & STRETTO_READS_IN)
        for (int i = 0; i < grad->call->in_count; i++) in[count++] = grad->in[i];
    if (use->op.backward_reads & STRETTO_READS_OUT)
        for (int i = 0; i < grad->call->out_count; i++) in[count++] = grad->out[i];
    grad->emit(grad, OP_USER_BWD, &attrs, OP_HALF_I, count, in, out);
    for (int i = 0; i < grad->call->in_count; i++)
        if (attrs.user.need >> i & 1) grad->d_in[i] = out[made++];
}

/* --- running --- */

static void user_run(const struct op_call *call, void *const in[], void *const out[],
                     void *scratch) {
    (void)scratch;
    use_of(call)->op.forward(&use_of(call)->call, (const void *const *)in, out);
}

static void user_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                         void *scratch) {
    (void)scratch;
    const struct op_use *use = use_of(call);
    const void *x[STRETTO_OP_MAX_IN] = {0}, *y[STRETTO_OP_MAX_OUT] = {0},
               *dy[STRETTO_OP_MAX_OUT] = {0};
    void *dx[STRETTO_OP_MAX_IN] = {0};
    for (int i = 0; i < use->call.out_count; i++)
        if (call->attrs.user.flows >> i & 1) dy[i] = *in++;
    if (use->op.backward_reads & STRETTO_READS_IN)
        for (int i = 0; i < use->call.in_count; i++) x[i] = *in++;
    if (use->op.backward_reads & STRETTO_READS_OUT)
        for (int i = 0; i < use->call.out_count; i++) y[i] = *in++;
    for (int i = 0; i < use->call.in_count; i++)
        if (call->attrs.user.need >> i & 1) dx[i] = *out++;
    use->op.backward(&use->call, x, y, dy, dx);
}

static void user_text(const struct op_call *call, struct op_line *line) {
    op_say(line, "%s", call->attrs.user.use->op.name);
}

const struct op_def op_user = {
    .name = "user",
    .infer = user_infer,
    .cost = user_cost,
    .grad = user_grad,
    .run = user_run,
    .text = user_text,
};

const struct op_def op_user_bwd = {
    .name = "user_bwd",
    .infer = user_bwd_infer,
    .cost = user_bwd_cost,
    .run = user_bwd_run,
    .text = user_text,
};
