/* See slices.h. */
#include "plan/slices.h"

#include <stdlib.h>

#include "base/mem.h"
#include "comm/comm.h"

static int by_begin(const void *a, const void *b) {
    const struct slice *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->count > y->count) - (x->count < y->count);
}

static struct slice slice_of(const struct bucket *bucket, int members, int member) {
    int64_t begin, count;
    comm_slice_of(members, bucket->elements, member, &begin, &count);
    return (struct slice){bucket->begin + begin, count};
}

static void plan_owned(const struct bucket_list *lists, int chunks, int members, int member,
                       struct slices *out) {
    int total = 0;
    for (int c = 0; c < chunks; c++) total += lists[c].count;
    out->owned = MEM_ARRAY(struct slice, total + 1);
    for (int c = 0; c < chunks; c++)
        for (int b = 0; b < lists[c].count; b++)
            out->owned[out->owned_count++] = slice_of(&lists[c].items[b], members, member);
    qsort(out->owned, (size_t)out->owned_count, sizeof *out->owned, by_begin);
}

int64_t slices_largest(const struct bucket_list *list, int count) {
    int64_t most = 0;
    for (int b = 0; b < count; b++)
        if (list->items[b].elements > most) most = list->items[b].elements;
    return most;
}

/* Windows of a chunk one behind the other, each as large as the largest bucket that lies in it at
 * some time; the kept bucket behind them. */
static void place_chunk(const struct bucket_list *list, const struct chunk_sizes *sizes,
                        int windows, int64_t *shift, int64_t *elements) {
    for (int w = 0; windows && w < windows + sizes->kept; w++) {
        int64_t most = 0;
        for (int b = 0; b < list->count; b++) {
            const struct bucket *bucket = &list->items[b];
            if (sizes_place(sizes, windows, b) != w) continue;
            if (bucket->elements > most) most = bucket->elements;
            for (int p = 0; p < bucket->count; p++)
                shift[bucket->first + p] = *elements - bucket->begin;
        }
        *elements += most;
    }
}

void slices_plan(const struct bucket_list *lists, const struct rank_program *program, int members,
                 int member, int param_count, struct slices *out) {
    *out = (struct slices){0};
    plan_owned(lists, program->chunks, members, member, out);
    for (int i = 0; i < 2; i++) out->shift[i] = MEM_ARRAY(int64_t, param_count + 1);
    for (int c = 0; c < program->chunks; c++) {
        const struct chunk_sizes *sizes = &program->chunk[c];
        place_chunk(&lists[c], sizes, sizes->windows, out->shift[0], &out->gradients.elements);
        place_chunk(&lists[c], sizes, sizes->gathered, out->shift[1], &out->params.elements);
        if (sizes->windows > 0) out->gradients.shift = out->shift[0];
        if (sizes->gathered > 0) out->params.shift = out->shift[1];
    }
}

void slices_free(struct slices *slices) {
    free(slices->owned);
    free(slices->shift[0]);
    free(slices->shift[1]);
    *slices = (struct slices){0};
}
