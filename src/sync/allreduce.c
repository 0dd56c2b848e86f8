/* All-reduce: every replica ends a step with the sum of all gradients.
 *
 * Where the last backward of a step writes straight into the buffer that STEP reads, it is cut into
 * segments and each bucket is posted as soon as its segment is done, so that reduction and backward
 * overlap; where sums inside the rank come after it (--sum tree), all buckets are posted at
 * the end. */
#include <stdlib.h>

#include "sync/sync.h"

/* REPORT, which stands before NORM and STEP. */
static int find_report(const struct instr_list *body) {
    int at = body->count - 1;
    while (at > 0 && body->items[at].op != INSTR_REPORT) at--;
    return at;
}

/* The last backward into NORM's buffer, when nothing but its TIE stands between it and REPORT; else
 * -1. */
static int last_backward(const struct instr_list *body, int report) {
    const struct instr *items = body->items;
    if (report < 2 || items[report - 1].op != INSTR_TIE || items[report - 2].op != INSTR_B)
        return -1;
    return items[report - 2].grad == items[report + 1].grad ? report - 2 : -1;
}

struct copy {
    struct rank_program *out;
    int group;
};

static struct instr *append(struct copy *copy, const struct instr *from) {
    struct instr *to = program_add(copy->out, LIST_BODY, (enum instr_op)from->op);
    *to = *from;
    return to;
}

static void append_bucket(struct copy *copy, enum instr_op op, int bucket, int grad) {
    struct instr *instr = program_add(copy->out, LIST_BODY, op);
    instr->bucket = (int16_t)bucket;
    instr->grad = (int16_t)grad;
    if (op == INSTR_REDUCE) instr->group = (int16_t)copy->group;
}

static void append_segments(struct copy *copy, const struct instr *backward) {
    for (int b = 0; b < copy->out->buckets; b++) {
        append(copy, backward)->segment = (int16_t)b;
        append_bucket(copy, INSTR_TIE, b, backward->grad);
        append_bucket(copy, INSTR_REDUCE, b, backward->grad);
    }
}

static void insert_rank(struct rank_program *rank, int group) {
    struct instr_list old = rank->list[LIST_BODY];
    struct copy copy = {rank, group};
    int report = find_report(&old), backward = last_backward(&old, report);
    int grad = old.items[report + 1].grad; /* NORM's */
    rank->list[LIST_BODY] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        if (i == backward) {
            append_segments(&copy, &old.items[i]);
            i++; /* its TIE is among the segments */
            continue;
        }
        if (i == report && backward < 0) {
            for (int b = 0; b < rank->buckets; b++) append_bucket(&copy, INSTR_REDUCE, b, grad);
        }
        append(&copy, &old.items[i]);
    }
    free(old.items);
}

/* Ranks of one stage that are all ranks need no group besides that of all. */
static int group_for(struct program *program) {
    const struct grid *grid = &program->grid;
    bool all = group_size(grid, GROUP_REPLICAS, 0) == program->ranks;
    for (int g = 0; all && g < program->group_count; g++)
        if (program->group[g] == GROUP_WORLD) return g;
    return program_declare_group(program, GROUP_REPLICAS);
}

static enum status allreduce_insert(struct program *program, int buckets) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    int group = group_for(program);
    for (int k = 0; k < program->kind_count; k++) {
        struct rank_program *rank = &program->kinds[k];
        rank->buckets = buckets;
        insert_rank(rank, group);
        sync_share(rank, group);
        program_renumber(rank);
    }
    return STATUS_OK;
}

const struct sync_policy sync_allreduce = {
    .name = "allreduce",
    .help = "sum of all replicas' gradients, in buckets, while backward runs",
    .insert = allreduce_insert};
