/* Models that a program defines (struct stretto_model of the public header): rows beside those of
 * model.def, and the calls that build their graphs, each of which is one of graph/build.h or
 * model/layer.h. What would be a bug in a model of ours (a name too long, a value of another graph)
 * is a misfit here: the reason is logged and the run is refused. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "model/layer.h"
#include "model/own.h"
#include "op/user.h"
#include "stretto.h"

/* --- checks --- */

/* Room for ".num_batches_tracked" behind it. */
enum { NAME_BYTES = LAYER_NAME_BYTES - 24 };

bool own_given(const struct stretto_graph *own, const char *call) {
    return own || (api_refuse("%s: the graph is NULL", call), false);
}

static bool ready(struct stretto_graph *own, const char *name) {
    if (!own_given(own, name ? name : "a layer")) return false;
    struct graph *graph = own->graph;
    if (graph->status != STATUS_OK) return false;
    if (name && *name && strlen(name) < NAME_BYTES) return true;
    graph_misfit(graph, "a layer", "its name is %s; 1 to %d characters are possible",
                 name ? name : "missing", NAME_BYTES - 1);
    return false;
}

/* Whether `value` is one of this graph of `least` dimensions or more. */
static bool has(struct stretto_graph *own, const char *name, stretto_value value, int least) {
    if (!ready(own, name)) return false;
    int rank = own_is(own, value) ? own->graph->values[value].type.shape.rank : -1;
    if (rank < 0)
        graph_misfit(own->graph, name, "there is no value %d", value);
    else if (rank < least)
        graph_misfit(own->graph, name, "its input has rank %d; %d at least is needed", rank, least);
    return rank >= 0 && rank >= least;
}

static bool can_be_counted(struct stretto_graph *own, const char *name, const struct shape *shape) {
    if (shape_is_countable(shape)) return true;
    graph_misfit(own->graph, name, "a tensor of %s is too large",
                 shape_text(shape, (char[SHAPE_TEXT_BYTES]){0}));
    return false;
}

static bool shape_from(struct stretto_graph *own, const char *name, int rank, const int64_t *dim,
                       struct shape *out) {
    if (!ready(own, name)) return false;
    if (rank < 0 || rank > SHAPE_MAX_RANK || (rank > 0 && !dim)) {
        graph_misfit(own->graph, name, "a shape of rank %d%s; 0 to %d are possible", rank,
                     dim ? "" : ", and its dimensions are NULL", SHAPE_MAX_RANK);
        return false;
    }
    *out = (struct shape){.rank = rank};
    for (int d = 0; d < rank; d++) {
        out->dim[d] = dim[d];
        if (dim[d] > 0) continue;
        graph_misfit(own->graph, name, "dimension %d is %lld", d, (long long)dim[d]);
        return false;
    }
    return can_be_counted(own, name, out);
}

/* --- what a graph is for --- */

int64_t stretto_batch(const struct stretto_graph *own) {
    return own_given(own, "stretto_batch") ? own->graph->batch : -1;
}

int stretto_training(const struct stretto_graph *own) {
    return own_given(own, "stretto_training") ? own->graph->training : -1;
}

int64_t stretto_classes(const struct stretto_graph *own) {
    return own_given(own, "stretto_classes") ? own->config->classes : -1;
}

static const struct field *field_of(const struct stretto_graph *own, const char *name) {
    const struct dataset *data = own->config->data;
    int field = data && name ? dataset_field(data, name) : -1;
    return field < 0 ? NULL : &data->field[field];
}

stretto_value stretto_input(struct stretto_graph *own, const char *name) {
    if (!ready(own, name)) return NO_VALUE;
    struct graph *graph = own->graph;
    const struct field *field = field_of(own, name);
    if (!field) {
        graph_misfit(graph, name, "data set %s has no such field",
                     own->config->data ? own->config->data->spec : "without a name");
        return NO_VALUE;
    }
    int known = graph_input_find(graph, name);
    if (known != NO_VALUE) return known;
    struct shape shape = {.rank = field->shape.rank + 1, .dim = {graph->batch}};
    memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.rank * sizeof shape.dim[0]);
    return graph_input(graph, name, field->dtype, shape);
}

stretto_value stretto_param(struct stretto_graph *own, const char *name, int rank,
                            const int64_t *dim, int init, float scale) {
    static const enum init_kind kinds[] = {[STRETTO_ZERO] = INIT_ZERO,
                                           [STRETTO_ONE] = INIT_ONE,
                                           [STRETTO_UNIFORM] = INIT_UNIFORM,
                                           [STRETTO_NORMAL] = INIT_NORMAL};
    struct shape shape;
    if (!shape_from(own, name, rank, dim, &shape)) return NO_VALUE;
    if (init < STRETTO_ZERO || init > STRETTO_NORMAL) {
        graph_misfit(own->graph, name, "there is no initial distribution %d", init);
        return NO_VALUE;
    }
    if (!isfinite(scale)) {
        graph_misfit(own->graph, name, "its initial scale is %g", (double)scale);
        return NO_VALUE;
    }
    return graph_param(own->graph, name, shape, rank > 1 ? PARAM_WEIGHT : PARAM_BIAS, kinds[init],
                       scale);
}

int stretto_shape(const struct stretto_graph *own, stretto_value value,
                  int64_t dim[STRETTO_MAX_RANK]) {
    if (!own_given(own, "stretto_shape") || !own_is(own, value)) return -1;
    struct shape shape = graph_shape(own->graph, value);
    if (dim) memcpy(dim, shape.dim, sizeof shape.dim);
    return shape.rank;
}

void stretto_refuse(struct stretto_graph *own, const char *name, const char *why) {
    if (own_given(own, "stretto_refuse"))
        graph_misfit(own->graph, name ? name : "the model", "%s", why ? why : "does not fit");
}

void stretto_next_block(struct stretto_graph *own) {
    if (own_given(own, "stretto_next_block")) graph_next_block(own->graph);
}

/* --- layers --- */

stretto_value stretto_linear(struct stretto_graph *own, const char *name, stretto_value x,
                             int64_t out) {
    if (!has(own, name, x, 2)) return NO_VALUE;
    return layer_linear(own->graph, name, x, out, LAYER_TORCH);
}

stretto_value stretto_conv2d(struct stretto_graph *own, const char *name, stretto_value x,
                             int64_t out, int kernel, int stride, int pad, int bias) {
    if (!has(own, name, x, 4)) return NO_VALUE;
    struct layer_conv conv = {out, kernel, stride, pad, bias != 0, bias ? LAYER_TORCH : LAYER_HE};
    if (out > 0 && kernel > 0 && stride > 0 && pad >= 0) {
        struct shape weight = SHAPE(out, graph_shape(own->graph, x).dim[1], kernel, kernel);
        if (!can_be_counted(own, name, &weight)) return NO_VALUE;
        return layer_conv2d(own->graph, name, x, conv);
    }
    graph_misfit(own->graph, name, "%lld channels, window %d, stride %d, padding %d",
                 (long long)out, kernel, stride, pad);
    return NO_VALUE;
}

stretto_value stretto_batch_norm(struct stretto_graph *own, const char *name, stretto_value x) {
    return has(own, name, x, 2) ? layer_batch_norm(own->graph, name, x) : NO_VALUE;
}

stretto_value stretto_layer_norm(struct stretto_graph *own, const char *name, stretto_value x,
                                 float epsilon) {
    return has(own, name, x, 2) ? layer_layer_norm(own->graph, name, x, epsilon) : NO_VALUE;
}

stretto_value stretto_embedding(struct stretto_graph *own, const char *name, stretto_value ids,
                                int64_t rows, int64_t width) {
    return has(own, name, ids, 1) ? layer_embedding(own->graph, name, ids, rows, width, false)
                                  : NO_VALUE;
}

/* --- operations --- */

stretto_value stretto_relu(struct stretto_graph *own, const char *name, stretto_value x) {
    return has(own, name, x, 0) ? graph_relu(own->graph, name, x) : NO_VALUE;
}

stretto_value stretto_gelu(struct stretto_graph *own, const char *name, stretto_value x) {
    return has(own, name, x, 0) ? graph_gelu(own->graph, name, x, false) : NO_VALUE;
}

stretto_value stretto_tanh(struct stretto_graph *own, const char *name, stretto_value x) {
    return has(own, name, x, 0) ? graph_tanh(own->graph, name, x) : NO_VALUE;
}

stretto_value stretto_silu(struct stretto_graph *own, const char *name, stretto_value x) {
    return has(own, name, x, 0) ? graph_op(own->graph, name, OP_SILU, NULL, 1, &x) : NO_VALUE;
}

stretto_value stretto_softmax(struct stretto_graph *own, const char *name, stretto_value x) {
    return has(own, name, x, 1) ? graph_softmax(own->graph, name, x) : NO_VALUE;
}

stretto_value stretto_dropout(struct stretto_graph *own, const char *name, stretto_value x,
                              float probability) {
    if (!has(own, name, x, 1)) return NO_VALUE;
    float asked = layer_dropout(own->config, probability);
    if (asked >= 0 && asked < 1) return graph_dropout(own->graph, name, x, asked);
    graph_misfit(own->graph, name, "dropout of probability %g", (double)asked);
    return NO_VALUE;
}

stretto_value stretto_attention(struct stretto_graph *own, const char *name, stretto_value q,
                                stretto_value k, stretto_value v, int heads, int causal) {
    bool packed = k < 0 && v < 0;
    if (!has(own, name, q, 3) || (!packed && (!has(own, name, k, 3) || !has(own, name, v, 3))))
        return NO_VALUE;
    return graph_attention(own->graph, name, q, packed ? NO_VALUE : k, packed ? NO_VALUE : v,
                           NO_VALUE, heads, causal != 0, 0);
}

stretto_value stretto_max_pool(struct stretto_graph *own, const char *name, stretto_value x,
                               int kernel, int stride, int pad) {
    return has(own, name, x, 4) ? graph_max_pool(own->graph, name, x, kernel, stride, pad)
                                : NO_VALUE;
}

stretto_value stretto_avg_pool(struct stretto_graph *own, const char *name, stretto_value x,
                               int kernel, int stride, int pad) {
    return has(own, name, x, 4) ? graph_avg_pool(own->graph, name, x, kernel, stride, pad)
                                : NO_VALUE;
}

stretto_value stretto_flatten(struct stretto_graph *own, const char *name, stretto_value x) {
    if (!has(own, name, x, 1)) return NO_VALUE;
    struct shape shape = graph_shape(own->graph, x);
    return graph_reshape(own->graph, name, x,
                         SHAPE(shape.dim[0], shape_span(&shape, 1, shape.rank)));
}

stretto_value stretto_global_pool(struct stretto_graph *own, const char *name, stretto_value x) {
    if (!has(own, name, x, 4)) return NO_VALUE;
    struct shape shape = graph_shape(own->graph, x);
    x = graph_avg_pool_to(own->graph, name, x, 1, 1);
    return graph_reshape(own->graph, NAME("%s.flatten", name), x,
                         SHAPE(shape.dim[0], shape.dim[1]));
}

stretto_value stretto_add(struct stretto_graph *own, const char *name, stretto_value a,
                          stretto_value b) {
    bool both = has(own, name, a, 0) && has(own, name, b, 0);
    return both ? graph_add(own->graph, name, a, b) : NO_VALUE;
}

stretto_value stretto_matmul(struct stretto_graph *own, const char *name, stretto_value a,
                             stretto_value b, float scale) {
    bool both = has(own, name, a, 2) && has(own, name, b, 2);
    return both ? graph_matmul(own->graph, name, a, b, false, false, scale) : NO_VALUE;
}

stretto_value stretto_concat(struct stretto_graph *own, const char *name, int axis, stretto_value a,
                             stretto_value b) {
    bool both = has(own, name, a, 1) && has(own, name, b, 1);
    return both ? graph_concat(own->graph, name, axis, a, b) : NO_VALUE;
}

stretto_value stretto_slice(struct stretto_graph *own, const char *name, stretto_value x, int axis,
                            int64_t begin, int64_t end) {
    return has(own, name, x, 1) ? graph_slice(own->graph, name, x, axis, begin, end) : NO_VALUE;
}

stretto_value stretto_reshape(struct stretto_graph *own, const char *name, stretto_value x,
                              int rank, const int64_t *dim) {
    struct shape shape;
    if (!has(own, name, x, 0) || !shape_from(own, name, rank, dim, &shape)) return NO_VALUE;
    return graph_reshape(own->graph, name, x, shape);
}

stretto_value stretto_transpose(struct stretto_graph *own, const char *name, stretto_value x,
                                const int *order) {
    if (!has(own, name, x, 1)) return NO_VALUE;
    if (order) return graph_transpose(own->graph, name, x, order);
    graph_misfit(own->graph, name, "the order of its dimensions is missing");
    return NO_VALUE;
}

stretto_value stretto_apply(struct stretto_graph *own, const char *name,
                            const struct stretto_op *op, void *context, int in_count,
                            const stretto_value *in, stretto_value *out) {
    if (!ready(own, name)) return NO_VALUE;
    struct graph *graph = own->graph;
    struct op_attrs attrs = {.user = {.use = arena_new(&graph->arena, sizeof(struct op_use))}};
    if (in_count < 1 || in_count > STRETTO_OP_MAX_IN || !in) {
        graph_misfit(graph, name, "%d inputs%s; 1 to %d are possible", in_count,
                     in ? "" : ", and the list of them is NULL", STRETTO_OP_MAX_IN);
        return NO_VALUE;
    }
    for (int i = 0; i < in_count; i++)
        if (!has(own, name, in[i], 0)) return NO_VALUE;
    graph->status = op_use_init(op, context, attrs.user.use);
    int first = graph_op(graph, name, OP_USER, &attrs, in_count, in);
    for (int i = 0; out && first != NO_VALUE && i < attrs.user.use->call.out_count; i++)
        out[i] = graph_output(graph, first, i);
    return first;
}

/* --- the ends --- */

/* What it is compared with decides by how much a loss is divided. */
static bool can_be_compared(struct stretto_graph *own, const char *name, stretto_value labels) {
    if (!has(own, name, labels, 1)) return false;
    const struct value *value = &own->graph->values[labels];
    const struct field *field = value->kind == VALUE_INPUT ? field_of(own, value->name) : NULL;
    if (own->graph->loss_count == GRAPH_MAX_LOSSES)
        graph_misfit(own->graph, name, "a model has %d losses at most", GRAPH_MAX_LOSSES);
    else if (!field || !field->is_label)
        graph_misfit(own->graph, name,
                     "its labels are no input of a field that is a label (stretto_field.label)");
    else
        return true;
    return false;
}

void stretto_cross_entropy(struct stretto_graph *own, const char *name, stretto_value logits,
                           stretto_value labels, float smoothing) {
    if (!has(own, name, logits, 2) || !can_be_compared(own, name, labels)) return;
    const struct field *field = field_of(own, own->graph->values[labels].name);
    struct shape shape = graph_shape(own->graph, logits);
    if (field->limit > shape.dim[shape.rank - 1])
        graph_misfit(own->graph, name, "%lld classes; %s has %lld",
                     (long long)shape.dim[shape.rank - 1], field->name, (long long)field->limit);
    else
        graph_cross_entropy(own->graph, name, logits, labels, smoothing,
                            own->graph->loss_count == 0);
}

/* The first input of f32 that is the model's work, no field and no parameter; or NO_VALUE. */
static int first_made(const struct graph *graph, const struct node *node) {
    for (int i = 0; i < node->in_count; i++) {
        const struct value *value = &graph->values[node->in[i]];
        if (value->kind == VALUE_LOCAL && value->type.dtype == DTYPE_F32) return node->in[i];
    }
    return NO_VALUE;
}

void stretto_loss(struct stretto_graph *own, const char *name, stretto_value sum,
                  stretto_value labels) {
    if (!has(own, name, sum, 0) || !can_be_compared(own, name, labels)) return;
    const struct value *value = &own->graph->values[sum];
    bool made = value->producer >= 0 && own->graph->nodes[value->producer].op == OP_USER &&
                own->graph->nodes[value->producer].out[0] == sum;
    int scores = made ? first_made(own->graph, &own->graph->nodes[value->producer]) : NO_VALUE;
    if (!made || value->type.dtype != DTYPE_F64 || value->type.shape.rank != 0)
        graph_misfit(own->graph, name,
                     "a loss is the first output of an own operation, one value "
                     "of STRETTO_F64 and rank 0");
    else if (scores == NO_VALUE)
        graph_misfit(own->graph, name, "its operation reads nothing that the model makes");
    else
        graph_loss(own->graph, name, sum, labels, NO_VALUE, scores);
}

void stretto_output(struct stretto_graph *own, stretto_value value) {
    if (!has(own, "the output", value, 1)) return;
    if (own->graph->values[value].kind != VALUE_LOCAL)
        graph_misfit(own->graph, "the output", "is an input or a parameter of the model");
    else if (own->graph->values[value].type.dtype != DTYPE_F32)
        graph_misfit(own->graph, "the output", "is not of f32");
    else
        own->graph->output = value;
}

/* --- rows --- */

static const char *tensor_name(const struct graph *graph, int index) {
    return index < graph->param_count ? graph->params[index].name
                                      : graph->buffers[index - graph->param_count].name;
}

/* Files name parameters and buffers. */
static void check_tensors(struct graph *graph) {
    for (int i = 0; i < graph->param_count + graph->buffer_count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(tensor_name(graph, i), tensor_name(graph, k)) == 0)
                graph_misfit(graph, tensor_name(graph, i), "there are two %s of this name",
                             i < graph->param_count ? "parameters" : "tensors");
}

/* Cuts go from graph to graph by the names of layers. Nodes of one name in a row are one layer. */
static void check_layers(struct graph *graph) {
    for (int i = 1; i < graph->node_count; i++) {
        const char *name = graph->nodes[i].name;
        int k = i - 1;
        if (strcmp(graph->nodes[k].name, name) == 0) continue;
        while (k >= 0 && strcmp(graph->nodes[k].name, name) != 0) k--;
        if (k >= 0) graph_misfit(graph, name, "there are two layers of this name");
    }
}

static void own_build(struct graph *graph, const struct model_config *config,
                      const struct model *model) {
    const struct stretto_model *given = model->own;
    struct stretto_graph own = {graph, config};
    given->build(&own, given->context);
    check_tensors(graph);
    check_layers(graph);
    if (graph->loss_count == 0) graph_misfit(graph, model->name, "the model has no loss");
    if (graph->param_count == 0) graph_misfit(graph, model->name, "the model has no parameters");
}

static bool is_rate(double value) {
    return isfinite(value) && value >= 0;
}

static enum status check(const struct stretto_model *model) {
    if (!model->name || !*model->name || strpbrk(model->name, " \t\n/"))
        return fail(STATUS_USAGE, "a model needs a name without blanks and slashes");
    if (!model->build) return fail(STATUS_USAGE, "model %s has no build function", model->name);
    if (!is_rate(model->lr) || !is_rate(model->weight_decay) || !is_rate(model->clip))
        return fail(STATUS_USAGE, "model %s: rate %g, weight decay %g, clip %g", model->name,
                    model->lr, model->weight_decay, model->clip);
    if (!optim_find(model->optimizer))
        return fail(STATUS_USAGE, "model %s: there is no optimizer %s", model->name,
                    model->optimizer);
    return STATUS_OK;
}

static bool are_same(const struct stretto_model *a, const struct stretto_model *b) {
    return a->build == b->build && a->context == b->context && a->lr == b->lr &&
           a->weight_decay == b->weight_decay && a->clip == b->clip && a->data == b->data &&
           strcmp(a->optimizer, b->optimizer) == 0;
}

/* The same row again is no mistake: runs share a model. */
static enum status add_row(const struct stretto_model *model) {
    const struct model *there = model_find(model->name);
    if (there && there->own && are_same(there->own, model)) return STATUS_OK;
    struct stretto_model *kept = MEM_NEW(struct stretto_model);
    *kept = *model;
    struct model row = {.name = model->name,
                        .help = "a model of this program",
                        .input = MODEL_OWN,
                        .optimizer = model->optimizer,
                        .lr = model->lr > 0 ? model->lr : 0.01,
                        .weight_decay = model->weight_decay,
                        .clip = model->clip,
                        .build = own_build,
                        .data = model->data ? model->data->name : NULL,
                        .own = kept};
    enum status status = model_add(&row);
    if (status != STATUS_OK) free(kept);
    return status;
}

static enum status take(const struct stretto_model *given, struct stretto_model *out) {
    TRY(api_take(given, offsetof(struct stretto_model, context), out, sizeof *out,
                 "stretto_model"));
    if (!out->optimizer) out->optimizer = "sgd";
    return STATUS_OK;
}

static enum status add(const struct stretto_model *model) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    TRY(check(model));
    pthread_mutex_lock(&lock);
    enum status status = add_row(model);
    pthread_mutex_unlock(&lock);
    return status;
}

int stretto_add_model(const struct stretto_model *model) {
    struct stretto_model known;
    struct api_call call;
    api_begin(&call);
    int code = api_end(&call, take(model, &known));
    if (code == 0 && known.data) code = stretto_add_data(known.data);
    if (code != 0) return code;
    api_begin(&call);
    return api_end(&call, add(&known));
}
