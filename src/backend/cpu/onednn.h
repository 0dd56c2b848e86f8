/* The wall between oneDNN's two C APIs.
 *
 * oneDNN 2 describes a primitive in a struct and memory in a plain struct; oneDNN 3 has a creation
 * call per primitive and memory behind a handle. Everything that differs is here: one memory
 * descriptor type, one description of any primitive we use (struct dnn_spec), one call that turns
 * it into a primitive descriptor. onednn2.c and onednn3.c each implement it and the build compiles
 * one of them; onednn.c holds what is equal in both. */
#ifndef BACKEND_CPU_ONEDNN_H
#define BACKEND_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/status.h"
#include "tensor/tensor.h"

enum { DNN_MAX_RANK = 6 };

/* A memory descriptor. Opaque; descriptors made here are owned by the caller, those that dnn_pd_md
 * gives are borrowed from the primitive descriptor. */
struct dnn_md;

/* Local. Strided memory (stride NULL: row major), and "the primitive may choose". Never NULL. */
const struct dnn_md *dnn_md_new(enum dtype dtype, int rank, const int64_t dim[],
                                const int64_t stride[]);
const struct dnn_md *dnn_md_any(enum dtype dtype, int rank, const int64_t dim[]);
/* Local. An image [B,C,H,W] with channels in blocks of 4, 8 or 16, padded to whole blocks. */
const struct dnn_md *dnn_md_blocked(enum dtype dtype, const int64_t dim[], int64_t block);
/* Local. Weights [O,C,kh,kw] as [O/16][C/16][kh][kw][16 of C][16 of O]. */
const struct dnn_md *dnn_md_weights(enum dtype dtype, const int64_t dim[]);
const struct dnn_md *dnn_md_copy(const struct dnn_md *md);
/* Local. Accepts NULL. */
void dnn_md_free(const struct dnn_md *md);
/* Local. True for an element type oneDNN has. */
bool dnn_has_dtype(enum dtype dtype);
bool dnn_md_equal(const struct dnn_md *a, const struct dnn_md *b);
size_t dnn_md_bytes(const struct dnn_md *md);

/* How a descriptor arranges its elements: outer dimensions by strides, then a nest of inner blocks.
 */
struct dnn_blocks {
    int rank, inner_count;
    int64_t dim[DNN_MAX_RANK], padded[DNN_MAX_RANK], stride[DNN_MAX_RANK];
    int64_t inner_size[DNN_MAX_RANK];
    int inner_dim[DNN_MAX_RANK];
};
/* Local. False when the descriptor is opaque (workspaces): only oneDNN can read
 * it. */
bool dnn_md_blocks(const struct dnn_md *md, struct dnn_blocks *out);
/* Local. True when the memory is row major and unpadded. */
bool dnn_md_plain(const struct dnn_md *md);
/* Local. oneDNN's own notation: "aBcd16b", "abcd", "opaque". */
enum { DNN_TEXT_BYTES = 32 };
const char *dnn_md_text(const struct dnn_md *md, char text[DNN_TEXT_BYTES]);

/* Local. A memory object whose data handle is set later; the caller destroys it. */
dnnl_memory_t dnn_memory_new(dnnl_engine_t engine, const struct dnn_md *md);

enum dnn_kind {
    DNN_CONV,
    DNN_CONV_DATA,
    DNN_CONV_WEIGHTS,
    DNN_INNER,
    DNN_INNER_DATA,
    DNN_INNER_WEIGHTS,
    DNN_MATMUL,
    DNN_REORDER,
};

/* Any primitive. In backward kinds a gradient stands where the tensor does that it is the gradient
 * of. */
struct dnn_spec {
    enum dnn_kind kind;
    const struct dnn_md *src, *weights, *bias, *dst; /* bias NULL: none */
    /* Of the gradient of weights: those of forward, where they are of another element type. */
    const struct dnn_md *forward_weights;
    bool tanh;                          /* applied to the result */
    float scale;                        /* of the result, matmul only; 0 is 1 */
    int stride[2], pad[2], dilation[2]; /* dilation 1 is dense */
};

/* Local. Frees the descriptors that a spec has, where they are its own; it may lack some. */
void dnn_spec_free(struct dnn_spec *spec);

/* Local. Describes a primitive with a user scratchpad; STATUS_NO when oneDNN has no implementation.
 * The caller destroys it. */
enum status dnn_describe(dnnl_engine_t engine, const struct dnn_spec *spec,
                         dnnl_primitive_desc_t *out);
/* Local. What the primitive wants as an execution argument (DNNL_ARG_SRC ...), borrowed; empty when
 * it takes none. */
const struct dnn_md *dnn_pd_md(const_dnnl_primitive_desc_t pd, int argument);
/* Local. Name of the implementation, owned by oneDNN. */
const char *dnn_pd_name(const_dnnl_primitive_desc_t pd);
/* Local. The attributes dnn_describe gives each primitive; the caller destroys them. For onednn2.c
 * and onednn3.c. */
dnnl_primitive_attr_t dnn_attr_new(const struct dnn_spec *spec);
struct dnn_spec dnn_forward_spec(const struct dnn_spec *spec); /* what a backward one is shown */
void dnn_post_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha);
dnnl_data_type_t dnn_dtype(enum dtype dtype);
dnnl_format_tag_t dnn_block_tag(int64_t block);

#endif
