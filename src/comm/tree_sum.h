/* Sums by the fixed tree: level by level neighbours 2i and 2i+1 are added, an odd last one is
 * carried up. The bits of a sum depend on its terms and their order alone, never on how the
 * elements are cut into pieces or who adds them. Local, reentrant. */
#ifndef COMM_TREE_SUM_H
#define COMM_TREE_SUM_H

#include <stdint.h>

/* out[i] = the tree sum of term[0..terms)[at + i]; `out` may be one of those arrays. */
void comm_tree_sum(float *const term[], int terms, int64_t at, int64_t count, float *out);

/* The same, written to term[0..terms)[at + i], all of them. */
void comm_tree_sum_all(float *const term[], int terms, int64_t at, int64_t count);

#endif
