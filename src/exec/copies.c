/* Parameters that two ranks of a pipeline share.
 *
 * Both get the same sum of gradients and make the same update, so they stay equal to the last bit.
 * That is looked at before every checkpoint, which has the tensors of one of them: a file that fits
 * only half of the ranks would show much later, if ever. Comparing at each step would cost a pass
 * over the largest tensors that models have. */
#include <stdlib.h>

#include "backend/copy.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

static struct comm_group *tied_group(const struct engine *engine, bool *declared) {
    const struct program *program = engine->plan->program;
    int group = 0;
    while (group < program->group_count && program->group[group] != GROUP_TIED) group++;
    *declared = group < program->group_count;
    return *declared ? engine->group[group] : NULL;
}

/* Of a sliced array the part of the bucket that this rank holds: the other rank, of the same
 * replica, holds the same. */
static enum status hash_slices(const struct store *store, int array, const struct bucket *bucket,
                               uint64_t *sum) {
    const struct array_layout *of = &store->layout->arrays[array];
    for (int i = 0; i < of->slice_count; i++) {
        const struct slice *slice = &of->slices[i];
        int64_t begin = slice->begin > bucket->begin ? slice->begin : bucket->begin,
                end = slice->begin + slice->count, last = bucket->begin + bucket->elements;
        if (end > last) end = last;
        if (begin >= end) continue;
        struct elements part = store_elements(store, array, begin, end - begin);
        size_t bytes = (size_t)part.count * dtype_bytes(part.dtype);
        void *copy = mem_new(bytes);
        enum status status = device_copy_out(store->device, copy, part.data, bytes);
        *sum += hash64(HASH64_START, copy, bytes);
        free(copy);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status hash_bucket(const struct store *store, const struct bucket *bucket,
                               uint64_t *sum) {
    const struct state_layout *layout = store->layout;
    for (int a = 0; a < layout->array_count; a++) {
        enum array_kind kind = layout->arrays[a].kind;
        if (kind != ARRAY_PARAM && kind != ARRAY_STATE) continue;
        uint64_t own = 0;
        if (state_is_sliced(layout, a)) TRY(hash_slices(store, a, bucket, &own));
        for (int p = bucket->first;
             !state_is_sliced(layout, a) && p < bucket->first + bucket->count; p++)
            TRY(store_add_hash(store, a, layout->order[p], &own));
        *sum = *sum * 31 + own; /* arrays do not change places */
    }
    return STATUS_OK;
}

/* Of the buckets this rank shares with the other; *name is a parameter of them. */
static enum status hash_shared(const struct engine *engine, uint64_t *sum, const char **name) {
    const struct plan *plan = engine->plan;
    for (int c = 0; c < plan->chunk_count; c++) {
        const struct bucket_list *buckets = &plan->chunk[c].buckets;
        for (int b = 0; b < buckets->count; b++) {
            const struct program_tie *tie = program_tie_at(plan->program, plan->chunk[c].stage, b);
            if (!tie || !tie_is_apart(tie)) continue;
            *name = plan->store->params[plan->store->order[buckets->items[b].first]].name;
            TRY(hash_bucket(engine->store, &buckets->items[b], sum));
        }
    }
    return STATUS_OK;
}

static enum status compare(struct engine *engine, struct comm_group *group) {
    uint64_t own = 0, all[2] = {0};
    const char *name = "";
    TRY(hash_shared(engine, &own, &name));
    TRY(comm_exchange(group, &own, sizeof own, all));
    if (all[0] == all[1]) return STATUS_OK;
    if (comm_group_member(group) > 0) return STATUS_BUG; /* the first member says so */
    return fail(STATUS_BUG,
                "after step %lld: parameter %s, or another one that two stages share, is not the "
                "same on their ranks\n  nothing is saved",
                (long long)engine->step->number, name);
}

enum status engine_compare_copies(struct engine *engine) {
    bool declared;
    struct comm_group *group = tied_group(engine, &declared);
    if (!declared) return STATUS_OK;
    return engine_agree(engine, group ? compare(engine, group) : STATUS_OK);
}
