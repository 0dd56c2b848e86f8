/* What the laws of --hetero need to know of a program: which pass an instruction is, which links a
 * group has. Executor and simulator both ask here, so they agree. All functions are local. */
#ifndef PROGRAM_LAWS_H
#define PROGRAM_LAWS_H

#include "cost/cost.h"
#include "program/program.h"

/* Which pass of a run an instruction in the body of `step` is; steps count from 0. */
struct hetero_pass program_pass(const struct program *program, uint64_t seed, int rank,
                                int64_t step, const struct instr *instr);
/* What laws of links add to a group: the slowest of those between two of its members. */
struct cost_link program_law_link(const struct program *program, const struct hetero *law,
                                  enum group_family family, int index);

#endif
