/* All-reduce: every replica ends a step with the sum of all gradients.
 *
 * Where the last backward of a stage writes straight into the buffer that STEP reads, it is cut
 * into segments and each bucket is posted as soon as its segment is done, so that reduction and
 * backward overlap; where sums inside the rank come after it (--sum tree), all buckets are posted
 * behind them.
 *
 * A bucket of parameters that two stages share is reduced last. Between ranks it is joined first,
 * and a reduction awaits that: right behind JOIN the later stage would wait for the end of the
 * earlier one, which waits for its gradients. On one rank the bucket may be whole later than the
 * others, and all replicas reduce in the same order.
 *
 * Replicas must post in the same order. In a short step they run different micro-batches, and the
 * stages of a rank may be whole in different orders: there all are posted at the end. */
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
    if (instr->op == INSTR_JOIN) return false; /* it follows a TIE and its place */
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

static struct whole find_whole(const struct instr_list *body, int stage, int grad) {
    struct whole whole = {last_writer(body, body->count, stage, grad), -1};
    if (whole.tie < 0 || body->items[whole.tie].op != INSTR_TIE) return whole;
    int before = last_writer(body, whole.tie, stage, grad);
    bool pass =
        before >= 0 && (body->items[before].op == INSTR_B || body->items[before].op == INSTR_W);
    if (pass) whole.pass = before;
    return whole;
}

/* The buffer that STEP reads. */
static int final_grad(const struct instr_list *body) {
    for (int i = body->count - 1; i >= 0; i--)
        if (body->items[i].op == INSTR_STEP) return body->items[i].grad;
    return 0;
}

struct copy {
    const struct program *program;
    struct rank_program *out;
    enum instr_op op; /* that sums a bucket */
    int group, tied;  /* the replicas; the ranks that share parameters */
    bool alike;       /* the replicas of this position run the same */
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
    if (op == INSTR_JOIN) instr->group = (int16_t)copy->tied;
}

/* In a pass that is cut already, this is one of its segments. */
static void append_segments(struct copy *copy, const struct instr *pass, int buckets) {
    bool cut = pass->segment != INSTR_ALL;
    for (int b = cut ? pass->segment : 0; b < (cut ? pass->segment + 1 : buckets); b++) {
        const struct program_tie *tie = program_tie_at(copy->program, pass->stage, b);
        append(copy, pass)->segment = (int16_t)b;
        if (tie && !tie_is_apart(tie)) continue; /* its TIE stays where it is */
        append_bucket(copy, INSTR_TIE, b, pass);
        append_bucket(copy, tie ? INSTR_JOIN : copy->op, b, pass);
    }
}

/* Where the TIE of all buckets was that are tied segment by segment now. */
static void append_late_tie(struct copy *copy, const struct instr *old) {
    const struct program_tie *tie = program_tie_of(copy->program, old->stage);
    if (tie && !tie_is_apart(tie) && tie->stage == old->stage)
        append_bucket(copy, INSTR_TIE, tie->bucket, old);
}

static void reduce_tied(struct copy *copy, int position, int grad) {
    const struct program *program = copy->program;
    for (int t = 0; t < program->tie_count; t++) {
        const struct program_tie *tie = &program->tie[t];
        struct instr first = {.stage = (int16_t)tie->stage, .grad = (int16_t)grad},
                     second = {.stage = (int16_t)tie->other, .grad = (int16_t)grad};
        if (grid_position(&program->grid, tie->stage) == position)
            append_bucket(copy, copy->op, tie->bucket, &first);
        if (tie_is_apart(tie) && grid_position(&program->grid, tie->other) == position)
            append_bucket(copy, copy->op, tie->other_bucket, &second);
    }
}

static bool same_pass(const struct instr *a, const struct instr *b) {
    return a->op == b->op && a->stage == b->stage && a->micro == b->micro;
}

/* One instruction of the old body; `whole` is of the chunk it belongs to, or NULL. */
static void copy_instr(struct copy *copy, const struct instr_list *old, int at,
                       const struct whole *whole, int buckets) {
    const struct instr *instr = &old->items[at];
    if (whole && whole->pass >= 0 && same_pass(instr, &old->items[whole->pass])) {
        append_segments(copy, instr, buckets);
        return;
    }
    if (whole && instr->op == INSTR_JOIN && whole->pass >= 0) return; /* is among the segments */
    if (whole && at == whole->tie && whole->pass >= 0) {
        append_late_tie(copy, instr);
        return;
    }
    append(copy, instr);
    if (!whole || at != whole->tie || !copy->alike) return;
    for (int b = 0; b < buckets; b++)
        if (!program_tie_at(copy->program, instr->stage, b))
            append_bucket(copy, copy->op, b, instr);
}

/* All buckets of all stages, the last stage's first. */
static void append_all(struct copy *copy, const struct instr_list *old, const struct whole *whole) {
    for (int c = copy->out->chunks - 1; c >= 0; c--)
        for (int b = 0; b < copy->out->chunk[c].buckets; b++)
            if (!program_tie_at(copy->program, old->items[whole[c].tie].stage, b))
                append_bucket(copy, copy->op, b, &old->items[whole[c].tie]);
}

static int last_whole(const struct whole *whole, int chunks) {
    int last = -1;
    for (int c = 0; c < chunks; c++)
        if (whole[c].tie > last) last = whole[c].tie;
    return last;
}

int reduce_tied_group(const struct program *program) {
    int group = 0;
    while (group < program->group_count && program->group[group] != GROUP_TIED) group++;
    return group;
}

/* Do all replicas of a rank's position run what it runs? */
static bool replicas_alike(const struct program *program, int rank) {
    const struct grid *grid = &program->grid;
    int index = group_of(grid, GROUP_REPLICAS, rank), count = group_size(grid, GROUP_REPLICAS, 0);
    for (int r = 0; r < count; r++)
        if (program->kind_of[group_rank(grid, GROUP_REPLICAS, index, r)] != program->kind_of[rank])
            return false;
    return true;
}

void reduce_insert(struct program *program, int number, enum instr_op op, int group) {
    const struct grid *grid = &program->grid;
    struct rank_program *rank = &program->kinds[program->kind_of[number]];
    struct instr_list old = rank->list[LIST_BODY];
    struct whole whole[GRID_MAX_CHUNKS];
    struct copy copy = {.program = program,
                        .out = rank,
                        .op = op,
                        .group = group,
                        .tied = reduce_tied_group(program),
                        .alike = rank->chunks == 1 || replicas_alike(program, number)};
    int position = grid_cell(grid, number).position;
    int stage_of[GRID_MAX_CHUNKS] = {0}, grad = final_grad(&old);
    for (int i = 0; i < old.count; i++)
        if (strchr(instr_row(&old.items[i])->operands, 's'))
            stage_of[grid_chunk(grid, old.items[i].stage)] = old.items[i].stage;
    for (int c = 0; c < rank->chunks; c++) {
        whole[c] = find_whole(&old, stage_of[c], grad);
        if (!copy.alike) whole[c].pass = -1;
    }
    rank->list[LIST_BODY] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        bool staged = strchr(instr_row(&old.items[i])->operands, 's');
        int chunk = staged ? grid_chunk(grid, old.items[i].stage) : 0;
        if (old.items[i].op == INSTR_REPORT) reduce_tied(&copy, position, grad);
        copy_instr(&copy, &old, i, staged ? &whole[chunk] : NULL, rank->chunk[chunk].buckets);
        if (!copy.alike && i == last_whole(whole, rank->chunks)) append_all(&copy, &old, whole);
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
    SCOPED_FREE bool *changed = MEM_ARRAY(bool, program->kind_count + 1);
    for (int r = 0; r < program->ranks; r++) {
        int kind = program->kind_of[r];
        if (!changed[kind] && grid_cell(&program->grid, r).role == GRID_STAGE) {
            set_buckets(program, r, &program->kinds[kind], config->buckets);
            change(context, program, r);
            program_renumber(&program->kinds[kind]);
        }
        changed[kind] = true;
    }
}

static void change_rank(const void *context, struct program *program, int rank) {
    int group = *(const int *)context;
    if (!program_is_forward(program)) reduce_insert(program, rank, INSTR_REDUCE, group);
    sync_share(&program->kinds[program->kind_of[rank]], group);
}

static enum status allreduce_insert(struct program *program, const struct sync_config *config) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    int group = reduce_group(program);
    reduce_each(program, config, change_rank, &group);
    return STATUS_OK;
}

const struct sync_policy sync_allreduce = {
    .name = "allreduce",
    .verb = "sum",
    .what = "gradients",
    .help = "sum of all replicas' gradients, in buckets, while backward runs",
    .insert = allreduce_insert};
