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
#include "program/schedule.h"
#include "program/tree.h"

struct builder {
    const struct schedule_config *config;
    struct rank_program *out;
    int first;    /* micro-batch of the step that is the rank's first */
    int replicas; /* that this rank runs */
    int group;    /* that shares statistics, or INSTR_ALL */
};

enum { EVERYONE, SHARERS }; /* the groups, in the order prepare declares them */

static struct instr *add(struct builder *builder, enum instr_op op) {
    return program_add(builder->out, LIST_BODY, op);
}

static bool has_samples(const struct builder *builder, int micro) {
    return !builder->config->samples || builder->config->samples[builder->first + micro] > 0;
}

/* Does any replica have samples for the micro-batch at the same place of its step? */
static bool any_has_samples(const struct builder *builder, int micro) {
    const int64_t *samples = builder->config->samples;
    int count = builder->config->micro_batches;
    for (int m = micro % count; samples && m < builder->config->grid.replicas * count; m += count)
        if (samples[m] > 0) return true;
    return !samples;
}

/* A rank that leaves out a micro-batch still takes part where the others share statistics. */
static void skip_micro(struct builder *builder, int micro) {
    if (builder->group == INSTR_ALL || !any_has_samples(builder, micro)) return;
    static const enum instr_op ops[] = {INSTR_STATS_F, INSTR_STATS_B};
    for (int i = 0; i < 2; i++) {
        struct instr *instr = add(builder, ops[i]);
        instr->micro = micro;
        instr->group = (int16_t)builder->group;
    }
}

/* Segments of backward that forward is run again for, one by one; 0: it keeps all. */
static int blocks_of(const struct builder *builder) {
    bool blocks = builder->config->recompute == RECOMPUTE_ALWAYS_BLOCK;
    return blocks && builder->config->buckets ? builder->config->buckets[0] : 0;
}

static void run_again(struct builder *builder, int micro, int16_t segment) {
    struct instr *again = add(builder, INSTR_R);
    again->micro = micro;
    again->segment = segment;
}

static void run_micro(struct builder *builder, int micro, int grad, bool fresh) {
    add(builder, INSTR_LOAD)->micro = micro;
    struct instr *forward = add(builder, INSTR_F);
    forward->micro = micro;
    forward->group = (int16_t)builder->group;
    if (micro >= builder->config->micro_batches) forward->flags = INSTR_PURE;
    if (blocks_of(builder) > 0) forward->flags |= INSTR_BLOCK;
    for (int e = 0; e < blocks_of(builder) || e == 0; e++) {
        int16_t segment = (int16_t)(blocks_of(builder) > 1 ? e : INSTR_ALL);
        if (blocks_of(builder) > 0) run_again(builder, micro, segment);
        struct instr *backward = add(builder, INSTR_B);
        backward->micro = micro;
        backward->segment = segment;
        backward->grad = (int16_t)grad;
        backward->group = (int16_t)builder->group;
        if (fresh) backward->flags = INSTR_NEW;
    }
}

static void tie(struct builder *builder, int grad) {
    add(builder, INSTR_TIE)->grad = (int16_t)grad;
}

/* Micro-batches of a replica in index order, then the tree over replicas. */
static int build_replica(struct builder *builder, struct sum_tree *tree) {
    int count = builder->config->micro_batches;
    for (int r = 0; r < builder->replicas; r++) {
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
    for (int m = 0; m < builder->replicas * count; m++) leaf(builder, tree, m);
    return tree_finish(tree);
}

/* For each micro-batch index the tree over replicas, these in index order: a scatter per
 * micro-batch. */
static int build_replicas_first(struct builder *builder, struct sum_tree *tree) {
    int count = builder->config->micro_batches, total = -1;
    for (int m = 0; m < count; m++) {
        for (int r = 0; r < builder->replicas; r++) leaf(builder, tree, r * count + m);
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
    int replicas = builder->replicas, count = builder->config->micro_batches;
    for (int o = 0; o < 3; o++) {
        for (int r = 0; r < replicas; r++) {
            if (!has_samples(builder, r * count + place)) continue;
            struct instr *instr = add(builder, ops[o]);
            instr->micro = r * count + place;
            instr->slot = (int16_t)r;
            if (ops[o] != INSTR_LOAD) instr->group = (int16_t)builder->group;
            if (ops[o] == INSTR_F && r > 0) instr->flags = INSTR_PURE;
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
    int replicas = builder->replicas;
    for (int r = 0; r < replicas; r++) leaf[r].grad = r;
    for (int place = 0; place < builder->config->micro_batches; place++)
        run_place(builder, place, leaf);
    builder->out->grads = replicas;
    return add_leaves(builder, leaf, replicas);
}

/* A buffer for each micro-batch: they come by place, the tree wants them by replica. */
static int together_tree(struct builder *builder, struct leaf *leaf) {
    int replicas = builder->replicas, places = builder->config->micro_batches;
    struct leaf *all = MEM_ARRAY(struct leaf, replicas * places);
    for (int place = 0; place < places; place++) {
        for (int r = 0; r < replicas; r++) leaf[r] = (struct leaf){r * places + place, false};
        run_place(builder, place, leaf);
        for (int r = 0; r < replicas; r++) all[r * places + place] = leaf[r];
    }
    builder->out->grads = replicas * places;
    int sum = add_leaves(builder, all, replicas * places);
    free(all);
    return sum;
}

/* A buffer for each replica, and buffer 0 for the sum of the places before. */
static int together_replicas_first(struct builder *builder, struct leaf *leaf) {
    int replicas = builder->replicas, places = builder->config->micro_batches, total = -1;
    for (int place = 0; place < places; place++) {
        for (int r = 0; r < replicas; r++) leaf[r] = (struct leaf){r + (total >= 0), false};
        run_place(builder, place, leaf);
        int sum = add_leaves(builder, leaf, replicas);
        if (total < 0)
            total = sum;
        else if (sum >= 0)
            add_tree(builder, (int[]){total, sum}, 2);
    }
    builder->out->grads = replicas + (places > 1);
    return total;
}

static int build_together(struct builder *builder) {
    static int (*const orders[])(struct builder *,
                                 struct leaf *) = {[SUM_REPLICA] = together_replica,
                                                   [SUM_TREE] = together_tree,
                                                   [SUM_REPLICAS_FIRST] = together_replicas_first};
    struct leaf *leaf = MEM_ARRAY(struct leaf, builder->replicas);
    int grad = orders[builder->config->sum](builder, leaf);
    builder->out->chunk[0].slots = builder->replicas;
    free(leaf);
    return grad;
}

static void build_sums(struct builder *builder) {
    static int (*const orders[])(struct builder *,
                                 struct sum_tree *) = {[SUM_REPLICA] = build_replica,
                                                       [SUM_TREE] = build_tree,
                                                       [SUM_REPLICAS_FIRST] = build_replicas_first};
    struct sum_tree tree = {.out = builder->out};
    bool together = builder->group != INSTR_ALL && builder->replicas > 1;
    int grad = together ? build_together(builder) : orders[builder->config->sum](builder, &tree);
    if (grad < 0) {
        grad = tree_take(&tree);
        add(builder, INSTR_ZERO)->grad = (int16_t)grad;
        tie(builder, grad);
    }
    add(builder, INSTR_REPORT)->group = EVERYONE;
    add(builder, INSTR_NORM)->grad = (int16_t)grad;
    program_add_step(builder->out, grad, builder->config->clips);
}

static void single_build(const struct schedule_config *config, const struct program *program,
                         int rank, struct rank_program *out) {
    struct grid_cell cell = grid_cell(&config->grid, rank);
    struct builder builder = {.config = config,
                              .out = out,
                              .first = program_first_micro(program, rank),
                              .replicas = cell.replica_count,
                              .group = config->shares ? SHARERS : INSTR_ALL};
    if (blocks_of(&builder) > 0) out->chunk[0].buckets = blocks_of(&builder);
    add(&builder, INSTR_COUNT)->group = EVERYONE;
    build_sums(&builder);
}

/* Each of them has a gradient buffer, and each replica a slot. */
static enum status check_room(const struct schedule_config *config) {
    int64_t most = (int64_t)config->grid.replicas * config->micro_batches;
    if (!config->shares || grid_ranks(&config->grid) > 1 || most < PROGRAM_MAX_SMALL)
        return STATUS_OK;
    return fail(STATUS_USAGE, "--sync-bn on one device: %lld micro-batches at once, at most %d",
                (long long)most, PROGRAM_MAX_SMALL - 1);
}

/* Passes in lockstep are not cut. */
static enum status check_blocks(const struct schedule_config *config) {
    if (config->recompute != RECOMPUTE_ALWAYS_BLOCK || !config->shares ||
        grid_ranks(&config->grid) > 1)
        return STATUS_OK;
    return fail(STATUS_USAGE,
                "--recompute %s with --sync-bn on one device: its replicas run in lockstep, block "
                "by block they cannot\n  a rank for each replica (-n %d --strategy ddp), or "
                "--recompute never",
                recompute_policy_name(config->recompute), config->grid.replicas);
}

static enum status single_prepare(const struct schedule_config *config, struct program *program) {
    CHECK(!config->shares || config->grid.replicas > 1,
          "one replica shares statistics with nobody");
    CHECK(config->grid.stages == 1 && config->grid.chunks == 1, "the whole model on each rank");
    TRY(check_room(config));
    TRY(check_blocks(config));
    program_declare_group(program, GROUP_WORLD);
    if (config->shares) program_declare_group(program, GROUP_REPLICAS);
    return STATUS_OK;
}

const struct schedule schedule_single = {
    .name = "single",
    .help = "the whole model on each rank, micro-batches one after the other",
    .prepare = single_prepare,
    .build = single_build};
