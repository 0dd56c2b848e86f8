/* Lifetimes are intervals of the times at which nodes run; blocks of bytes are placed largest first
 * at the lowest offset free over their whole interval. This is the classic greedy for offline
 * placement: within a few percent of the lower bound on the graphs here (the tests hold it to
 * that), and simple. Rejected: first-fit in time order (fragments more), exact search (not worth
 * its time).
 *
 * Values that share bytes form one block: views with their root, and an output that may overwrite a
 * dying input.
 *
 * Two blocks may lie in one place if they never meet, in any order of nodes that programs use.
 *
 * In the shared form kept blocks are placed first, as if there were no others. A transient block
 * then goes where it fits among them without making the slot's arena larger, and else into the
 * shared arena. There, intervals of different passes never meet, so each pass has the whole arena.
 */
#include "graph/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/text.h"

enum { ALIGN_BYTES = 64 };

struct block {
    size_t bytes, offset;
    int first[LIFE_ORDERS], last[LIFE_ORDERS];
    int pass; /* LIFE_KEPT, or the one it lives in */
    bool in_shared;
};

/* An arena being packed. */
struct packing {
    struct block **placed; /* by offsets */
    int count, orders;
    size_t bytes;
};

struct placer {
    const struct graph *graph;
    const struct placement_config *config;
    struct placement *plan;
    int *block_of; /* per value */
    struct block *blocks;
    int block_count;
};

static size_t padded(size_t bytes) {
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* --- blocks --- */

/* Is node n the last to use the block, in every order that runs it? */
static bool dies_at(const struct placer *placer, const struct block *block, int n) {
    const struct life *life = &placer->plan->life;
    for (int i = 0; i < life->order_count; i++) {
        int time = life->order[i].time[n];
        if (time != LIFE_NEVER && block->last[i] != time) return false;
    }
    return true;
}

/* The input of node n whose block output 0 may take over, or NO_VALUE. */
static int dying_input(const struct placer *placer, int n) {
    const struct graph *graph = placer->graph;
    const struct node *node = &graph->nodes[n];
    const bool *held = placer->plan->life.recompute.held;
    if (!(op_def(node->op)->flags & OP_IN_PLACE) || graph->values[node->out[0]].use >= 0)
        return NO_VALUE;
    if (held && held[node->out[0]]) return NO_VALUE; /* the input may be made again beside it */
    int input = graph->values[node->in[0]].root, block = placer->block_of[input];
    if (block < 0 || graph->values[input].kind != VALUE_LOCAL ||
        !dies_at(placer, &placer->blocks[block], n))
        return NO_VALUE;
    if (graph->values[input].layout != graph->values[node->out[0]].layout) return NO_VALUE;
    for (int k = 1; k < node->in_count; k++) {
        if (placer->block_of[graph->values[node->in[k]].root] == block) return NO_VALUE;
    }
    return input;
}

static void add_block(struct placer *placer, int value) {
    const struct life *life = &placer->plan->life;
    if (placer->config->gradients_outside && placer->graph->values[value].use >= 0) return;
    struct block *block = &placer->blocks[placer->block_count];
    *block = (struct block){.bytes = padded(placer->graph->values[value].layout->bytes),
                            .pass = life->pass[value]};
    for (int i = 0; i < life->order_count; i++) {
        block->first[i] = life->order[i].first[value];
        block->last[i] = life->order[i].last[value];
    }
    placer->block_of[value] = placer->block_count++;
}

static void take_over(struct placer *placer, int input, int value) {
    const struct life *life = &placer->plan->life;
    struct block *block = &placer->blocks[placer->block_of[input]];
    placer->block_of[value] = placer->block_of[input];
    for (int i = 0; i < life->order_count; i++) {
        int last = life->order[i].last[value];
        if (last > block->last[i]) block->last[i] = last;
    }
    if (block->pass != life->pass[value]) block->pass = LIFE_KEPT;
}

/* What other stages made and this one receives. */
static void add_received(struct placer *placer) {
    const struct graph *graph = placer->graph;
    const struct life *life = &placer->plan->life;
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *value = &graph->values[v];
        placer->block_of[v] = -1;
        if (value->kind == VALUE_LOCAL && value->root == v && life_uses(life, v) &&
            !life_runs(life, value->producer))
            add_block(placer, v);
    }
}

static void make_blocks(struct placer *placer) {
    const struct graph *graph = placer->graph;
    add_received(placer);
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        bool here = life_runs(&placer->plan->life, n);
        for (int k = 0; k < node->out_count && here; k++) {
            int value = node->out[k];
            if (graph->values[value].root != value) continue;
            int input = k == 0 && node->in_count ? dying_input(placer, n) : NO_VALUE;
            if (input == NO_VALUE)
                add_block(placer, value);
            else
                take_over(placer, input, value);
        }
    }
}

/* --- offsets --- */

static int by_size(const void *a, const void *b) {
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first[0] != y->first[0] ? (x->first[0] < y->first[0] ? -1 : 1) : 0;
}

static int by_offset(const void *a, const void *b) {
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool meet(const struct block *a, const struct block *b, int orders) {
    for (int i = 0; i < orders; i++) {
        bool both = a->first[i] != LIFE_NEVER && b->first[i] != LIFE_NEVER;
        if (both && a->last[i] >= b->first[i] && b->last[i] >= a->first[i]) return true;
    }
    return false;
}

/* The block goes into the first gap between those alive at the same time; false where that would
 * take the arena beyond `most` bytes. */
static bool place_block(struct packing *packing, struct block *block, size_t most) {
    size_t offset = 0;
    for (int i = 0; i < packing->count; i++) {
        const struct block *other = packing->placed[i];
        if (!meet(block, other, packing->orders)) continue;
        if (offset + block->bytes <= other->offset) break;
        if (other->offset + other->bytes > offset) offset = other->offset + other->bytes;
    }
    size_t end = offset + block->bytes;
    if (end > most) return false;
    block->offset = offset;
    if (end > packing->bytes) packing->bytes = end;
    struct block **placed = packing->placed;
    int at = packing->count++;
    while (at > 0 && by_offset(&placed[at - 1], &block) > 0) placed[at] = placed[at - 1], at--;
    placed[at] = block;
    return true;
}

static void place_joint(struct packing *slot, struct block **order, int count) {
    for (int i = 0; i < count; i++) place_block(slot, order[i], SIZE_MAX);
}

static void place_apart(struct packing *slot, struct packing *shared, struct block **order,
                        int count) {
    for (int i = 0; i < count; i++) {
        if (order[i]->pass == LIFE_KEPT) place_block(slot, order[i], SIZE_MAX);
    }
    for (int i = 0; i < count; i++) {
        if (order[i]->pass == LIFE_KEPT || place_block(slot, order[i], slot->bytes)) continue;
        order[i]->in_shared = place_block(shared, order[i], SIZE_MAX);
    }
}

static void place_blocks(struct placer *placer) {
    int count = placer->block_count;
    struct block **order = MEM_ARRAY(struct block *, count + 1);
    int orders = placer->plan->life.order_count;
    struct packing slot = {.placed = MEM_ARRAY(struct block *, count + 1), .orders = orders},
                   shared = {.placed = MEM_ARRAY(struct block *, count + 1), .orders = orders};
    for (int i = 0; i < count; i++) order[i] = &placer->blocks[i];
    qsort(order, (size_t)count, sizeof *order, by_size);
    if (placer->config->shared)
        place_apart(&slot, &shared, order, count);
    else
        place_joint(&slot, order, count);
    placer->plan->slot_bytes = slot.bytes;
    placer->plan->shared_bytes = shared.bytes;
    free(order);
    free(slot.placed);
    free(shared.placed);
}

static size_t live_at(const struct placer *placer, int order, int time) {
    size_t live = 0;
    for (int i = 0; i < placer->block_count; i++) {
        const struct block *block = &placer->blocks[i];
        if (block->first[order] <= time && time <= block->last[order]) live += block->bytes;
    }
    return live;
}

static void find_live_peak(struct placer *placer) {
    struct placement *plan = placer->plan;
    for (int order = 0; order < plan->life.order_count; order++) {
        for (int n = 0; n < placer->graph->node_count; n++) {
            int time = plan->life.order[order].time[n];
            size_t live = time == LIFE_NEVER ? 0 : live_at(placer, order, time);
            if (live <= plan->live_bytes) continue;
            plan->live_bytes = live;
            plan->live_node = n;
            plan->live_order = order;
        }
    }
}

static void write_offsets(const struct placer *placer) {
    const struct graph *graph = placer->graph;
    for (int i = 0; i < graph->value_count; i++) {
        int block = placer->block_of[graph->values[i].root];
        placer->plan->offset[i] = block < 0 ? PLACED_ELSEWHERE : placer->blocks[block].offset;
        placer->plan->in_shared[i] = block >= 0 && placer->blocks[block].in_shared;
    }
}

struct placement graph_place(const struct ranges *ranges, int stage,
                             const struct placement_config *config) {
    const struct graph *graph = ranges->graph;
    size_t count = (size_t)graph->value_count + 1;
    struct placement plan = {.graph = graph,
                             .offset = MEM_ARRAY(size_t, count),
                             .in_shared = MEM_ARRAY(bool, count),
                             .life = life_of(ranges, stage, &config->life)};
    struct placer placer = {.graph = graph,
                            .config = config,
                            .plan = &plan,
                            .block_of = MEM_ARRAY(int, count),
                            .blocks = MEM_ARRAY(struct block, count)};
    make_blocks(&placer);
    place_blocks(&placer);
    find_live_peak(&placer);
    write_offsets(&placer);
    free(placer.block_of);
    free(placer.blocks);
    return plan;
}

void placement_free(struct placement *placement) {
    free(placement->offset);
    free(placement->in_shared);
    life_free(&placement->life);
    *placement = (struct placement){0};
}

size_t placement_bytes(const struct placement *placement, int slots) {
    return placement->slot_bytes * (size_t)slots + placement->shared_bytes;
}

/* --- what is alive at the peak --- */

static _Thread_local const struct graph *sorted_graph; /* qsort has no context argument in C11 */

static int by_layout_bytes(const void *a, const void *b) {
    size_t x = sorted_graph->values[*(const int *)a].layout->bytes;
    size_t y = sorted_graph->values[*(const int *)b].layout->bytes;
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

/* Values alive at the peak, largest first; the caller frees the list. */
static int *alive_at_peak(const struct placement *placement, int *count) {
    const struct graph *graph = placement->graph;
    const struct life_order *life = &placement->life.order[placement->live_order];
    int *alive = MEM_ARRAY(int, graph->value_count + 1), time = life->time[placement->live_node];
    *count = 0;
    for (int i = 0; i < graph->value_count; i++) {
        const struct value *value = &graph->values[i];
        if (value->kind == VALUE_LOCAL && value->root == i &&
            placement->offset[i] != PLACED_ELSEWHERE && life->first[i] <= time &&
            time <= life->last[i])
            alive[(*count)++] = i;
    }
    sorted_graph = graph;
    qsort(alive, (size_t)*count, sizeof *alive, by_layout_bytes);
    return alive;
}

void placement_largest(const struct placement *placement, char *text, size_t bytes) {
    int count;
    SCOPED_FREE int *alive = alive_at_peak(placement, &count);
    char size[TEXT_BYTES], shape[SHAPE_TEXT_BYTES];
    text[0] = 0;
    for (int i = 0; i < count && i < 3; i++) {
        const struct value *value = &placement->graph->values[alive[i]];
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s %s %s", i ? ", " : "", value->name,
                 shape_text(&value->type.shape, shape),
                 text_size((int64_t)value->layout->bytes, size));
    }
}

void placement_print(const struct placement *placement, FILE *out, int count) {
    const struct graph *graph = placement->graph;
    const struct node *peak = &graph->nodes[placement->live_node];
    int alive_count;
    SCOPED_FREE int *alive = alive_at_peak(placement, &alive_count);
    char size[TEXT_BYTES], shape[SHAPE_TEXT_BYTES];
    shown_print(out, "  alive at the peak (%s %s), %d values:\n", peak->name,
                op_def(peak->op)->name, alive_count);
    for (int i = 0; i < alive_count && i < count; i++) {
        const struct value *value = &graph->values[alive[i]];
        shown_print(out, "    %10s  %-28s %-18s %s %s\n",
                    text_size((int64_t)value->layout->bytes, size), value->name,
                    op_def(graph->nodes[value->producer].op)->name, dtype_name(value->type.dtype),
                    shape_text(&value->type.shape, shape));
    }
}
