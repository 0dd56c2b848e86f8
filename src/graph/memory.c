/* Lifetimes are intervals of the times at which nodes run; blocks of bytes are placed largest first
 * at the lowest offset free over their whole interval. This is the classic greedy for offline
 * placement: within a few percent of the lower bound on the graphs here (the tests hold it to
 * that), and simple. Rejected: first-fit in time order (fragments more), exact search (not worth
 * its time).
 *
 * Values that share bytes form one block: views with their root, and an output that may overwrite a
 * dying input. */
#include "graph/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum { ALIGN_BYTES = 64 };

struct block {
    size_t bytes, offset;
    int first, last;
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

static bool in_second_pass(const struct placer *placer, const struct node *node) {
    return placer->config->split && node->phase == PHASE_BACKWARD && node->half == OP_HALF_W;
}

static void find_times(struct placer *placer) {
    int now = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int n = 0; n < placer->graph->node_count; n++) {
            if (in_second_pass(placer, &placer->graph->nodes[n]) == (pass == 1))
                placer->plan->time[n] = now++;
        }
    }
}

static void reach(int *last, int time) {
    if (time > *last) *last = time;
}

/* Gradients that operations of the input half make wait there for W to name their accumulator;
 * those of the weight half are added as soon as they are made. */
static void keep_for_executor(struct placer *placer) {
    const struct graph *graph = placer->graph;
    int *last = placer->plan->last, end = graph->node_count;
    for (int u = 0; placer->config->split && u < graph->use_count; u++) {
        int value = graph->uses[u].gradient;
        if (graph->nodes[graph->values[value].producer].half == OP_HALF_I) last[value] = end;
    }
    for (int i = 0; i < graph->loss_count; i++) {
        last[graph->losses[i].sum] = end;
        if (graph->losses[i].top_k != NO_VALUE) last[graph->losses[i].top_k] = end;
    }
}

/* Run op by op, a node of the second pass runs right behind the one that stands before it: when
 * both orders happen, what it makes is in use from then on. */
static void find_lifetimes(struct placer *placer) {
    const struct graph *graph = placer->graph;
    int *first = placer->plan->first, *last = placer->plan->last, before = 0;
    for (int i = 0; i < graph->value_count; i++) first[i] = last[i] = -1;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        int time = placer->plan->time[n];
        if (!in_second_pass(placer, node)) before = time;
        for (int k = 0; k < node->out_count; k++) {
            int root = graph->values[node->out[k]].root;
            if (first[root] < 0) first[root] = placer->config->mixed ? before : time;
            reach(&last[root], time);
        }
        for (int k = 0; k < node->in_count; k++)
            reach(&last[graph->values[node->in[k]].root], time);
    }
    keep_for_executor(placer);
}

/* The input of `node` whose block output 0 may take over, or NO_VALUE. */
static int dying_input(const struct placer *placer, const struct node *node, int time) {
    const struct graph *graph = placer->graph;
    if (!(op_def(node->op)->flags & OP_IN_PLACE) || graph->values[node->out[0]].use >= 0)
        return NO_VALUE;
    if (placer->config->mixed && in_second_pass(placer, node)) return NO_VALUE;
    int input = graph->values[node->in[0]].root, block = placer->block_of[input];
    if (block < 0 || graph->values[input].kind != VALUE_LOCAL || placer->blocks[block].last != time)
        return NO_VALUE;
    if (graph->values[input].layout != graph->values[node->out[0]].layout) return NO_VALUE;
    for (int k = 1; k < node->in_count; k++) {
        if (placer->block_of[graph->values[node->in[k]].root] == block) return NO_VALUE;
    }
    return input;
}

static void add_block(struct placer *placer, int value) {
    if (placer->config->gradients_outside && placer->graph->values[value].use >= 0) return;
    struct block *block = &placer->blocks[placer->block_count];
    *block = (struct block){.bytes = padded(placer->graph->values[value].layout->bytes),
                            .first = placer->plan->first[value],
                            .last = placer->plan->last[value]};
    placer->block_of[value] = placer->block_count++;
}

static void make_blocks(struct placer *placer) {
    const struct graph *graph = placer->graph;
    for (int i = 0; i < graph->value_count; i++) placer->block_of[i] = -1;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        for (int k = 0; k < node->out_count; k++) {
            int value = node->out[k];
            if (graph->values[value].root != value) continue;
            int input = k == 0 && node->in_count ? dying_input(placer, node, placer->plan->time[n])
                                                 : NO_VALUE;
            if (input == NO_VALUE) {
                add_block(placer, value);
                continue;
            }
            int block = placer->block_of[input];
            placer->block_of[value] = block;
            placer->blocks[block].last = placer->plan->last[value];
        }
    }
}

static int by_size(const void *a, const void *b) {
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : 0;
}

static int by_offset(const void *a, const void *b) {
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* `placed` is kept in order of offsets; the block goes into the first gap between those alive at
 * the same time. */
static void place_block(struct block *block, struct block **placed, int count) {
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        const struct block *other = placed[i];
        if (other->last < block->first || block->last < other->first) continue;
        if (offset + block->bytes <= other->offset) break;
        if (other->offset + other->bytes > offset) offset = other->offset + other->bytes;
    }
    block->offset = offset;
    int at = count;
    while (at > 0 && by_offset(&placed[at - 1], &block) > 0) placed[at] = placed[at - 1], at--;
    placed[at] = block;
}

static void place_blocks(struct placer *placer) {
    int count = placer->block_count;
    struct block **order = MEM_ARRAY(struct block *, count + 1),
                 **placed = MEM_ARRAY(struct block *, count + 1);
    for (int i = 0; i < count; i++) order[i] = &placer->blocks[i];
    qsort(order, (size_t)count, sizeof *order, by_size);
    for (int i = 0; i < count; i++) {
        place_block(order[i], placed, i);
        size_t end = order[i]->offset + order[i]->bytes;
        if (end > placer->plan->bytes) placer->plan->bytes = end;
    }
    free(order);
    free(placed);
}

static void find_live_peak(struct placer *placer) {
    for (int n = 0; n < placer->graph->node_count; n++) {
        size_t live = 0;
        int time = placer->plan->time[n];
        for (int i = 0; i < placer->block_count; i++) {
            const struct block *block = &placer->blocks[i];
            if (block->first <= time && time <= block->last) live += block->bytes;
        }
        if (live <= placer->plan->live_bytes) continue;
        placer->plan->live_bytes = live;
        placer->plan->live_node = n;
    }
}

struct placement graph_place(const struct graph *graph, const struct placement_config *config) {
    size_t count = (size_t)graph->value_count + 1;
    struct placement plan = {.graph = graph,
                             .offset = MEM_ARRAY(size_t, count),
                             .first = MEM_ARRAY(int, count),
                             .last = MEM_ARRAY(int, count),
                             .time = MEM_ARRAY(int, graph->node_count + 1)};
    struct placer placer = {.graph = graph,
                            .config = config,
                            .plan = &plan,
                            .block_of = MEM_ARRAY(int, count),
                            .blocks = MEM_ARRAY(struct block, count)};
    find_times(&placer);
    find_lifetimes(&placer);
    make_blocks(&placer);
    place_blocks(&placer);
    find_live_peak(&placer);
    for (int i = 0; i < graph->value_count; i++) {
        int block = placer.block_of[graph->values[i].root];
        plan.offset[i] = block < 0 ? PLACED_ELSEWHERE : placer.blocks[block].offset;
    }
    free(placer.block_of);
    free(placer.blocks);
    return plan;
}

void placement_free(struct placement *placement) {
    free(placement->offset);
    free(placement->first);
    free(placement->last);
    free(placement->time);
    *placement = (struct placement){0};
}

static _Thread_local const struct graph *sorted_graph; /* qsort has no context argument in C11 */

static int by_layout_bytes(const void *a, const void *b) {
    size_t x = sorted_graph->values[*(const int *)a].layout->bytes;
    size_t y = sorted_graph->values[*(const int *)b].layout->bytes;
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

/* Values alive at the peak, largest first; the caller frees the list. */
static int *alive_at_peak(const struct placement *placement, int *count) {
    const struct graph *graph = placement->graph;
    int *alive = MEM_ARRAY(int, graph->value_count + 1),
        time = placement->time[placement->live_node];
    *count = 0;
    for (int i = 0; i < graph->value_count; i++) {
        const struct value *value = &graph->values[i];
        if (value->kind == VALUE_LOCAL && value->root == i &&
            placement->offset[i] != PLACED_ELSEWHERE && placement->first[i] <= time &&
            time <= placement->last[i])
            alive[(*count)++] = i;
    }
    sorted_graph = graph;
    qsort(alive, (size_t)*count, sizeof *alive, by_layout_bytes);
    return alive;
}

void placement_largest(const struct placement *placement, char *text, size_t bytes) {
    int count;
    int *alive = alive_at_peak(placement, &count);
    char size[TEXT_BYTES], shape[SHAPE_TEXT_BYTES];
    text[0] = 0;
    for (int i = 0; i < count && i < 3; i++) {
        const struct value *value = &placement->graph->values[alive[i]];
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s %s %s", i ? ", " : "", value->name,
                 shape_text(&value->type.shape, shape),
                 text_size((int64_t)value->layout->bytes, size));
    }
    free(alive);
}

void placement_print(const struct placement *placement, FILE *out, int count) {
    const struct graph *graph = placement->graph;
    const struct node *peak = &graph->nodes[placement->live_node];
    int alive_count;
    int *alive = alive_at_peak(placement, &alive_count);
    char size[TEXT_BYTES], shape[SHAPE_TEXT_BYTES];
    fprintf(out, "  alive at the peak (%s %s), %d values:\n", peak->name, op_def(peak->op)->name,
            alive_count);
    for (int i = 0; i < alive_count && i < count; i++) {
        const struct value *value = &graph->values[alive[i]];
        fprintf(out, "    %10s  %-28s %-18s %s %s\n",
                text_size((int64_t)value->layout->bytes, size), value->name,
                op_def(graph->nodes[value->producer].op)->name, dtype_name(value->type.dtype),
                shape_text(&value->type.shape, shape));
    }
    free(alive);
}
