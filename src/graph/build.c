/* Model building: see build.h. Each function is the attributes of one operation and a call of
 * graph_op. */
#include "graph/build.h"

#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/shown.h"
#include "graph/edit.h"
#include "graph/freeze.h"

int graph_input(struct graph *graph, const char *name, enum dtype dtype, struct shape shape) {
    CHECK(graph->input_count < GRAPH_MAX_INPUTS, "too many inputs at %s", name);
    int value = edit_value(graph, name, VALUE_INPUT, &(struct tensor_type){dtype, shape});
    graph->values[value].index = graph->input_count;
    graph->inputs[graph->input_count++] = value;
    return value;
}

int graph_param(struct graph *graph, const char *name, struct shape shape, enum param_class class,
                enum init_kind init, float scale) {
    int value = edit_value(graph, name, VALUE_PARAM, &(struct tensor_type){DTYPE_F32, shape});
    int index = graph->param_count++;
    graph->params =
        mem_grow(graph->params, &graph->param_capacity, (size_t)index + 1, sizeof *graph->params);
    graph->params[index] = (struct param){.name = graph->values[value].name,
                                          .value = value,
                                          .block = graph->block,
                                          .frozen = freeze_holds(graph, graph->block),
                                          .class = class,
                                          .init = init,
                                          .scale = scale};
    graph->values[value].index = index;
    return value;
}

int graph_buffer(struct graph *graph, const char *name, enum dtype dtype, struct shape shape,
                 float start) {
    int value = edit_value(graph, name, VALUE_BUFFER, &(struct tensor_type){dtype, shape});
    int index = graph->buffer_count++;
    graph->buffers = mem_grow(graph->buffers, &graph->buffer_capacity, (size_t)index + 1,
                              sizeof *graph->buffers);
    graph->buffers[index] = (struct buffer){
        .name = graph->values[value].name, .value = value, .block = graph->block, .start = start};
    graph->values[value].index = index;
    return value;
}

int graph_param_find(struct graph *graph, const char *name) {
    for (int i = 0; i < graph->param_count; i++) {
        if (strcmp(graph->params[i].name, name) == 0) return graph->params[i].value;
    }
    graph_misfit(graph, name, "no such parameter was built before");
    return NO_VALUE;
}

int graph_op(struct graph *graph, const char *name, enum op op, const struct op_attrs *attrs,
             int in_count, const int *in) {
    while (in_count > 0 && in[in_count - 1] == NO_VALUE) in_count--;
    if (graph->status != STATUS_OK || in_count == 0) return NO_VALUE;
    for (int i = 0; i < in_count; i++) {
        if (in[i] == NO_VALUE) return NO_VALUE;
    }
    struct node *node = edit_node(graph, name, op, attrs, in_count, in);
    if (!node) return NO_VALUE;
    graph->forward_count = graph->node_count;
    return node->out_count ? node->out[0] : NO_VALUE;
}

int graph_output(const struct graph *graph, int value, int index) {
    if (value == NO_VALUE) return NO_VALUE;
    const struct node *node = &graph->nodes[graph->values[value].producer];
    CHECK(index < node->out_count, "%s has no output %d", node->name, index);
    return node->out[index];
}

struct shape graph_shape(const struct graph *graph, int value) {
    return value == NO_VALUE ? SHAPE_SCALAR : graph->values[value].type.shape;
}

void graph_next_block(struct graph *graph) {
    graph->block++;
}

void graph_stem(struct graph *graph) {
    CHECK(graph->block == 0 && graph->value_count == 0, "a stem stands first");
    graph->stem = 1;
}

/* Frozen blocks run as in an evaluation. */
static bool trains_here(const struct graph *graph) {
    return graph->training && !freeze_holds(graph, graph->block);
}

/* A fresh random place: part of the key of a dropout. */
static uint32_t place_new(struct graph *graph) {
    return ++graph->places;
}

/* The input of per-sample random keys, made on first need. */
static int sample_key(struct graph *graph) {
    int value = graph_input_find(graph, "sample_key");
    if (value != NO_VALUE) return value;
    return graph_input(graph, "sample_key", DTYPE_I64, SHAPE(graph->batch));
}

void graph_misfit(struct graph *graph, const char *name, const char *format, ...) {
    if (graph->status != STATUS_OK) return;
    char text[512];
    va_list args;
    va_start(args, format);
    shown_vformat(text, sizeof text, format, args);
    va_end(args);
    graph->status = fail(STATUS_USAGE, "%s: %-s", name, text);
}

int graph_conv2d(struct graph *graph, const char *name, int x, int weight, int bias, int stride,
                 int pad, int groups) {
    struct op_attrs attrs = {.conv = {{stride, stride}, {pad, pad}, {1, 1}, groups}};
    return graph_op(graph, name, OP_CONV2D, &attrs, 3, (int[]){x, weight, bias});
}

int graph_linear(struct graph *graph, const char *name, int x, int weight, int bias) {
    return graph_op(graph, name, OP_LINEAR, NULL, 3, (int[]){x, weight, bias});
}

int graph_linear_across(struct graph *graph, const char *name, int x, int weight, int bias) {
    struct op_attrs attrs = {.across = true};
    return graph_op(graph, name, OP_LINEAR, &attrs, 3, (int[]){x, weight, bias});
}

int graph_matmul(struct graph *graph, const char *name, int a, int b, bool transpose_a,
                 bool transpose_b, float scale) {
    struct op_attrs attrs = {.matmul = {transpose_a, transpose_b, scale}};
    return graph_op(graph, name, OP_MATMUL, &attrs, 2, (int[]){a, b});
}

/* Batch norm cut where ranks exchange their statistics; see op/sync_norm.c. */
static int sync_batch_norm(struct graph *graph, const char *name, struct op_attrs attrs,
                           const int in[3], const int running[3]) {
    struct op_attrs between = {.ranks = graph->stats_ranks};
    int own = graph_op(graph, name, OP_BATCH_NORM_STATS, NULL, 1, in);
    int all = graph_op(graph, name, OP_STATS_EXCHANGE, &between, 1, &own);
    int mean = graph_op(graph, name, OP_BATCH_NORM_MERGE, NULL, 1, &all);
    int var = graph_output(graph, mean, 1), count = graph_output(graph, mean, 2);
    attrs.ranks = graph->stats_ranks;
    int y = graph_op(graph, name, OP_BATCH_NORM_APPLY, &attrs, 6,
                     (int[]){in[0], in[1], in[2], mean, var, count});
    attrs.ranks = 0;
    graph_op(graph, name, OP_BATCH_NORM_TRACK, &attrs, 6,
             (int[]){running[0], running[1], running[2], mean, var, count});
    return y;
}

int graph_batch_norm(struct graph *graph, const char *name, int x, int scale, int shift,
                     int running_mean, int running_var, int batches, float epsilon,
                     float momentum) {
    struct op_attrs attrs = {.norm = {epsilon, momentum}};
    if (!trains_here(graph))
        return graph_op(graph, name, OP_BATCH_NORM_EVAL, &attrs, 5,
                        (int[]){x, scale, shift, running_mean, running_var});
    if (graph->stats_ranks > 1)
        return sync_batch_norm(graph, name, attrs, (int[]){x, scale, shift},
                               (int[]){running_mean, running_var, batches});
    int y = graph_op(graph, name, OP_BATCH_NORM, &attrs, 3, (int[]){x, scale, shift});
    int mean = graph_output(graph, y, 1), var = graph_output(graph, y, 2);
    attrs.like = graph_shape(graph, x);
    graph_op(graph, name, OP_BATCH_NORM_TRACK, &attrs, 5,
             (int[]){running_mean, running_var, batches, mean, var});
    return y;
}

int graph_layer_norm(struct graph *graph, const char *name, int x, int scale, int shift,
                     float epsilon) {
    struct op_attrs attrs = {.norm = {epsilon, 0}};
    return graph_op(graph, name, OP_LAYER_NORM, &attrs, 3, (int[]){x, scale, shift});
}

int graph_relu(struct graph *graph, const char *name, int x) {
    return graph_op(graph, name, OP_RELU, NULL, 1, &x);
}

int graph_gelu(struct graph *graph, const char *name, int x, bool tanh_form) {
    return graph_op(graph, name, tanh_form ? OP_GELU_TANH : OP_GELU, NULL, 1, &x);
}

int graph_tanh(struct graph *graph, const char *name, int x) {
    return graph_op(graph, name, OP_TANH, NULL, 1, &x);
}

int graph_softmax(struct graph *graph, const char *name, int x) {
    return graph_op(graph, name, OP_SOFTMAX, NULL, 1, &x);
}

int graph_dropout(struct graph *graph, const char *name, int x, float probability) {
    if (!graph->training || probability <= 0) return x;
    struct op_attrs attrs = {.dropout = {probability, place_new(graph)}};
    if (!trains_here(graph)) return x; /* its place is taken all the same: others keep theirs */
    return graph_op(graph, name, OP_DROPOUT, &attrs, 2, (int[]){x, sample_key(graph)});
}

int graph_attention(struct graph *graph, const char *name, int q, int k, int v, int mask, int heads,
                    bool causal, float dropout) {
    bool packed = k == NO_VALUE, masked = mask != NO_VALUE;
    if (!graph->training) dropout = 0;
    uint32_t place = dropout > 0 ? place_new(graph) : 0;
    if (!trains_here(graph)) dropout = 0;
    struct op_attrs attrs = {.attention = {heads, packed, masked, causal, dropout, 0}};
    int in[OP_MAX_IN] = {q}, count = 1;
    if (!packed) in[count++] = k, in[count++] = v;
    if (masked) in[count++] = mask;
    if (dropout > 0) {
        attrs.attention.place = place;
        in[count++] = sample_key(graph);
    }
    return graph_op(graph, name, OP_ATTENTION, &attrs, count, in);
}

int graph_embedding(struct graph *graph, const char *name, int weight, int ids) {
    return graph_op(graph, name, OP_EMBEDDING, NULL, 2, (int[]){weight, ids});
}

int graph_gather_rows(struct graph *graph, const char *name, int x, int index) {
    return graph_op(graph, name, OP_GATHER_ROWS, NULL, 2, (int[]){x, index});
}

int graph_max_pool(struct graph *graph, const char *name, int x, int kernel, int stride, int pad) {
    struct op_attrs attrs = {.pool = {{kernel, kernel}, {stride, stride}, {pad, pad}, false}};
    return graph_op(graph, name, OP_MAX_POOL, &attrs, 1, &x);
}

int graph_avg_pool(struct graph *graph, const char *name, int x, int kernel, int stride, int pad) {
    struct op_attrs attrs = {.pool = {{kernel, kernel}, {stride, stride}, {pad, pad}, false}};
    return graph_op(graph, name, OP_AVG_POOL, &attrs, 1, &x);
}

int graph_avg_pool_to(struct graph *graph, const char *name, int x, int height, int width) {
    struct op_attrs attrs = {.like = SHAPE(height, width), .pool = {.adaptive = true}};
    return graph_op(graph, name, OP_AVG_POOL, &attrs, 1, &x);
}

int graph_add(struct graph *graph, const char *name, int a, int b) {
    return graph_op(graph, name, OP_ADD, NULL, 2, (int[]){a, b});
}

int graph_concat(struct graph *graph, const char *name, int axis, int a, int b) {
    struct op_attrs attrs = {.concat = {axis}};
    return graph_op(graph, name, OP_CONCAT, &attrs, 2, (int[]){a, b});
}

int graph_slice(struct graph *graph, const char *name, int x, int axis, int64_t begin,
                int64_t end) {
    struct op_attrs attrs = {.slice = {axis, begin, end}};
    return graph_op(graph, name, OP_SLICE, &attrs, 1, &x);
}

int graph_pad(struct graph *graph, const char *name, int x, int axis, int64_t size) {
    struct op_attrs attrs = {.like = graph_shape(graph, x)};
    attrs.slice = (struct op_slice_attrs){axis, 0, attrs.like.dim[axis]};
    attrs.like.dim[axis] = size;
    return graph_op(graph, name, OP_SLICE_BWD, &attrs, 1, &x);
}

int graph_expand(struct graph *graph, const char *name, int x) {
    struct op_attrs attrs = {.like = graph_shape(graph, x)};
    attrs.like.dim[0] = graph->batch;
    return graph_op(graph, name, OP_EXPAND, &attrs, 1, &x);
}

int graph_reshape(struct graph *graph, const char *name, int x, struct shape shape) {
    struct op_attrs attrs = {.like = shape};
    return graph_op(graph, name, OP_RESHAPE, &attrs, 1, &x);
}

int graph_transpose(struct graph *graph, const char *name, int x, const int *order) {
    struct op_attrs attrs = {0};
    memcpy(attrs.transpose.order, order, (size_t)graph_shape(graph, x).rank * sizeof order[0]);
    return graph_op(graph, name, OP_TRANSPOSE, &attrs, 1, &x);
}

void graph_cross_entropy(struct graph *graph, const char *name, int logits, int labels,
                         float smoothing, bool top_k) {
    struct op_attrs attrs = {.loss = {smoothing}};
    int logp = graph_op(graph, name, OP_LOG_SOFTMAX, NULL, 1, &logits);
    int sum = graph_op(graph, name, OP_NLL, &attrs, 2, (int[]){logp, labels});
    int counts =
        top_k ? graph_op(graph, name, OP_TOP_K, NULL, 2, (int[]){logits, labels}) : NO_VALUE;
    graph_loss(graph, name, sum, labels, counts, logits);
}

void graph_loss(struct graph *graph, const char *name, int sum, int labels, int top_k, int scores) {
    CHECK(graph->loss_count < GRAPH_MAX_LOSSES, "too many losses at %s", name);
    if (sum == NO_VALUE) return;
    if (graph->output == NO_VALUE) graph->output = scores;
    char seed_name[160];
    snprintf(seed_name, sizeof seed_name, "seed.%s", name);
    int seed = graph->training ? graph_input(graph, seed_name, DTYPE_F32, SHAPE_SCALAR) : NO_VALUE;
    graph->losses[graph->loss_count++] = (struct loss){.name = arena_text(&graph->arena, name),
                                                       .label = graph->values[labels].name,
                                                       .sum = sum,
                                                       .seed = seed,
                                                       .top_k = top_k,
                                                       .scores = scores};
}
