/* All-reduce: every replica ends a step with the sum of all gradients.
 *
 * Where the last backward of a step writes straight into the buffer that STEP reads, it is cut into
 * segments and each bucket is posted as soon as its segment is done, so that reduction and backward
 * overlap; where sums inside the rank come after it (--sum tree), all buckets are posted before
 * NORM. */
#include <stdlib.h>

#include "sync/sync.h"

static int find_norm(const struct instr_list *body) {
    int at = body->count - 1;
    while (at > 0 && body->items[at].op != INSTR_NORM) at--;
    return at;
}

/* The last backward into `grad`, when nothing but its TIE stands between it and NORM; else -1. */
static int last_backward(const struct instr_list *body, int norm) {
    int grad = body->items[norm].grad;
    if (norm < 2 || body->items[norm - 1].op != INSTR_TIE || body->items[norm - 2].op != INSTR_B)
        return -1;
    return body->items[norm - 2].grad == grad ? norm - 2 : -1;
}

struct copy {
    struct program *program;
    int rank;
};

static struct instr *append(struct copy *copy, const struct instr *from) {
    struct instr *to = program_add(copy->program, copy->rank, LIST_BODY, (enum instr_op)from->op);
    int id = to->id;
    *to = *from;
    to->id = id;
    return to;
}

static void append_bucket(struct copy *copy, enum instr_op op, int bucket, int grad) {
    struct instr *instr = program_add(copy->program, copy->rank, LIST_BODY, op);
    instr->bucket = (int16_t)bucket;
    instr->grad = (int16_t)grad;
}

static void append_segments(struct copy *copy, const struct instr *backward) {
    for (int b = 0; b < copy->program->buckets; b++) {
        append(copy, backward)->segment = (int16_t)b;
        append_bucket(copy, INSTR_TIE, b, backward->grad);
        append_bucket(copy, INSTR_REDUCE, b, backward->grad);
    }
}

static void insert_rank(struct program *program, int rank) {
    struct instr_list old = program->rank[rank].list[LIST_BODY];
    struct copy copy = {program, rank};
    int norm = find_norm(&old), backward = last_backward(&old, norm);
    program->rank[rank].list[LIST_BODY] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        if (i == backward) {
            append_segments(&copy, &old.items[i]);
            i++; /* its TIE is among the segments */
            continue;
        }
        if (i == norm && backward < 0) {
            for (int b = 0; b < program->buckets; b++)
                append_bucket(&copy, INSTR_REDUCE, b, old.items[norm].grad);
        }
        append(&copy, &old.items[i]);
    }
    free(old.items);
}

static enum status allreduce_insert(struct program *program, int buckets) {
    if (program->ranks == 1) return STATUS_OK;
    program->buckets = buckets;
    for (int r = 0; r < program->ranks; r++) {
        insert_rank(program, r);
        program_add(program, r, LIST_START, INSTR_BCAST);
        program_renumber(program, r);
    }
    return STATUS_OK;
}

const struct sync_policy sync_allreduce = {
    .name = "allreduce",
    .help = "sum of all replicas' gradients, in buckets, while backward runs",
    .insert = allreduce_insert};
