/* Building graphs: what models are written with.
 *
 * Every function returns the handle of the value it makes. Misfits are logged once, naming the node
 * and the shapes, and remembered in graph->status; later calls on NO_VALUE do nothing, so model
 * code needs no checks between the lines. Names are formatted by the caller's model code (see
 * model/layer.h) and copied. All calls are local and own nothing of the caller's. */
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "graph/graph.h"

int graph_input(struct graph *graph, const char *name, enum dtype dtype, struct shape shape);
int graph_param(struct graph *graph, const char *name, struct shape shape, enum param_class class,
                enum init_kind init, float scale);
int graph_buffer(struct graph *graph, const char *name, enum dtype dtype, struct shape shape,
                 float start);
/* A parameter built earlier, by name (tied weights); NO_VALUE with a logged misfit when there is
 * none. */
int graph_param_find(struct graph *graph, const char *name);

/* The general form: adds a node, infers its output types, returns its first output; others are
 * graph_output(i). Trailing NO_VALUE inputs (an absent bias, say) are dropped; any other NO_VALUE
 * makes the call return NO_VALUE. */
int graph_op(struct graph *graph, const char *name, enum op op, const struct op_attrs *attrs,
             int in_count, const int *in);
/* Output `index` of the node that made `value`. */
int graph_output(const struct graph *graph, int value, int index);

/* Shape of a value; the scalar shape for NO_VALUE. */
struct shape graph_shape(const struct graph *graph, int value);

/* What follows belongs to the next layer block: the unit of segments and freezing. What stands
 * before the first call is a block as well, unless it is said to be a stem (an embedding, the
 * layers before the first of several like blocks): a stem is counted with the first block. What
 * stands behind the last call is the head, which is always trained. */
void graph_next_block(struct graph *graph);
void graph_stem(struct graph *graph);

/* A misfit found by model code itself ("image 30x30 is not a multiple of patch 4"). */
void graph_misfit(struct graph *graph, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Operations, each named for explain and errors. */
int graph_conv2d(struct graph *graph, const char *name, int x, int weight, int bias, int stride,
                 int pad, int groups);
int graph_linear(struct graph *graph, const char *name, int x, int weight, int bias);
/* The same with a weight that is stored [I,O]. */
int graph_linear_across(struct graph *graph, const char *name, int x, int weight, int bias);
int graph_matmul(struct graph *graph, const char *name, int a, int b, bool transpose_a,
                 bool transpose_b, float scale);
/* Training graphs use batch statistics (of all ranks where graph->stats_ranks is above 1) and track
 * the running ones; evaluation graphs use the running ones. */
int graph_batch_norm(struct graph *graph, const char *name, int x, int scale, int shift,
                     int running_mean, int running_var, int batches, float epsilon, float momentum);
int graph_layer_norm(struct graph *graph, const char *name, int x, int scale, int shift,
                     float epsilon);
int graph_relu(struct graph *graph, const char *name, int x);
int graph_gelu(struct graph *graph, const char *name, int x, bool tanh_form);
int graph_tanh(struct graph *graph, const char *name, int x);
int graph_softmax(struct graph *graph, const char *name, int x);
/* Nothing in evaluation graphs or at probability 0. */
int graph_dropout(struct graph *graph, const char *name, int x, float probability);
/* q alone is packed [B,T,3C] when k and v are NO_VALUE; mask may be NO_VALUE. */
int graph_attention(struct graph *graph, const char *name, int q, int k, int v, int mask, int heads,
                    bool causal, float dropout);
int graph_embedding(struct graph *graph, const char *name, int weight, int ids);
int graph_gather_rows(struct graph *graph, const char *name, int x, int index);
int graph_max_pool(struct graph *graph, const char *name, int x, int kernel, int stride, int pad);
int graph_avg_pool(struct graph *graph, const char *name, int x, int kernel, int stride, int pad);
int graph_avg_pool_to(struct graph *graph, const char *name, int x, int height, int width);
int graph_add(struct graph *graph, const char *name, int a, int b);
int graph_concat(struct graph *graph, const char *name, int axis, int a, int b);
int graph_slice(struct graph *graph, const char *name, int x, int axis, int64_t begin, int64_t end);
int graph_pad(struct graph *graph, const char *name, int x, int axis, int64_t size); /* 0 behind */
int graph_expand(struct graph *graph, const char *name, int x); /* [1,...] to the batch */
int graph_reshape(struct graph *graph, const char *name, int x, struct shape shape);
int graph_transpose(struct graph *graph, const char *name, int x, const int *order);

/* A term of the loss: mean cross entropy of `logits` [...,C] over the labels in `labels` [...] not
 * ignored. `top_k` also counts right answers. */
void graph_cross_entropy(struct graph *graph, const char *name, int logits, int labels,
                         float smoothing, bool top_k);
/* The same of any value that is such a sum; top_k: of the counts of OP_TOP_K, or NO_VALUE; scores:
 * what is compared with the labels. */
void graph_loss(struct graph *graph, const char *name, int sum, int labels, int top_k, int scores);

#endif
