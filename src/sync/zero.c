/* ZeRO: the replicas of a stage each hold a slice of what all of them would hold alike, and update
 * that slice.
 *
 * Optimizer state (stage 1): where all-reduce sums a bucket, each replica gets the sum of its slice
 * alone (SCATTER), updates it, and all gather the new parameters (GATHER): as many bytes as an
 * all-reduce, which is the two one behind the other.
 *
 * Gradients (stage 2): a bucket is whole in a window, from the segment of backward that makes it
 * until it is scattered. With several micro-batches each of them is scattered for itself, so sums
 * over replicas come before those over micro-batches (sum replicas-first); who wants the order of
 * all-reduce keeps whole gradients, and the memory of stage 1.
 *
 * Parameters (stage 3): a bucket is whole from GATHER to FREE, around each segment that reads it.
 *
 * A replica that lacks a micro-batch in a short step takes part in its scatters and gathers. */
#include "sync/zero.h"

#include <stdlib.h>

#include "base/mem.h"

enum { WINDOWS = 2 }; /* one that backward writes, one that is scattered meanwhile */

static int at_most(int value, int limit) {
    return value < limit ? value : limit;
}

/* --- the order that all replicas follow --- */

static bool is_pass(const struct instr *instr) {
    return instr->op == INSTR_F || instr->op == INSTR_R || instr->op == INSTR_B ||
           instr->op == INSTR_I || instr->op == INSTR_W;
}

static struct instr_list passes_of(const struct instr_list *body) {
    struct instr_list list = {.items = MEM_ARRAY(struct instr, body->count + 1)};
    for (int i = 0; i < body->count; i++)
        if (is_pass(&body->items[i])) list.items[list.count++] = body->items[i];
    return list;
}

static struct instr_list *order_of(const struct program *program) {
    const struct grid *grid = &program->grid;
    struct instr_list *order = MEM_ARRAY(struct instr_list, grid->stages);
    for (int p = 0; p < grid->stages; p++)
        order[p] =
            passes_of(program_list(program, group_rank(grid, GROUP_PIPELINE, 0, p), LIST_BODY));
    return order;
}

static void order_free(struct instr_list *order, int positions) {
    for (int p = 0; p < positions; p++) free(order[p].items);
    free(order);
}

/* --- one rank --- */

int zero_ahead(const struct zero *zero, int stage) {
    return zero->config->prefetch ? zero->config->prefetch[stage] : 1;
}

/* Where two stages share gradients, those of the later stage wait for those of the earlier one. In
 * a loop or a V of chunks the later stage must go on meanwhile, or both would wait for ever: it has
 * a buffer for each micro-batch. */
int zero_buffers(const struct zero *zero, int position) {
    const struct program *program = zero->program;
    for (int t = 0; t < program->tie_count && zero->grid->chunks > 1; t++)
        if (grid_position(zero->grid, program->tie[t].stage) == position ||
            grid_position(zero->grid, program->tie[t].other) == position)
            return program->micro_batches;
    return 1;
}

static void set_sizes(const struct zero *zero, struct rank_program *rank, int position) {
    unsigned sliced = zero->config->sliced;
    for (int c = 0; c < rank->chunks; c++) {
        struct chunk_sizes *sizes = &rank->chunk[c];
        const bool *kept = zero->config->kept;
        sizes->kept = sliced != SLICED_STATE && kept && kept[grid_stage(zero->grid, position, c)];
        int places = sizes->buckets - sizes->kept;
        if (sliced & SLICED_GRADIENTS) sizes->windows = at_most(WINDOWS, places);
        if (sliced & SLICED_PARAMS)
            sizes->gathered =
                at_most(zero_ahead(zero, grid_stage(zero->grid, position, c)) + 1, places);
    }
    bool trains = rank->grads > 0; /* not all of its stages are frozen */
    if (sliced & SLICED_GRADIENTS && trains)
        rank->grads = GRAD_WINDOWS + zero_buffers(zero, position);
}

/* Forward reads the last bucket first: that one is gathered first. */
static void gather_all(const struct zero *zero, struct rank_program *rank, int position) {
    for (int c = 0; c < rank->chunks; c++) {
        for (int b = rank->chunk[c].buckets - 1; b >= 0; b--) {
            struct instr *gather = program_add(rank, LIST_BODY, INSTR_GATHER);
            gather->stage = (int16_t)grid_stage(zero->grid, position, c);
            gather->bucket = (int16_t)b;
            gather->group = (int16_t)zero->group;
        }
    }
}

/* Ranks own different elements: the norm is that of all. It may be under way when the next step has
 * begun, so its group is its own. */
static void end_step(const struct zero *zero, struct rank_program *rank) {
    struct instr_list *body = &rank->list[LIST_BODY];
    for (int i = 0; i < body->count; i++) {
        struct instr *instr = &body->items[i];
        bool norm = instr->op == INSTR_NORM;
        if (norm) instr->group = (int16_t)zero->norm_group;
        bool reads = (norm || instr->op == INSTR_STEP) && instr->grad != INSTR_ALL;
        if (reads && zero->config->sliced & SLICED_GRADIENTS) instr->grad = GRAD_SLICES;
    }
}

/* Tensors are written whole: after OPEN all buckets are collected, by way of a buffer that is
 * free between steps. */
static void add_collects(const struct zero *zero, struct rank_program *rank, int position) {
    struct instr_list old = rank->list[LIST_SAVE];
    rank->list[LIST_SAVE] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        *program_add(rank, LIST_SAVE, (enum instr_op)old.items[i].op) = old.items[i];
        if (old.items[i].op != INSTR_OPEN) continue;
        for (int c = 0; c < rank->chunks; c++) {
            for (int b = 0; b < rank->chunk[c].buckets; b++) {
                struct instr *collect = program_add(rank, LIST_SAVE, INSTR_COLLECT);
                collect->stage = (int16_t)grid_stage(zero->grid, position, c);
                collect->bucket = (int16_t)b;
                collect->grad = zero->config->sliced & SLICED_GRADIENTS ? GRAD_WINDOWS : 0;
                collect->group = (int16_t)zero->group;
            }
        }
    }
    free(old.items);
}

static void change_rank(const void *context, struct program *program, int rank) {
    const struct zero *zero = context;
    struct rank_program *own = &program->kinds[program->kind_of[rank]];
    int position = grid_cell(zero->grid, rank).position;
    unsigned sliced = zero->config->sliced;
    set_sizes(zero, own, position);
    if (program_is_forward(program)) {
        sync_share(own, zero->group);
        zero_evaluate(zero, own);
        return;
    }
    if (sliced == SLICED_STATE) {
        reduce_insert(program, rank, INSTR_SCATTER, zero->group);
    } else {
        struct zero_list list = zero_cut(zero, own, position);
        zero_gather(zero, &list, own, position);
        free(list.items);
    }
    end_step(zero, own);
    if (!(sliced & SLICED_PARAMS)) gather_all(zero, own, position);
    sync_share(own, zero->group);
    zero_evaluate(zero, own);
    add_collects(zero, own, position);
}

static enum status zero_insert(struct program *program, const struct sync_config *config) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    struct zero zero = {.config = config,
                        .program = program,
                        .tied = reduce_tied_group(program),
                        .grid = &program->grid,
                        .group = reduce_group(program),
                        .sum = program->sum,
                        .order = order_of(program)};
    if (!program_is_forward(program)) zero.norm_group = program_declare_group(program, GROUP_WORLD);
    program->sliced = config->sliced;
    if (config->sliced & SLICED_GRADIENTS && program->micro_batches > 1)
        program->sum = SUM_REPLICAS_FIRST;
    reduce_each(program, config, change_rank, &zero);
    order_free(zero.order, program->grid.stages);
    return STATUS_OK;
}

const struct sync_policy sync_zero = {
    .name = "zero",
    .help = "each replica holds and updates a slice: ZeRO, see --zero-stage",
    .verb = "sum",
    .what = "gradients",
    .acts = "zero-stage zero-accumulate zero-prefetch zero-keep",
    .implied_by = "zero-stage",
    .whole = "allreduce",
    .insert = zero_insert};
