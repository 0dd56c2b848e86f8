/* What the tests of the simulator share: whole programs of schedules, and costs of equal stages. */
#ifndef TESTS_SIM_KIT_H
#define TESTS_SIM_KIT_H

#include "sim/run.h"

struct sim_case {
    const char *schedule;
    int stages, chunks, replicas, micros; /* chunks 0: the schedule's own */
    int buckets;                          /* of a stage, with several replicas; 0: 1 */
    int credits;                          /* 0: the program's own */
};

/* A verified program with its sync policy; the caller frees it. */
struct program *sim_program(const struct sim_case *of);

/* Times of every stage. */
struct sim_units {
    double f, i, w, hop;
};
/* Costs of a program whose stages are equal, and the input of a run of one step with them. They
 * live until sim_kit_free. A micro-batch keeps one byte of each stage. */
struct sim_kit {
    struct program *program;
    struct sim_stage *stage;
    struct sim_costs costs;
    struct sim_input input;
};
void sim_kit_new(const struct sim_case *of, struct sim_units units, struct sim_kit *out);
void sim_kit_free(struct sim_kit *kit);
/* Runs it; fails the test where it does not end. The caller frees the result. */
struct sim_result sim_kit_run(const struct sim_kit *kit);
/* Rank 0's body as the simulator runs it; sim_kit_kind_free gives it back. */
struct sim_kind;
void sim_kit_compile(const struct program *program, const struct sim_costs *costs,
                     struct sim_kind *out);
void sim_kit_kind_free(struct sim_kind *kind);
/* Of a program made anew. */
struct sim_result sim_of(const struct sim_case *of, struct sim_units units);

#endif
