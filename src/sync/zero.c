/* ZeRO: the replicas of a stage each hold a slice of what all of them would hold alike, and update
 * that slice.
 *
 * Stage 1: optimizer state. Where all-reduce sums a bucket, each replica gets the sum of its slice
 * alone (SCATTER), updates it, and all gather the new parameters (GATHER): as many bytes as an
 * all-reduce, which is the two one behind the other. */
#include "sync/reduce.h"

static int world_of(const struct program *program) {
    int group = 0;
    while (program->group[group] != GROUP_WORLD) group++;
    return group;
}

/* Forward reads the last bucket first: that one is gathered first. */
static void gather_stage(struct rank_program *rank, int stage, int buckets, int group) {
    for (int b = buckets - 1; b >= 0; b--) {
        struct instr *gather = program_add(rank, LIST_BODY, INSTR_GATHER);
        gather->stage = (int16_t)stage;
        gather->bucket = (int16_t)b;
        gather->group = (int16_t)group;
    }
}

/* Ranks own different elements: the norm is that of all. */
static void norm_over_world(struct rank_program *rank, int world) {
    struct instr_list *body = &rank->list[LIST_BODY];
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == INSTR_NORM) body->items[i].group = (int16_t)world;
}

static void change_rank(struct program *program, int rank, int group,
                        const struct sync_config *config) {
    (void)config;
    struct rank_program *own = &program->kinds[program->kind_of[rank]];
    int position = grid_cell(&program->grid, rank).position;
    reduce_insert(&program->grid, own, INSTR_SCATTER, group);
    norm_over_world(own, world_of(program));
    for (int c = 0; c < own->chunks; c++)
        gather_stage(own, grid_stage(&program->grid, position, c), own->chunk[c].buckets, group);
    program_add(own, LIST_START, INSTR_BCAST)->group = (int16_t)group;
}

static enum status zero_insert(struct program *program, const struct sync_config *config) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    program->sliced = config->sliced;
    reduce_each(program, config, reduce_group(program), change_rank);
    return STATUS_OK;
}

const struct sync_policy sync_zero = {
    .name = "zero",
    .help = "each replica holds and updates a slice: ZeRO, see --zero-stage",
    .insert = zero_insert};
