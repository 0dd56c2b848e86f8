/* Static graphs: what one micro-batch computes.
 *
 * A graph is two flat lists, values and nodes, in execution order. Models build the forward part
 * through build.h; then the passes below run over it, in this order, each leaving a graph that can
 * be printed:
 *
 *     graph_fuse      merges nodes where one kernel does the work of several; graph->dtype is set
 *                     before, where it will not be f32
 *     graph_gradient  appends the backward nodes by the operations' own rules
 *     graph_narrow    makes activations bf16, where a run asks for that
 *     graph_lower     chooses kernels and layouts on the whole graph, and inserts REORDER nodes
 *                     where two do not meet
 *     ranges_new      cuts it into stages and segments: which nodes an instruction runs (range.h)
 *     graph_place     gives every local value an offset in one arena by lifetime (memory.h)
 *
 * Fusion comes before the gradient (the other order was planned first): a fused operation carries
 * its own gradient rule, so patterns are matched once, on the forward part alone. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "op/op.h"

enum { NO_VALUE = -1 };

enum value_kind {
    VALUE_INPUT,  /* filled before each micro-batch: samples, labels, keys, loss seeds */
    VALUE_PARAM,  /* trained */
    VALUE_BUFFER, /* kept but not trained: running statistics */
    VALUE_LOCAL,  /* made by a node */
};

struct value {
    const char *name;
    enum value_kind kind;
    struct tensor_type type;
    int producer;                /* node, or -1 */
    int index;                   /* of the input, parameter or buffer; -1 for local values */
    int root;                    /* the value whose bytes this is: itself unless a view */
    int use;                     /* parameter use this is the gradient of, or -1 */
    const struct layout *layout; /* known after graph_lower */
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_COUNT };

struct node {
    const char *name; /* "layer1.0.conv1"; backward nodes carry the forward node's name */
    enum op op;
    struct op_attrs attrs;
    int in_count, out_count;
    int in[OP_MAX_IN], out[OP_MAX_OUT];
    enum phase phase;
    enum op_half half;     /* of backward nodes */
    int block;             /* layer block: the unit of segments and freezing */
    int unit;              /* what no cut divides (range.h): a fused forward node, counted from 0,
                              with its reorders and its backward nodes */
    struct kernel *kernel; /* after graph_lower; NULL for views */
};

/* Which parameters weight decay skips is told by class. */
enum param_class { PARAM_WEIGHT, PARAM_BIAS, PARAM_NORM };
enum init_kind {
    INIT_ZERO,
    INIT_ONE,
    INIT_UNIFORM,
    INIT_NORMAL,
    INIT_NORMAL_PADDED,
    INIT_TRUNC_NORMAL
};

struct param {
    const char *name; /* as in the ecosystem's state dicts */
    int value, block;
    bool frozen; /* not trained: no gradient of it is made, wherever it is read */
    enum param_class class;
    enum init_kind init;
    float scale;              /* bound of the uniform, deviation of the normals */
    int first_use, use_count; /* in graph->uses, graph order; known after graph_gradient */
};

/* A parameter used in several places has one gradient per use. */
struct param_use {
    int param;
    int gradient; /* value */
};

struct buffer {
    const char *name;
    int value, block;
    float start;
};

/* A term of the loss: summed over labels not ignored by the forward pass; backward starts from
 * `seed`, which the executor sets to 1 / (labels of the whole step), so that every later sum is a
 * plain one. */
struct loss {
    const char *name, *label; /* the input that holds its labels */
    int sum, seed;
    int top_k;  /* value of the accuracy counts, or NO_VALUE */
    int scores; /* what the labels are compared with, [..., classes] */
};

enum { GRAPH_MAX_INPUTS = 16, GRAPH_MAX_LOSSES = 4 };

struct graph {
    struct arena arena;
    bool training;
    enum dtype dtype;         /* of activations */
    enum status status;       /* of construction: the first misfit, already logged */
    int64_t batch;            /* samples of a micro-batch */
    float layer_norm_epsilon; /* above 0: of all layer norms, whatever their model says */
    int stats_ranks; /* above 1: batch norm in training takes the statistics of so many ranks */
    int frozen;      /* blocks of the model, the first ones, that are not trained: freeze.h */
    int stem;        /* 1: block 0 is no block of the model; it freezes with the first */

    struct value *values;
    struct node *nodes; /* forward nodes first, then backward ones in reverse order of the layers */
    struct param *params;
    struct param_use *uses;
    struct buffer *buffers;
    int value_count, node_count, forward_count, param_count, use_count, buffer_count;
    size_t value_capacity, node_capacity, param_capacity, use_capacity, buffer_capacity;

    int inputs[GRAPH_MAX_INPUTS], input_count; /* values */
    struct loss losses[GRAPH_MAX_LOSSES];
    int loss_count;
    int output; /* what the network makes of its inputs, f32: value; the scores of the first loss,
                   where the model names no other. NO_VALUE before it is known */

    int block;             /* being built */
    uint32_t places;       /* random places handed out so far */
    struct device *device; /* of the kernels, after graph_lower */
};

/* Local. An empty graph for micro-batches of `batch` samples; graph_free accepts NULL and clears
 * the pointer. */
struct graph *graph_new(int64_t batch, bool training);
void graph_free(struct graph **graph);

/* Local. The passes, in order; see the top. graph_gradient is for training graphs. */
void graph_fuse(struct graph *graph);
enum status graph_gradient(struct graph *graph);
/* Activations and their gradients become `dtype`, f32 or bf16; parameters, their gradients,
 * statistics and losses stay f32 (op/precision.h). */
void graph_narrow(struct graph *graph, enum dtype dtype);
/* `param_layouts` (per parameter, may be NULL) fixes layouts chosen earlier: every graph of a run
 * shares one set of parameters. The device must outlive the graph. */
enum status graph_lower(struct graph *graph, struct device *device,
                        const struct layout *const *param_layouts);
/* A graph whose kernels a dry device only described: makes those of nodes from `begin` to `end`,
 * which are the ones that run here. */
enum status graph_make_kernels(struct graph *graph, int begin, int end);

/* Local. The op_call of a node: its operation, attributes and the types of its values. */
struct op_call graph_call(const struct graph *graph, const struct node *node);

/* Local. Input value by name, or NO_VALUE. */
int graph_input_find(const struct graph *graph, const char *name);

/* Local. Elements of all parameters; largest scratch that the kernel of any node from `begin` to
 * `end` wants. */
int64_t graph_param_elements(const struct graph *graph);
size_t graph_scratch_bytes(const struct graph *graph, int begin, int end);
/* Local. The same of what a kernel's library takes by itself while it runs. */
size_t graph_packed_bytes(const struct graph *graph, int begin, int end);

/* Local. Exchanges of statistics between ranks in a phase, and what this rank gives in them. */
struct graph_exchanges {
    int count;
    size_t bytes;
};
struct graph_exchanges graph_exchanges(const struct graph *graph, enum phase phase);

/* Local. One line a node: name, operation, kernel, layouts, shape, cost. */
void graph_print(const struct graph *graph, FILE *out);

#endif
