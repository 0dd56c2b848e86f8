/* See graphs.h. */
#include "plan/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "graph/freeze.h"
#include "plan/plan_auto.h"

enum status graphs_build(const struct run_config *config, struct device *device,
                         const struct graph *main, int64_t samples, bool training,
                         struct graph **out) {
    struct model_config shape = config->shape;
    shape.batch = samples;
    shape.training = training;
    shape.frozen = config->frozen;
    shape.stats_ranks = config->sync_bn ? config->replicas : 1;
    SCOPED(graph_free) struct graph *graph = NULL;
    SCOPED_FREE const struct layout **layouts = NULL;
    TRY(model_build(config->model, &shape, &graph));
    TRY(freeze_check(graph, config->model->name));
    graph->dtype = config->dtype;
    graph_fuse(graph);
    if (training) TRY(graph_gradient(graph));
    graph_narrow(graph, config->dtype);
    if (main) {
        layouts = MEM_ARRAY(const struct layout *, main->param_count + 1);
        for (int i = 0; i < main->param_count; i++)
            layouts[i] = main->values[main->params[i].value].layout;
    }
    TRY(graph_lower(graph, device, layouts));
    *out = graph;
    graph = NULL;
    return STATUS_OK;
}

static enum status build(const struct plan *plan, int64_t samples, bool training,
                         struct graph **out) {
    const struct run_config *config = &plan->config;
    const struct graph *main = plan->micro_count > 0 ? plan->micro[0].graph : NULL;
    bool all = plan_stages(plan) == 1 && config->cell.role == GRID_STAGE;
    plan->device->dry = config->dry || !all || (config->forward && training);
    return graphs_build(config, plan->device, main, samples, training, out);
}

enum status graphs_make(const struct plan *plan, int64_t samples, bool training,
                        struct graph **out) {
    const struct run_config *config = &plan->config;
    struct plan_pool_key key = {.samples = samples,
                                .main_samples = plan->micro_count > 0 ? plan->micro[0].samples : 0,
                                .stats_ranks = config->sync_bn ? config->replicas : 1,
                                .training = training};
    if (!plan->pool) return build(plan, samples, training, out);
    *out = plan_pool_find(plan->pool, &key);
    if (*out) return STATUS_OK;
    TRY(build(plan, samples, training, out));
    plan_pool_add(plan->pool, &key, *out);
    return STATUS_OK;
}

enum status graphs_cut(const struct plan *plan, struct micro_plan *micro) {
    int stages = plan_stages(plan);
    SCOPED_FREE int *cuts = MEM_ARRAY(int, stages);
    TRY(partition_translate(&plan->partition, micro->graph, cuts));
    TRY(ranges_new(micro->graph, cuts, stages - 1, &micro->ranges));
    micro->crossing = MEM_ARRAY(struct crossing, (stages - 1) * PHASE_COUNT + 1);
    struct partition_source *source =
        plan->pool ? plan_pool_source(plan->pool, micro->graph) : NULL;
    for (int i = 0; i < (stages - 1) * PHASE_COUNT; i++) {
        int cut = i / PHASE_COUNT;
        enum phase phase = (enum phase)(i % PHASE_COUNT);
        micro->crossing[i] = source ? *partition_crossing(source, cuts[cut], phase)
                                    : ranges_crossing(&micro->ranges, cut, phase);
    }
    return STATUS_OK;
}

int graphs_frozen_stages(const struct plan *plan) {
    return plan->config.forward ? 0 : freeze_stages(&plan->micro[0].ranges);
}

void graphs_free(const struct plan *plan, struct micro_plan *micro) {
    for (int i = 0; micro->placement && i < plan->chunk_count * FORM_COUNT; i++)
        placement_free(&micro->placement[i]);
    for (int i = 0; !plan->pool && micro->crossing && i < (plan_stages(plan) - 1) * PHASE_COUNT;
         i++)
        free(micro->crossing[i].values);
    free(micro->placement);
    free(micro->crossing);
    ranges_free(&micro->ranges);
    if (!plan->pool) graph_free(&micro->graph);
}

/* --- layouts --- */

static uint64_t hash_layout(uint64_t hash, const struct graph *graph, int value) {
    const struct layout *layout = graph->values[value].layout;
    uint64_t bytes = layout->bytes;
    const char *dtype = dtype_name(layout->type.dtype);
    hash = hash64(hash, dtype, strlen(dtype));
    hash = hash64(hash, layout->text, strlen(layout->text));
    return hash64(hash, &bytes, sizeof bytes);
}

static uint64_t hash_crossings(const struct plan *plan, const struct micro_plan *micro) {
    uint64_t hash = HASH64_START;
    for (int i = 0; i < (plan_stages(plan) - 1) * PHASE_COUNT; i++) {
        const struct crossing *crossing = &micro->crossing[i];
        for (int v = 0; v < crossing->count; v++)
            hash = hash_layout(hash, micro->graph, crossing->values[v]);
    }
    return hash;
}

/* A size that only another replica meets has no graph here: one is made, looked at and freed. */
static enum status hash_size(const struct plan *plan, int64_t samples, bool training,
                             uint64_t *out) {
    const struct micro_plan *known = plan_micro(plan, samples, training);
    struct micro_plan made = {.samples = samples, .training = training};
    if (known) {
        *out = hash_crossings(plan, known);
        return STATUS_OK;
    }
    enum status status = graphs_make(plan, samples, training, &made.graph);
    if (status == STATUS_OK) status = graphs_cut(plan, &made);
    if (status == STATUS_OK) *out = hash_crossings(plan, &made);
    graphs_free(plan, &made);
    plan->device->dry = plan->config.dry;
    return status;
}

/* The sizes of a split's micro-batches over all replicas: between the least and the most all are
 * met. */
static enum status hash_sizes(const struct plan *plan, int64_t least, int64_t most, bool training,
                              uint64_t *hash) {
    for (int64_t samples = least > 0 ? least : 1; samples <= most; samples++) {
        uint64_t one;
        TRY(hash_size(plan, samples, training, &one));
        *hash = hash64(*hash, &one, sizeof one);
    }
    return STATUS_OK;
}

enum status graphs_layouts_hash(const struct plan *plan, uint64_t *out) {
    const struct run_config *config = &plan->config;
    const struct graph *main = plan->micro[0].graph;
    uint64_t hash = HASH64_START;
    for (int p = 0; p < main->param_count; p++)
        hash = hash_layout(hash, main, main->params[p].value);
    int64_t eval = plan->eval_batch, rest = config->dataset->count[config->eval_split] % eval;
    const int64_t *last = plan->last_samples; /* never increasing */
    /* With auto, ranks may cut differently until they have rank 0's programs. */
    if (plan_stages(plan) > 1 && !plan_is_auto(config)) {
        TRY(hash_sizes(plan, plan->micro[0].samples, plan->micro[0].samples, true, &hash));
        if (last)
            TRY(hash_sizes(plan, last[config->replicas * config->micro_batches - 1], last[0], true,
                           &hash));
        TRY(hash_sizes(plan, eval, eval, false, &hash));
        TRY(hash_sizes(plan, rest, rest, false, &hash));
    }
    *out = hash;
    return STATUS_OK;
}
