/* The whole model on each rank: micro-batches one after the other.
 *
 * With one rank and --deal RxM it replays on one device the split and the order of sums of R
 * replicas of M micro-batches, which is what other strategies are compared with. With a rank for
 * each replica every rank runs its own micro-batches, and a sync policy adds the rest.
 *
 * Replicas of one device that share statistics cannot run one after the other: those at the same
 * place of their steps run together, each in a slot and with a gradient buffer of its own, so
 * memory is that of R devices. */
#include "base/log.h"
#include "base/mem.h"
#include "program/emit.h"

static void put(struct pipeline_order *order, enum instr_op op, int micro) {
    pipeline_order_add(order, (struct pipeline_op){.op = (uint8_t)op, .micro = micro});
}

static void run_micro(struct pipeline_order *order, int micro) {
    put(order, INSTR_F, micro);
    put(order, INSTR_B, micro);
}

/* All are loaded, then run forward as one, then backward. */
static void run_place(struct pipeline_order *order, int place, int replicas, int places) {
    static const enum instr_op ops[] = {INSTR_LOAD, INSTR_F, INSTR_B};
    for (int i = 0; i < 3 * replicas; i++)
        put(order, ops[i / replicas], i % replicas * places + place);
}

/* Replica by replica; by place where they share statistics, or are added so. */
static void single_build(const struct schedule_config *config, const struct program *program,
                         int rank, struct rank_program *out) {
    int replicas = grid_cell(&config->grid, rank).replica_count, places = config->micro_batches;
    bool together = config->shares && replicas > 1, by_place = config->sum == SUM_REPLICAS_FIRST;
    SCOPED(pipeline_order_free) struct pipeline_order order = {0};
    for (int i = 0; i < replicas * places && !together; i++)
        run_micro(&order, by_place ? i % replicas * places + i / replicas : i);
    for (int p = 0; p < places && together; p++) run_place(&order, p, replicas, places);
    emit_rank(config, program, &order, rank, out);
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
    emit_declare(config, program);
    return STATUS_OK;
}

const struct schedule schedule_single = {
    .name = "single",
    .help = "the whole model on each rank, micro-batches one after the other",
    .prepare = single_prepare,
    .build = single_build};
