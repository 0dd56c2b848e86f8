/* How stages are cut into buckets, and the layout of the store of this rank or of another. See
 * stages.h. */
#include "plan/stages.h"

#include <stdlib.h>

#include "plan/slices.h"

struct bucket_rules stages_rules(const struct run_config *config) {
    bool params = config->sliced & SLICED_PARAMS;
    return (struct bucket_rules){.most_bytes = config->bucket_bytes,
                                 .apart = config->sliced & (SLICED_GRADIENTS | SLICED_PARAMS),
                                 .blocks = recompute_by_block(config->recompute),
                                 .keep_bytes = params ? config->zero_keep_bytes : 0,
                                 .prefetch_bytes = config->zero_prefetch_bytes};
}

/* Arrays that a rank has slices of have windows beside them, which others read and write; so do
 * gradients, and parameters that are gathered where they lie. */
static void describe_arrays(const struct run_config *config, bool bare, struct state_config *out) {
    unsigned sliced = config->sliced;
    out->array[ARRAY_GRAD].sliced = sliced & SLICED_GRADIENTS;
    out->array[ARRAY_GRAD].memory = sliced & SLICED_GRADIENTS ? MEMORY_DEVICE : MEMORY_COMM;
    out->array[ARRAY_PARAM].sliced = sliced & SLICED_PARAMS;
    out->array[ARRAY_PARAM].memory =
        sliced && !(sliced & SLICED_PARAMS) ? MEMORY_COMM : MEMORY_DEVICE;
    out->array[ARRAY_STATE].sliced = sliced & SLICED_STATE;
    /* Without gradients there is no other memory that replicas reach: they give these as they lie.
     */
    bool given = (config->forward || bare) && group_size(&config->grid, GROUP_REPLICAS, 0) > 1;
    if (given && !(sliced & SLICED_PARAMS)) out->array[ARRAY_PARAM].memory = MEMORY_COMM;
    if (given) out->array[ARRAY_FROZEN].memory = out->array[ARRAY_BUFFER].memory = MEMORY_COMM;
}

static struct state_layout *layout_of(const struct plan *plan, const struct holdings *holdings,
                                      const struct slices *slices,
                                      const struct rank_program *program) {
    const struct run_config *config = &plan->config;
    struct state_config store = {
        .graph = plan->micro[0].graph,
        .params = holdings->params,
        .param_count = holdings->param_count,
        .frozen = holdings->frozen,
        .frozen_count = holdings->frozen_count,
        .copies = holdings->copies,
        .uses = holdings->uses,
        .holds_buffer = holdings->buffers,
        .optimizer = config->optimizer,
        .forward = config->forward,
        .versions = program->chunk[0].older,
        .apart = config->apart,
        .common = plan->program->every > 0,
        .outer = plan->program->every > 0 && config->outer.momentum > 0,
        .grads = config->sliced & SLICED_GRADIENTS ? 1 : program->grads,
        .grad_windows = program->grads - GRAD_WINDOWS,
        .decay = {[PARAM_WEIGHT] = true,
                  [PARAM_BIAS] = config->decay_bias,
                  [PARAM_NORM] = config->decay_norm},
        .owned = slices->owned,
        .owned_count = slices->owned_count,
        .windows = {[ARRAY_GRAD] = slices->gradients, [ARRAY_PARAM] = slices->params}};
    describe_arrays(config, holdings->param_count == 0 && holdings->frozen_count > 0, &store);
    return state_layout_new(&store);
}

struct state_layout *stages_layout(const struct plan *plan, const struct holdings *holdings,
                                   const struct rank_program *program, int position, int replica) {
    const struct run_config *config = &plan->config;
    struct bucket_list lists[GRID_MAX_CHUNKS] = {0};
    SCOPED(slices_free) struct slices slices = {0};
    int chunks = config->grid.chunks;
    for (int c = 0; config->sliced && c < chunks; c++) {
        struct bucket_source source = holdings_source(holdings, &plan->micro[0].ranges, c,
                                                      grid_stage(&config->grid, position, c));
        lists[c] = buckets_of(&source);
    }
    if (config->sliced)
        slices_plan(lists, program, config->replicas, replica, holdings->param_count, &slices);
    struct state_layout *layout = layout_of(plan, holdings, &slices, program);
    for (int c = 0; c < chunks; c++) free(lists[c].items);
    return layout;
}

/* A rank at a position, with the most gradient buffers of any. */
static struct rank_program sizes_at(const struct plan *plan, int position) {
    struct rank_program sizes = {0};
    for (int r = 0; r < plan->program->ranks; r++) {
        if (grid_cell(&plan->program->grid, r).position != position) continue;
        int most = sizes.grads;
        sizes = *program_of(plan->program, r);
        if (most > sizes.grads) sizes.grads = most;
    }
    return sizes;
}

/* Replica 0 has the largest slices. */
static struct state_layout *layout_at(const struct plan *plan, int position) {
    SCOPED(holdings_free)
    struct holdings holdings = holdings_of(&plan->micro[0].ranges, &plan->config.grid, &plan->ties,
                                           position, &plan->rules);
    struct rank_program sizes = sizes_at(plan, position);
    return stages_layout(plan, &holdings, &sizes, position, 0);
}

size_t stages_heap_bytes(const struct plan *plan, int position) {
    SCOPED(state_layout_free) struct state_layout *layout = layout_at(plan, position);
    return state_heap_bytes(layout);
}

size_t plan_store_bytes_at(const struct plan *plan, int position) {
    SCOPED(state_layout_free) struct state_layout *layout = layout_at(plan, position);
    size_t bytes = 0;
    for (int kind = 0; kind < ARRAY_KIND_COUNT; kind++)
        bytes += state_kind_bytes(layout, (enum array_kind)kind);
    return bytes;
}
