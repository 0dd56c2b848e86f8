/* The grid and its groups, held against their definitions on grids of many shapes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "program/schedule.h"

static const struct grid grids[] = {
    {.stages = 1, .chunks = 1, .replicas = 1, .replicas_each = 1},
    {.stages = 1, .chunks = 1, .replicas = 4, .replicas_each = 1},
    {.stages = 1, .chunks = 1, .replicas = 6, .replicas_each = 6},
    {.stages = 4, .chunks = 1, .replicas = 3, .replicas_each = 1},
    {.stages = 3, .chunks = 2, .replicas = 2, .replicas_each = 1},
    {.stages = 3, .chunks = 2, .replicas = 2, .replicas_each = 1, .v_shape = true},
    {.stages = 4, .chunks = 4, .replicas = 2, .replicas_each = 2, .v_shape = true},
    {.stages = 2, .chunks = 1, .replicas = 2, .replicas_each = 1, .drivers = 1, .servers = 3},
};
enum { GRIDS = sizeof grids / sizeof grids[0] };

Test(program_grid, every_stage_of_every_replica_has_one_owner) {
    for (int g = 0; g < GRIDS; g++) {
        const struct grid *grid = &grids[g];
        int held = 0;
        for (int rank = 0; rank < grid_ranks(grid); rank++) {
            struct grid_cell cell = grid_cell(grid, rank);
            cr_expect_eq(cell.role == GRID_STAGE, cell.replica_count > 0);
            for (int c = 0; cell.role == GRID_STAGE && c < grid->chunks; c++) {
                int stage = grid_stage(grid, cell.position, c);
                cr_expect_eq(grid_chunk(grid, stage), c);
                cr_expect_eq(grid_position(grid, stage), cell.position);
                for (int r = 0; r < cell.replica_count; r++, held++)
                    cr_expect_eq(grid_owner(grid, stage, cell.first_replica + r), rank);
            }
        }
        cr_expect_eq(held, grid->stages * grid->chunks * grid->replicas, "grid %d", g);
    }
}

/* A V: the last rank of the way there is the first of the way back. */
Test(program_grid, a_v_turns_round_at_its_ends) {
    struct grid grid = {
        .stages = 4, .chunks = 2, .replicas = 1, .replicas_each = 1, .v_shape = true};
    static const int owners[] = {0, 1, 2, 3, 3, 2, 1, 0};
    for (int stage = 0; stage < 8; stage++)
        cr_expect_eq(grid_owner(&grid, stage, 0), owners[stage]);
    grid.v_shape = false;
    for (int stage = 0; stage < 8; stage++) cr_expect_eq(grid_owner(&grid, stage, 0), stage % 4);
}

Test(program_grid, groups_and_their_members_agree) {
    for (int g = 0; g < GRIDS; g++) {
        const struct grid *grid = &grids[g];
        for (int f = 0; f < GROUP_FAMILY_COUNT; f++) {
            enum group_family family = (enum group_family)f;
            int *times = calloc((size_t)grid_ranks(grid), sizeof *times);
            for (int i = 0; i < group_count(grid, family); i++) {
                for (int place = 0; place < group_size(grid, family, i); place++) {
                    int rank = group_rank(grid, family, i, place);
                    cr_expect_eq(group_of(grid, family, rank), i);
                    times[rank]++;
                }
            }
            for (int rank = 0; rank < grid_ranks(grid); rank++)
                cr_expect_eq(times[rank], group_of(grid, family, rank) >= 0, "grid %d %s rank %d",
                             g, group_family_name(family), rank);
            free(times);
        }
    }
    cr_expect_eq(group_family_find("replicas"), GROUP_REPLICAS);
    cr_expect_eq(group_family_find("nobody"), -1);
}

/* Replicas share one rank program, also in a short step: full, partly filled and empty ones. */
Test(program_grid, ranks_that_do_the_same_share_their_program) {
    enum { RANKS = 1000, MICROS = 4 };
    static int64_t samples[RANKS * MICROS];
    struct schedule_config config = {
        .grid = grid_flat(RANKS, RANKS), .micro_batches = MICROS, .sum = SUM_REPLICA};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_expect_eq(program->kind_count, 1);
    program_free(&program);
    for (int g = 0; g < RANKS * MICROS; g++) samples[g] = g < 1502;
    config.samples = samples;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_expect_eq(program->kind_count, 3);
    cr_expect_eq(program->kind_of[0], program->kind_of[374]);
    cr_expect_neq(program->kind_of[374], program->kind_of[375]);
    cr_expect_neq(program->kind_of[375], program->kind_of[376]);
    cr_expect_eq(program->kind_of[376], program->kind_of[999]);
    program_free(&program);
}

/* The hash is of what the program says, not of how it was made; one operand changes it. */
Test(program_grid, the_hash_is_of_the_whole) {
    struct schedule_config config = {
        .grid = grid_flat(3, 3), .micro_batches = 2, .sum = SUM_REPLICA};
    struct program *program = NULL, *again = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    program_print(program, stream);
    fclose(stream);
    cr_assert_eq(program_parse("text", text, bytes, &again), STATUS_OK);
    cr_expect_eq(program_hash(program), program_hash(again));
    program_edit(again, 2)->list[LIST_BODY].items[1].slot++;
    cr_expect_neq(program_hash(program), program_hash(again));
    free(text);
    program_free(&program);
    program_free(&again);
}
