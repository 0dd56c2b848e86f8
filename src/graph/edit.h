/* How passes change a graph; private to src/graph. */
#ifndef GRAPH_EDIT_H
#define GRAPH_EDIT_H

#include "graph/graph.h"

/* Local. Appends a value of a kind; `name` is copied. */
int edit_value(struct graph *graph, const char *name, enum value_kind kind,
               const struct tensor_type *type);

/* Local. Appends a node, infers its outputs and makes their values. On a misfit logs it under the
 * node's name, sets graph->status and returns NULL. The pointer is good until the next node is
 * added. */
struct node *edit_node(struct graph *graph, const char *name, enum op op,
                       const struct op_attrs *attrs, int in_count, const int *in);

/* Local. Number of node inputs that are `value` (views of it not counted); what losses hand
 * out counts as one more. */
int edit_consumers(const struct graph *graph, int value);

/* Local. Removes nodes marked dead[] of a graph without gradients; renumbers producers and units.
 */
void edit_remove(struct graph *graph, const bool *dead);

#endif
