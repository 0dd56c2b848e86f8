/* Layers: the pieces of a graph that a partition may cut between, under the names users know.
 *
 * A stage may begin with any unit (range.h). A partition is stricter: it must hold for every graph
 * of a run, of training and of evaluation, with parameters and running statistics in one place, and
 * no chunk of it may be without work. So a layer is a fused node that does work, and the units
 * behind it that stay with it:
 *
 *     views                  do no work
 *     nodes of its name      parts of one thing: batch norm with an exchange of statistics, a loss
 *                            and its counts of right answers
 *     updates of buffers     evaluation reads running statistics where the parameters are
 *     dropout                evaluation has none
 *
 * What stands before the first working node belongs to the first layer. Graphs of one model thus
 * have the same layers whatever they are for, and a cut goes from one to another by name. Rejected:
 * cuts at any unit, translated by the parameters behind them. Chunks of a dropout, or of an update
 * of running statistics, were then empty in evaluation or apart from what evaluation reads. */
#ifndef GRAPH_LAYERS_H
#define GRAPH_LAYERS_H

#include "graph/graph.h"

struct layer_list {
    const struct graph *graph;
    int *first_unit;   /* per layer, and one behind the last */
    const char **name; /* per layer, of the graph; no two are equal in the models here */
    int count;
};

/* Local. Of a fused graph, lowered or not. The caller frees the list with layers_free, and keeps
 * the graph. */
struct layer_list layers_of(const struct graph *graph);
void layers_free(struct layer_list *layers);

/* Local. The layer of a unit. */
int layers_at(const struct layer_list *layers, int unit);

/* Local. The first layer of a name ("layer2.0.conv1"), of the names that begin with it ("layer2"),
 * of the parameters that do ("layer2.0.conv1.weight"), or of names with it in the middle, where it
 * always stands behind the same words ("encoder.layer.1"). STATUS_USAGE where there is none. */
enum status layers_find(const struct layer_list *layers, const char *name, int *out);

/* Local. How many characters of a layer's name suffice: to find it ("layer2" of "layer2.0.conv1"),
 * or to say that it is the last of those that begin so. */
int layers_brief_first(const struct layer_list *layers, int layer);
int layers_brief_last(const struct layer_list *layers, int layer);

/* Local. The units where chunks begin that `names`, of --cut, name the first layers of: `count` of
 * them, written to `cuts`. STATUS_USAGE for unknown names and where a chunk would be empty. */
enum status layers_cut(const struct layer_list *layers, const char *const *names, int count,
                       int *cuts);

/* Local. The same cuts, units that layers of `from` begin with, in another graph of the model;
 * written to `out`. STATUS_USAGE where a chunk has no layer there. */
enum status layers_translate(const struct layer_list *from, const int *cuts, int count,
                             const struct layer_list *to, int *out);

#endif
