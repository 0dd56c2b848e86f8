/* The programs that mutants are made of: every schedule on several grids, orders of sums, with and
 * without shared statistics, whole steps and short ones, reduced over replicas in buckets or sliced
 * (ZeRO), with recomputation, with parameters that stages share, on the calls of a driver. */
#ifndef TESTS_MUTANTS_CASES_H
#define TESTS_MUTANTS_CASES_H

#include "program/program.h"

enum { CASE_MICROS = 64 };

struct case_of {
    char name[160];
    struct program *program;
    bool shares, driven;
    int64_t samples[CASE_MICROS]; /* of the last step; more than it has: mutants may ask for more */
};

/* Local. All of them, an array that the caller frees with cases_free. */
struct case_of *cases_all(int *count);
/* Local. Keeps those in whose names that is; how many they are. */
int cases_named(struct case_of *cases, int count, const char *name);
void cases_free(struct case_of *cases, int count);

#endif
