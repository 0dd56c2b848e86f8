/* See judge.h. A small scheduler: ranks go on in turn, each until it waits or ends. What ranks do
 * does not depend on who is faster, since all they do to one another is posted in order; so one
 * order of turns stands for all. */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "world.h"

/* --- one rank's lists --- */

static void begin_step(struct rank *rank) {
    for (int s = 0; s < rank->slot_count; s++) rank->slots[s] = (struct slot){.micro = -1};
    for (int b = 0; b < rank->bucket_count * rank->own->grads; b++)
        rank->buckets[b] = (struct bucket){0};
    rank->seeds = rank->losses = rank->heard = rank->norm = VALUE_NONE;
}

/* What a rank has behind a step, against one device. */
static void compare(struct world *world, struct rank *rank) {
    const struct reference *want = &world->at[rank->step + 1];
    const struct grid *grid = &world->program->grid;
    value heard = 0;
    for (int r = 0; r < world->program->ranks; r++) heard += value_of(VALUE_RANK, (value)r, 0);
    if (rank->lockstep_count > 0) world_wrong(world, "passes in lockstep were never run");
    if (rank->losses != want->losses) world_wrong(world, "other losses");
    if (rank->heard != heard) world_wrong(world, "not all ranks were heard");
    for (int c = 0; c < grid->chunks; c++) {
        int stage = grid_stage(grid, rank->cell.position, c);
        if (rank->own->chunk[c].buckets != want->buckets[stage])
            world_wrong(world, "replicas have different buckets");
        if (rank->params[c] != want->params[stage]) world_wrong(world, "other parameters");
        if (rank->statistics[c] !=
            want->statistics[rank->cell.first_replica * want->stages + stage])
            world_wrong(world, "other running statistics");
    }
}

static void compare_norms(struct world *world, const struct rank *rank) {
    for (int s = 0; s < STEPS; s++)
        if (rank->norms[s] != world->at[s + 1].norm) world_wrong(world, "another norm");
}

/* Behind the last instruction of a list; false where something is still under way. The norm of a
 * step may be, until the next one needs it or another list begins. */
static bool end_list(struct world *world, struct rank *rank) {
    bool more = rank->list == LIST_BODY && rank->step + 1 < STEPS;
    if (!(more ? await_step : await_everything)(world, rank)) return false;
    if (rank->list == LIST_BODY) {
        compare(world, rank);
        if (++rank->step < STEPS) {
            rank->at = 0;
            begin_step(rank);
            return true;
        }
        compare_norms(world, rank);
    }
    rank->at = 0;
    rank->list++;
    rank->ended = rank->list > LIST_DRAIN; /* the others run between steps */
    return true;
}

/* One instruction, or the end of a list; false where the rank waits. */
static bool go_on(struct world *world, struct rank *rank) {
    const struct instr_list *list = &rank->own->list[rank->list];
    if (rank->at == list->count) return end_list(world, rank);
    const struct instr *instr = &list->items[rank->at];
    if (!instr_may_stand(instr, (enum list_name)rank->list))
        return world_wrong(world, "an instruction in another list");
    if (!rank_run(world, rank, instr)) return false;
    rank->at++;
    return true;
}

/* --- all --- */

static void run(struct world *world) {
    bool moved = true, all = false;
    while (moved && !world->wrong) {
        moved = false;
        all = true;
        for (int r = 0; r < world->program->ranks && !world->wrong; r++) {
            struct rank *rank = &world->ranks[r];
            while (!rank->ended && !world->wrong && go_on(world, rank)) moved = true;
            all &= rank->ended;
        }
    }
    if (!all) world_wrong(world, "ranks wait for ever");
    for (int w = 0; w < world->wire_count; w++)
        if (world->wires[w].sent != world->wires[w].released)
            world_wrong(world, "a message that nobody takes");
}

static void rank_new(struct world *world, int number) {
    const struct program *program = world->program;
    struct rank *rank = &world->ranks[number];
    *rank = (struct rank){.number = number,
                          .own = program_of(program, number),
                          .cell = grid_cell(&program->grid, number)};
    for (int c = 0; c < rank->own->chunks; c++) {
        int stage = grid_stage(&program->grid, rank->cell.position, c);
        rank->slot_count += rank->own->chunk[c].slots;
        rank->bucket_count += rank->own->chunk[c].buckets;
        rank->params[c] = value_of(VALUE_PARAMS, reference_params(number), (value)stage);
    }
    rank->slots = MEM_ARRAY(struct slot, rank->slot_count + 1);
    rank->buckets = MEM_ARRAY(struct bucket, rank->bucket_count * rank->own->grads + 1);
    begin_step(rank);
}

static void references(struct world *world, bool shares) {
    const struct grid *grid = &world->program->grid;
    int stages = grid->stages * grid->chunks, *buckets = MEM_ARRAY(int, stages);
    for (int s = 0; s < stages; s++)
        buckets[s] =
            program_of(world->program, grid_owner(grid, s, 0))->chunk[grid_chunk(grid, s)].buckets;
    for (int i = 0; i <= STEPS; i++) {
        world->at[i] = reference_new(world->program, world->samples, shares, buckets);
        for (int n = 0; n < i; n++) reference_step(&world->at[i]);
    }
    free(buckets);
}

static void world_new(struct world *world, bool shares) {
    const struct program *program = world->program;
    world->ranks = MEM_ARRAY(struct rank, program->ranks);
    for (int r = 0; r < program->ranks; r++) rank_new(world, r);
    for (int g = 0; g < program->group_count; g++) {
        int count = group_count(&program->grid, program->group[g]);
        world->groups[g] = MEM_ARRAY(struct meeting_group, count);
        for (int i = 0; i < count; i++)
            world->groups[g][i].members = group_size(&program->grid, program->group[g], i);
    }
    references(world, shares);
}

static void world_free(struct world *world) {
    const struct program *program = world->program;
    for (int r = 0; r < program->ranks; r++) {
        free(world->ranks[r].slots);
        free(world->ranks[r].buckets);
    }
    for (int g = 0; g < program->group_count; g++) {
        for (int i = 0; i < group_count(&program->grid, program->group[g]); i++)
            free(world->groups[g][i].items);
        free(world->groups[g]);
    }
    for (int w = 0; w < world->wire_count; w++) free(world->wires[w].items);
    for (int i = 0; i <= STEPS; i++) reference_free(&world->at[i]);
    free(world->wires);
    free(world->ranks);
}

const char *judge(const struct program *program, const int64_t *samples, bool shares) {
    struct world world = {.program = program, .samples = samples};
    if (program->ranks > MOST_MEMBERS) return "more ranks than the judge takes";
    world_new(&world, shares);
    run(&world);
    world_free(&world);
    return world.wrong;
}
