/* See norms.h. Parameters are padded to whole blocks of NORM_BLOCK, and slices begin at such a
 * block, so the sums of these blocks are the same doubles on every grid. */
#include "exec/norms.h"

#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/mem.h"
#include "exec/queues.h"
#include "exec/train.h"
#include "graph/freeze.h"

static const struct graph *graph_of(const struct engine *engine) {
    return engine->plan->micro[0].graph;
}

static bool is_asked(const struct engine *engine) {
    return engine->state->norms.blocks > 0;
}

static size_t sums_bytes(const struct engine *engine) {
    return (size_t)engine->state->norms.blocks * sizeof(struct exact_sum);
}

enum status norms_open(struct engine *engine) {
    struct device *device = engine->plan->device;
    if (!is_asked(engine)) return STATUS_OK;
    TRY(device->backend->memory_new(device, sums_bytes(engine), "norms of blocks",
                                    (void **)&engine->norms));
    return queues_clear(engine, engine->norms, sums_bytes(engine));
}

void norms_close(struct engine *engine) {
    struct device *device = engine->plan->device;
    if (engine->norms) device->backend->memory_free(device, engine->norms, sums_bytes(engine));
    engine->norms = NULL;
}

enum status norms_count(struct engine *engine, const struct instr *instr) {
    const struct graph *graph = graph_of(engine);
    if (!engine->norms) return STATUS_OK;
    engine->norms_group = instr->group;
    for (int p = 0; p < graph->param_count && instr->grad != INSTR_ALL; p++) {
        int block = freeze_block(graph, graph->params[p].block);
        if (block >= engine->state->norms.blocks) continue; /* the head */
        TRY(store_param_squares(engine->store, instr->grad, p, &engine->norms[block]));
    }
    return STATUS_OK;
}

/* Of the ranks that NORM meets, of which each parameter has one that counts it. */
static enum status merge(struct engine *engine, struct exact_sum *own, struct exact_sum *into) {
    struct comm_group *group =
        engine->norms_group == INSTR_ALL ? NULL : engine->group[engine->norms_group];
    int members = group ? comm_group_count(group) : 1;
    SCOPED_FREE struct exact_sum *all = MEM_ARRAY(struct exact_sum, members);
    all[0] = *own;
    if (group) TRY(comm_exchange(group, own, sizeof *own, all));
    for (int m = 0; m < members; m++) exact_merge(into, &all[m]);
    return STATUS_OK;
}

enum status engine_gather_norms(struct engine *engine) {
    struct train_norms *norms = &engine->state->norms;
    if (!engine->norms) return STATUS_OK;
    SCOPED_FREE struct exact_sum *own = MEM_ARRAY(struct exact_sum, norms->blocks);
    TRY(queues_await(engine));
    TRY(device_copy_out(engine->plan->device, own, engine->norms, sums_bytes(engine)));
    for (int b = 0; b < norms->blocks; b++) TRY(merge(engine, &own[b], &norms->squares[b]));
    return queues_clear(engine, engine->norms, sums_bytes(engine));
}
