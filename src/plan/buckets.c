/* See buckets.h. Small buckets start early and hide more; large ones cost fewer messages: the
 * limits are torch's order of magnitude, scaled to the model. */
#include "plan/buckets.h"

#include <limits.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

#include "plan/block_buckets.h"
#include "plan/state_layout.h"

enum { MIN_BYTES = 1 << 20, MAX_BYTES = 25 << 20, SHARE = 16 };

int64_t buckets_most_bytes(int64_t total) {
    int64_t bytes = state_bytes(total) / SHARE;
    if (bytes > MAX_BYTES) bytes = MAX_BYTES;
    return bytes < MIN_BYTES ? MIN_BYTES : bytes;
}

static int64_t most_elements(int64_t total) {
    return buckets_most_bytes(total) / state_bytes(1);
}

static int64_t trained_elements(const struct graph *graph) {
    int64_t elements = 0;
    for (int p = 0; p < graph->param_count; p++)
        if (!graph->params[p].frozen) elements += state_param_span(graph, p);
    return elements;
}

/* The node after which every gradient that the stage makes of the bucket's parameters is there. */
static int whole_after(const struct bucket *bucket, const struct bucket_source *source) {
    const struct graph *graph = source->graph;
    int last = source->nodes.begin - 1;
    for (int i = 0; i < bucket->count; i++) {
        const struct param *param =
            &graph->params[source->params[bucket->first - source->first + i]];
        for (int u = param->first_use; u < param->first_use + param->use_count; u++) {
            int producer = graph->values[graph->uses[u].gradient].producer;
            if (producer > last && producer < source->nodes.end) last = producer;
        }
    }
    return last + 1;
}

/* Stable insertion sort by `whole_after`: there are few, and they are nearly sorted. */
static void sort_by_time(struct bucket_list *list, const struct bucket_source *source) {
    for (int i = 1; i < list->count; i++) {
        struct bucket bucket = list->items[i];
        int at = i, when = whole_after(&bucket, source);
        for (; at > 0 && whole_after(&list->items[at - 1], source) > when; at--)
            list->items[at] = list->items[at - 1];
        list->items[at] = bucket;
    }
}

/* --- buckets that passes touch one after the other --- */

/* The first and last node of a phase that touch some parameters. */
struct touched {
    int first, last;
};

static struct touched both(struct touched a, struct touched b) {
    return (struct touched){a.first < b.first ? a.first : b.first,
                            a.last > b.last ? a.last : b.last};
}

/* Per phase. */
struct touches {
    struct touched by[PHASE_COUNT];
};
static const struct touches none = {{{INT_MAX, -1}, {INT_MAX, -1}}};

static struct touches join(struct touches a, struct touches b) {
    for (int phase = 0; phase < PHASE_COUNT; phase++) a.by[phase] = both(a.by[phase], b.by[phase]);
    return a;
}

static void touch(struct touches *of, const struct graph *graph, int node) {
    struct touched *by = &of->by[graph->nodes[node].phase];
    *by = both(*by, (struct touched){node, node});
}

/* Per parameter of the graph: who reads it, or makes a gradient of it. The caller frees it. */
static struct touches *touches_of(const struct graph *graph) {
    struct touches *of = MEM_ARRAY(struct touches, graph->param_count + 1);
    for (int p = 0; p < graph->param_count; p++) of[p] = none;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        for (int i = 0; i < node->in_count; i++) {
            const struct value *root = &graph->values[graph->values[node->in[i]].root];
            if (root->kind == VALUE_PARAM) touch(&of[root->index], graph, n);
        }
    }
    for (int u = 0; u < graph->use_count; u++)
        touch(&of[graph->uses[u].param], graph, graph->values[graph->uses[u].gradient].producer);
    return of;
}

/* Per position p: whether the parameters from it on are touched after those before it in forward,
 * and before them in backward. */
static bool *find_cuts(const struct bucket_source *source) {
    struct touches *of = touches_of(source->graph), before = none,
                   *after = MEM_ARRAY(struct touches, source->count + 1);
    bool *cuts = MEM_ARRAY(bool, source->count + 1);
    int own = source->count - source->shared;
    after[own] = none;
    for (int p = own - 1; p >= source->kept; p--)
        after[p] = join(after[p + 1], of[source->params[p]]);
    for (int p = source->kept; p < own; p++) {
        const struct touched *early = before.by, *late = after[p].by;
        cuts[p] = early[PHASE_FORWARD].last < late[PHASE_FORWARD].first &&
                  late[PHASE_BACKWARD].last < early[PHASE_BACKWARD].first;
        before = join(before, of[source->params[p]]);
    }
    free(of);
    free(after);
    return cuts;
}

/* Elements of the parameter at p and of those before it, back to the last place where a cut is
 * allowed. */
static int64_t unit_elements(const struct bucket_source *source, const bool *cuts, int p) {
    int64_t elements = state_param_span(source->graph, source->params[p]);
    for (; cuts && p > source->kept && !cuts[p]; p--)
        elements += state_param_span(source->graph, source->params[p - 1]);
    return elements;
}

/* Every segment touches the shared bucket. */
static void put_last(struct bucket_list *list) {
    struct bucket shared = list->items[0];
    for (int b = 1; b < list->count; b++) list->items[b - 1] = list->items[b];
    list->items[list->count - 1] = shared;
}

bool buckets_keep_last(const struct bucket_source *source) {
    bool shares = source->apart && source->shared > 0 && source->shared < source->count;
    return source->kept > 0 || shares;
}

struct bucket_list buckets_of(const struct bucket_source *source) {
    if (source->frozen) return (struct bucket_list){0};
    if (source->blocks) return block_buckets_of(source);
    const struct graph *graph = source->graph;
    struct bucket_list list = {.items = MEM_ARRAY(struct bucket, source->count + 1)};
    int64_t end = source->begin + state_param_elements(graph, source->params, source->count),
            most = source->most ? source->most : most_elements(trained_elements(graph));
    struct bucket *open = NULL;
    bool *cuts = source->apart ? find_cuts(source) : NULL;
    for (int p = source->count - 1; p >= 0; p--) {
        int64_t elements = state_param_span(graph, source->params[p]);
        bool shared = p >= source->count - source->shared;
        bool may = !cuts || (p + 1 < source->count && cuts[p + 1]), kept = p + 1 == source->kept,
             full = may && !shared && p >= source->kept && open &&
                    open->elements + unit_elements(source, cuts, p) > most;
        if (!open || full || kept || open->shared != shared) {
            open = &list.items[list.count++];
            *open = (struct bucket){.begin = end, .shared = shared};
        }
        end -= elements;
        open->first = source->first + p;
        open->count++;
        open->begin = end;
        open->elements += elements;
    }
    free(cuts);
    if (list.count == 0)
        list.items[list.count++] = (struct bucket){.first = source->first, .begin = end};
    if (!source->apart)
        sort_by_time(&list, source);
    else if (list.items[0].shared)
        put_last(&list);
    return list;
}

int buckets_shared(const struct bucket_list *buckets) {
    for (int b = 0; b < buckets->count; b++)
        if (buckets->items[b].shared) return b;
    return -1;
}

void buckets_join(struct bucket_list *buckets) {
    struct bucket all = buckets->items[0];
    all.count = 0, all.elements = 0;
    for (int b = 0; b < buckets->count; b++) {
        const struct bucket *one = &buckets->items[b];
        if (one->first < all.first) all.first = one->first;
        if (one->begin < all.begin) all.begin = one->begin;
        all.count += one->count;
        all.elements += one->elements;
    }
    buckets->items[0] = all;
    buckets->count = 1;
}

/* Segments end where a later one's bucket is touched first; buckets are in the order of backward.
 */
static void cut_apart(const struct bucket_list *buckets, const struct bucket_source *source,
                      struct ranges *ranges, int stage, enum phase phase) {
    SCOPED_FREE struct touches *of = touches_of(source->graph);
    int count = buckets->count, *ends = MEM_ARRAY(int, count),
        end = ranges_find(ranges, stage, SEGMENT_ALL, phase).end;
    for (int i = count - 1; i >= 0; i--) {
        int b = phase == PHASE_FORWARD ? count - 1 - i : i;
        const struct bucket *bucket = &buckets->items[b];
        ends[i] = end;
        /* What another stage shares is touched there, too. */
        bool shared = source->shared > 0 && source->shared == source->count;
        if (b == count - 1 && (shared || buckets_keep_last(source))) continue;
        for (int p = 0; p < bucket->count; p++) {
            int param = source->params[bucket->first - source->first + p];
            const struct touched *own = &of[param].by[phase];
            CHECK(own->last < ends[i], "bucket %d is touched behind its segment", b);
            if (own->first < end) end = own->first;
        }
    }
    ranges_cut_segments(ranges, stage, phase, ends, count);
    free(ends);
}

void buckets_cut(const struct bucket_list *buckets, const struct bucket_source *source,
                 struct ranges *ranges, int stage) {
    if (source->frozen) return;
    if (source->blocks) {
        block_buckets_cut(buckets, source, ranges, stage);
        return;
    }
    if (source->apart) {
        cut_apart(buckets, source, ranges, stage, PHASE_FORWARD);
        if (source->graph->training) cut_apart(buckets, source, ranges, stage, PHASE_BACKWARD);
        return;
    }
    struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_BACKWARD);
    int *ends = MEM_ARRAY(int, buckets->count), last = nodes.begin;
    for (int b = 0; b < buckets->count; b++) {
        int end = whole_after(&buckets->items[b], source);
        last = ends[b] = end > last ? end : last;
    }
    ends[buckets->count - 1] = nodes.end;
    ranges_cut_segments(ranges, stage, PHASE_BACKWARD, ends, buckets->count);
    free(ends);
}
