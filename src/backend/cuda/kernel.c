/* From a call to a kernel: the table of makers, and what makers share. A call with tensors of types
 * that our kernels do not read is refused. An operation without a maker, as one of the library's
 * users, runs on the host. */
#include "backend/cuda/product.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

enum { ALIGN = 256 };

static cuda_make *const makers[OP_COUNT] = {
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc) [OP_##NAME] = cuda_map, [OP_##NAME##_BWD] = cuda_map_bwd,
#include "op/op.def"
#undef OP
    [OP_CONV2D] = cuda_convolution,
    [OP_CONV2D_BWD_DATA] = cuda_convolution,
    [OP_CONV2D_BWD_WEIGHT] = cuda_convolution,
    [OP_LINEAR] = cuda_linear,
    [OP_LINEAR_BWD_DATA] = cuda_linear_bwd_data,
    [OP_LINEAR_BWD_WEIGHT] = cuda_linear_bwd_weight,
    [OP_MATMUL] = cuda_matmul,
    [OP_BATCH_NORM] = cuda_batch_norm,
    [OP_BATCH_NORM_BWD] = cuda_batch_norm_bwd,
    [OP_BATCH_NORM_EVAL] = cuda_batch_norm_eval,
    [OP_BATCH_NORM_TRACK] = cuda_batch_norm_track,
    [OP_LAYER_NORM] = cuda_layer_norm,
    [OP_LAYER_NORM_BWD] = cuda_layer_norm_bwd,
    [OP_BATCH_NORM_STATS] = cuda_batch_norm_stats,
    [OP_STATS_EXCHANGE] = cuda_exchange,
    [OP_BATCH_NORM_MERGE] = cuda_batch_norm_merge,
    [OP_BATCH_NORM_APPLY] = cuda_batch_norm_apply,
    [OP_BATCH_NORM_BWD_STATS] = cuda_batch_norm_bwd_stats,
    [OP_BATCH_NORM_BWD_APPLY] = cuda_batch_norm_bwd_apply,
    [OP_DROPOUT] = cuda_dropout,
    [OP_SOFTMAX] = cuda_softmax,
    [OP_SOFTMAX_BWD] = cuda_softmax_bwd,
    [OP_LOG_SOFTMAX] = cuda_softmax,
    [OP_LOG_SOFTMAX_BWD] = cuda_softmax_bwd,
    [OP_NLL] = cuda_loss,
    [OP_NLL_BWD] = cuda_loss_bwd,
    [OP_CROSS_ENTROPY] = cuda_loss,
    [OP_CROSS_ENTROPY_BWD] = cuda_loss_bwd,
    [OP_TOP_K] = cuda_top_k,
    [OP_ATTENTION] = cuda_attention,
    [OP_ATTENTION_BWD] = cuda_attention_bwd,
    [OP_EMBEDDING] = cuda_embedding,
    [OP_EMBEDDING_BWD] = cuda_embedding_bwd,
    [OP_GATHER_ROWS] = cuda_gather,
    [OP_GATHER_ROWS_BWD] = cuda_gather_bwd,
    [OP_MAX_POOL] = cuda_pool,
    [OP_MAX_POOL_BWD] = cuda_pool_bwd,
    [OP_AVG_POOL] = cuda_pool,
    [OP_AVG_POOL_BWD] = cuda_pool_bwd,
    [OP_ADD] = cuda_add,
    [OP_SUM_BATCH] = cuda_sum_batch,
    [OP_CONCAT] = cuda_concat,
    [OP_SLICE] = cuda_slice,
    [OP_SLICE_BWD] = cuda_slice_bwd,
    [OP_EXPAND] = cuda_expand,
    [OP_TRANSPOSE] = cuda_transpose,
    [OP_REORDER] = cuda_reorder,
};

/* --- layouts of a call --- */

static bool is_real(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype_is_narrow(dtype);
}

void cuda_want_plain(struct cuda_kernel *kernel) {
    struct device *device = kernel->base.device;
    for (int i = 0; i < kernel->call.in_count; i++)
        kernel->base.in[i] = cuda_plain(device, &kernel->call.in[i]);
    for (int i = 0; i < kernel->call.out_count; i++)
        kernel->base.out[i] = cuda_plain(device, &kernel->call.out[i]);
}

void cuda_want_images(struct cuda_kernel *kernel) {
    struct device *device = kernel->base.device;
    for (int i = 0; i < kernel->call.in_count; i++)
        kernel->base.in[i] = cuda_image(device, &kernel->call.in[i]);
    for (int i = 0; i < kernel->call.out_count; i++)
        kernel->base.out[i] = cuda_image(device, &kernel->call.out[i]);
}

void cuda_want_like(struct cuda_kernel *kernel, const struct layout *x) {
    if (cuda_is_image(x))
        cuda_want_images(kernel);
    else
        cuda_want_plain(kernel);
}

struct cuda_reals cuda_in(const struct cuda_kernel *kernel, int index, void *const in[]) {
    return (struct cuda_reals){in[index], kernel->call.in[index].dtype};
}

struct cuda_reals cuda_out(const struct cuda_kernel *kernel, int index, void *const out[]) {
    return (struct cuda_reals){out[index], kernel->call.out[index].dtype};
}

/* --- scratch --- */

void cuda_part(struct cuda_kernel *kernel, int index, size_t bytes) {
    kernel->part[index] = kernel->base.scratch_bytes;
    kernel->base.scratch_bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* As many chunks as keep the device busy, by the shape alone: other devices have the same bits. */
void cuda_cut_rows(struct cuda_kernel *kernel, int64_t rows, int64_t columns, int pairs) {
    enum { LEAST_ROWS = 32, MOST_CHUNKS = 512 };
    int64_t chunks = (rows + LEAST_ROWS - 1) / LEAST_ROWS;
    if (chunks > MOST_CHUNKS) chunks = MOST_CHUNKS;
    kernel->chunk_rows = (rows + chunks - 1) / chunks;
    kernel->chunks = (rows + kernel->chunk_rows - 1) / kernel->chunk_rows;
    cuda_part(kernel, 0, (size_t)(kernel->chunks * pairs * columns) * sizeof(double));
}

enum status cuda_sum_columns(const struct cuda_kernel *kernel, struct cuda_reals x,
                             struct cuda_reals y, void *scratch, CUstream stream) {
    enum { GROUP = 8, GROUPS = 256 };
    struct cuda_device *device = cuda_kernel_device(kernel);
    int64_t columns = kernel->columns, groups = columns / GROUP;
    struct cuda_column_sums args = {x,
                                    y,
                                    cuda_part_at(kernel, 0, scratch),
                                    kernel->rows,
                                    columns,
                                    kernel->chunk_rows,
                                    kernel->chunks};
    TRY(columns % GROUP == 0
            ? cuda_launch_blocks(device, CUDA_KERNEL_column_sums_wide, kernel->chunks,
                                 (groups + GROUPS - 1) / GROUPS, &args, stream)
            : cuda_launch_columns(device, CUDA_KERNEL_column_sums, columns, kernel->chunks, &args,
                                  stream));
    return cuda_launch_columns(device, CUDA_KERNEL_column_sums_end, columns, 1, &args, stream);
}

/* --- the slots --- */

static bool types_known(const struct op_call *call) {
    for (int i = 0; i < call->in_count; i++) {
        enum dtype dtype = call->in[i].dtype;
        if (!is_real(dtype) && dtype != DTYPE_I32 && dtype != DTYPE_I64 && dtype != DTYPE_U8 &&
            dtype != DTYPE_F64)
            return false;
    }
    return true;
}

bool cuda_supports(struct device *device, const struct op_call *call) {
    (void)device;
    bool changes = op_def(call->op)->flags & OP_SIDE_EFFECT; /* not those copies on the host */
    return (makers[call->op] || !changes) && types_known(call);
}

/* Does this input come narrow where the kernel reads f32? Parameters never do; it is for calls that
 * no graph makes but the rules allow. */
static bool is_widened(const struct cuda_kernel *kernel, int in) {
    enum dtype dtype = kernel->call.in[in].dtype;
    return !(kernel->typed >> in & 1) && dtype_is_narrow(dtype);
}

static void take_room(struct cuda_kernel *kernel) {
    for (int i = 0; i < kernel->call.in_count; i++) {
        size_t bytes = (size_t)shape_count(&kernel->call.in[i].shape) * sizeof(float);
        if (!is_widened(kernel, i)) continue;
        kernel->widened[i] = kernel->base.scratch_bytes;
        kernel->base.scratch_bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
}

static enum status widen(const struct cuda_kernel *kernel, void *const in[], void *to[],
                         void *scratch, CUstream stream) {
    for (int i = 0; i < kernel->call.in_count; i++) {
        to[i] = in[i];
        if (!is_widened(kernel, i)) continue;
        to[i] = (char *)scratch + kernel->widened[i];
        struct cuda_map args = {cuda_in(kernel, i, in),
                                {to[i], DTYPE_F32},
                                shape_count(&kernel->call.in[i].shape),
                                ACTIVATION_NONE};
        TRY(cuda_launch_wide(cuda_kernel_device(kernel), CUDA_KERNEL_map, args.count, &args,
                             stream));
    }
    return STATUS_OK;
}

enum status cuda_kernel_create(struct device *device, const struct op_call *call,
                               const struct layout *const in[], struct kernel **out) {
    TRY(cuda_enter(cuda_device_of(device)));
    struct cuda_kernel *kernel = MEM_NEW(struct cuda_kernel);
    kernel->call = *call;
    kernel->base = (struct kernel){.device = device, .name = kernel->name};
    snprintf(kernel->name, sizeof kernel->name, "cuda:%s", op_def(call->op)->name);
    kernel->typed = ~0u;
    enum status status = (makers[call->op] ? makers[call->op] : cuda_on_host)(kernel, in);
    if (status != STATUS_OK) {
        cuda_kernel_free(&kernel->base);
        return status;
    }
    take_room(kernel);
    if (kernel->base.scratch_bytes) kernel->base.scratch_bytes += ALIGN; /* it is aligned below */
    *out = &kernel->base;
    return STATUS_OK;
}

void cuda_kernel_free(struct kernel *kernel) {
    struct cuda_kernel *self = (struct cuda_kernel *)kernel;
    for (size_t i = 0; i < sizeof self->product / sizeof *self->product; i++)
        cuda_product_free(&self->product[i]);
    cuda_engine_free(&self->engine);
    for (int i = 0; i < OP_MAX_IN; i++) free(self->host_in[i]);
    for (int i = 0; i < OP_MAX_OUT; i++) free(self->host_out[i]);
    free(self->host_scratch);
    free(self);
}

enum status cuda_kernel_run(struct kernel *kernel, void *const in[], void *const out[],
                            void *scratch, struct stream *stream) {
    struct cuda_kernel *self = (struct cuda_kernel *)kernel;
    TRY(cuda_enter(cuda_device_of(kernel->device)));
    void *at = (void *)(((uintptr_t)scratch + ALIGN - 1) / ALIGN * ALIGN), *from[OP_MAX_IN];
    TRY(widen(self, in, from, at, cuda_stream_of(stream)));
    return self->run(self, from, out, at, cuda_stream_of(stream));
}
