/* Partial reduce: behind its own update each replica averages its parameters with those replicas
 * that a rule chooses while ranks run (groups.h).
 *
 * A body is a step of a replica alone: it counts its own labels, sums no gradients, and tells its
 * losses to its own pipeline. It asks for its group (GROUP) before the last segment of its last
 * backward pass, so that the answer is under way while it computes; gradients for the stages before
 * have left by then. Who has asked is waited for: where a pass has few segments the last one is
 * long, a slow replica would hold up its group for as long as that takes, and the question stands
 * behind the pass. STEP updates, and every bucket becomes the mean of those chosen (AVERAGE).
 * Asking behind STEP was rejected: nothing would be left to compute while others come.
 *
 * What is evaluated and saved is the mean of all replicas. */
#include <string.h>

#include "sync/mean.h"
#include "sync/reduce.h"
#include "sync/sync.h"

enum { SEGMENTS_TO_ASK_EARLY = 8 };

struct groups_of {
    int all, chosen, own; /* the replicas; those chosen; the pipeline, INSTR_ALL: of one rank */
};

/* The last pass that makes gradients. */
static int last_backward(const struct instr_list *body) {
    int at = body->count - 1;
    while (at >= 0 && body->items[at].op != INSTR_B && body->items[at].op != INSTR_W) at--;
    return at;
}

static void append(struct rank_program *rank, const struct instr *from, int segment) {
    struct instr *to = program_add(rank, LIST_BODY, (enum instr_op)from->op);
    *to = *from;
    to->segment = (int16_t)segment;
}

/* Where the pass is cut in segments already, this is the last of them. */
static void ask_at(struct rank_program *rank, const struct instr *pass, int buckets, int group) {
    bool cut = pass->segment != INSTR_ALL, early = buckets >= SEGMENTS_TO_ASK_EARLY;
    for (int e = 0; early && !cut && e < buckets - 1; e++) append(rank, pass, e);
    if (early) program_add(rank, LIST_BODY, INSTR_GROUP)->group = (int16_t)group;
    append(rank, pass, early && !cut ? buckets - 1 : pass->segment);
    if (!early) program_add(rank, LIST_BODY, INSTR_GROUP)->group = (int16_t)group;
}

static void average_behind(struct rank_program *rank, const struct program *program, int position,
                           int group) {
    for (int c = rank->chunks - 1; c >= 0; c--)
        for (int b = 0; b < rank->chunk[c].buckets; b++) {
            struct instr *average = program_add(rank, LIST_BODY, INSTR_AVERAGE);
            average->stage = (int16_t)grid_stage(&program->grid, position, c);
            average->bucket = (int16_t)b;
            average->grad = 0;
            average->group = (int16_t)group;
        }
}

static void change_body(struct rank_program *rank, const struct program *program, int number,
                        const struct groups_of *groups) {
    const struct grid *grid = &program->grid;
    struct instr_list old = rank->list[LIST_BODY];
    int at = last_backward(&old);
    rank->list[LIST_BODY] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        const struct instr *instr = &old.items[i];
        int chunk = i == at ? grid_chunk(grid, instr->stage) : 0;
        if (i == at)
            ask_at(rank, instr, rank->chunk[chunk].buckets, groups->chosen);
        else
            *program_add(rank, LIST_BODY, (enum instr_op)instr->op) = *instr;
        if (instr->op == INSTR_REPORT)
            rank->list[LIST_BODY].items[rank->list[LIST_BODY].count - 1].group =
                (int16_t)groups->own;
    }
    average_behind(rank, program, grid_cell(grid, number).position, groups->chosen);
    program_drop_list(&old);
}

static void change_rank(const void *context, struct program *program, int number) {
    const struct groups_of *groups = context;
    struct rank_program *rank = &program->kinds[program->kind_of[number]];
    if (program_is_forward(program)) {
        sync_share(rank, groups->all);
        return;
    }
    mean_train_apart(rank);
    change_body(rank, program, number, groups);
    mean_insert(rank, program, number, groups->all);
}

/* REPORT has a group of its own: NORM may be under way on that of the schedule. */
static enum status preduce_insert(struct program *program, const struct sync_config *config) {
    struct groups_of groups = {.own = INSTR_ALL, .chosen = INSTR_ALL};
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    groups.all = reduce_group(program);
    if (!program_is_forward(program)) {
        groups.chosen =
            program_declare_group(program, config->by_stage ? GROUP_CHOSEN_BY_STAGE : GROUP_CHOSEN);
        if (program->grid.stages > 1) groups.own = program_declare_group(program, GROUP_PIPELINE);
    }
    reduce_each(program, config, change_rank, &groups);
    return STATUS_OK;
}

const struct sync_policy sync_preduce = {
    .name = "preduce",
    .verb = "average",
    .what = "parameters of those that come together",
    .help = "replicas train apart, and each averages with those that come at about the same time",
    .acts = "group group-wait group-connect group-size group-weights group-by",
    .apart = true,
    .chooses = true,
    .insert = preduce_insert};
