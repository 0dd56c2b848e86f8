/* See block_buckets.h. Blocks of a stage are put into groups, and each group is a segment: one
 * block, with those behind it that have no parameters. Several, where their parameters do not
 * follow one another as the blocks do; and where passes must touch one bucket after the other
 * (source->apart), those that a parameter of several blocks spans. Elsewhere such a parameter is of
 * its first block: there, at the end of backward, all of its gradients are made.
 *
 * What a stage shares with another is a bucket of its own behind that of its group, and so is what
 * is kept behind all others: their segments have no nodes. */
#include "plan/block_buckets.h"

#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"
#include "plan/state_layout.h"

/* The first and the last block of the stage that touch a parameter. */
struct span {
    int first, last;
};

struct groups {
    int *of;    /* per parameter of the source; those that are kept are in none, -1 */
    int *begin; /* per group: its first block; of the first one INT_MIN */
    int count;
};

static void touch(struct span *span, int block) {
    if (block < span->first) span->first = block;
    if (block > span->last) span->last = block;
}

/* Per parameter of the graph. */
static struct span *spans_of(const struct bucket_source *source, const int *unit_block) {
    const struct graph *graph = source->graph;
    struct span *spans = MEM_ARRAY(struct span, graph->param_count + 1);
    for (int p = 0; p < graph->param_count; p++) spans[p] = (struct span){INT_MAX, -1};
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (node->unit < source->first_unit || node->unit >= source->end_unit) continue;
        for (int i = 0; i < node->in_count; i++) {
            const struct value *root = &graph->values[graph->values[node->in[i]].root];
            if (root->kind == VALUE_PARAM) touch(&spans[root->index], unit_block[node->unit]);
        }
    }
    return spans;
}

/* The end of the parameters that are in groups. Shared parameters are in none if their bucket is
 * the last one, since every segment touches it. */
static int grouped_end(const struct bucket_source *source) {
    bool last = source->kept == 0 && buckets_keep_last(source);
    return source->count - (last ? source->shared : 0);
}

/* Per block: a group may begin with it, since no parameter is on both sides. */
static bool *find_begins(const struct bucket_source *source, const struct span *spans, int blocks) {
    bool *begins = MEM_ARRAY(bool, blocks + 1);
    int before = -1, least = INT_MAX, end = grouped_end(source);
    for (int p = source->kept; p < end; p++) {
        const struct span *span = &spans[source->params[p]];
        if (span->first < least) least = span->first;
        if (span->first < blocks) begins[span->first] = true;
    }
    for (int p = source->kept; p < end; p++) {
        const struct span *span = &spans[source->params[p]];
        bool shared = p >= source->count - source->shared;
        int last = source->apart ? span->last : span->first;
        if (!shared && before > last) last = before;
        for (int k = span->first + 1; k <= last; k++) begins[k] = false;
        if (!shared && span->first > before) before = span->first;
    }
    if (least < blocks) begins[least] = false;
    return begins;
}

static struct groups groups_of(const struct bucket_source *source, const int *unit_block) {
    int blocks = unit_block[source->end_unit - 1] + 1;
    SCOPED_FREE struct span *spans = spans_of(source, unit_block);
    SCOPED_FREE bool *begins = find_begins(source, spans, blocks);
    struct groups groups = {MEM_ARRAY(int, source->count + 1), MEM_ARRAY(int, blocks + 1), 1};
    groups.begin[0] = INT_MIN;
    for (int k = 0; k < blocks; k++)
        if (begins[k]) groups.begin[groups.count++] = k;
    for (int p = 0; p < source->count; p++) {
        int group = groups.count - 1;
        while (spans[source->params[p]].first < groups.begin[group]) group--;
        groups.of[p] = p < source->kept || p >= grouped_end(source) ? -1 : group;
    }
    return groups;
}

static void groups_free(struct groups *groups) {
    free(groups->of);
    free(groups->begin);
}

/* --- buckets --- */

/* One of the parameters [from, to) that are in a group; none where there is no such one. */
static void add_bucket(const struct bucket_source *source, const struct groups *groups, int group,
                       int from, int to, struct bucket_list *list) {
    int64_t at = source->begin + state_param_elements(source->graph, source->params, from);
    struct bucket bucket = {.shared = from >= source->count - source->shared && from < to};
    for (int p = from; p < to; p++) {
        int64_t elements = state_param_span(source->graph, source->params[p]);
        if (groups->of[p] == group) {
            if (bucket.count++ == 0) bucket.first = source->first + p, bucket.begin = at;
            bucket.elements += elements;
        }
        at += elements;
    }
    if (bucket.count > 0) list->items[list->count++] = bucket;
}

struct bucket_list block_buckets_of(const struct bucket_source *source) {
    int *unit_block = ranges_unit_blocks(source->graph), own = source->count - source->shared;
    SCOPED(groups_free) struct groups groups = groups_of(source, unit_block);
    struct bucket_list list = {.items = MEM_ARRAY(struct bucket, 2 * groups.count + 2)};
    for (int g = groups.count - 1; g >= 0; g--) {
        add_bucket(source, &groups, g, source->kept, own, &list);
        add_bucket(source, &groups, g, own, source->count, &list);
    }
    add_bucket(source, &groups, -1, 0, source->kept, &list);
    add_bucket(source, &groups, -1, grouped_end(source), source->count, &list);
    if (list.count == 0)
        list.items[list.count++] = (struct bucket){.first = source->first, .begin = source->begin};
    free(unit_block);
    return list;
}

/* --- segments --- */

/* Where a phase is cut at block `begin`. Backward comes to the blocks of a stage from the last to
 * the first: the first node of a block before `begin`. Forward: the first node of `begin` or of a
 * block behind it. */
static int edge_of(const struct ranges *ranges, int stage, enum phase phase, const int *unit_block,
                   int begin) {
    struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, phase);
    bool forward = phase == PHASE_FORWARD;
    int n = nodes.begin;
    while (n < nodes.end && (unit_block[ranges->graph->nodes[n].unit] >= begin) != forward) n++;
    return n;
}

/* The first block of a bucket's group; what is kept is behind the first group. */
static int begin_of(const struct bucket *bucket, const struct bucket_source *source,
                    const struct groups *groups) {
    int group = bucket->count ? groups->of[bucket->first - source->first] : 0;
    return groups->begin[group < 0 ? 0 : group];
}

static void cut(const struct bucket_list *buckets, const struct bucket_source *source,
                struct ranges *ranges, int stage, enum phase phase) {
    int *unit_block = ranges_unit_blocks(source->graph), count = buckets->count,
        *ends = MEM_ARRAY(int, count), end = ranges_find(ranges, stage, SEGMENT_ALL, phase).end;
    SCOPED(groups_free) struct groups groups = groups_of(source, unit_block);
    for (int b = 0; b < count; b++) {
        int begin = begin_of(&buckets->items[b], source, &groups);
        if (phase == PHASE_BACKWARD) {
            ends[b] = edge_of(ranges, stage, phase, unit_block, begin);
        } else {
            ends[count - 1 - b] = end;
            end = edge_of(ranges, stage, phase, unit_block, begin);
        }
    }
    ranges_cut_segments(ranges, stage, phase, ends, count);
    free(unit_block);
    free(ends);
}

void block_buckets_cut(const struct bucket_list *buckets, const struct bucket_source *source,
                       struct ranges *ranges, int stage) {
    cut(buckets, source, ranges, stage, PHASE_FORWARD);
    if (source->graph->training) cut(buckets, source, ranges, stage, PHASE_BACKWARD);
}
