/* See grid.h. */
#include "program/grid.h"

#include "base/log.h"
#include "base/text.h"

static const char *const family_names[] = {
#define GROUP(NAME, name, doc) name,
#include "program/group.def"
#undef GROUP
};

struct grid grid_flat(int ranks, int replicas) {
    return (struct grid){
        .stages = 1, .chunks = 1, .replicas = replicas, .replicas_each = ranks == 1 ? replicas : 1};
}

/* Pipelines: one for each set of replicas that share ranks. */
static int pipelines(const struct grid *grid) {
    return grid->replicas / grid->replicas_each;
}

int grid_ranks(const struct grid *grid) {
    return grid->drivers + pipelines(grid) * grid->stages + grid->servers;
}

struct grid_cell grid_cell(const struct grid *grid, int rank) {
    int index = rank - grid->drivers;
    if (index < 0) return (struct grid_cell){.role = GRID_DRIVER, .position = -1};
    if (index >= pipelines(grid) * grid->stages)
        return (struct grid_cell){.role = GRID_SERVER, .position = -1};
    return (struct grid_cell){.role = GRID_STAGE,
                              .position = index % grid->stages,
                              .first_replica = index / grid->stages * grid->replicas_each,
                              .replica_count = grid->replicas_each};
}

static bool runs_backwards(const struct grid *grid, int chunk) {
    return grid->v_shape && chunk % 2 == 1;
}

int grid_stage(const struct grid *grid, int position, int chunk) {
    CHECK(position >= 0, "a rank without a stage");
    int within = runs_backwards(grid, chunk) ? grid->stages - 1 - position : position;
    return chunk * grid->stages + within;
}

int grid_position(const struct grid *grid, int stage) {
    int within = stage % grid->stages;
    return runs_backwards(grid, grid_chunk(grid, stage)) ? grid->stages - 1 - within : within;
}

int grid_owner(const struct grid *grid, int stage, int replica) {
    return grid->drivers + replica / grid->replicas_each * grid->stages +
           grid_position(grid, stage);
}

/* --- groups --- */

const char *group_family_name(enum group_family family) {
    return family_names[family];
}

int group_family_find(const char *name) {
    return TEXT_FIND(name, family_names);
}

int group_count(const struct grid *grid, enum group_family family) {
    switch (family) {
    case GROUP_REPLICAS:
    case GROUP_CHOSEN:
    case GROUP_CHOSEN_BY_STAGE: return grid->stages;
    case GROUP_PIPELINE: return pipelines(grid);
    case GROUP_TIED: return grid->tied[0] == grid->tied[1] ? 0 : pipelines(grid);
    default: return 1;
    }
}

int group_of(const struct grid *grid, enum group_family family, int rank) {
    struct grid_cell cell = grid_cell(grid, rank);
    if (family == GROUP_WORLD) return 0;
    if (cell.role != GRID_STAGE) return -1;
    if (family == GROUP_TIED &&
        (grid->tied[0] == grid->tied[1] ||
         (cell.position != grid->tied[0] && cell.position != grid->tied[1])))
        return -1;
    return group_is_of_replicas(family) ? cell.position : cell.first_replica / grid->replicas_each;
}

int group_size(const struct grid *grid, enum group_family family, int index) {
    (void)index;
    switch (family) {
    case GROUP_REPLICAS:
    case GROUP_CHOSEN:
    case GROUP_CHOSEN_BY_STAGE: return pipelines(grid);
    case GROUP_PIPELINE: return grid->stages;
    case GROUP_TIED: return 2;
    default: return grid_ranks(grid);
    }
}

int group_rank(const struct grid *grid, enum group_family family, int index, int place) {
    switch (family) {
    case GROUP_REPLICAS:
    case GROUP_CHOSEN:
    case GROUP_CHOSEN_BY_STAGE: return grid->drivers + place * grid->stages + index;
    case GROUP_PIPELINE: return grid->drivers + index * grid->stages + place;
    case GROUP_TIED: return grid->drivers + index * grid->stages + grid->tied[place];
    default: return place;
    }
}
