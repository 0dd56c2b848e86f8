/* oneDNN 3 (Debian 13): a creation call per primitive, memory descriptors behind handles. */
#include "backend/cpu/onednn.h"

#include "base/log.h"

static const_dnnl_memory_desc_t desc(const struct dnn_md *md) {
    return (const_dnnl_memory_desc_t)md;
}

const struct dnn_md *dnn_md_new(enum dtype dtype, int rank, const int64_t dim[],
                                const int64_t stride[]) {
    dnnl_dims_t rows;
    for (int64_t i = rank - 1, step = 1; i >= 0; step *= dim[i--]) rows[i] = step;
    dnnl_memory_desc_t md = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_strides(&md, rank, dim, dnn_dtype(dtype),
                                                                stride ? stride : rows);
    CHECK(status == dnnl_success, "memory descriptor of rank %d: oneDNN status %d", rank,
          (int)status);
    return (const struct dnn_md *)md;
}

static const struct dnn_md *by_tag(enum dtype dtype, int rank, const int64_t dim[],
                                   dnnl_format_tag_t tag) {
    dnnl_memory_desc_t md = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_tag(&md, rank, dim, dnn_dtype(dtype), tag);
    CHECK(status == dnnl_success, "memory descriptor of rank %d: oneDNN status %d", rank,
          (int)status);
    return (const struct dnn_md *)md;
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
    dnnl_memory_desc_t copy = NULL;
    dnnl_status_t status = dnnl_memory_desc_clone(&copy, desc(md));
    CHECK(status == dnnl_success, "copy of a memory descriptor: oneDNN status %d", (int)status);
    return (const struct dnn_md *)copy;
}

void dnn_md_free(const struct dnn_md *md) {
    if (md) dnnl_memory_desc_destroy((dnnl_memory_desc_t)md);
}

bool dnn_md_equal(const struct dnn_md *a, const struct dnn_md *b) {
    return dnnl_memory_desc_equal(desc(a), desc(b)) != 0;
}

size_t dnn_md_bytes(const struct dnn_md *md) {
    return md ? dnnl_memory_desc_get_size(desc(md)) : 0;
}

static const int64_t *dims_of(const struct dnn_md *md, dnnl_query_t what) {
    const dnnl_dims_t *dims = NULL;
    dnnl_memory_desc_query(desc(md), what, &dims);
    return *dims;
}

bool dnn_md_blocks(const struct dnn_md *md, struct dnn_blocks *out) {
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    struct dnn_blocks blocks = {0};
    dnnl_memory_desc_query(desc(md), dnnl_query_format_kind, &kind);
    if (kind != dnnl_blocked) return false;
    dnnl_memory_desc_query(desc(md), dnnl_query_ndims_s32, &blocks.rank);
    dnnl_memory_desc_query(desc(md), dnnl_query_inner_nblks_s32, &blocks.inner_count);
    if (blocks.rank > DNN_MAX_RANK || blocks.inner_count > DNN_MAX_RANK) return false;
    for (int i = 0; i < blocks.rank; i++) {
        blocks.dim[i] = dims_of(md, dnnl_query_dims)[i];
        blocks.padded[i] = dims_of(md, dnnl_query_padded_dims)[i];
        blocks.stride[i] = dims_of(md, dnnl_query_strides)[i];
    }
    for (int i = 0; i < blocks.inner_count; i++) {
        blocks.inner_size[i] = dims_of(md, dnnl_query_inner_blks)[i];
        blocks.inner_dim[i] = (int)dims_of(md, dnnl_query_inner_idxs)[i];
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
    CHECK(dnnl_post_ops_append_eltwise(ops, kind, alpha, 0.0f) == dnnl_success, "post-op");
}

const struct dnn_md *dnn_pd_md(const_dnnl_primitive_desc_t pd, int argument) {
    return (const struct dnn_md *)dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md,
                                                               argument);
}

/* What a creation call needs beyond the spec. */
struct making {
    dnnl_engine_t engine;
    const struct dnn_spec *spec;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t hint; /* the forward primitive that a backward one must be shown */
};

static dnnl_status_t make_conv(const struct making *m, enum dnn_kind kind,
                               dnnl_primitive_desc_t *out) {
    const struct dnn_spec *s = m->spec;
    dnnl_dims_t stride = {s->stride[0], s->stride[1]}, pad = {s->pad[0], s->pad[1]};
    dnnl_dims_t dilate = {s->dilation[0] - 1, s->dilation[1] - 1};
    const_dnnl_memory_desc_t src = desc(s->src), weights = desc(s->weights), dst = desc(s->dst);
    if (kind == DNN_CONV)
        return dnnl_convolution_forward_primitive_desc_create(
            out, m->engine, dnnl_forward_training, dnnl_convolution_direct, src, weights,
            desc(s->bias), dst, stride, dilate, pad, pad, m->attr);
    if (kind == DNN_CONV_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, m->engine, dnnl_convolution_direct, src, weights, dst, stride, dilate, pad, pad,
            m->hint, m->attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, m->engine, dnnl_convolution_direct, src, weights, desc(s->bias), dst, stride, dilate,
        pad, pad, m->hint, m->attr);
}

static dnnl_status_t make_inner(const struct making *m, enum dnn_kind kind,
                                dnnl_primitive_desc_t *out) {
    const struct dnn_spec *s = m->spec;
    const_dnnl_memory_desc_t src = desc(s->src), weights = desc(s->weights), dst = desc(s->dst);
    if (kind == DNN_INNER)
        return dnnl_inner_product_forward_primitive_desc_create(
            out, m->engine, dnnl_forward_training, src, weights, desc(s->bias), dst, m->attr);
    if (kind == DNN_INNER_DATA)
        return dnnl_inner_product_backward_data_primitive_desc_create(out, m->engine, src, weights,
                                                                      dst, m->hint, m->attr);
    return dnnl_inner_product_backward_weights_primitive_desc_create(
        out, m->engine, src, weights, desc(s->bias), dst, m->hint, m->attr);
}

static dnnl_status_t make(const struct making *m, enum dnn_kind kind, dnnl_primitive_desc_t *out) {
    const struct dnn_spec *s = m->spec;
    switch (kind) {
    case DNN_CONV:
    case DNN_CONV_DATA:
    case DNN_CONV_WEIGHTS: return make_conv(m, kind, out);
    case DNN_INNER:
    case DNN_INNER_DATA:
    case DNN_INNER_WEIGHTS: return make_inner(m, kind, out);
    case DNN_REORDER:
        return dnnl_reorder_primitive_desc_create(out, desc(s->src), m->engine, desc(s->dst),
                                                  m->engine, m->attr);
    default:
        return dnnl_matmul_primitive_desc_create(out, m->engine, desc(s->src), desc(s->weights),
                                                 desc(s->bias), desc(s->dst), m->attr);
    }
}

static enum dnn_kind forward_of(enum dnn_kind kind) {
    if (kind == DNN_CONV_DATA || kind == DNN_CONV_WEIGHTS) return DNN_CONV;
    if (kind == DNN_INNER_DATA || kind == DNN_INNER_WEIGHTS) return DNN_INNER;
    return kind;
}

enum status dnn_describe(dnnl_engine_t engine, const struct dnn_spec *spec,
                         dnnl_primitive_desc_t *out) {
    struct making m = {.engine = engine, .attr = dnn_attr_new(spec)};
    enum dnn_kind forward = forward_of(spec->kind);
    struct dnn_spec shown = dnn_forward_spec(spec);
    m.spec = &shown;
    dnnl_status_t status = forward == spec->kind ? dnnl_success : make(&m, forward, &m.hint);
    m.spec = spec;
    if (status == dnnl_success) status = make(&m, spec->kind, out);
    if (m.hint) dnnl_primitive_desc_destroy(m.hint);
    dnnl_primitive_attr_destroy(m.attr);
    return status == dnnl_success ? STATUS_OK : STATUS_NO;
}
