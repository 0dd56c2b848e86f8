/* See mean.h. Buffer 0 is free when STEP has read the gradients. */
#include "sync/mean.h"

void mean_add_sums(struct rank_program *rank, enum list_name list, const struct program *program,
                   int number, int group) {
    int position = grid_cell(&program->grid, number).position;
    for (int c = rank->chunks - 1; c >= 0; c--)
        for (int b = 0; b < rank->chunk[c].buckets; b++) {
            struct instr *sum = program_add(rank, list, INSTR_REDUCE);
            sum->stage = (int16_t)grid_stage(&program->grid, position, c);
            sum->bucket = (int16_t)b;
            sum->grad = 0;
            sum->group = (int16_t)group;
        }
}

static void add_mean(struct rank_program *rank, enum list_name list, const struct program *program,
                     int number, int group) {
    struct instr *statistics = program_add(rank, list, INSTR_STATS_MEAN);
    statistics->grad = 0;
    statistics->group = (int16_t)group;
    program_add(rank, list, INSTR_TAKE)->grad = 0;
    mean_add_sums(rank, list, program, number, group);
    program_add(rank, list, INSTR_MEAN)->grad = 0;
}

static void add_own(struct rank_program *rank, enum list_name list) {
    program_add(rank, list, INSTR_OWN)->grad = 0;
    program_add(rank, list, INSTR_STATS_OWN);
}

void mean_train_apart(struct rank_program *rank) {
    struct instr_list *body = &rank->list[LIST_BODY];
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == INSTR_COUNT) body->items[i].group = INSTR_ALL;
}

static void save_mean(struct rank_program *rank, const struct program *program, int number,
                      int group) {
    struct instr_list save = rank->list[LIST_SAVE];
    rank->list[LIST_SAVE] = (struct instr_list){0};
    add_mean(rank, LIST_SAVE, program, number, group);
    for (int i = 0; i < save.count; i++)
        *program_add(rank, LIST_SAVE, (enum instr_op)save.items[i].op) = save.items[i];
    add_own(rank, LIST_SAVE);
    program_drop_list(&save);
}

void mean_insert(struct rank_program *rank, const struct program *program, int number, int group) {
    program_add(rank, LIST_START, INSTR_BCAST)->group = (int16_t)group;
    add_mean(rank, LIST_DRAIN, program, number, group);
    add_mean(rank, LIST_EVAL_START, program, number, group);
    add_own(rank, LIST_EVAL_END);
    save_mean(rank, program, number, group);
}
