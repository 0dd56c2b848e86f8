/* The fixed tree of sums, written as SUM instructions.
 *
 * Level by level, neighbours 2i and 2i+1 are added and an odd last one is carried up. Pushing the
 * leaves one by one and merging equal levels, as a binary counter does, gives that tree with
 * log2(n)+1 buffers. */
#ifndef PROGRAM_TREE_H
#define PROGRAM_TREE_H

#include "program/program.h"

enum { TREE_MAX_DEPTH = 40 };

struct sum_tree {
    struct rank_program *out; /* gets the SUMs, in its body */
    int stage;                /* whose gradients */
    int buffer[TREE_MAX_DEPTH], level[TREE_MAX_DEPTH], depth;
    bool *busy; /* gradient buffers in use, of as many as there are leaves and one more; borrowed */
};

/* Local. A free gradient buffer, now in use; its `grads` grows with the most ever in use. */
int tree_take(struct sum_tree *tree);
/* Local. Adds a buffer to another, and gives it back. */
void tree_add(struct sum_tree *tree, int into, int from);
/* Local. Hands in a finished leaf. */
void tree_push(struct sum_tree *tree, int buffer);
/* Local. Adds what is left, from the last to the first; returns the buffer of the sum, or -1 where
 * no leaf came. The buffer stays taken. */
int tree_finish(struct sum_tree *tree);

#endif
