/* Replicas that train apart: what is averaged lies in a gradient buffer, all buckets of it; running
 * statistics go through it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "world.h"

/* One bucket of one rank; false: the program is wrong. */
static bool run_bucket(struct world *world, const struct instr *instr, struct bucket *bucket,
                       struct param_bucket *params, int index) {
    value sum = bucket->use[0], own = slices_value(params->own, world->slices), now = own;
    switch ((enum instr_op)instr->op) {
    case INSTR_DELTA: sum = reference_delta(params->common, own); break;
    case INSTR_OUTER: now = params->common = reference_outer(params->common, sum); break;
    case INSTR_TAKE: sum = own; break;
    case INSTR_MEAN:
        now = reference_mean(sum);
        sum = own;
        break;
    default: now = sum; break; /* OWN */
    }
    if (!sum || bucket->is_slice || bucket->posted.instr)
        return world_wrong(world, "averages what is not there");
    bucket->use[0] = sum;
    bucket->holds = index;
    for (int i = 0; i < world->slices; i++) params->own[i] = now;
    return true;
}

bool run_average(struct world *world, struct rank *rank, const struct instr *instr) {
    const struct grid *grid = &world->program->grid;
    if (!program_is_apart(world->program)) return world_wrong(world, "replicas do not train apart");
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < rank->chunks; c++)
            for (int b = 0; b < rank->own->chunk[c].buckets; b++) {
                int stage = grid_stage(grid, rank->cell.position, c);
                struct bucket *bucket = bucket_of(world, rank, stage, instr->grad, b);
                struct param_bucket *params = &rank->params[bucket_index(rank, c, b)];
                if (!bucket || (pass == 0 && !await_bucket(world, rank, bucket))) return false;
                if (pass == 1 && !run_bucket(world, instr, bucket, params, b)) return false;
            }
    return true;
}

/* Each member gives its own, as they are when it comes. */
void give_statistics(const struct world *world, const struct rank *rank,
                     const struct instr *instr) {
    struct meeting_group *group = group_here(world, rank, instr->group);
    struct meeting *meeting = &group->items[rank->posted[instr->group] - 1];
    if (!meeting->first) meeting->first = MEM_ARRAY(value, MOST_MEMBERS * (rank->bucket_count + 1));
    memcpy(meeting->first + group_place(world, rank, instr->group) * rank->bucket_count,
           rank->statistics, (size_t)rank->bucket_count * sizeof *rank->statistics);
}

bool take_statistics(struct world *world, struct rank *rank, const struct instr *instr,
                     const struct meeting *meeting) {
    struct meeting_group *group = group_here(world, rank, instr->group);
    for (int m = 0; m < group->members; m++)
        if (world->ranks[meeting->given[m] - 1].cell.position != rank->cell.position)
            return world_wrong(world, "the statistics of another stage");
    if (group->members != world->slices) return world_wrong(world, "the mean of some replicas");
    memcpy(rank->replaced, rank->statistics, (size_t)rank->bucket_count * sizeof *rank->replaced);
    rank->is_replaced = true;
    for (int b = 0; b < rank->bucket_count; b++) {
        value mean = 0;
        for (int m = 0; m < group->members; m++)
            mean = value_of(VALUE_MEAN, mean, meeting->first[m * rank->bucket_count + b]);
        rank->statistics[b] = mean;
        rank->buckets[instr->grad * rank->bucket_count + b].use[0] = VALUE_NONE;
    }
    return true;
}
