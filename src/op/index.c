/* Looking rows up by number: embedding tables, and chosen tokens of a sequence.
 *
 * A row that is looked up several times gets the sum of the gradients; they are added in index
 * order in f32, so that every backend can give the same bits. Numbers out of range are a bug here:
 * the data readers check them. */
#include "op/rule.h"

#include <string.h>

#include "base/log.h"

static void check_index(int64_t index, int64_t rows) {
    CHECK(index >= 0 && index < rows, "row %lld of %lld", (long long)index, (long long)rows);
}

/* --- embedding --- */

static enum status embedding_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"w", DTYPE_F32, 2, 2},
                                                 {"id", DTYPE_I32, 0, SHAPE_MAX_RANK - 1}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    struct shape y = call->in[1].shape;
    y.dim[y.rank++] = call->in[0].shape.dim[1];
    op_out(call, DTYPE_F32, &y);
    return STATUS_OK;
}

static enum status embedding_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 1, SHAPE_MAX_RANK},
                                                 {"id", DTYPE_I32, 0, SHAPE_MAX_RANK - 1}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    const struct shape *w = &call->attrs.like;
    if (w->rank != 2) MISFIT("the shape to make is %s; [V,C] is needed", TEXT(*w));
    struct shape want = call->in[1].shape;
    want.dim[want.rank++] = w->dim[1];
    TRY(op_wants(call, 0, "dy", &want, "id and the table", why, why_bytes));
    op_out(call, DTYPE_F32, w);
    return STATUS_OK;
}

/* Only the rows looked up are read. */
static struct op_cost gather_cost(const struct op_call *call) {
    double rows = (double)tensor_type_bytes(&call->out[0]);
    return (struct op_cost){0, 2 * rows + (double)tensor_type_bytes(&call->in[1])};
}

static struct op_cost scatter_cost(const struct op_call *call) {
    return op_cost_of(call, (double)shape_count(&call->in[0].shape));
}

static void embedding_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = op_attrs_bwd(grad->call, &grad->call->in[0].shape);
    grad->d_in[0] =
        op_emit(grad, OP_EMBEDDING_BWD, &attrs, OP_HALF_W, 2, (int[]){grad->d_out[0], grad->in[1]});
}

static void embedding_run(const struct op_call *call, void *const in[], void *const out[],
                          void *scratch) {
    (void)scratch;
    const float *w = in[0];
    const int32_t *id = in[1];
    float *y = out[0];
    const struct shape *table = &call->in[0].shape;
    int64_t count = shape_count(&call->in[1].shape), C = table->dim[1];
    for (int64_t i = 0; i < count; i++) {
        check_index(id[i], table->dim[0]);
        memcpy(y + i * C, w + id[i] * C, (size_t)C * sizeof *y);
    }
}

static void embedding_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                              void *scratch) {
    (void)scratch;
    const float *dy = in[0];
    const int32_t *id = in[1];
    float *dw = out[0];
    const struct shape *table = &call->attrs.like;
    int64_t count = shape_count(&call->in[1].shape), C = table->dim[1];
    memset(dw, 0, tensor_type_bytes(&call->out[0]));
    for (int64_t i = 0; i < count; i++) {
        check_index(id[i], table->dim[0]);
        for (int64_t c = 0; c < C; c++) dw[id[i] * C + c] += dy[i * C + c];
    }
}

/* --- gather_rows --- */

static enum status gather_rows_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"x", DTYPE_F32, 3, 3},
                                                 {"index", DTYPE_I32, 2, 2}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    const struct shape *x = &call->in[0].shape, *index = &call->in[1].shape;
    if (x->dim[0] != index->dim[0])
        MISFIT("x is %s, index is %s: the batches differ", TEXT(*x), TEXT(*index));
    op_out(call, DTYPE_F32, &SHAPE(x->dim[0], index->dim[1], x->dim[2]));
    return STATUS_OK;
}

static enum status gather_rows_bwd_infer(struct op_call *call, char *why, size_t why_bytes) {
    static const struct op_operand operands[] = {{"dy", DTYPE_F32, 3, 3},
                                                 {"index", DTYPE_I32, 2, 2}};
    TRY(op_operands(call, operands, 2, 2, why, why_bytes));
    const struct shape *x = &call->attrs.like, *index = &call->in[1].shape;
    if (x->rank != 3 || x->dim[0] != index->dim[0])
        MISFIT("the shape to make is %s; [%lld,T,C] is needed for index %s", TEXT(*x),
               (long long)index->dim[0], TEXT(*index));
    struct shape dy = SHAPE(index->dim[0], index->dim[1], x->dim[2]);
    TRY(op_wants(call, 0, "dy", &dy, "index and x", why, why_bytes));
    op_out(call, DTYPE_F32, x);
    return STATUS_OK;
}

static void gather_rows_grad(struct op_grad *grad) {
    if (!op_grad_begin(grad) || !grad->need[0]) return;
    struct op_attrs attrs = op_attrs_bwd(grad->call, &grad->call->in[0].shape);
    grad->d_in[0] = op_emit(grad, OP_GATHER_ROWS_BWD, &attrs, OP_HALF_I, 2,
                            (int[]){grad->d_out[0], grad->in[1]});
}

static void gather_rows_run(const struct op_call *call, void *const in[], void *const out[],
                            void *scratch) {
    (void)scratch;
    const float *x = in[0];
    const int32_t *index = in[1];
    float *y = out[0];
    const struct shape *shape = &call->in[0].shape;
    int64_t T = shape->dim[1], C = shape->dim[2], K = call->in[1].shape.dim[1];
    for (int64_t i = 0; i < shape->dim[0] * K; i++) {
        check_index(index[i], T);
        memcpy(y + i * C, x + (i / K * T + index[i]) * C, (size_t)C * sizeof *y);
    }
}

static void gather_rows_bwd_run(const struct op_call *call, void *const in[], void *const out[],
                                void *scratch) {
    (void)scratch;
    const float *dy = in[0];
    const int32_t *index = in[1];
    float *dx = out[0];
    const struct shape *shape = &call->attrs.like;
    int64_t T = shape->dim[1], C = shape->dim[2], K = call->in[1].shape.dim[1];
    memset(dx, 0, tensor_type_bytes(&call->out[0]));
    for (int64_t i = 0; i < shape->dim[0] * K; i++) {
        check_index(index[i], T);
        for (int64_t c = 0; c < C; c++) dx[(i / K * T + index[i]) * C + c] += dy[i * C + c];
    }
}

const struct op_def op_embedding = {
    .name = "embedding",
    .infer = embedding_infer,
    .cost = gather_cost,
    .grad = embedding_grad,
    .run = embedding_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_embedding_bwd = {
    .name = "embedding_bwd",
    .infer = embedding_bwd_infer,
    .cost = scatter_cost,
    .run = embedding_bwd_run,
};

const struct op_def op_gather_rows = {
    .name = "gather_rows",
    .infer = gather_rows_infer,
    .cost = gather_cost,
    .grad = gather_rows_grad,
    .run = gather_rows_run,
    .narrow_out = OP_FIRST(1),
};

const struct op_def op_gather_rows_bwd = {
    .name = "gather_rows_bwd",
    .infer = gather_rows_bwd_infer,
    .cost = scatter_cost,
    .run = gather_rows_bwd_run,
    .narrow_out = OP_FIRST(1),
};
