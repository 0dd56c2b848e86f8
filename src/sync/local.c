/* Local steps (DiLoCo, local SGD): replicas train apart and average at each step of so many.
 *
 * A body is a step of a replica alone: it counts its own labels and sums no gradients. The list
 * last is that step with the average behind it: how far each replica has come from the parameters
 * that all had after the average before (DELTA), summed, and taken as the gradient of an outer
 * optimizer (OUTER). Lists of their own for the average were rejected: it would not be a part of a
 * step, so neither the verifier nor the simulator nor virtual time would see what it costs.
 *
 * Losses and requests go to all ranks at every step: a few hundred bytes. So all stop, save and
 * evaluate after the same step.
 *
 * What is evaluated and saved is the mean of the replicas. */
#include "sync/reduce.h"
#include "sync/sync.h"

static void add_sums(struct rank_program *rank, enum list_name list, const struct program *program,
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

/* Buffer 0 is free when STEP has read the gradients. */
static void add_mean(struct rank_program *rank, enum list_name list, const struct program *program,
                     int number, int group) {
    struct instr *statistics = program_add(rank, list, INSTR_STATS_MEAN);
    statistics->grad = 0;
    statistics->group = (int16_t)group;
    program_add(rank, list, INSTR_TAKE)->grad = 0;
    add_sums(rank, list, program, number, group);
    program_add(rank, list, INSTR_MEAN)->grad = 0;
}

static void add_own(struct rank_program *rank, enum list_name list) {
    program_add(rank, list, INSTR_OWN)->grad = 0;
    program_add(rank, list, INSTR_STATS_OWN);
}

static void train_apart(struct rank_program *rank) {
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

static void change_rank(const void *context, struct program *program, int number) {
    int group = *(const int *)context;
    struct rank_program *rank = &program->kinds[program->kind_of[number]];
    if (program_is_forward(program)) {
        sync_share(rank, group);
        return;
    }
    train_apart(rank);
    program_copy_list(rank, LIST_BODY, LIST_LAST);
    program_add(rank, LIST_LAST, INSTR_DELTA)->grad = 0;
    add_sums(rank, LIST_LAST, program, number, group);
    program_add(rank, LIST_LAST, INSTR_OUTER)->grad = 0;
    program_add(rank, LIST_START, INSTR_BCAST)->group = (int16_t)group;
    add_mean(rank, LIST_DRAIN, program, number, group);
    add_mean(rank, LIST_EVAL_START, program, number, group);
    add_own(rank, LIST_EVAL_END);
    save_mean(rank, program, number, group);
}

static enum status local_insert(struct program *program, const struct sync_config *config) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    int group = reduce_group(program);
    if (!program_is_forward(program)) program->every = config->every;
    reduce_each(program, config, change_rank, &group);
    return STATUS_OK;
}

const struct sync_policy sync_local = {
    .name = "local",
    .verb = "average",
    .what = "parameters",
    .help =
        "replicas train apart, and every so many steps an outer optimizer moves them by their mean",
    .acts = "sync-every outer-optimizer outer-lr outer-momentum",
    .apart = true,
    .insert = local_insert};
