/* The graph of a model that a program defines, as own*.c see it; private to them. */
#ifndef MODEL_OWN_H
#define MODEL_OWN_H

#include "graph/graph.h"
#include "model/model.h"
#include "stretto.h"

struct stretto_graph {
    struct graph *graph;
    const struct model_config *config;
};

/* Local. Whether there is a graph at all; otherwise the call is refused. */
bool own_given(const struct stretto_graph *own, const char *call);

/* Local. Whether there is such a value. */
static inline bool own_is(const struct stretto_graph *own, stretto_value value) {
    return value >= 0 && value < own->graph->value_count;
}

#endif
