/* See share.h. Pipelines are compared by what each of their ranks runs, its device and its links to
 * the stages before and after: a table of hashes finds the like in one pass over all ranks. */
#include "sim/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

/* --- what makes two pipelines the same --- */

/* Of one rank; compared as bytes, so it has no gaps. */
struct trait {
    int32_t kind, class;
    double slowness;
    struct cost_link next[GRID_MAX_CHUNKS]; /* from each of its stages to the one after */
};

static void trait_of(const struct sim_input *input, int pipeline, int position, struct trait *out) {
    const struct grid *grid = &input->program->grid;
    int rank = group_rank(grid, GROUP_PIPELINE, pipeline, position);
    memset(out, 0, sizeof *out);
    out->kind = input->program->kind_of[rank];
    struct cost_device device = cost_device_of(&input->net, rank);
    out->class = device.class;
    out->slowness = device.slowness;
    const struct hetero *law = input->net.hetero;
    if (law) out->slowness *= hetero_slowness(law, rank);
    for (int c = 0; (input->net.cluster || law) && c < grid->chunks; c++) {
        int next = grid_stage(grid, position, c) + 1;
        if (next == grid->stages * grid->chunks) continue;
        int to = group_rank(grid, GROUP_PIPELINE, pipeline, grid_position(grid, next));
        out->next[c] = cost_link(&input->net, rank, to);
    }
}

static uint64_t hash_pipeline(const struct sim_input *input, int pipeline) {
    uint64_t hash = HASH64_START;
    struct trait trait;
    for (int p = 0; p < input->program->grid.stages; p++) {
        trait_of(input, pipeline, p, &trait);
        hash = hash64(hash, &trait, sizeof trait);
    }
    return hash;
}

static bool same_pipeline(const struct sim_input *input, int a, int b) {
    struct trait one, other;
    for (int p = 0; p < input->program->grid.stages; p++) {
        trait_of(input, a, p, &one);
        trait_of(input, b, p, &other);
        if (memcmp(&one, &other, sizeof one) != 0) return false;
    }
    return true;
}

/* --- choosing --- */

struct table {
    int *entry; /* number of a pipeline that is run + 1, or 0 */
    uint64_t size;
};

static void take_pipeline(const struct sim_input *input, struct sim_share *share,
                          struct table *table, int pipeline) {
    bool apart =
        input->apart || input->groups || (input->net.hetero && hetero_differs(input->net.hetero));
    uint64_t at = apart ? 0 : hash_pipeline(input, pipeline) % table->size;
    for (; !apart && table->entry[at] > 0; at = (at + 1) % table->size) {
        int number = table->entry[at] - 1;
        if (!same_pipeline(input, share->pipeline[number], pipeline)) continue;
        share->like[number]++;
        return;
    }
    share->pipeline[share->pipeline_count] = pipeline;
    share->like[share->pipeline_count++] = 1;
    table->entry[at] = share->pipeline_count;
}

static void list_ranks(const struct grid *grid, struct sim_share *share) {
    int ranks = grid_ranks(grid), at = 0;
    share->others = grid->drivers + grid->servers;
    share->run_count = share->others + share->pipeline_count * grid->stages;
    share->rank = MEM_ARRAY(int, share->run_count + 1);
    for (int r = 0; r < grid->drivers; r++) share->rank[at++] = r;
    for (int r = ranks - grid->servers; r < ranks; r++) share->rank[at++] = r;
    for (int i = 0; i < share->pipeline_count; i++) {
        for (int p = 0; p < grid->stages; p++)
            share->rank[at++] = group_rank(grid, GROUP_PIPELINE, share->pipeline[i], p);
    }
}

void sim_share_new(const struct sim_input *input, struct sim_share *out) {
    const struct grid *grid = &input->program->grid;
    int pipelines = group_count(grid, GROUP_PIPELINE);
    struct table table = {.size = 2 * (uint64_t)pipelines + 1};
    table.entry = MEM_ARRAY(int, table.size);
    *out = (struct sim_share){.pipeline = MEM_ARRAY(int, pipelines + 1),
                              .like = MEM_ARRAY(int, pipelines + 1)};
    for (int p = 0; p < pipelines; p++) take_pipeline(input, out, &table, p);
    free(table.entry);
    list_ranks(grid, out);
}

void sim_share_free(struct sim_share *share) {
    free(share->rank);
    free(share->pipeline);
    free(share->like);
    *share = (struct sim_share){0};
}
