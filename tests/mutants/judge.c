/* See judge.h. A small scheduler: ranks go on in turn, each until it waits or ends. What ranks do
 * does not depend on who is faster, since all they do to one another is posted in order; so one
 * order of turns stands for all. */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "world.h"

/* --- one rank's lists --- */

/* Evaluation and saving are entered between the steps. Where there is a short last step, each kind
 * of step follows each. */
#define BETWEEN LIST_EVAL_START, LIST_EVAL, LIST_EVAL, LIST_EVAL_END, LIST_SAVE
static const enum list_name whole[] = {LIST_START, LIST_BODY, LIST_BODY,
                                       BETWEEN,    LIST_BODY, LIST_DRAIN},
                            with_last[] = {LIST_START, LIST_BODY, LIST_BODY, LIST_LAST, LIST_LAST,
                                           LIST_BODY,  BETWEEN,   LIST_LAST, LIST_DRAIN};

static void add_phase(struct world *world, enum list_name list, struct turn turn) {
    if (world->phase_count == MOST_PHASES) return;
    world->turn[world->phase_count] = turn;
    world->overlapping[world->phase_count++] = list;
}

/* The pipeline is filled, full for two bodies, drained; and once more, for fewer steps. */
static void choose_overlapping(struct world *world) {
    static const enum list_name between[] = {BETWEEN};
    int ahead = world->program->ahead;
    struct turn turn = {.first = 0, .end = ahead + 2};
    add_phase(world, LIST_START, turn);
    for (int part = 0; part < 2; part++) {
        for (turn.body = turn.first - ahead; turn.body < turn.end; turn.body++)
            add_phase(world, LIST_BODY, turn);
        for (size_t i = 0; i < sizeof between / sizeof *between && part == 0; i++)
            add_phase(world, between[i], turn);
        turn.first = turn.end;
        turn.end += ahead;
    }
    add_phase(world, LIST_DRAIN, turn);
    world->phases = world->overlapping;
    world->step_count = 2 * ahead + 2;
}

static void choose_phases(struct world *world) {
    bool last = program_has_last(world->program);
    if (world->overlaps) {
        choose_overlapping(world);
        return;
    }
    world->phases = last ? with_last : whole;
    world->phase_count = last ? sizeof with_last / sizeof *with_last : sizeof whole / sizeof *whole;
    for (int p = 0; p < world->phase_count; p++)
        world->step_count += list_is_step(world->phases[p]);
}

static void begin_list(const struct world *world, struct rank *rank) {
    rank->list = world->phases[rank->phase];
    rank->at = 0;
    rank->round = rank->phase > 0 && world->phases[rank->phase - 1] == LIST_EVAL;
    if (rank->list == LIST_EVAL_START) rank->losses = rank->heard = VALUE_NONE;
    if (!list_is_step(rank->list)) return;
    const struct turn *turn = &world->turn[rank->phase];
    bool goes_on = world->overlaps && turn->body > turn->first - world->program->ahead;
    for (int s = 0; s < rank->slot_count && !goes_on; s++)
        rank->slots[s] = (struct slot){.micro = -1};
    for (int b = 0; b < rank->bucket_count * rank->own->grads; b++)
        rank->buckets[b] = (struct bucket){.holds = INSTR_ALL};
    rank->seeds = rank->losses = rank->heard = rank->norm = VALUE_NONE;
    rank->again = NULL;
    rank->asked = false;
}

static void compare_stage(struct world *world, const struct rank *rank, int chunk,
                          const struct reference *want) {
    int stage = grid_stage(&world->program->grid, rank->cell.position, chunk);
    const struct chunk_sizes *sizes = &rank->own->chunk[chunk];
    bool sliced = world_slices(world, SLICED_PARAMS);
    int parts = reference_parts(sizes->buckets);
    if (parts != want->shape[stage].buckets || !sizes->kept != !want->shape[stage].kept) {
        world_wrong(world, "replicas have different buckets");
        return;
    }
    for (int b = 0; b < parts; b++) {
        const struct param_bucket *params = &rank->params[bucket_index(rank, chunk, b)];
        bool own = sliced || params->posted.instr; /* gathers may still be under way */
        value now = own ? params->own[rank->slice] : slices_value(params->own, world->slices);
        const value *wanted =
            want->apart ? want->own + rank->cell.first_replica * want->buckets : want->params;
        if (now != wanted[want->first[stage] + b]) world_wrong(world, "other parameters");
    }
    const struct turn *turn = &world->turn[rank->phase];
    if (world->overlaps && turn->body < turn->end - 1) return; /* forwards are ahead */
    if (statistics_of(rank, chunk) !=
        want->statistics[rank->cell.first_replica * want->stages + stage])
        world_wrong(world, "other running statistics");
}

static void compare_losses(struct world *world, const struct rank *rank, value want) {
    value heard = 0;
    const struct grid *grid = &world->program->grid;
    bool own = world->overlaps && list_is_step(rank->list),
         chosen = program_chosen(world->program) >= 0 && list_is_step(rank->list);
    if (own && rank->cell.position != grid->stages - 1) want = 0;
    for (int r = 0; r < world->program->ranks; r++)
        if (chosen ? grid_cell(grid, r).first_replica == rank->cell.first_replica
                   : !own || r == rank->number)
            heard += value_of(VALUE_RANK, (value)r, 0);
    if (rank->losses != want) world_wrong(world, "other losses");
    if (rank->heard != heard) world_wrong(world, "not all ranks were heard");
}

/* At the end of the training. */
static void compare_mean(struct world *world, const struct rank *rank, int chunk,
                         const struct reference *want) {
    int stage = grid_stage(&world->program->grid, rank->cell.position, chunk);
    for (int b = 0; b < rank->own->chunk[chunk].buckets; b++)
        if (slices_value(rank->params[bucket_index(rank, chunk, b)].own, world->slices) !=
            want->params[want->first[stage] + b])
            world_wrong(world, "ends with other parameters than the mean");
    if (statistics_of(rank, chunk) != want->mean_statistics[stage])
        world_wrong(world, "ends with other statistics than the mean");
}

/* What a rank has behind a list, against one device. */
static void compare(struct world *world, struct rank *rank) {
    const struct reference *want = &world->at[rank->step];
    for (int b = 0; b < rank->bucket_count; b++)
        if (rank->params[b].there) world_wrong(world, "parameters that were not freed");
    if (rank->list == LIST_EVAL_END) {
        compare_losses(world, rank, want->evaluation);
        if (rank->is_replaced) world_wrong(world, "ends with the statistics of another");
    }
    if (rank->list == LIST_SAVE && rank->is_replaced)
        world_wrong(world, "ends with the statistics of another");
    for (int c = 0; c < rank->chunks && rank->list == LIST_DRAIN && want->apart; c++)
        compare_mean(world, rank, c, want);
    if (rank->list == LIST_SAVE) {
        if (rank->saved != 3) world_wrong(world, "saves nothing");
        rank->saved = 0;
    }
    if (!list_is_step(rank->list)) return;
    if (world->overlaps && world->turn[rank->phase].body < world->turn[rank->phase].first) return;
    if (rank->lockstep_count > 0) world_wrong(world, "passes in lockstep were never run");
    if (rank->stands_in) world_wrong(world, "stands in for part of a pass");
    if (rank->served) world_wrong(world, "a call that was not answered");
    bool own = world->overlaps || program_chosen(world->program) >= 0;
    compare_losses(world, rank,
                   own ? want->replica_losses[rank->cell.first_replica] : want->losses);
    for (int c = 0; c < rank->chunks; c++) compare_stage(world, rank, c, want);
}

static void compare_norms(struct world *world, const struct rank *rank) {
    for (int s = 0; s < world->step_count; s++)
        if (rank->norms[s] != (world->at[s + 1].apart
                                   ? world->at[s + 1].replica_norm[rank->cell.first_replica]
                               : world->overlaps ? world->at[s + 1].stage_norm[rank->cell.position]
                                                 : world->at[s + 1].norm))
            world_wrong(world, "another norm");
}

/* Behind the last instruction of a list; false where something is still under way that must not. */
static bool end_list(struct world *world, struct rank *rank) {
    bool goes_on = list_is_step(rank->list) && list_is_step(world->phases[rank->phase + 1]);
    if (!await_list(world, rank, goes_on)) return false;
    const struct turn *turn = &world->turn[rank->phase];
    rank->step += list_is_step(rank->list) && (!world->overlaps || turn->body >= turn->first);
    compare(world, rank);
    rank->ended = ++rank->phase == world->phase_count;
    if (rank->ended) compare_norms(world, rank);
    if (!rank->ended) begin_list(world, rank);
    return true;
}

/* One instruction, or the end of a list; false where the rank waits. */
static bool go_on(struct world *world, struct rank *rank) {
    const struct instr_list *list = &rank->own->list[rank->list];
    if (rank->at == list->count) return end_list(world, rank);
    const struct instr *instr = &list->items[rank->at];
    if (!instr_may_stand(instr, rank->list))
        return world_wrong(world, "an instruction in another list");
    if (!world_runs(world, rank, instr)) {
        rank->at++;
        return true;
    }
    if (!rank_run(world, rank, instr)) return false;
    rank->at++;
    return true;
}

/* --- all --- */

/* A rank may post and wait again inside one instruction: that is going on, too. */
static void run(struct world *world) {
    bool all = false;
    for (long before = -1; before != world->posted && !world->wrong;) {
        before = world->posted;
        all = true;
        for (int r = 0; r < world->program->ranks && !world->wrong; r++) {
            struct rank *rank = &world->ranks[r];
            while (!rank->ended && !world->wrong && go_on(world, rank)) world->posted++;
            all &= rank->ended;
        }
    }
    if (!all) world_wrong(world, "ranks wait for ever");
    for (int w = 0; w < world->wire_count; w++)
        if (world->wires[w].sent != world->wires[w].released)
            world_wrong(world, "a message that nobody takes");
}

/* Sliced parameters are not given to others: all make the same ones. */
static void make_params(const struct world *world, struct rank *rank, int chunk) {
    const struct grid *grid = &world->program->grid;
    int stage = grid_stage(grid, rank->cell.position, chunk);
    bool sliced = world_slices(world, SLICED_PARAMS);
    for (int b = 0; b < reference_parts(rank->own->chunk[chunk].buckets); b++) {
        struct param_bucket *params = &rank->params[bucket_index(rank, chunk, b)];
        value own = reference_params(world->program,
                                     sliced ? grid_owner(grid, stage, 0) : rank->number, stage, b);
        for (int i = 0; i < world->slices; i++) params->own[i] = own;
    }
}

static void rank_new(struct world *world, int number) {
    const struct program *program = world->program;
    struct rank *rank = &world->ranks[number];
    *rank = (struct rank){.number = number,
                          .own = program_of(program, number),
                          .cell = grid_cell(&program->grid, number)};
    rank->chunks = rank->cell.role == GRID_STAGE ? rank->own->chunks : 0;
    rank->slice = rank->cell.first_replica / program->grid.replicas_each;
    for (int c = 0; c < rank->chunks; c++) {
        rank->slot_count += rank->own->chunk[c].slots;
        rank->bucket_count += reference_parts(rank->own->chunk[c].buckets);
    }
    rank->slots = MEM_ARRAY(struct slot, rank->slot_count + 1);
    rank->buckets = MEM_ARRAY(struct bucket, rank->bucket_count * rank->own->grads + 1);
    rank->params = MEM_ARRAY(struct param_bucket, rank->bucket_count + 1);
    rank->statistics = MEM_ARRAY(value, rank->bucket_count + 1);
    rank->replaced = MEM_ARRAY(value, rank->bucket_count + 1);
    for (int c = 0; c < rank->chunks; c++) {
        make_params(world, rank, c);
        for (int b = 0; b < reference_parts(rank->own->chunk[c].buckets); b++)
            rank->statistics[bucket_index(rank, c, b)] =
                reference_statistics(number, grid_stage(&program->grid, rank->cell.position, c));
    }
    begin_list(world, rank);
}

static void reference_steps(const struct world *world, int count, struct reference *reference) {
    for (; count > 0 && world->overlaps; count--) reference_step(reference, NULL);
    for (int p = 0; count > 0; p++) {
        if (!list_is_step(world->phases[p])) continue;
        reference->averages = world->phases[p] == LIST_LAST;
        reference_step(reference, world->phases[p] == LIST_LAST ? world->samples : NULL);
        count--;
    }
}

static bool references(struct world *world, bool shares) {
    const struct program *program = world->program;
    const struct grid *grid = &program->grid;
    int stages = grid->stages * grid->chunks;
    struct stage_shape *shape = MEM_ARRAY(struct stage_shape, stages);
    bool right = true;
    for (int s = 0; s < stages; s++) {
        const struct chunk_sizes *sizes =
            &program_of(program, grid_owner(grid, s, 0))->chunk[grid_chunk(grid, s)];
        shape[s] = reference_shape(sizes);
    }
    for (int t = 0; t < program->tie_count; t++) {
        const struct program_tie *tie = &program->tie[t];
        if (tie->bucket >= shape[tie->stage].buckets ||
            (tie_is_apart(tie) && tie->other_bucket >= shape[tie->other].buckets))
            right = world_wrong(world, "a tie of buckets that are not there");
    }
    for (int i = 0; i <= world->step_count && right; i++) {
        world->at[i] = reference_new(program, shares, shape);
        reference_steps(world, i, &world->at[i]);
    }
    free(shape);
    return right;
}

static void world_new(struct world *world) {
    const struct program *program = world->program;
    world->ranks = MEM_ARRAY(struct rank, program->ranks);
    world->slices = group_size(&program->grid, GROUP_REPLICAS, 0);
    for (int r = 0; r < program->ranks; r++) rank_new(world, r);
    for (int g = 0; g < program->group_count; g++) {
        int count = group_count(&program->grid, program->group[g]);
        world->groups[g] = MEM_ARRAY(struct meeting_group, count);
        for (int i = 0; i < count; i++)
            world->groups[g][i].members = group_size(&program->grid, program->group[g], i);
    }
}

static void world_free(struct world *world) {
    const struct program *program = world->program;
    for (int r = 0; r < program->ranks; r++) {
        free(world->ranks[r].slots);
        free(world->ranks[r].buckets);
        free(world->ranks[r].params);
        free(world->ranks[r].statistics);
        free(world->ranks[r].replaced);
    }
    for (int g = 0; g < program->group_count; g++) {
        for (int i = 0; i < group_count(&program->grid, program->group[g]); i++) {
            for (int m = 0; m < world->groups[g][i].count; m++)
                free(world->groups[g][i].items[m].first);
            free(world->groups[g][i].items);
        }
        free(world->groups[g]);
    }
    for (int w = 0; w < world->wire_count; w++) free(world->wires[w].items);
    for (int i = 0; i <= world->step_count; i++) reference_free(&world->at[i]);
    free(world->wires);
    free(world->ranks);
}

/* Frozen stages have no buckets, and no other stage has none. */
static bool has_its_buckets(const struct program *program) {
    bool right = true;
    for (int r = 0; r < program->ranks; r++) {
        struct grid_cell cell = grid_cell(&program->grid, r);
        const struct rank_program *own = program_of(program, r);
        for (int c = 0; cell.role == GRID_STAGE && c < own->chunks; c++) {
            bool frozen = grid_stage(&program->grid, cell.position, c) < program->frozen;
            right &= frozen == (own->chunk[c].buckets == 0);
        }
    }
    return right;
}

const char *judge(const struct program *program, const int64_t *samples, bool shares, bool driven) {
    struct world world = {
        .program = program, .samples = samples, .driven = driven, .overlaps = program->ahead > 0};
    if (world.overlaps &&
        (program->grid.chunks > 1 || program->grid.replicas_each > 1 ||
         program->grid.drivers + program->grid.servers > 0 || program_has_last(program)))
        return "overlapping steps of a program that the judge does not take";
    if (2 * program->ahead + 2 > MOST_STEPS) return "more steps ahead than the judge takes";
    for (int k = 0; k < program->kind_count; k++)
        for (int c = 0; c < program->kinds[k].chunks; c++)
            if (program->kinds[k].chunk[c].older > MOST_OLDER ||
                program->kinds[k].chunk[c].older < 0)
                return "more versions than the judge takes";
    if (program->ranks > MOST_MEMBERS) return "more ranks than the judge takes";
    if (group_size(&program->grid, GROUP_REPLICAS, 0) > MOST_SLICES)
        return "more replicas than the judge takes";
    if (!has_its_buckets(program)) return "buckets of a frozen stage, or none of another";
    choose_phases(&world);
    world_new(&world);
    if (references(&world, shares)) run(&world);
    world_free(&world);
    return world.wrong;
}
