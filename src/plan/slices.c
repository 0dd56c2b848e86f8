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

int slices_owned(const struct bucket_list *lists, int list_count, int members, int member,
                 struct slice **out) {
    int count = 0, total = 0;
    for (int l = 0; l < list_count; l++) total += lists[l].count;
    struct slice *slices = MEM_ARRAY(struct slice, total + 1);
    for (int l = 0; l < list_count; l++)
        for (int b = 0; b < lists[l].count; b++)
            slices[count++] = slice_of(&lists[l].items[b], members, member);
    qsort(slices, (size_t)count, sizeof *slices, by_begin);
    *out = slices;
    return count;
}
