/* The grid: which stage of the model and which replica each rank holds, and the groups that ranks
 * form. Everything follows from a few numbers, so a grid of 100,000 ranks takes no memory.
 *
 * A pipeline has `stages` ranks, and each holds `chunks` parts of the model. The parts are numbered
 * in the order of the model, 0 .. stages * chunks - 1: that number is the operand "stage" of an
 * instruction. Ranks are numbered pipeline by pipeline: position p of replica r is rank
 * drivers + r * stages + p. On one device (`--deal`) a rank holds all replicas. */
#ifndef PROGRAM_GRID_H
#define PROGRAM_GRID_H

#include <stdbool.h>

enum { GRID_MAX_CHUNKS = 32 };

struct grid {
    int stages;        /* ranks of one pipeline */
    int chunks;        /* parts of the model that each of them holds */
    int replicas;      /* of the model */
    int replicas_each; /* that a rank runs: 1, or all of them on one device */
    bool v_shape;      /* odd chunks run from the last rank to the first */
    int drivers;       /* ranks without a stage, before the others */
    int servers;       /* ranks without a stage, after the others */
    int tied[2];       /* positions that share parameters, first the one that has their first use;
                          the same twice: none do */
};

/* Local. A grid of one stage: a rank for each replica, or one rank for all of them. */
struct grid grid_flat(int ranks, int replicas);

enum grid_role { GRID_DRIVER, GRID_STAGE, GRID_SERVER };

/* What one rank holds. */
struct grid_cell {
    enum grid_role role;
    int position;                     /* in its pipeline; -1 without a stage */
    int first_replica, replica_count; /* 0 replicas without a stage */
};

/* Local. */
int grid_ranks(const struct grid *grid);
struct grid_cell grid_cell(const struct grid *grid, int rank);
/* Local. The stage of the model that chunk `chunk` of a position is, and back. A rank without a
 * stage has no position to ask for. */
int grid_stage(const struct grid *grid, int position, int chunk);
int grid_position(const struct grid *grid, int stage);
/* Asked for all the time; divisions take long. */
static inline int grid_chunk(const struct grid *grid, int stage) {
    return grid->chunks == 1 ? 0 : stage / grid->stages;
}
/* Local. Who runs a stage for a replica. */
int grid_owner(const struct grid *grid, int stage, int replica);

/* Families of groups, the rows of group.def. Each rank is in at most one group of a family. */
enum group_family {
#define GROUP(NAME, name, doc) GROUP_##NAME,
#include "program/group.def"
#undef GROUP
    GROUP_FAMILY_COUNT
};

/* Local. Of a family: does each group have the ranks that hold the same stages? Are its members
 * chosen among them again and again, while ranks run? */
static inline bool group_is_chosen(enum group_family family) {
    return family == GROUP_CHOSEN || family == GROUP_CHOSEN_BY_STAGE;
}
static inline bool group_is_of_replicas(enum group_family family) {
    return family == GROUP_REPLICAS || group_is_chosen(family);
}
/* Local. The name in the text form; the family of a name, or -1. */
const char *group_family_name(enum group_family family);
int group_family_find(const char *name);
/* Local. How many groups the family has; the one a rank is in, or -1. */
int group_count(const struct grid *grid, enum group_family family);
int group_of(const struct grid *grid, enum group_family family, int rank);
/* Local. Members of a group, in the order of the sum's tree: their number, and one by one. */
int group_size(const struct grid *grid, enum group_family family, int index);
int group_rank(const struct grid *grid, enum group_family family, int index, int place);

#endif
