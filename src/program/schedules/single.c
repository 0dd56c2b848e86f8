/* The whole model on each rank: micro-batches one after the other.
 *
 * With one rank and --deal RxM it replays on one device the split and the order of sums of R
 * replicas of M micro-batches, which is what other strategies are compared with; only replica 0
 * touches running statistics, as it would be there. With a rank for each replica every rank runs
 * its own micro-batches, and a sync policy adds the rest.
 *
 * Replicas of one device that share statistics cannot run one after the other: those at the same
 * place of their steps run together, each in a slot and with a gradient buffer of its own, so
 * memory is that of R devices. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/program.h"
#include "program/tree.h"

struct builder {
    const struct schedule_config *config;
    struct program *program;
    int rank;
    int first, last; /* replicas run here: [first, last) */
};

static struct instr *add(struct builder *builder, enum instr_op op) {
    return program_add(builder->program, builder->rank, LIST_BODY, op);
}

static bool has_samples(const struct builder *builder, int micro) {
    return !builder->config->samples || builder->config->samples[micro] > 0;
}

/* Does any replica have samples for the micro-batch at the same place of its step? */
static bool any_has_samples(const struct builder *builder, int micro) {
    int count = builder->config->micro_batches;
    for (int m = micro % count; m < builder->config->replicas * count; m += count)
        if (has_samples(builder, m)) return true;
    return false;
}

/* A rank that leaves out a micro-batch still takes part where the others share statistics. */
static void skip_micro(struct builder *builder, int micro) {
    if (!builder->config->shares || !any_has_samples(builder, micro)) return;
    add(builder, INSTR_STATS_F)->micro = micro;
    add(builder, INSTR_STATS_B)->micro = micro;
}

static void run_micro(struct builder *builder, int micro, int grad, bool fresh) {
    uint8_t shares = builder->config->shares ? INSTR_SHARES : 0;
    add(builder, INSTR_LOAD)->micro = micro;
    struct instr *forward = add(builder, INSTR_F);
    forward->micro = micro;
    if (builder->config->ranks == 1 && micro >= builder->config->micro_batches)
        forward->flags = INSTR_PURE;
    forward->flags |= shares;
    struct instr *backward = add(builder, INSTR_B);
    backward->micro = micro;
    backward->grad = (int16_t)grad;
    backward->flags = (fresh ? INSTR_NEW : 0) | shares;
}

static void tie(struct builder *builder, int grad) {
    add(builder, INSTR_TIE)->grad = (int16_t)grad;
}

/* Micro-batches of a replica in index order, then the tree over replicas. */
static int build_replica(struct builder *builder, struct sum_tree *tree) {
    int count = builder->config->micro_batches;
    for (int r = builder->first; r < builder->last; r++) {
        int grad = -1;
        for (int m = r * count; m < (r + 1) * count; m++) {
            if (!has_samples(builder, m)) {
                skip_micro(builder, m);
                continue;
            }
            bool fresh = grad < 0;
            if (fresh) grad = tree_take(tree);
            run_micro(builder, m, grad, fresh);
        }
        if (grad < 0) continue;
        tie(builder, grad);
        tree_push(tree, grad);
    }
    return tree_finish(tree);
}

static void leaf(struct builder *builder, struct sum_tree *tree, int micro) {
    if (!has_samples(builder, micro)) {
        skip_micro(builder, micro);
        return;
    }
    int grad = tree_take(tree);
    run_micro(builder, micro, grad, true);
    tie(builder, grad);
    tree_push(tree, grad);
}

/* The tree over all micro-batches: the same however they are spread over replicas. */
static int build_tree(struct builder *builder, struct sum_tree *tree) {
    int count = builder->config->micro_batches;
    for (int g = builder->first * count; g < builder->last * count; g++) leaf(builder, tree, g);
    return tree_finish(tree);
}

/* For each micro-batch index the tree over replicas, these in index order: a scatter per
 * micro-batch. */
static int build_replicas_first(struct builder *builder, struct sum_tree *tree) {
    int count = builder->config->micro_batches, total = -1;
    for (int m = 0; m < count; m++) {
        for (int r = builder->first; r < builder->last; r++) leaf(builder, tree, r * count + m);
        int sum = tree_finish(tree);
        if (sum < 0) continue;
        if (total < 0) {
            total = sum;
            continue;
        }
        struct instr *instr = add(builder, INSTR_SUM);
        instr->grad = (int16_t)total;
        instr->other = (int16_t)sum;
        tree->busy[sum] = false;
    }
    return total;
}

/* --- replicas of one device that share statistics --- */

/* The tree over buffers, level by level, into the first; returns it. */
static int add_tree(struct builder *builder, int *grad, int count) {
    for (; count > 1; count = (count + 1) / 2) {
        for (int i = 0; i + 1 < count; i += 2) {
            struct instr *sum = add(builder, INSTR_SUM);
            sum->grad = (int16_t)grad[i];
            sum->other = (int16_t)grad[i + 1];
            grad[i / 2] = grad[i];
        }
        if (count % 2) grad[count / 2] = grad[count - 1];
    }
    return grad[0];
}

/* What a step of replicas that run together needs to know of a micro-batch's gradient. */
struct leaf {
    int grad;
    bool there; /* it has samples, and is in its buffer */
};

/* The micro-batches at one place of all replicas' steps: all are loaded, then run forward as one,
 * then backward. A buffer that holds nothing yet is started. */
static void run_place(struct builder *builder, int place, struct leaf *leaf) {
    static const enum instr_op ops[] = {INSTR_LOAD, INSTR_F, INSTR_B};
    int replicas = builder->config->replicas, count = builder->config->micro_batches;
    for (int o = 0; o < 3; o++) {
        for (int r = 0; r < replicas; r++) {
            if (!has_samples(builder, r * count + place)) continue;
            struct instr *instr = add(builder, ops[o]);
            instr->micro = r * count + place;
            instr->slot = (int16_t)r;
            if (ops[o] != INSTR_LOAD) instr->flags = INSTR_SHARES;
            if (ops[o] == INSTR_F && r > 0) instr->flags |= INSTR_PURE;
            if (ops[o] != INSTR_B) continue;
            instr->grad = (int16_t)leaf[r].grad;
            if (!leaf[r].there) instr->flags |= INSTR_NEW;
            leaf[r].there = true;
        }
    }
}

/* Ties the buffers that hold something and adds them by the tree; returns the sum's, or -1. */
static int add_leaves(struct builder *builder, const struct leaf *leaf, int count) {
    int *part = MEM_ARRAY(int, count), found = 0;
    for (int i = 0; i < count; i++)
        if (leaf[i].there) part[found++] = leaf[i].grad;
    for (int i = 0; i < found; i++) tie(builder, part[i]);
    int sum = found ? add_tree(builder, part, found) : -1;
    free(part);
    return sum;
}

/* A buffer for each replica, which all its places go to. */
static int together_replica(struct builder *builder, struct leaf *leaf) {
    int replicas = builder->config->replicas;
    for (int r = 0; r < replicas; r++) leaf[r].grad = r;
    for (int place = 0; place < builder->config->micro_batches; place++)
        run_place(builder, place, leaf);
    builder->program->grads = replicas;
    return add_leaves(builder, leaf, replicas);
}

/* A buffer for each micro-batch: they come by place, the tree wants them by replica. */
static int together_tree(struct builder *builder, struct leaf *leaf) {
    int replicas = builder->config->replicas, places = builder->config->micro_batches;
    struct leaf *all = MEM_ARRAY(struct leaf, replicas * places);
    for (int place = 0; place < places; place++) {
        for (int r = 0; r < replicas; r++) leaf[r] = (struct leaf){r * places + place, false};
        run_place(builder, place, leaf);
        for (int r = 0; r < replicas; r++) all[r * places + place] = leaf[r];
    }
    builder->program->grads = replicas * places;
    int sum = add_leaves(builder, all, replicas * places);
    free(all);
    return sum;
}

/* A buffer for each replica, and buffer 0 for the sum of the places before. */
static int together_replicas_first(struct builder *builder, struct leaf *leaf) {
    int replicas = builder->config->replicas, places = builder->config->micro_batches, total = -1;
    for (int place = 0; place < places; place++) {
        for (int r = 0; r < replicas; r++) leaf[r] = (struct leaf){r + (total >= 0), false};
        run_place(builder, place, leaf);
        int sum = add_leaves(builder, leaf, replicas);
        if (total < 0)
            total = sum;
        else if (sum >= 0)
            add_tree(builder, (int[]){total, sum}, 2);
    }
    builder->program->grads = replicas + (places > 1);
    return total;
}

static int build_together(struct builder *builder) {
    static int (*const orders[])(struct builder *,
                                 struct leaf *) = {[SUM_REPLICA] = together_replica,
                                                   [SUM_TREE] = together_tree,
                                                   [SUM_REPLICAS_FIRST] = together_replicas_first};
    struct leaf *leaf = MEM_ARRAY(struct leaf, builder->config->replicas);
    int grad = orders[builder->config->sum](builder, leaf);
    builder->program->slots = builder->config->replicas;
    free(leaf);
    return grad;
}

static void build_rank(struct builder *builder) {
    static int (*const orders[])(struct builder *,
                                 struct sum_tree *) = {[SUM_REPLICA] = build_replica,
                                                       [SUM_TREE] = build_tree,
                                                       [SUM_REPLICAS_FIRST] = build_replicas_first};
    struct sum_tree tree = {.program = builder->program, .rank = builder->rank};
    add(builder, INSTR_COUNT);
    bool together = builder->config->shares && builder->config->ranks == 1;
    int grad = together ? build_together(builder) : orders[builder->config->sum](builder, &tree);
    if (grad < 0) {
        grad = tree_take(&tree);
        add(builder, INSTR_ZERO)->grad = (int16_t)grad;
        tie(builder, grad);
    }
    add(builder, INSTR_NORM)->grad = (int16_t)grad;
    add(builder, INSTR_STEP)->grad = (int16_t)grad;
}

/* Sums inside a rank come before those between ranks: an order that wants it otherwise is refused.
 */
static enum status check_order(const struct schedule_config *config) {
    int micros = config->micro_batches;
    if (config->ranks == 1) return STATUS_OK;
    if (config->sum == SUM_REPLICAS_FIRST && micros > 1)
        return fail(STATUS_USAGE,
                    "--sum replicas-first needs one rank (--deal), or one micro-batch a rank");
    if (config->sum == SUM_TREE && (micros & (micros - 1)) != 0)
        return fail(STATUS_USAGE,
                    "--sum tree over ranks needs a power of two of micro-batches a rank, not %d",
                    micros);
    return STATUS_OK;
}

/* Each of them has a gradient buffer, and each replica a slot. */
static enum status check_room(const struct schedule_config *config) {
    int64_t most = (int64_t)config->replicas * config->micro_batches;
    if (!config->shares || config->ranks > 1 || most < PROGRAM_MAX_SMALL) return STATUS_OK;
    return fail(STATUS_USAGE, "--sync-bn on one device: %lld micro-batches at once, at most %d",
                (long long)most, PROGRAM_MAX_SMALL - 1);
}

static enum status single_build(const struct schedule_config *config, struct program **out) {
    TRY(check_order(config));
    CHECK(!config->shares || config->replicas > 1, "one replica shares statistics with nobody");
    TRY(check_room(config));
    struct program *program =
        program_new(config->ranks, 1, config->replicas, config->micro_batches, config->sum);
    for (int r = 0; r < config->ranks; r++) {
        bool alone = config->ranks == 1;
        struct builder builder = {.config = config,
                                  .program = program,
                                  .rank = r,
                                  .first = alone ? 0 : r,
                                  .last = alone ? config->replicas : r + 1};
        build_rank(&builder);
    }
    *out = program;
    return STATUS_OK;
}

const struct schedule schedule_single = {
    .name = "single",
    .help = "the whole model on each rank, micro-batches one after the other",
    .build = single_build};
