/* What both oneDNN APIs share: attributes, element types, layouts as text. */
#include "backend/cpu/onednn.h"

#include <stdio.h>

#include "base/log.h"

dnnl_data_type_t dnn_dtype(enum dtype dtype) {
    switch (dtype) {
    case DTYPE_F32: return dnnl_f32;
    case DTYPE_BF16: return dnnl_bf16;
    case DTYPE_F16: return dnnl_f16;
    case DTYPE_I32: return dnnl_s32;
    case DTYPE_U8: return dnnl_u8;
    default: return dnnl_data_type_undef;
    }
}

bool dnn_has_dtype(enum dtype dtype) {
    return dnn_dtype(dtype) != dnnl_data_type_undef;
}

dnnl_format_tag_t dnn_block_tag(int64_t block) {
    CHECK(block == 4 || block == 8 || block == 16, "blocks of %d channels", (int)block);
    return block == 4 ? dnnl_aBcd4b : block == 8 ? dnnl_aBcd8b : dnnl_aBcd16b;
}

/* The scratchpad is always ours: primitives that share the library's give wrong results across
 * threads. */
dnnl_primitive_attr_t dnn_attr_new(const struct dnn_spec *spec) {
    dnnl_primitive_attr_t attr = NULL;
    CHECK(dnnl_primitive_attr_create(&attr) == dnnl_success, "no primitive attributes");
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    bool scaled = spec->scale != 0.0f && spec->scale != 1.0f;
    if (!(spec->tanh || scaled)) return attr;
    dnnl_post_ops_t ops = NULL;
    CHECK(dnnl_post_ops_create(&ops) == dnnl_success, "no post-ops");
    if (scaled) dnn_post_eltwise(ops, dnnl_eltwise_linear, spec->scale);
    if (spec->tanh) dnn_post_eltwise(ops, dnnl_eltwise_tanh, 0.0f);
    dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return attr;
}

void dnn_spec_free(struct dnn_spec *spec) {
    dnn_md_free(spec->src);
    dnn_md_free(spec->weights);
    dnn_md_free(spec->forward_weights);
    dnn_md_free(spec->bias);
    dnn_md_free(spec->dst);
}

struct dnn_spec dnn_forward_spec(const struct dnn_spec *spec) {
    struct dnn_spec forward = *spec;
    if (spec->forward_weights) forward.weights = spec->forward_weights;
    return forward;
}

const char *dnn_pd_name(const_dnnl_primitive_desc_t pd) {
    const char *name = NULL;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "?";
}

bool dnn_md_plain(const struct dnn_md *md) {
    struct dnn_blocks b;
    if (!dnn_md_blocks(md, &b) || b.inner_count) return false;
    int64_t stride = 1;
    for (int i = b.rank - 1; i >= 0; i--) {
        if (b.padded[i] != b.dim[i] || (b.dim[i] != 1 && b.stride[i] != stride)) return false;
        stride *= b.dim[i];
    }
    return true;
}

static bool is_inner(const struct dnn_blocks *b, int dim) {
    for (int i = 0; i < b->inner_count; i++)
        if (b->inner_dim[i] == dim) return true;
    return false;
}

/* Dimensions from the largest stride to the smallest; a stable insertion sort, ranks are tiny. */
static void order_by_stride(const struct dnn_blocks *b, int order[DNN_MAX_RANK]) {
    for (int i = 0; i < b->rank; i++) {
        int at = i;
        for (; at > 0 && b->stride[order[at - 1]] < b->stride[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

const char *dnn_md_text(const struct dnn_md *md, char text[DNN_TEXT_BYTES]) {
    struct dnn_blocks b;
    int order[DNN_MAX_RANK], used = 0;
    if (!dnn_md_blocks(md, &b)) {
        snprintf(text, DNN_TEXT_BYTES, "opaque");
        return text;
    }
    order_by_stride(&b, order);
    for (int i = 0; i < b.rank; i++)
        text[used++] = (char)((is_inner(&b, order[i]) ? 'A' : 'a') + order[i]);
    text[used] = 0;
    for (int i = 0; i < b.inner_count && used < DNN_TEXT_BYTES - 8; i++)
        used += snprintf(text + used, (size_t)(DNN_TEXT_BYTES - used), "%d%c", (int)b.inner_size[i],
                         'a' + b.inner_dim[i]);
    return text;
}
