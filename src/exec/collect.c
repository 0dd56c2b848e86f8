/* The handler of COLLECT: tensors that are cut into slices, whole to who writes them.
 *
 * Gradient arrays span the same elements as parameters and optimizer state, and are free between
 * steps: each member puts its slices of an array there, they are gathered, and whoever holds the
 * first element of a cut tensor keeps it, in plain order, until WRITE. Slices are those of a
 * reduce-scatter of the bucket (comm_slice). Tensors that lie in one slice need no copy. */

#include "backend/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/queues.h"
#include "exec/saving.h"
#include "exec/state.h"

/* The elements of the bucket in its gradient array. */
static struct elements staging_of(const struct engine *engine, const struct instr *instr,
                                  struct slice *range) {
    int chunk = grid_chunk(&engine->plan->program->grid, instr->stage);
    const struct bucket *bucket = &engine->plan->chunk[chunk].buckets.items[instr->bucket];
    *range = (struct slice){bucket->begin, bucket->elements};
    return store_bucket_gradient(engine->store, instr->grad, bucket);
}

static enum status post_gather(struct engine *engine, const struct instr *instr) {
    struct device *device = engine->plan->device;
    struct comm_group *group = engine->group[instr->group];
    struct slice range, own;
    struct elements all = staging_of(engine, instr, &range);
    comm_slice(group, range.count, comm_group_member(group), &own.begin, &own.count);
    if (own.count > 0) {
        struct elements from = store_elements(engine->store, engine->saving->collect.array,
                                              range.begin + own.begin, own.count),
                        to = elements_part(&all, own.begin, own.count);
        if (engine->plane)
            TRY(device->backend->array_copy(device, to.data, from.data, elements_bytes(&to),
                                            engine->stream[STREAM_MOVE]));
        else
            TRY(device_copy_out(device, store_shared(engine->store, to.data), from.data,
                                elements_bytes(&to)));
    }
    engine->awaiting = &engine->request;
    struct plane_op op = {.kind = PLANE_ALL_GATHER, .data = all};
    if (engine->plane) return plane_post(engine->moves[instr->group], &op, &engine->moving);
    return comm_all_gather(group, store_shared(engine->store, all.data), all.count,
                           &engine->request);
}

static enum status keep(struct engine *engine, int item, const struct state_item *of,
                        const struct elements *elements) {
    struct saving *saving = engine->saving;
    saving->whole = mem_grow(saving->whole, &saving->whole_room, (size_t)saving->whole_count + 1,
                             sizeof *saving->whole);
    struct whole_tensor *whole = &saving->whole[saving->whole_count++];
    *whole =
        (struct whole_tensor){saving->collect.array, item, mem_new(tensor_type_bytes(&of->type))};
    return layout_to_plain(engine->plan->device, of->layout, elements->data, whole->plain);
}

/* Others may still read the staging: it is free again after a meeting. */
static enum status keep_cut(struct engine *engine, const struct instr *instr) {
    const struct state_layout *layout = engine->store->layout;
    int array = engine->saving->collect.array, count;
    const struct state_item *items = state_items(layout, array, &count);
    struct slice range;
    struct elements all = staging_of(engine, instr, &range);
    if (engine->plane)
        TRY(queues_await(engine));
    else if (engine->apart)
        TRY(device_copy_in(engine->plan->device, all.data, store_shared(engine->store, all.data),
                           elements_bytes(&all)));
    for (int i = 0; i < count; i++) {
        const struct state_item *of = &items[i];
        if (of->begin < range.begin || of->begin >= range.begin + range.count) continue;
        if (!state_collects(layout, array, of)) continue;
        struct elements part = elements_part(&all, of->begin - range.begin, of->count);
        TRY(keep(engine, i, of, &part));
    }
    engine->awaiting = &engine->request;
    return comm_barrier_post(engine->group[instr->group], &engine->request);
}

static bool is_collected(const struct state_layout *layout, int array) {
    enum array_kind kind = layout->arrays[array].kind;
    return (kind == ARRAY_PARAM || kind == ARRAY_STATE) && state_is_sliced(layout, array);
}

/* Padding of gradients is zero and stays so: sums and norms run over it. */
static enum status end(struct engine *engine, const struct instr *instr) {
    struct slice range;
    struct elements all = staging_of(engine, instr, &range);
    engine->saving->collect = (struct collect_run){0};
    return engine->plan->device->backend->array_fill(engine->plan->device, &all, 0,
                                                     engine->stream[STREAM_COMPUTE]);
}

/* Called again after each meeting: array by array, gathered and then released. */
enum status run_COLLECT(struct engine *engine, const struct instr *instr) {
    const struct state_layout *layout = engine->store->layout;
    struct collect_run *run = &engine->saving->collect;
    if (!run->active) *run = (struct collect_run){.active = true, .array = -1};
    if (run->gathering) {
        run->gathering = false;
        return keep_cut(engine, instr);
    }
    do run->array++;
    while (run->array < layout->array_count && !is_collected(layout, run->array));
    if (run->array == layout->array_count) return end(engine, instr);
    run->gathering = true;
    return post_gather(engine, instr);
}
