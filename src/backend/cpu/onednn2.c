/* oneDNN 2 (Debian 12): operation descriptors filled by *_desc_init, memory descriptors that are
 * plain structs. */
#include "backend/cpu/onednn.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

static const dnnl_memory_desc_t *desc(const struct dnn_md *md) {
    return (const dnnl_memory_desc_t *)md;
}

static const struct dnn_md *boxed(const dnnl_memory_desc_t *md) {
    dnnl_memory_desc_t *box = MEM_NEW(dnnl_memory_desc_t);
    *box = *md;
    return (const struct dnn_md *)box;
}

const struct dnn_md *dnn_md_new(enum dtype dtype, int rank, const int64_t dim[],
                                const int64_t stride[]) {
    dnnl_memory_desc_t md;
    dnnl_status_t status =
        dnnl_memory_desc_init_by_strides(&md, rank, dim, dnn_dtype(dtype), stride);
    CHECK(status == dnnl_success, "memory descriptor of rank %d: oneDNN status %d", rank,
          (int)status);
    return boxed(&md);
}

static const struct dnn_md *by_tag(enum dtype dtype, int rank, const int64_t dim[],
                                   dnnl_format_tag_t tag) {
    dnnl_memory_desc_t md;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&md, rank, dim, dnn_dtype(dtype), tag);
    CHECK(status == dnnl_success, "memory descriptor of rank %d: oneDNN status %d", rank,
          (int)status);
    return boxed(&md);
}

const struct dnn_md *dnn_md_any(enum dtype dtype, int rank, const int64_t dim[]) {
    return by_tag(dtype, rank, dim, dnnl_format_tag_any);
}

const struct dnn_md *dnn_md_blocked(enum dtype dtype, const int64_t dim[], int64_t block) {
    return by_tag(dtype, 4, dim, dnn_block_tag(block));
}

const struct dnn_md *dnn_md_weights(enum dtype dtype, const int64_t dim[]) {
    return by_tag(dtype, 4, dim, dnnl_OIhw16i16o);
}

const struct dnn_md *dnn_md_copy(const struct dnn_md *md) {
    return boxed(desc(md));
}

void dnn_md_free(const struct dnn_md *md) {
    free((void *)md);
}

bool dnn_md_equal(const struct dnn_md *a, const struct dnn_md *b) {
    return dnnl_memory_desc_equal(desc(a), desc(b)) != 0;
}

size_t dnn_md_bytes(const struct dnn_md *md) {
    return md ? dnnl_memory_desc_get_size(desc(md)) : 0;
}

bool dnn_md_blocks(const struct dnn_md *md, struct dnn_blocks *out) {
    const dnnl_memory_desc_t *d = desc(md);
    if (d->format_kind != dnnl_blocked || d->ndims > DNN_MAX_RANK) return false;
    const dnnl_blocking_desc_t *b = &d->format_desc.blocking;
    struct dnn_blocks blocks = {.rank = d->ndims, .inner_count = b->inner_nblks};
    if (blocks.inner_count > DNN_MAX_RANK) return false;
    for (int i = 0; i < d->ndims; i++) {
        blocks.dim[i] = d->dims[i];
        blocks.padded[i] = d->padded_dims[i];
        blocks.stride[i] = b->strides[i];
    }
    for (int i = 0; i < b->inner_nblks; i++) {
        blocks.inner_size[i] = b->inner_blks[i];
        blocks.inner_dim[i] = (int)b->inner_idxs[i];
    }
    *out = blocks;
    return true;
}

dnnl_memory_t dnn_memory_new(dnnl_engine_t engine, const struct dnn_md *md) {
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = dnnl_memory_create(&memory, desc(md), engine, DNNL_MEMORY_NONE);
    CHECK(status == dnnl_success, "memory object: oneDNN status %d", (int)status);
    return memory;
}

void dnn_post_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) {
    CHECK(dnnl_post_ops_append_eltwise(ops, 1.0f, kind, alpha, 0.0f) == dnnl_success, "post-op");
}

const struct dnn_md *dnn_pd_md(const_dnnl_primitive_desc_t pd, int argument) {
    return (const struct dnn_md *)dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md,
                                                               argument);
}

/* All operation descriptors begin with the primitive kind; oneDNN takes any of them through a void
 * pointer. */
union op_desc {
    dnnl_convolution_desc_t conv;
    dnnl_inner_product_desc_t inner;
    dnnl_matmul_desc_t matmul;
};

static dnnl_status_t conv_desc(const struct dnn_spec *s, enum dnn_kind kind, union op_desc *out) {
    dnnl_alg_kind_t how = dnnl_convolution_direct;
    dnnl_dims_t stride = {s->stride[0], s->stride[1]}, pad = {s->pad[0], s->pad[1]};
    dnnl_dims_t dilate = {s->dilation[0] - 1, s->dilation[1] - 1};
    const dnnl_memory_desc_t *src = desc(s->src), *weights = desc(s->weights), *dst = desc(s->dst);
    const dnnl_memory_desc_t *bias = s->bias ? desc(s->bias) : NULL;
    if (kind == DNN_CONV)
        return dnnl_dilated_convolution_forward_desc_init(&out->conv, dnnl_forward_training, how,
                                                          src, weights, bias, dst, stride, dilate,
                                                          pad, pad);
    if (kind == DNN_CONV_DATA)
        return dnnl_dilated_convolution_backward_data_desc_init(&out->conv, how, src, weights, dst,
                                                                stride, dilate, pad, pad);
    return dnnl_dilated_convolution_backward_weights_desc_init(&out->conv, how, src, weights, bias,
                                                               dst, stride, dilate, pad, pad);
}

static dnnl_status_t inner_desc(const struct dnn_spec *s, enum dnn_kind kind, union op_desc *out) {
    const dnnl_memory_desc_t *src = desc(s->src), *weights = desc(s->weights), *dst = desc(s->dst);
    const dnnl_memory_desc_t *bias = s->bias ? desc(s->bias) : NULL;
    if (kind == DNN_INNER)
        return dnnl_inner_product_forward_desc_init(&out->inner, dnnl_forward_training, src,
                                                    weights, bias, dst);
    if (kind == DNN_INNER_DATA)
        return dnnl_inner_product_backward_data_desc_init(&out->inner, src, weights, dst);
    return dnnl_inner_product_backward_weights_desc_init(&out->inner, src, weights, bias, dst);
}

static dnnl_status_t describe(const struct dnn_spec *s, enum dnn_kind kind, union op_desc *out) {
    switch (kind) {
    case DNN_CONV:
    case DNN_CONV_DATA:
    case DNN_CONV_WEIGHTS: return conv_desc(s, kind, out);
    case DNN_INNER:
    case DNN_INNER_DATA:
    case DNN_INNER_WEIGHTS: return inner_desc(s, kind, out);
    default:
        return dnnl_matmul_desc_init(&out->matmul, desc(s->src), desc(s->weights),
                                     s->bias ? desc(s->bias) : NULL, desc(s->dst));
    }
}

/* The forward primitive that a backward one must be shown; its own kind when it is none. */
static enum dnn_kind forward_of(enum dnn_kind kind) {
    switch (kind) {
    case DNN_CONV_DATA:
    case DNN_CONV_WEIGHTS: return DNN_CONV;
    case DNN_INNER_DATA:
    case DNN_INNER_WEIGHTS: return DNN_INNER;
    default: return kind;
    }
}

static dnnl_status_t create(dnnl_engine_t engine, const struct dnn_spec *spec,
                            dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out) {
    if (spec->kind == DNN_REORDER)
        return dnnl_reorder_primitive_desc_create(out, desc(spec->src), engine, desc(spec->dst),
                                                  engine, attr);
    union op_desc op, hint_op;
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = describe(spec, spec->kind, &op);
    enum dnn_kind forward = forward_of(spec->kind);
    if (status == dnnl_success && forward != spec->kind) {
        struct dnn_spec shown = dnn_forward_spec(spec);
        status = describe(&shown, forward, &hint_op);
        if (status == dnnl_success)
            status = dnnl_primitive_desc_create(&hint, &hint_op, attr, engine, NULL);
    }
    if (status == dnnl_success) status = dnnl_primitive_desc_create(out, &op, attr, engine, hint);
    if (hint) dnnl_primitive_desc_destroy(hint);
    return status;
}

enum status dnn_describe(dnnl_engine_t engine, const struct dnn_spec *spec,
                         dnnl_primitive_desc_t *out) {
    dnnl_primitive_attr_t attr = dnn_attr_new(spec);
    dnnl_status_t status = create(engine, spec, attr, out);
    dnnl_primitive_attr_destroy(attr);
    return status == dnnl_success ? STATUS_OK : STATUS_NO;
}
