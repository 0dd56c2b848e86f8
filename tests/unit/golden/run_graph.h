/* A graph run in the simplest way: every value has memory of its own, filled with NaN before each
 * run, and the nodes run in order. What the executor does with planned memory, slots and queues
 * must give the same numbers. All local, blocking. */
#ifndef RUN_GRAPH_H
#define RUN_GRAPH_H

#include "graph/graph.h"

struct run_graph {
    struct graph *graph; /* owned */
    struct device *device;
    bool borrowed; /* the device is the caller's */
    void **memory; /* per value; views share their root's */
    void *scratch;
};

/* Fuses, differentiates (training graphs), narrows to graph->dtype and lowers a forward graph on a
 * backend. Takes the graph over, also on failure. */
enum status run_graph_open(struct graph *graph, const char *backend, struct run_graph *out);
/* The same on a device of the caller's, which outlives it. */
enum status run_graph_open_on(struct graph *graph, struct device *device, struct run_graph *out);
void run_graph_close(struct run_graph *run);

/* Copies a value in or out, in plain order. */
void run_graph_set(struct run_graph *run, int value, const void *plain);
void run_graph_get(struct run_graph *run, int value, void *plain);

/* Runs all nodes once; the second without the NaN, for who measures time. */
void run_graph_run(struct run_graph *run);
void run_graph_again(struct run_graph *run);
/* One node, and waits for it. */
void run_graph_node(struct run_graph *run, int node);

/* Gradient of a parameter in plain order: its uses added in graph order. */
void run_graph_gradient(struct run_graph *run, int param, float *out);

#endif
