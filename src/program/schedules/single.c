/* The whole model on each rank: micro-batches one after the other.
 *
 * With one rank and --deal RxM it replays on one device the split and the order of sums of R
 * replicas of M micro-batches, which is what other strategies are compared with; only replica 0
 * touches running statistics, as it would be there. With a rank for each replica every rank runs
 * its own micro-batches, and a sync policy adds the rest. */
#include "base/log.h"
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

static void build_rank(struct builder *builder) {
    static int (*const orders[])(struct builder *,
                                 struct sum_tree *) = {[SUM_REPLICA] = build_replica,
                                                       [SUM_TREE] = build_tree,
                                                       [SUM_REPLICAS_FIRST] = build_replicas_first};
    struct sum_tree tree = {.program = builder->program, .rank = builder->rank};
    add(builder, INSTR_COUNT);
    int grad = orders[builder->config->sum](builder, &tree);
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

static enum status single_build(const struct schedule_config *config, struct program **out) {
    TRY(check_order(config));
    CHECK(!config->shares || config->ranks > 1, "one rank shares statistics with nobody");
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
