/* Gradient buffers, windows of them, and parameters of which replicas hold slices. */
#include <string.h>

#include "world.h"

/* --- where they are --- */

int bucket_index(const struct rank *rank, int chunk, int bucket) {
    for (int c = 0; c < chunk; c++) bucket += reference_parts(rank->own->chunk[c].buckets);
    return bucket;
}

/* The kept bucket has a place of its own, behind the others. */
static int place_of(const struct chunk_sizes *sizes, int places, int bucket) {
    return sizes->kept && bucket == sizes->buckets - 1 ? places : bucket % places;
}

/* Sliced gradients have memory for slices in the first buffer, for windows in the others. */
struct bucket *bucket_of(struct world *world, const struct rank *rank, int stage, int grad,
                         int bucket) {
    int chunk = grid_chunk(&world->program->grid, stage), place = bucket;
    const struct chunk_sizes *sizes = &rank->own->chunk[chunk];
    if (world_slices(world, SLICED_GRADIENTS)) {
        if (rank->own->grads < 2 || sizes->windows < 1) {
            world_wrong(world, "sliced gradients without windows");
            return NULL;
        }
        if (grad >= 1) place = place_of(sizes, sizes->windows, bucket);
    }
    return &rank->buckets[grad * rank->bucket_count + bucket_index(rank, chunk, place)];
}

/* Does it have the memory that the instruction takes it for? */
static bool is_memory(struct world *world, int grad, bool slices) {
    if (!world_slices(world, SLICED_GRADIENTS) || (grad == 0) == slices) return true;
    return world_wrong(world, "whole gradients where slices are, or slices where windows are");
}

/* --- sums of a rank --- */

static void zero(struct bucket *bucket, int index) {
    bucket->holds = index;
    bucket->is_slice = false;
    for (int u = 0; u < MOST_USES; u++) bucket->use[u] = VALUE_NEUTRAL;
}

static int count_uses(const struct world *world, const struct rank *rank, int stage, int bucket) {
    const struct grid *grid = &world->program->grid;
    const struct program_tie *tie = reference_shared_here(world->program, stage, bucket);
    struct stage_shape shape = reference_shape(&rank->own->chunk[grid_chunk(grid, stage)]);
    int uses = reference_own_uses(&shape, bucket);
    if (!tie) return uses;
    struct stage_shape other = reference_shape(&rank->own->chunk[grid_chunk(grid, tie->other)]);
    return uses + reference_making(&other);
}

static bool tie(struct world *world, const struct rank *rank, const struct instr *instr,
                struct bucket *bucket, int index) {
    int uses = count_uses(world, rank, instr->stage, index);
    if (bucket->holds != index) return world_wrong(world, "the window of another bucket");
    for (int u = 0; u < uses; u++)
        if (!bucket->use[u]) return world_wrong(world, "adds uses that were not made");
    bucket->use[0] = reference_tied(bucket->use, uses);
    return true;
}

static bool sum(struct world *world, struct bucket *into, const struct bucket *from) {
    if (!into->use[0] || !from->use[0])
        return world_wrong(world, "adds a gradient that was not made");
    if (into->is_slice || from->is_slice) return world_wrong(world, "adds a slice to another");
    into->use[0] = value_sum(into->use[0], from->use[0]);
    return true;
}

/* --- sums over ranks --- */

static bool post_sum(struct world *world, struct rank *rank, const struct instr *instr,
                     struct bucket *bucket, enum meeting_kind kind) {
    int stage = instr->stage, index = instr->bucket;
    const struct program_tie *tie = program_tie_at(world->program, stage, index);
    if (kind == MEETING_JOIN) {
        if (!tie || !tie_is_apart(tie)) return world_wrong(world, "joins what is not shared");
        stage = tie->stage, index = tie->bucket;
    }
    if (!bucket->use[0]) return world_wrong(world, "reads a gradient that was not made");
    if (bucket->is_slice) return world_wrong(world, "sums slices as if they were whole");
    if (bucket->holds != instr->bucket) return world_wrong(world, "the window of another bucket");
    int number = group_post(world, rank, instr->group, (int)kind, (int64_t)stage << 32 | index,
                            bucket->use[0], 0);
    bucket->posted = (struct under_way){.instr = instr,
                                        .group = group_here(world, rank, instr->group),
                                        .wire = -1,
                                        .number = number};
    return true;
}

bool run_gradient(struct world *world, struct rank *rank, const struct instr *instr) {
    bool named = strchr(instr_row(instr)->operands, 'b') && instr->bucket != INSTR_ALL;
    int first = named ? instr->bucket : 0,
        end = named ? first + 1 : sizes_of(world, rank, instr)->buckets;
    if (!is_memory(world, instr->grad, false)) return false;
    if (instr->op == INSTR_SUM && !is_memory(world, instr->other, false)) return false;
    if (world_slices(world, SLICED_GRADIENTS) && end - first > 1)
        return world_wrong(world, "several buckets in a window");
    for (int b = first; b < end; b++) {
        struct bucket *bucket = bucket_of(world, rank, instr->stage, instr->grad, b);
        if (!bucket || !await_bucket(world, rank, bucket)) return false;
        if (instr->op != INSTR_SUM) continue;
        struct bucket *from = bucket_of(world, rank, instr->stage, instr->other, b);
        if (!from || !await_bucket(world, rank, from)) return false;
    }
    for (int b = first; b < end; b++) {
        struct bucket *bucket = bucket_of(world, rank, instr->stage, instr->grad, b);
        bool right = true;
        if (instr->op == INSTR_ZERO) zero(bucket, b);
        if (instr->op == INSTR_TIE) right = tie(world, rank, instr, bucket, b);
        if (instr->op == INSTR_SUM)
            right = sum(world, bucket, bucket_of(world, rank, instr->stage, instr->other, b));
        if (instr->op == INSTR_REDUCE) right = post_sum(world, rank, instr, bucket, MEETING_REDUCE);
        if (instr->op == INSTR_JOIN) right = post_sum(world, rank, instr, bucket, MEETING_JOIN);
        if (!right) return false;
    }
    return true;
}

bool run_scatter(struct world *world, struct rank *rank, const struct instr *instr) {
    bool apart = instr->grad != instr->other;
    if (!is_memory(world, instr->grad, false) || !is_memory(world, instr->other, true))
        return false;
    if (apart != world_slices(world, SLICED_GRADIENTS))
        return world_wrong(world, "slices into a buffer that has none");
    struct bucket *from = bucket_of(world, rank, instr->stage, instr->grad, instr->bucket),
                  *into = bucket_of(world, rank, instr->stage, instr->other, instr->bucket);
    if (!from || !into || !await_bucket(world, rank, from) || !await_bucket(world, rank, into))
        return false;
    if (!post_sum(world, rank, instr, from, MEETING_SCATTER)) return false;
    into->posted = from->posted;
    return true;
}

static void take_slice(struct world *world, struct bucket *from, struct bucket *into, value sum,
                       bool fresh) {
    if (!fresh && !into->use[0]) world_wrong(world, "adds to slices that were not started");
    into->use[0] = fresh ? sum : value_sum(into->use[0], sum);
    into->is_slice = true;
    memset(from->use, 0, sizeof from->use);
    from->holds = INSTR_ALL;
}

/* What was posted on two buckets is done for both. */
static void forget(struct rank *rank, const struct under_way *posted) {
    for (int b = 0; b < rank->bucket_count * rank->own->grads; b++) {
        struct under_way *one = &rank->buckets[b].posted;
        if (one->instr == posted->instr && one->number == posted->number) one->instr = NULL;
    }
}

void take_sum(struct world *world, struct rank *rank, const struct under_way *posted) {
    const struct under_way done = *posted;
    const struct instr *instr = done.instr;
    value items[MOST_MEMBERS];
    memcpy(items, done.group->items[done.number].given, sizeof items);
    value sum = value_tree(items, done.group->members);
    struct bucket *bucket = bucket_of(world, rank, instr->stage, instr->grad, instr->bucket);
    forget(rank, &done);
    if (instr->op == INSTR_AVERAGE) {
        take_chosen(world, rank, &done);
        return;
    }
    if (instr->op == INSTR_SCATTER && instr->grad != instr->other) {
        take_slice(world, bucket, bucket_of(world, rank, instr->stage, instr->other, instr->bucket),
                   sum, instr->flags & INSTR_NEW);
        return;
    }
    bucket->use[0] = sum;
    bucket->is_slice = instr->op == INSTR_SCATTER;
}

/* --- parameters --- */

value slices_value(const value *slices, int count) {
    bool same = true;
    value all = 0;
    for (int i = 0; i < count; i++) {
        same &= slices[i] == slices[0];
        all = value_of(VALUE_SLICES, all, slices[i]);
    }
    return same ? slices[0] : all;
}

value params_value(const struct world *world, const struct param_bucket *params) {
    if (!world_slices(world, SLICED_PARAMS)) return slices_value(params->own, world->slices);
    return params->there ? slices_value(params->whole, world->slices) : VALUE_NONE;
}

static struct param_bucket *params_of(const struct world *world, const struct rank *rank,
                                      const struct instr *instr) {
    return &rank->params[bucket_index(rank, chunk_of(world, instr), instr->bucket)];
}

/* Memory of a place is another bucket's until that is freed. */
static bool place_is_free(struct world *world, const struct rank *rank, const struct instr *instr) {
    const struct chunk_sizes *sizes = sizes_of(world, rank, instr);
    int chunk = chunk_of(world, instr);
    if (sizes->gathered < 1) return world_wrong(world, "sliced parameters without places");
    for (int b = 0; b < sizes->buckets; b++)
        if (rank->params[bucket_index(rank, chunk, b)].there &&
            place_of(sizes, sizes->gathered, b) == place_of(sizes, sizes->gathered, instr->bucket))
            return world_wrong(world, "gathered over parameters that were not freed");
    return true;
}

bool run_gather(struct world *world, struct rank *rank, const struct instr *instr) {
    struct param_bucket *params = params_of(world, rank, instr);
    bool sliced = world_slices(world, SLICED_PARAMS);
    if (!await_params(world, rank, params)) return false;
    if (sliced && !place_is_free(world, rank, instr)) return false;
    int number =
        group_post(world, rank, instr->group, MEETING_GATHER,
                   (int64_t)instr->stage << 32 | instr->bucket, params->own[rank->slice], 0);
    params->there = sliced;
    params->posted = (struct under_way){.instr = instr,
                                        .group = group_here(world, rank, instr->group),
                                        .wire = -1,
                                        .number = number};
    return true;
}

void take_gather(struct world *world, struct param_bucket *params, const struct under_way *posted) {
    value *into = world_slices(world, SLICED_PARAMS) ? params->whole : params->own;
    if (posted->group->members != world->slices)
        world_wrong(world, "the slices of others than the replicas");
    for (int i = 0; i < world->slices && !world->wrong; i++)
        into[i] = posted->group->items[posted->number].given[i];
}

bool run_free(struct world *world, struct rank *rank, const struct instr *instr) {
    struct param_bucket *params = params_of(world, rank, instr);
    if (!await_params(world, rank, params)) return false;
    if (!params->there) return world_wrong(world, "frees what was not gathered");
    params->there = false;
    return true;
}

/* --- update --- */

bool run_step(struct world *world, struct rank *rank, const struct instr *instr) {
    bool sliced = world->program->sliced, clips = instr->flags & INSTR_CLIP;
    const struct grid *grid = &world->program->grid;
    value scale = VALUE_NONE;
    if (rank->chunks == 0) return world_wrong(world, "an update without a stage");
    if (!is_memory(world, instr->grad, true)) return false;
    for (int pass = 0; pass < 2; pass++) {
        for (int c = 0; c < rank->chunks; c++) {
            for (int b = 0; b < rank->own->chunk[c].buckets; b++) {
                struct param_bucket *params = &rank->params[bucket_index(rank, c, b)];
                struct bucket *bucket = bucket_of(
                    world, rank, grid_stage(grid, rank->cell.position, c), instr->grad, b);
                if (!bucket) return false;
                if (pass == 0) {
                    if (!await_bucket(world, rank, bucket)) return false;
                    if (!await_params(world, rank, params)) return false;
                    continue;
                }
                if (bucket->is_slice && !sliced)
                    return world_wrong(world, "the update of all from a slice");
                memmove(params->older + 1, params->older, sizeof params->older - sizeof(value));
                params->older[0] = slices_value(params->own, world->slices);
                for (int i = 0; i < world->slices; i++)
                    if (!sliced || i == rank->slice)
                        params->own[i] = reference_updated(params->own[i], bucket->use[0], scale);
            }
        }
        if (pass == 0 && clips && !await_norm(world, rank)) return false;
        if (pass == 0 && !was_called(world, rank, instr, INSTR_UPDATE)) return false;
        if (clips) scale = reference_scale(rank->norm, rank->losses);
    }
    rank->updates++;
    return true;
}
