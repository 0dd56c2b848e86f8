/* See buckets.h. Small buckets start early and hide more; large ones cost fewer messages: the
 * limits are torch's order of magnitude, scaled to the model. */
#include "plan/buckets.h"

#include <stdlib.h>

#include "plan/store_layout.h"

enum { MIN_BYTES = 1 << 20, MAX_BYTES = 25 << 20, SHARE = 16 };

static int64_t most_elements(int64_t total) {
    int64_t bytes = total * (int64_t)sizeof(float) / SHARE;
    if (bytes > MAX_BYTES) bytes = MAX_BYTES;
    if (bytes < MIN_BYTES) bytes = MIN_BYTES;
    return bytes / (int64_t)sizeof(float);
}

/* The node after which every gradient of the bucket's parameters is there. */
static int whole_after(const struct bucket *bucket, const struct bucket_source *source,
                       const struct graph *graph) {
    int last = 0;
    for (int i = 0; i < bucket->count; i++) {
        const struct param *param =
            &graph->params[source->params[bucket->first - source->first + i]];
        for (int u = param->first_use; u < param->first_use + param->use_count; u++) {
            int producer = graph->values[graph->uses[u].gradient].producer;
            if (producer > last) last = producer;
        }
    }
    return last + 1;
}

/* Stable insertion sort by `whole_after`: there are few, and they are nearly sorted. */
static void sort_by_time(struct bucket_list *list, const struct bucket_source *source) {
    for (int i = 1; i < list->count; i++) {
        struct bucket bucket = list->items[i];
        int at = i, when = whole_after(&bucket, source, source->graph);
        for (; at > 0 && whole_after(&list->items[at - 1], source, source->graph) > when; at--)
            list->items[at] = list->items[at - 1];
        list->items[at] = bucket;
    }
}

struct bucket_list buckets_of(const struct bucket_source *source) {
    const struct graph *graph = source->graph;
    struct bucket_list list = {.items = MEM_ARRAY(struct bucket, source->count + 1)};
    int64_t end = source->begin + store_param_elements(graph, source->params, source->count),
            most = source->most
                       ? source->most
                       : most_elements(store_param_elements(graph, NULL, graph->param_count));
    struct bucket *open = NULL;
    for (int p = source->count - 1; p >= 0; p--) {
        int64_t elements = store_param_span(graph, source->params[p]);
        if (!open || open->elements + elements > most) {
            open = &list.items[list.count++];
            *open = (struct bucket){.begin = end};
        }
        end -= elements;
        open->first = source->first + p;
        open->count++;
        open->begin = end;
        open->elements += elements;
    }
    if (list.count == 0) list.items[list.count++] = (struct bucket){source->first, 0, end, 0};
    sort_by_time(&list, source);
    return list;
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

void buckets_cut(const struct bucket_list *buckets, const struct bucket_source *source,
                 struct ranges *ranges, int stage) {
    struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, PHASE_BACKWARD);
    int *ends = MEM_ARRAY(int, buckets->count), last = nodes.begin;
    for (int b = 0; b < buckets->count; b++) {
        int end = whole_after(&buckets->items[b], source, ranges->graph);
        last = ends[b] = end > last ? end : last;
    }
    ends[buckets->count - 1] = nodes.end;
    ranges_cut_segments(ranges, stage, PHASE_BACKWARD, ends, buckets->count);
    free(ends);
}
