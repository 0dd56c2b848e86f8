/* See tree.h. */
#include "program/tree.h"

int tree_take(struct sum_tree *tree) {
    int buffer = 0;
    while (tree->busy[buffer]) buffer++;
    tree->busy[buffer] = true;
    if (buffer + 1 > tree->out->grads) tree->out->grads = buffer + 1;
    return buffer;
}

void tree_add(struct sum_tree *tree, int into, int from) {
    struct instr *sum = program_add(tree->out, LIST_BODY, INSTR_SUM);
    sum->stage = (int16_t)tree->stage;
    sum->grad = (int16_t)into;
    sum->other = (int16_t)from;
    tree->busy[from] = false;
}

static void merge_last_two(struct sum_tree *tree) {
    tree_add(tree, tree->buffer[tree->depth - 2], tree->buffer[tree->depth - 1]);
    tree->depth--;
    tree->level[tree->depth - 1]++;
}

void tree_push(struct sum_tree *tree, int buffer) {
    tree->buffer[tree->depth] = buffer;
    tree->level[tree->depth++] = 0;
    while (tree->depth > 1 && tree->level[tree->depth - 1] == tree->level[tree->depth - 2])
        merge_last_two(tree);
}

int tree_finish(struct sum_tree *tree) {
    if (tree->depth == 0) return -1;
    while (tree->depth > 1) merge_last_two(tree);
    tree->depth = 0;
    return tree->buffer[0];
}
