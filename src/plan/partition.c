/* See partition.h. Weights are those of whole chunks, not sums over layers: a tensor that several
 * layers of a chunk read is there once, and it is in every chunk that reads it. So a layer has
 * terms, of which those of one value count once a chunk. */
#include "plan/partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cost/cost.h"
#include "plan/state_layout.h"

/* --- terms of the weights --- */

enum { EVERY_TIME = -1 };

struct term {
    int value; /* counts once a chunk; EVERY_TIME: always */
    double weight;
};

struct terms {
    struct term *items;
    size_t count, capacity;
    size_t *begin; /* per layer, and one behind the last */
};

struct weighing {
    const struct graph *graph;
    const struct partition_config *config;
    const struct layer_list *layers;
    const int *param_unit; /* per parameter: the unit that uses it first */
};

/* A table of balance.h, and what it was made for. */
struct table {
    double *weight;
    int grads, states;
};

struct partition_source {
    const struct graph *graph;
    struct layer_list layers;
    int *param_unit;
    struct table fixed[BALANCE_COUNT];
    double *kept;                           /* per run of layers */
    size_t *cross_bytes;                    /* per layer: of both phases */
    struct crossing *crossing[PHASE_COUNT]; /* per unit; no values: not asked for yet */
};

/* Adds the terms of a node. */
typedef void (*measure)(const struct weighing *weighing, int n, struct terms *terms);

static void add_term(struct terms *terms, int value, double weight) {
    terms->items = mem_grow(terms->items, &terms->capacity, terms->count + 1, sizeof *terms->items);
    terms->items[terms->count++] = (struct term){value, weight};
}

static void measure_flops(const struct weighing *weighing, int n, struct terms *terms) {
    add_term(terms, EVERY_TIME, cost_node_flops(weighing->graph, n));
}

static void measure_time(const struct weighing *weighing, int n, struct terms *terms) {
    add_term(terms, EVERY_TIME, weighing->config->node_ns[n]);
}

/* The parameter a node reads as input i, itself or through views; -1: none. */
static int param_read(const struct graph *graph, const struct node *node, int i) {
    const struct value *root = &graph->values[graph->values[node->in[i]].root];
    return root->kind == VALUE_PARAM ? root->index : -1;
}

/* Per parameter the unit that uses it first; the last one where none does. One pass: there are many
 * parameters, and many nodes. The caller frees it. */
static int *first_units(const struct graph *graph) {
    int *unit = MEM_ARRAY(int, graph->param_count + 1),
        last = graph->forward_count > 0 ? graph->nodes[graph->forward_count - 1].unit : 0;
    for (int p = 0; p < graph->param_count; p++) unit[p] = last;
    for (int n = graph->forward_count - 1; n >= 0; n--)
        for (int i = 0; i < graph->nodes[n].in_count; i++) {
            int param = param_read(graph, &graph->nodes[n], i);
            if (param >= 0) unit[param] = graph->nodes[n].unit;
        }
    return unit;
}

static const struct tensor_type *param_type(const struct graph *graph, int param) {
    return &graph->values[graph->params[param].value].type;
}

static void measure_params(const struct weighing *weighing, int n, struct terms *terms) {
    const struct graph *graph = weighing->graph;
    const struct node *node = &graph->nodes[n];
    for (int i = 0; i < node->in_count; i++) {
        int param = param_read(graph, node, i);
        if (param < 0 || weighing->param_unit[param] != node->unit) continue;
        add_term(terms, graph->params[param].value,
                 (double)tensor_type_bytes(param_type(graph, param)));
    }
}

/* A copy of a tied parameter has gradients and state of its own; a frozen one has neither. */
static void measure_store(const struct weighing *weighing, int n, struct terms *terms) {
    const struct graph *graph = weighing->graph;
    const struct node *node = &graph->nodes[n];
    double arrays = 1 + weighing->config->grads + weighing->config->states;
    for (int i = 0; i < node->in_count; i++) {
        int param = param_read(graph, node, i);
        if (param < 0) continue;
        double bytes = (double)state_bytes(state_param_span(graph, param));
        add_term(terms, graph->params[param].value,
                 graph->params[param].frozen ? bytes : bytes * arrays);
    }
}

/* What backward reads of forward, made in the chunk or received. */
static void measure_kept(const struct weighing *weighing, int n, struct terms *terms) {
    const struct graph *graph = weighing->graph;
    const struct node *node = &graph->nodes[n];
    for (int i = 0; node->phase == PHASE_BACKWARD && i < node->in_count; i++) {
        int root = graph->values[node->in[i]].root;
        const struct value *value = &graph->values[root];
        if (value->kind == VALUE_LOCAL && value->producer < graph->forward_count)
            add_term(terms, root, (double)value->layout->bytes);
    }
}

static struct terms terms_of(const struct weighing *weighing, measure measure) {
    const struct graph *graph = weighing->graph;
    const struct layer_list *layers = weighing->layers;
    struct terms terms = {.begin = MEM_ARRAY(size_t, layers->count + 1)};
    for (int layer = 0; layer < layers->count; layer++) {
        const int *unit = &layers->first_unit[layer];
        terms.begin[layer] = terms.count;
        for (int n = 0; n < graph->node_count; n++)
            if (graph->nodes[n].unit >= unit[0] && graph->nodes[n].unit < unit[1])
                measure(weighing, n, &terms);
    }
    terms.begin[layers->count] = terms.count;
    return terms;
}

/* The table of balance.h: weights of all runs of layers. The caller frees it. */
static double *weigh(const struct weighing *weighing, measure measure) {
    int count = weighing->layers->count;
    struct terms terms = terms_of(weighing, measure);
    double *table = MEM_ARRAY(double, (count + 1) * (count + 1));
    int *counted = MEM_ARRAY(int, weighing->graph->value_count + 1); /* for chunks from this - 1 */
    for (int a = 0; a < count; a++) {
        double sum = 0;
        for (int b = a; b < count; b++) {
            for (size_t t = terms.begin[b]; t < terms.begin[b + 1]; t++) {
                const struct term *term = &terms.items[t];
                if (term->value != EVERY_TIME && counted[term->value] == a + 1) continue;
                if (term->value != EVERY_TIME) counted[term->value] = a + 1;
                sum += term->weight;
            }
            table[balance_entry(count, a, b + 1)] = sum;
        }
    }
    free(counted);
    free(terms.items);
    free(terms.begin);
    return table;
}

/* --- cuts --- */

const struct crossing *partition_crossing(struct partition_source *source, int unit,
                                          enum phase phase) {
    struct crossing *crossing = &source->crossing[phase][unit];
    if (crossing->values) return crossing;
    SCOPED(ranges_free) struct ranges ranges = {0};
    enum status status = ranges_new(source->graph, &unit, 1, &ranges);
    CHECK(status == STATUS_OK, "no cut before unit %d", unit);
    *crossing = ranges_crossing(&ranges, 0, phase);
    return crossing;
}

static const size_t *weigh_cuts(struct partition_source *source) {
    const struct layer_list *layers = &source->layers;
    if (source->cross_bytes) return source->cross_bytes;
    source->cross_bytes = MEM_ARRAY(size_t, layers->count + 1);
    for (int layer = 1; layer < layers->count; layer++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            source->cross_bytes[layer] +=
                partition_crossing(source, layers->first_unit[layer], (enum phase)phase)->bytes;
    return source->cross_bytes;
}

static struct weighing weighing_of(const struct partition_source *source,
                                   const struct partition_config *config) {
    return (struct weighing){.graph = source->graph,
                             .config = config,
                             .layers = &source->layers,
                             .param_unit = source->param_unit};
}

static const double *weigh_fixed(struct partition_source *source,
                                 const struct partition_config *config) {
    static const measure fixed[] = {[BALANCE_TIME] = measure_time,
                                    [BALANCE_FLOPS] = measure_flops,
                                    [BALANCE_PARAMS] = measure_params,
                                    [BALANCE_MEMORY] = measure_store};
    struct weighing weighing = weighing_of(source, config);
    struct table *table = &source->fixed[config->balance];
    bool other = table->grads != config->grads || table->states != config->states;
    if (table->weight && !other) return table->weight;
    free(table->weight);
    *table =
        (struct table){weigh(&weighing, fixed[config->balance]), config->grads, config->states};
    return table->weight;
}

static const double *weigh_kept(struct partition_source *source) {
    struct weighing weighing = weighing_of(source, NULL);
    if (!source->kept) source->kept = weigh(&weighing, measure_kept);
    return source->kept;
}

static struct balance_problem problem_of(struct partition_source *source,
                                         const struct partition_config *config) {
    bool memory = config->balance == BALANCE_MEMORY;
    return (struct balance_problem){.layers = source->layers.count,
                                    .chunks = config->chunks,
                                    .fixed = weigh_fixed(source, config),
                                    .per_slot = memory ? weigh_kept(source) : NULL,
                                    .slots = config->slots,
                                    .cross_bytes = weigh_cuts(source),
                                    .grows = true};
}

/* --- cuts by a rule --- */

/* The block of a layer's first node. */
static int block_of(const struct partition_source *source, int layer) {
    const struct graph *graph = source->graph;
    int n = 0;
    while (n < graph->forward_count - 1 && graph->nodes[n].unit < source->layers.first_unit[layer])
        n++;
    return graph->nodes[n].block;
}

static bool begins_run(struct partition_source *source, int layer) {
    int block = block_of(source, layer);
    if (layer == 0 || block != block_of(source, layer - 1)) return true;
    if (block < source->graph->stem) return false;
    return partition_crossing(source, source->layers.first_unit[layer], PHASE_FORWARD)->count == 1;
}

static int64_t params_between(const struct partition_source *source, int first, int end) {
    int64_t elements = 0;
    for (int p = 0; p < source->graph->param_count; p++)
        if (source->param_unit[p] >= first && source->param_unit[p] < end)
            elements += shape_count(&param_type(source->graph, p)->shape);
    return elements;
}

struct partition_runs partition_runs_of(struct partition_source *source) {
    const struct layer_list *layers = &source->layers;
    struct partition_runs runs = {.first_unit = MEM_ARRAY(int, layers->count + 1),
                                  .block = MEM_ARRAY(int, layers->count + 1),
                                  .params = MEM_ARRAY(int64_t, layers->count + 1)};
    for (int layer = 0, next; layer < layers->count; layer = next) {
        for (next = layer + 1; next < layers->count && !begins_run(source, next);) next++;
        int64_t params =
            params_between(source, layers->first_unit[layer], layers->first_unit[next]);
        if (params == 0 && runs.count > 0) continue;
        runs.first_unit[runs.count] = layers->first_unit[layer];
        runs.block[runs.count] = block_of(source, layer);
        runs.params[runs.count++] = params;
    }
    return runs;
}

void partition_runs_free(struct partition_runs *runs) {
    free(runs->first_unit);
    free(runs->block);
    free(runs->params);
    *runs = (struct partition_runs){0};
}

struct pipe_units partition_pipe_units(const struct partition_runs *runs, const struct graph *graph,
                                       int frozen, enum pipe_rule rule) {
    struct pipe_units units = {
        .params = runs->params, .count = runs->count, .weighs = rule == PIPE_PARAMS_LAMBDA};
    while (frozen > 0 && units.frozen < runs->count &&
           runs->block[units.frozen] < frozen + graph->stem)
        units.frozen++;
    return units;
}

static enum status cut_by_rule(struct partition_source *source,
                               const struct partition_config *config, int *cuts) {
    SCOPED(partition_runs_free) struct partition_runs runs = partition_runs_of(source);
    struct pipe_units units =
        partition_pipe_units(&runs, source->graph, source->graph->frozen, config->rule);
    char count[TEXT_BYTES];
    if (units.count - units.frozen < config->chunks - (units.frozen > 0))
        return fail(STATUS_USAGE,
                    "--auto-pipe: %d stages of a model with %s that its rules can cut between\n"
                    "  fewer --stages",
                    config->chunks, text_count(units.count, "part", count));
    SCOPED_FREE int *taken = MEM_ARRAY(int, config->chunks);
    pipe_cut(&units, config->chunks, taken);
    for (int c = 0, run = 0; c < config->chunks - 1; c++) {
        run += taken[c];
        cuts[c] = runs.first_unit[run];
    }
    return STATUS_OK;
}

static enum status check_config(const struct partition_config *config,
                                const struct layer_list *layers) {
    char count[TEXT_BYTES];
    if (config->chunks > layers->count)
        return fail(STATUS_USAGE,
                    "%d stages of a model with %s that cuts can go between: one would be "
                    "empty\n  fewer --stages, or fewer stages a rank (--virtual)",
                    config->chunks, text_count(layers->count, "layer", count));
    if (config->cut && config->cut_count != config->chunks - 1)
        return fail(STATUS_USAGE,
                    "--cut names %s, which makes %d stages; the run has %d (--stages x "
                    "--virtual)\n  name the first layer of every stage but the first",
                    text_count(config->cut_count, "layer", count), config->cut_count + 1,
                    config->chunks);
    if (config->balance == BALANCE_TIME && !config->node_ns && !config->cut)
        return fail(STATUS_USAGE,
                    "--balance time needs measured times\n"
                    "  give --profile FILE (--save-profile FILE makes one), or --balance flops");
    return STATUS_OK;
}

static enum status find_cuts(struct partition_source *source, const struct partition_config *config,
                             const struct balance_problem *problem, int *cuts) {
    const struct layer_list *layers = &source->layers;
    if (config->rule != PIPE_OFF && config->chunks > 1) return cut_by_rule(source, config, cuts);
    if (config->cut) return layers_cut(layers, config->cut, config->cut_count, cuts);
    balance_cut(problem, cuts);
    for (int i = 0; i < config->chunks - 1; i++) cuts[i] = layers->first_unit[cuts[i]];
    return STATUS_OK;
}

/* --- what a chunk has --- */

static void add_params(const struct partition_source *source, struct partition_chunk *chunk) {
    const struct graph *graph = source->graph;
    for (int p = 0; p < graph->param_count; p++) {
        int unit = source->param_unit[p];
        if (unit < chunk->first_unit || unit >= chunk->end_unit) continue;
        chunk->param_elements += shape_count(&param_type(graph, p)->shape);
        chunk->param_bytes += tensor_type_bytes(param_type(graph, p));
        if (graph->params[p].frozen) chunk->frozen_bytes += tensor_type_bytes(param_type(graph, p));
    }
}

static struct crossing copy_crossing(const struct crossing *from) {
    struct crossing copy = *from;
    copy.values = MEM_ARRAY(int, from->count + 1);
    memcpy(copy.values, from->values, (size_t)from->count * sizeof *copy.values);
    return copy;
}

static struct partition_chunk chunk_of(struct partition_source *source, const struct ranges *ranges,
                                       int index) {
    const struct layer_list *layers = &source->layers;
    const struct stage_range *stage = &ranges->stages[index];
    int first = layers_at(layers, stage->first_unit), last = layers_at(layers, stage->end_unit - 1);
    struct partition_chunk chunk = {
        .first_layer = layers->name[first],
        .last_layer = layers->name[last],
        .first_unit = stage->first_unit,
        .end_unit = stage->end_unit,
        .layer_count = last - first + 1,
        .kept_bytes = (size_t)weigh_kept(source)[balance_entry(layers->count, first, last + 1)]};
    add_params(source, &chunk);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct node_range nodes = stage->phase[phase].nodes;
        for (int n = nodes.begin; n < nodes.end; n++)
            chunk.flops[phase] += cost_node_flops(ranges->graph, n);
        if (index < ranges->stage_count - 1)
            chunk.crossing[phase] =
                copy_crossing(partition_crossing(source, stage->end_unit, (enum phase)phase));
    }
    return chunk;
}

static enum status fill_chunks(struct partition_source *source, struct partition *partition,
                               const struct balance_problem *problem) {
    SCOPED(ranges_free) struct ranges ranges = {0};
    TRY(ranges_new(partition->graph, partition->cuts, partition->count - 1, &ranges));
    for (int c = 0; c < partition->count; c++) {
        struct partition_chunk *chunk = &partition->chunks[c];
        *chunk = chunk_of(source, &ranges, c);
        int first = layers_at(&source->layers, chunk->first_unit);
        chunk->weight = balance_weight(problem, c, first, first + chunk->layer_count);
    }
    return STATUS_OK;
}

enum status partition_from(struct partition_source *source, const struct partition_config *config,
                           struct partition *out) {
    CHECK(config->chunks >= 1, "a partition into %d chunks", config->chunks);
    TRY(check_config(config, &source->layers));
    struct partition_config own = *config;
    if (own.balance == BALANCE_TIME && !own.node_ns) own.balance = BALANCE_FLOPS;
    struct partition partition = {.graph = source->graph,
                                  .balance = own.balance,
                                  .named = own.cut,
                                  .rule = own.rule,
                                  .cuts = MEM_ARRAY(int, own.chunks),
                                  .chunks = MEM_ARRAY(struct partition_chunk, own.chunks),
                                  .count = own.chunks};
    struct balance_problem problem = problem_of(source, &own);
    enum status status = find_cuts(source, &own, &problem, partition.cuts);
    if (status == STATUS_OK) status = fill_chunks(source, &partition, &problem);
    if (status == STATUS_OK)
        *out = partition;
    else
        partition_free(&partition);
    return status;
}

struct partition_source *partition_source_new(const struct graph *graph) {
    struct partition_source *source = MEM_NEW(struct partition_source);
    source->graph = graph;
    source->layers = layers_of(graph);
    source->param_unit = first_units(graph);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        source->crossing[phase] = MEM_ARRAY(struct crossing, graph_unit_count(graph) + 1);
    return source;
}

void partition_source_free(struct partition_source **source) {
    struct partition_source *of = *source;
    if (!of) return;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (int u = 0; u < graph_unit_count(of->graph); u++) free(of->crossing[phase][u].values);
        free(of->crossing[phase]);
    }
    for (int b = 0; b < BALANCE_COUNT; b++) free(of->fixed[b].weight);
    free(of->kept);
    free(of->cross_bytes);
    free(of->param_unit);
    layers_free(&of->layers);
    free(of);
    *source = NULL;
}

enum status partition_new(const struct graph *graph, const struct partition_config *config,
                          struct partition *out) {
    SCOPED(partition_source_free) struct partition_source *source = partition_source_new(graph);
    return partition_from(source, config, out);
}

void partition_free(struct partition *partition) {
    for (int c = 0; c < partition->count; c++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            free(partition->chunks[c].crossing[phase].values);
    free(partition->chunks);
    free(partition->cuts);
    *partition = (struct partition){0};
}

enum status partition_translate(const struct partition *partition, const struct graph *to,
                                int *cuts) {
    SCOPED(layers_free) struct layer_list from = layers_of(partition->graph), into = layers_of(to);
    return layers_translate(&from, partition->cuts, partition->count - 1, &into, cuts);
}

struct needs *partition_needs(const struct partition *partition) {
    SCOPED(ranges_free) struct ranges ranges = {0};
    enum status status =
        ranges_new(partition->graph, partition->cuts, partition->count - 1, &ranges);
    CHECK(status == STATUS_OK, "a partition that cannot be cut");
    struct needs *needs = MEM_ARRAY(struct needs, partition->count);
    for (int c = 0; c < partition->count; c++) needs[c] = needs_of(&ranges, c);
    return needs;
}
