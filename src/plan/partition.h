/* The partition of a model: which layers each chunk has, and what that means for it.
 *
 * A rank of a pipeline holds one chunk or several. Chunks are runs of layers (graph/layers.h), cut
 * where --cut says or so that the largest by some measure is as small as can be (balance.h). The
 * partition is made on the training graph and translated for every other graph of the run. What a
 * chunk needs of parameters and data is in graph/needs.h. */
#ifndef PLAN_PARTITION_H
#define PLAN_PARTITION_H

#include <stdio.h>

#include "graph/layers.h"
#include "graph/needs.h"
#include "graph/range.h"
#include "plan/balance.h"
#include "plan/freezing.h"

struct partition_config {
    int chunks;
    enum balance balance;
    const char *const *cut; /* of --cut: layers that chunks begin with, chunks - 1; NULL: balance */
    int cut_count;
    const double *node_ns; /* per node of the graph: measured; NULL: not known */
    int grads, states;     /* gradient buffers, arrays of optimizer state: for memory */
    const int *slots;      /* per chunk: micro-batches it keeps at its peak, for memory; NULL: 1 */
    enum pipe_rule rule;   /* cuts in place of balance, by parameters; PIPE_OFF: none */
};

struct partition_chunk {
    const char *first_layer, *last_layer; /* of the graph */
    int first_unit, end_unit, layer_count;
    double flops[PHASE_COUNT];
    double weight;          /* what was balanced: ns, flop or bytes; of --cut: of the balance too */
    size_t frozen_bytes;    /* of param_bytes: not trained */
    int64_t param_elements; /* of parameters used first here: all chunks together have each once */
    size_t param_bytes;
    size_t kept_bytes; /* that a micro-batch keeps from forward to backward, without padding */
    struct crossing crossing[PHASE_COUNT]; /* over the cut at its end: values of the graph */
};

struct partition {
    const struct graph *graph;
    enum balance balance;
    bool named; /* by --cut */
    enum pipe_rule rule;
    int *cuts; /* units; count - 1 */
    struct partition_chunk *chunks;
    int count;
};

/* Local. Cuts a lowered training graph. STATUS_USAGE: more chunks than layers, names of --cut that
 * are wrong or too many, a balance of time without times. The caller frees the result with
 * partition_free, and keeps the graph. */
enum status partition_new(const struct graph *graph, const struct partition_config *config,
                          struct partition *out);
void partition_free(struct partition *partition);

/* What all partitions of a graph are made of: weights of all runs of layers, and what crosses each
 * cut. Made as it is asked for, so that the second partition takes a fraction of the time. */
struct partition_source;
/* Local. The graph outlives it. The caller frees it; accepts NULL and clears the pointer. */
struct partition_source *partition_source_new(const struct graph *graph);
void partition_source_free(struct partition_source **source);
/* Local. partition_new of its graph. Whoever gives times gives the same each time. */
enum status partition_from(struct partition_source *source, const struct partition_config *config,
                           struct partition *out);
/* Local. What crosses a cut before a unit, as ranges_crossing says; the source's own. */
const struct crossing *partition_crossing(struct partition_source *source, int unit,
                                          enum phase phase);

/* What the rules of --auto-pipe cut between: runs of layers of one block of the model, from one
 * place where a single tensor crosses to the next. The layers before the first block are one, and
 * one without parameters belongs to the one before it. */
struct partition_runs {
    int *first_unit, *block; /* per run: its first unit, and the block of the graph */
    int64_t *params;
    int count;
};
/* Local. The caller frees them. */
struct partition_runs partition_runs_of(struct partition_source *source);
void partition_runs_free(struct partition_runs *runs);
/* Local. The runs as the rules see them, with so many blocks frozen; it points into `runs`. */
struct pipe_units partition_pipe_units(const struct partition_runs *runs, const struct graph *graph,
                                       int frozen, enum pipe_rule rule);

/* Local. Its cuts in another graph of the model, for ranges_new: count - 1 units, written to
 * `cuts`. */
enum status partition_translate(const struct partition *partition, const struct graph *to,
                                int *cuts);

/* Local. What every chunk needs of parameters, buffers and data, on the training graph. The caller
 * frees each with needs_free, and the array. */
struct needs *partition_needs(const struct partition *partition);

/* Who runs a stage of a pipeline, and how many micro-batches it keeps at its peak. */
struct partition_place {
    int rank, slots;
};
/* Local. The table of the split, a line a chunk, which users know as a stage; below it tied
 * parameters, which several hold. `places` (one a chunk) may be NULL. */
void partition_print(const struct partition *partition, const struct partition_place *places,
                     FILE *out);

#endif
