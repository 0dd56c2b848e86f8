/* Groups that are chosen while ranks run: with another choice at each step, and where each stage
 * has groups of its own another one there. */
#include <string.h>

#include "base/mem.h"
#include "world.h"

bool is_chosen(const struct world *world, int group) {
    return group != INSTR_ALL && group_is_chosen(world->program->group[group]);
}

bool run_question(struct world *world, struct rank *rank, const struct instr *instr) {
    if (!is_chosen(world, instr->group)) return world_wrong(world, "asks for a group that is none");
    if (rank->asked) return world_wrong(world, "asks twice");
    rank->asked = true;
    rank->averages = 0;
    return true;
}

/* An operation of these members: each rank's first average of a step is one, and so on. */
static int meeting_of(struct world *world, const struct rank *rank, const struct instr *instr,
                      struct meeting_group *of) {
    int first = reference_first_chosen(world->program, rank->step, rank->cell.position,
                                       rank->cell.first_replica);
    int64_t detail = (int64_t)rank->step << 48 | (int64_t)first << 32 | (int64_t)rank->averages;
    for (int i = 0; i < of->count; i++)
        if (of->items[i].detail == detail) return i;
    of->items = mem_grow(of->items, &of->capacity, (size_t)of->count + 1, sizeof *of->items);
    of->items[of->count] = (struct meeting){
        .kind = MEETING_AVERAGE + (int)(instr->stage << 16 | instr->bucket), .detail = detail};
    for (int r = 0; r < world->slices; r++)
        of->items[of->count].members +=
            reference_first_chosen(world->program, rank->step, rank->cell.position, r) == first;
    return of->count++;
}

bool run_chosen(struct world *world, struct rank *rank, const struct instr *instr) {
    if (!is_chosen(world, instr->group))
        return world_wrong(world, "averages over a group that is not chosen");
    struct bucket *bucket = bucket_of(world, rank, instr->stage, instr->grad, instr->bucket);
    struct param_bucket *params =
        &rank->params[bucket_index(rank, chunk_of(world, instr), instr->bucket)];
    if (!bucket || !await_bucket(world, rank, bucket)) return false;
    if (!rank->asked) return world_wrong(world, "averages with nobody");
    struct meeting_group *of = group_here(world, rank, instr->group);
    int number = meeting_of(world, rank, instr, of);
    struct meeting *meeting = &of->items[number];
    if (meeting->kind != MEETING_AVERAGE + (int)(instr->stage << 16 | instr->bucket))
        return world_wrong(world, "members of a group meet for different things");
    rank->averages++;
    meeting->given[rank->cell.first_replica] = slices_value(params->own, world->slices);
    meeting->arrived++;
    world->posted++;
    bucket->use[0] = VALUE_NONE;
    bucket->holds = instr->bucket;
    bucket->posted = (struct under_way){.instr = instr, .group = of, .wire = -1, .number = number};
    return true;
}

void take_chosen(struct world *world, struct rank *rank, const struct under_way *posted) {
    const struct instr *instr = posted->instr;
    const struct meeting *meeting = &posted->group->items[posted->number];
    struct param_bucket *params =
        &rank->params[bucket_index(rank, chunk_of(world, instr), instr->bucket)];
    value mean = reference_chosen(meeting->given, world->slices);
    for (int i = 0; i < world->slices; i++) params->own[i] = mean;
}
