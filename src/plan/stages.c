/* What the stages of the model are made of on each rank: parameters held, their buckets, and the
 * layout of the store, for this rank or for another. See stages.h. */
#include "plan/stages.h"

#include <stdlib.h>

#include "base/mem.h"
#include "plan/slices.h"

/* What the ranks at a position hold; small parameters first where they are kept whole. */
enum status stages_hold(const struct plan *plan, int position, struct holdings *out) {
    const struct run_config *config = &plan->config;
    TRY(holdings_of(&plan->micro[0].ranges, &config->grid, position, out));
    if (config->sliced & SLICED_PARAMS && config->zero_keep_bytes > 0)
        holdings_keep(out, plan->micro[0].graph, config->grid.chunks, config->zero_keep_bytes);
    return STATUS_OK;
}

struct bucket_source stages_source(const struct plan *plan, const struct holdings *holdings,
                                   int chunk) {
    struct bucket_source source = holdings_source(holdings, plan->micro[0].graph, chunk);
    source.most = plan->config.bucket_bytes / (int64_t)sizeof(float);
    source.apart = plan->config.sliced & (SLICED_GRADIENTS | SLICED_PARAMS);
    return source;
}

struct stage_buckets stage_buckets_new(int stages) {
    return (struct stage_buckets){MEM_ARRAY(int, stages), MEM_ARRAY(int, stages),
                                  MEM_ARRAY(bool, stages)};
}

void stage_buckets_free(struct stage_buckets *buckets) {
    free(buckets->count);
    free(buckets->ahead);
    free(buckets->kept);
}

/* As many of the largest as fit; one unless the user says otherwise. */
static int buckets_ahead(const struct plan *plan, const struct bucket_list *list, bool kept) {
    int64_t bytes = plan->config.zero_prefetch_bytes,
            most = slices_largest(list, list->count - kept) * (int64_t)sizeof(float);
    if (bytes < 0 || most == 0) return 1;
    return bytes / most < list->count ? (int)(bytes / most) : list->count;
}

/* The buckets of every stage are known to every rank: the program has them all. */
enum status stages_count_buckets(const struct plan *plan, struct stage_buckets *out) {
    const struct grid *grid = &plan->config.grid;
    for (int p = 0; p < grid->stages; p++) {
        struct holdings holdings;
        TRY(stages_hold(plan, p, &holdings));
        for (int c = 0; c < grid->chunks; c++) {
            struct bucket_source source = stages_source(plan, &holdings, c);
            struct bucket_list list = buckets_of(&source);
            int stage = grid_stage(grid, p, c);
            out->count[stage] = list.count;
            out->kept[stage] = source.kept > 0;
            out->ahead[stage] = buckets_ahead(plan, &list, source.kept > 0);
            free(list.items);
        }
        holdings_free(&holdings);
    }
    return STATUS_OK;
}

/* Arrays that a rank has slices of have windows beside them, which others read and write; so do
 * gradients, and parameters that are gathered where they lie. */
static void describe_arrays(const struct run_config *config, struct store_config *out) {
    unsigned sliced = config->sliced;
    out->array[ARRAY_GRAD].sliced = sliced & SLICED_GRADIENTS;
    out->array[ARRAY_GRAD].memory = sliced & SLICED_GRADIENTS ? MEMORY_DEVICE : MEMORY_COMM;
    out->array[ARRAY_PARAM].sliced = sliced & SLICED_PARAMS;
    out->array[ARRAY_PARAM].memory =
        sliced && !(sliced & SLICED_PARAMS) ? MEMORY_COMM : MEMORY_DEVICE;
    out->array[ARRAY_STATE].sliced = sliced & SLICED_STATE;
}

static struct store_layout *layout_of(const struct plan *plan, const struct holdings *holdings,
                                      const struct slices *slices, int grads) {
    const struct run_config *config = &plan->config;
    struct store_config store = {
        .graph = plan->micro[0].graph,
        .params = holdings->params,
        .param_count = holdings->param_count,
        .holds_buffer = holdings->buffers,
        .optimizer = config->optimizer,
        .grads = config->sliced & SLICED_GRADIENTS ? 1 : grads,
        .decay = {[PARAM_WEIGHT] = true,
                  [PARAM_BIAS] = config->decay_bias,
                  [PARAM_NORM] = config->decay_norm},
        .owned = slices->owned,
        .owned_count = slices->owned_count,
        .windows = {[ARRAY_GRAD] = slices->gradients, [ARRAY_PARAM] = slices->params}};
    describe_arrays(config, &store);
    return store_layout_new(&store);
}

/* What the ranks of a replica hold at a position. */
struct store_layout *stages_layout(const struct plan *plan, const struct holdings *holdings,
                                   const struct rank_program *program, int replica) {
    const struct run_config *config = &plan->config;
    struct bucket_list lists[GRID_MAX_CHUNKS] = {0};
    struct slices slices = {0};
    int chunks = config->grid.chunks;
    for (int c = 0; config->sliced && c < chunks; c++) {
        struct bucket_source source = stages_source(plan, holdings, c);
        lists[c] = buckets_of(&source);
    }
    if (config->sliced)
        slices_plan(lists, program, config->replicas, replica, holdings->param_count, &slices);
    struct store_layout *layout = layout_of(plan, holdings, &slices, program->grads);
    for (int c = 0; c < chunks; c++) free(lists[c].items);
    slices_free(&slices);
    return layout;
}
