/* All-reduce: every replica ends a step with the sum of all gradients.
 *
 * Where the last backward of a stage writes straight into the buffer that STEP reads, it is cut
 * into segments and each bucket is posted as soon as its segment is done, so that reduction and
 * backward overlap; where sums inside the rank come after it (--sum tree), all buckets are posted
 * behind them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "sync/reduce.h"

/* Where a rank's program makes the gradients of one stage whole: its last TIE, and the backward
 * pass before it that can be cut (-1: sums inside the rank come between). */
struct whole {
    int tie, pass;
};

static bool writes_gradient(const struct instr *instr, int stage, int grad) {
    const struct instr_row *row = instr_row(instr);
    if (!strchr(row->operands, 's') || instr->stage != stage) return false;
    return (strchr(row->writes, 'g') && instr->grad == grad) ||
           (strchr(row->writes, 'h') && instr->other == grad);
}

/* The last instruction before `end` that writes the stage's part of a gradient buffer; -1: none. */
static int last_writer(const struct instr_list *body, int end, int stage, int grad) {
    int at = end - 1;
    while (at >= 0 && !writes_gradient(&body->items[at], stage, grad)) at--;
    return at;
}

/* Does a weight pass of another stage stand between? What follows it there may not come before. */
static bool is_passed(const struct instr_list *body, int from, int to, int stage) {
    for (int i = from + 1; i < to; i++) {
        const struct instr *instr = &body->items[i];
        bool pass = instr->op == INSTR_B || instr->op == INSTR_W || instr->op == INSTR_TIE;
        if (pass && instr->stage != stage) return true;
    }
    return false;
}

static struct whole find_whole(const struct instr_list *body, int stage, int grad) {
    struct whole whole = {last_writer(body, body->count, stage, grad), -1};
    if (whole.tie < 0 || body->items[whole.tie].op != INSTR_TIE) return whole;
    int before = last_writer(body, whole.tie, stage, grad);
    bool pass =
        before >= 0 && (body->items[before].op == INSTR_B || body->items[before].op == INSTR_W);
    if (pass && !is_passed(body, before, whole.tie, stage)) whole.pass = before;
    return whole;
}

/* The buffer that STEP reads. */
static int final_grad(const struct instr_list *body) {
    for (int i = body->count - 1; i >= 0; i--)
        if (body->items[i].op == INSTR_STEP) return body->items[i].grad;
    return 0;
}

struct copy {
    struct rank_program *out;
    enum instr_op op; /* that sums a bucket */
    int group;
};

static struct instr *append(struct copy *copy, const struct instr *from) {
    struct instr *to = program_add(copy->out, LIST_BODY, (enum instr_op)from->op);
    *to = *from;
    return to;
}

static void append_bucket(struct copy *copy, enum instr_op op, int bucket,
                          const struct instr *like) {
    struct instr *instr = program_add(copy->out, LIST_BODY, op);
    instr->stage = like->stage;
    instr->bucket = (int16_t)bucket;
    instr->grad = like->grad;
    if (op == INSTR_SCATTER) instr->other = like->grad;
    if (op == copy->op) instr->group = (int16_t)copy->group;
}

static void append_segments(struct copy *copy, const struct instr *pass, int buckets) {
    for (int b = 0; b < buckets; b++) {
        append(copy, pass)->segment = (int16_t)b;
        append_bucket(copy, INSTR_TIE, b, pass);
        append_bucket(copy, copy->op, b, pass);
    }
}

/* One instruction of the old body; `whole` is of the chunk it belongs to, or NULL. */
static void copy_instr(struct copy *copy, const struct instr_list *old, int at,
                       const struct whole *whole, int buckets) {
    const struct instr *instr = &old->items[at];
    if (whole && at == whole->pass) {
        append_segments(copy, instr, buckets);
        return;
    }
    if (whole && at == whole->tie && whole->pass >= 0) return; /* it is among the segments */
    append(copy, instr);
    if (!whole || at != whole->tie) return;
    for (int b = 0; b < buckets; b++) append_bucket(copy, copy->op, b, instr);
}

void reduce_insert(const struct grid *grid, struct rank_program *rank, enum instr_op op,
                   int group) {
    struct instr_list old = rank->list[LIST_BODY];
    struct whole whole[GRID_MAX_CHUNKS];
    struct copy copy = {rank, op, group};
    int stage_of[GRID_MAX_CHUNKS] = {0}, grad = final_grad(&old);
    for (int i = 0; i < old.count; i++)
        if (strchr(instr_row(&old.items[i])->operands, 's'))
            stage_of[grid_chunk(grid, old.items[i].stage)] = old.items[i].stage;
    for (int c = 0; c < rank->chunks; c++) whole[c] = find_whole(&old, stage_of[c], grad);
    rank->list[LIST_BODY] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        bool staged = strchr(instr_row(&old.items[i])->operands, 's');
        int chunk = staged ? grid_chunk(grid, old.items[i].stage) : 0;
        copy_instr(&copy, &old, i, staged ? &whole[chunk] : NULL, rank->chunk[chunk].buckets);
    }
    free(old.items);
}

int reduce_group(struct program *program) {
    const struct grid *grid = &program->grid;
    bool all = group_size(grid, GROUP_REPLICAS, 0) == program->ranks;
    for (int g = 0; g < program->group_count; g++)
        if (program->group[g] == GROUP_REPLICAS || (all && program->group[g] == GROUP_WORLD))
            return g;
    return program_declare_group(program, GROUP_REPLICAS);
}

static void set_buckets(const struct program *program, int rank, struct rank_program *own,
                        const int *buckets) {
    int position = grid_cell(&program->grid, rank).position;
    for (int c = 0; c < own->chunks; c++)
        own->chunk[c].buckets = buckets[grid_stage(&program->grid, position, c)];
}

/* Ranks that share a rank program are at one position: it is changed once. */
void reduce_each(struct program *program, const struct sync_config *config,
                 void (*change)(const void *context, struct program *program, int rank),
                 const void *context) {
    bool *changed = MEM_ARRAY(bool, program->kind_count + 1);
    for (int r = 0; r < program->ranks; r++) {
        int kind = program->kind_of[r];
        if (!changed[kind] && grid_cell(&program->grid, r).role == GRID_STAGE) {
            set_buckets(program, r, &program->kinds[kind], config->buckets);
            change(context, program, r);
            program_renumber(&program->kinds[kind]);
        }
        changed[kind] = true;
    }
    free(changed);
}

static void change_rank(const void *context, struct program *program, int rank) {
    int group = *(const int *)context;
    struct rank_program *own = &program->kinds[program->kind_of[rank]];
    reduce_insert(&program->grid, own, INSTR_REDUCE, group);
    program_add(own, LIST_START, INSTR_BCAST)->group = (int16_t)group;
}

static enum status allreduce_insert(struct program *program, const struct sync_config *config) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    int group = reduce_group(program);
    reduce_each(program, config, change_rank, &group);
    return STATUS_OK;
}

const struct sync_policy sync_allreduce = {
    .name = "allreduce",
    .help = "sum of all replicas' gradients, in buckets, while backward runs",
    .insert = allreduce_insert};
