/* What ranks run at the start and between steps, and what waits where it stands. */
#include <string.h>

#include "base/mem.h"
#include "world.h"

static struct param_bucket *params_of(const struct world *world, const struct rank *rank,
                                      const struct instr *instr) {
    return &rank->params[bucket_index(rank, chunk_of(world, instr), instr->bucket)];
}

/* --- of the first member, to all --- */

static size_t statistics_bytes(const struct rank *rank) {
    return (size_t)rank->bucket_count * sizeof *rank->statistics;
}

/* Sliced parameters are made by each for itself, and not given. */
static void take_params(const struct world *world, struct rank *rank, const value *given) {
    for (int b = 0; b < rank->bucket_count && !world_slices(world, SLICED_PARAMS); b++) {
        memcpy(rank->params[b].own, given + b * MOST_SLICES, sizeof rank->params[b].own);
        rank->params[b].common = rank->params[b].own[0];
    }
}

/* The first member may have gone on when another takes what it gave. */
static void give_first(const struct world *world, const struct rank *rank,
                       const struct instr *instr) {
    struct meeting_group *group = group_here(world, rank, instr->group);
    struct meeting *meeting = &group->items[rank->posted[instr->group] - 1];
    if (group_place(world, rank, instr->group) > 0 || meeting->first) return;
    meeting->first = MEM_ARRAY(value, (1 + MOST_SLICES) * rank->bucket_count + 1);
    memcpy(meeting->first, rank->statistics, statistics_bytes(rank));
    for (int b = 0; b < rank->bucket_count; b++)
        memcpy(meeting->first + rank->bucket_count + b * MOST_SLICES, rank->params[b].own,
               sizeof rank->params[b].own);
}

static bool take_first(struct world *world, struct rank *rank, const struct instr *instr,
                       const struct meeting *meeting) {
    const struct rank *first = &world->ranks[meeting->given[0] - 1];
    if (first->cell.position != rank->cell.position || first->bucket_count != rank->bucket_count)
        return world_wrong(world, "the arrays of another stage");
    if (instr->op == INSTR_BCAST) {
        take_params(world, rank, meeting->first + rank->bucket_count);
    } else {
        memcpy(rank->replaced, rank->statistics, statistics_bytes(rank));
        rank->is_replaced = true;
    }
    memcpy(rank->statistics, meeting->first, statistics_bytes(rank));
    return true;
}

bool run_restore(struct world *world, struct rank *rank, const struct instr *instr) {
    (void)instr;
    if (!rank->is_replaced) return world_wrong(world, "restores statistics that were not kept");
    memcpy(rank->statistics, rank->replaced, statistics_bytes(rank));
    rank->is_replaced = false;
    return true;
}

/* --- checkpoints --- */

enum { OPENED = 1, WRITTEN, COMMITTED };

static bool is_of_all(const struct world *world, const struct rank *rank,
                      const struct instr *instr) {
    return group_here(world, rank, instr->group)->members == world->program->ranks;
}

static bool collect(struct world *world, struct rank *rank, const struct instr *instr,
                    const struct meeting *meeting) {
    struct param_bucket *params = params_of(world, rank, instr);
    if (group_here(world, rank, instr->group)->members != world->slices)
        return world_wrong(world, "the slices of others than the replicas");
    memcpy(params->collected, meeting->given, (size_t)world->slices * sizeof *meeting->given);
    return true;
}

/* What must hold before members meet, and what the rank gives them. */
static bool begin_standing(struct world *world, const struct rank *rank, const struct instr *instr,
                           int64_t *detail, value *given) {
    *given = (value)rank->number + 1;
    switch ((enum instr_op)instr->op) {
    case INSTR_OPEN: return rank->saved == 0 || world_wrong(world, "opened twice");
    case INSTR_COLLECT:
        if (rank->saved != OPENED) return world_wrong(world, "collects for no checkpoint");
        if (world_slices(world, SLICED_GRADIENTS) && instr->grad < 1)
            return world_wrong(world, "a whole bucket where slices are");
        *detail = (int64_t)instr->stage << 32 | instr->bucket;
        *given = params_of(world, rank, instr)->own[rank->slice];
        return true;
    case INSTR_COMMIT:
        *given = rank->saved == WRITTEN;
        return *given || world_wrong(world, "commits what was not written");
    default: return true;
    }
}

bool run_standing(struct world *world, struct rank *rank, const struct instr *instr) {
    int64_t detail = 0;
    value given = 0;
    if (!rank->in_pass && !begin_standing(world, rank, instr, &detail, &given)) return false;
    bool posts = !rank->in_pass, gives = instr->op == INSTR_BCAST || instr->op == INSTR_STATS_ALL;
    const struct meeting *meeting =
        group_meet(world, rank, instr->group, MEETING_STANDING + instr->op, detail, given);
    if (posts && gives && !world->wrong) give_first(world, rank, instr);
    if (posts && instr->op == INSTR_STATS_MEAN && !world->wrong)
        give_statistics(world, rank, instr);
    if (!meeting) return false;
    switch ((enum instr_op)instr->op) {
    case INSTR_BCAST:
    case INSTR_STATS_ALL: return take_first(world, rank, instr, meeting);
    case INSTR_STATS_MEAN: return take_statistics(world, rank, instr, meeting);
    case INSTR_COLLECT: return collect(world, rank, instr, meeting);
    case INSTR_OPEN:
    case INSTR_COMMIT:
        if (!is_of_all(world, rank, instr))
            return world_wrong(world, "a checkpoint of some of the ranks");
        rank->saved = instr->op == INSTR_OPEN ? OPENED : COMMITTED;
        return true;
    default: return true;
    }
}

/* What it writes are the parameters behind the last step, whole. */
bool run_write(struct world *world, struct rank *rank, const struct instr *instr) {
    const struct reference *want = &world->at[rank->step];
    const struct grid *grid = &world->program->grid;
    (void)instr;
    if (rank->saved != OPENED) return world_wrong(world, "writes into no checkpoint");
    for (int c = 0; c < rank->chunks; c++) {
        int stage = grid_stage(grid, rank->cell.position, c);
        int parts = reference_parts(rank->own->chunk[c].buckets);
        for (int b = 0; b < parts && b < want->shape[stage].buckets; b++) {
            const struct param_bucket *params = &rank->params[bucket_index(rank, c, b)];
            bool sliced = world->program->sliced && stage >= world->program->frozen;
            const value *slices = sliced ? params->collected : params->own;
            if (slices_value(slices, world->slices) != want->params[want->first[stage] + b])
                return world_wrong(world, "writes other parameters");
        }
        if (program_is_apart(world->program) &&
            statistics_of(rank, c) != want->mean_statistics[stage])
            return world_wrong(world, "writes other statistics");
    }
    rank->saved = WRITTEN;
    return true;
}
