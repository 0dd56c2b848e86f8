/* What the graph tests share: small models, a backend that likes odd layouts, and a runner that
 * executes a graph with every value in memory of its own or through its placement. */
#ifndef TESTS_GRAPH_KIT_H
#define TESTS_GRAPH_KIT_H

#include "graph/build.h"
#include "graph/memory.h"
#include "graph/range.h"
#include "model/model.h"

/* A device over the reference kernels whose kernels want and give, in turns, plain layouts and
 * "twisted" ones: elements in reverse order behind 32 bytes of padding. Equal graphs therefore give
 * equal bits on it and on ref, whatever reorders lie in between. The caller closes it. */
struct device *twist_open(void);

/* Of the tests' suites: both devices. */
extern struct device *ref, *twist;
void kit_open_devices(void);
void kit_close_devices(void);

/* A parameter of any kind. */
int kit_weight(struct graph *graph, const char *name, struct shape shape);

/* A model small enough to run on ref; the caller frees the graph. */
struct graph *kit_model(const char *name, int64_t batch, bool training);
/* For training, with batch norm over the statistics of several ranks. */
struct graph *kit_sharing_model(const char *name, int64_t batch, int ranks);
/* fuse, gradient (training graphs) and lower. */
void kit_compile(struct graph *graph, struct device *device,
                 const struct layout *const *param_layouts);

/* The placement of a graph that is one stage. */
struct placement kit_identity(const struct graph *graph, const struct placement_config *config);

/* Results of a run, in plain order: losses (and counts of right answers), gradients of every
 * parameter use, buffers, one after the other. */
struct kit_result {
    unsigned char *data;
    size_t bytes, capacity;
    double loss; /* the sum of all terms */
};
/* Op by op; or all of I, then all of W, with gradients taken when the executor takes them. Of
 * stages also: with forward run again right before backward. */
enum kit_order { KIT_TOGETHER, KIT_SPLIT, KIT_AGAIN, KIT_AGAIN_SPLIT };
/* Runs a lowered graph on made-up samples and parameters, the same for equal names. Values live in
 * one arena as placed, or each in its own memory when `placement` is NULL; all memory starts as
 * NaN. `nudge` is added to element `at` of parameter `param` (-1: of none). */
struct kit_nudge {
    int param;
    int64_t at;
    float by;
};
struct kit_result kit_run(const struct graph *graph, const struct placement *placement,
                          enum kit_order order, const struct kit_nudge *nudge);
/* Runs it stage by stage, as ranks would. Each stage has the parameters, buffers and fields that it
 * needs, and of what nodes make only what crosses its cuts. Values live in the stage's own arena,
 * placed by `config`, in which nothing survives a pass but what is still to be read or sent; or
 * each in its own memory when that is NULL. */
struct kit_result kit_run_stages(const struct ranges *ranges, const struct placement_config *config,
                                 enum kit_order order);
void kit_result_free(struct kit_result *result);

/* Segments of both phases are the layer blocks of the stage; returns how many. */
int kit_cut_blocks(struct ranges *ranges, int stage);

#endif
