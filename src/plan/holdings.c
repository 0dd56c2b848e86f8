/* See holdings.h. */
#include "plan/holdings.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/needs.h"
#include "plan/store_layout.h"

static enum status take_params(struct holdings *holdings, const struct graph *graph,
                               const struct needs *needs, int stage) {
    for (int i = 0; i < needs->param_count; i++) {
        const struct param_need *need = &needs->params[i];
        if (need->first_stage != stage)
            return fail(STATUS_USAGE,
                        "parameter %s is used in stages %d and %d: tied parameters must be in one "
                        "stage\n  --cut, or fewer stages",
                        graph->params[need->param].name, need->first_stage, stage);
        holdings->params[holdings->param_count++] = need->param;
    }
    return STATUS_OK;
}

static enum status take_stage(struct holdings *holdings, const struct ranges *ranges, int stage) {
    struct needs needs = needs_of(ranges, stage);
    enum status status = take_params(holdings, ranges->graph, &needs, stage);
    for (int i = 0; i < needs.buffer_count; i++) holdings->buffers[needs.buffers[i]] = true;
    needs_free(&needs);
    return status;
}

enum status holdings_of(const struct ranges *ranges, const struct grid *grid, int position,
                        struct holdings *out) {
    const struct graph *graph = ranges->graph;
    struct holdings holdings = {.params = MEM_ARRAY(int, graph->param_count + 1),
                                .buffers = MEM_ARRAY(bool, graph->buffer_count + 1)};
    enum status status = STATUS_OK;
    for (int c = 0; c < grid->chunks && status == STATUS_OK; c++) {
        holdings.chunk_first[c] = holdings.param_count;
        status = take_stage(&holdings, ranges, grid_stage(grid, position, c));
    }
    holdings.chunk_first[grid->chunks] = holdings.param_count;
    if (status == STATUS_OK)
        *out = holdings;
    else
        holdings_free(&holdings);
    return status;
}

void holdings_free(struct holdings *holdings) {
    free(holdings->params);
    free(holdings->buffers);
    *holdings = (struct holdings){0};
}

/* Both parts stay in their order. */
static int keep_small(const struct graph *graph, int *params, int count, int64_t most_bytes) {
    int *large = MEM_ARRAY(int, count + 1), kept = 0, rest = 0;
    for (int i = 0; i < count; i++) {
        const struct value *value = &graph->values[graph->params[params[i]].value];
        if ((int64_t)tensor_type_bytes(&value->type) <= most_bytes)
            params[kept++] = params[i];
        else
            large[rest++] = params[i];
    }
    for (int i = 0; i < rest; i++) params[kept + i] = large[i];
    free(large);
    return kept;
}

void holdings_keep(struct holdings *holdings, const struct graph *graph, int chunks,
                   int64_t most_bytes) {
    for (int c = 0; c < chunks; c++) {
        int first = holdings->chunk_first[c], count = holdings->chunk_first[c + 1] - first,
            kept = keep_small(graph, holdings->params + first, count, most_bytes);
        holdings->kept[c] = kept < count ? kept : 0; /* of all there is nothing left to slice */
    }
}

struct bucket_source holdings_source(const struct holdings *holdings, const struct graph *graph,
                                     int chunk) {
    int first = holdings->chunk_first[chunk];
    return (struct bucket_source){.graph = graph,
                                  .params = holdings->params + first,
                                  .count = holdings->chunk_first[chunk + 1] - first,
                                  .first = first,
                                  .kept = holdings->kept[chunk],
                                  .begin = store_param_elements(graph, holdings->params, first)};
}
