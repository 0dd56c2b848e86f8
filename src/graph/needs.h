/* What a stage needs that no node makes: parameters, buffers, fields of the data; and the losses it
 * computes. A rank holds and loads this for its stages and nothing else. */
#ifndef GRAPH_NEEDS_H
#define GRAPH_NEEDS_H

#include "graph/range.h"

/* A parameter that nodes of the stage read. A tied one may be in several stages. */
struct param_need {
    int param;                /* of the graph */
    int first_use, use_count; /* in graph->uses: its uses in this stage; none without gradients */
};

/* All lists ascend. */
struct needs {
    struct param_need *params;
    int *buffers;
    int *inputs; /* in graph->inputs: samples, labels, keys, loss seeds */
    int *losses; /* in graph->losses: whose sum a node of the stage makes */
    int param_count, buffer_count, input_count, loss_count;
};

/* Local. Of the nodes of one stage, in both phases. The caller frees the result with needs_free. */
struct needs needs_of(const struct ranges *ranges, int stage);
void needs_free(struct needs *needs);

/* Local. Does the stage read this value, an input, parameter or buffer, or a view of it? */
bool needs_value(const struct needs *needs, const struct graph *graph, int value);

#endif
