/* Local steps (DiLoCo, local SGD): replicas train apart and average at each step of so many.
 *
 * A body is a step of a replica alone: it counts its own labels and sums no gradients. The list
 * last is that step with the average behind it: how far each replica has come from the parameters
 * that all had after the average before (DELTA), summed, and taken as the gradient of an outer
 * optimizer (OUTER). Lists of their own for the average were rejected: it would not be a part of a
 * step, so neither the verifier nor the simulator nor virtual time would see what it costs.
 *
 * Losses and requests go to all ranks at every step: a few hundred bytes. So all stop, save and
 * evaluate after the same step.
 *
 * What is evaluated and saved is the mean of the replicas. */
#include "sync/mean.h"
#include "sync/reduce.h"
#include "sync/sync.h"

static void change_rank(const void *context, struct program *program, int number) {
    int group = *(const int *)context;
    struct rank_program *rank = &program->kinds[program->kind_of[number]];
    if (program_is_forward(program)) {
        sync_share(rank, group);
        return;
    }
    mean_train_apart(rank);
    program_copy_list(rank, LIST_BODY, LIST_LAST);
    program_add(rank, LIST_LAST, INSTR_DELTA)->grad = 0;
    mean_add_sums(rank, LIST_LAST, program, number, group);
    program_add(rank, LIST_LAST, INSTR_OUTER)->grad = 0;
    mean_insert(rank, program, number, group);
}

static enum status local_insert(struct program *program, const struct sync_config *config) {
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    int group = reduce_group(program);
    if (!program_is_forward(program)) program->every = config->every;
    reduce_each(program, config, change_rank, &group);
    return STATUS_OK;
}

const struct sync_policy sync_local = {
    .name = "local",
    .verb = "average",
    .what = "parameters",
    .help =
        "replicas train apart, and every so many steps an outer optimizer moves them by their mean",
    .acts = "sync-every outer-optimizer outer-lr outer-momentum",
    .apart = true,
    .insert = local_insert};
