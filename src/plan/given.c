/* See given.h. */
#include "plan/given.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static enum status check_program(const struct plan *plan, const char *name) {
    const struct run_config *config = &plan->config;
    const struct program *program = plan->program;
    if (program->ranks != config->ranks || program->grid.stages != 1 ||
        program->grid.replicas != config->replicas ||
        program->micro_batches != config->micro_batches)
        return fail(STATUS_USAGE,
                    "%s: the program is for %d rank(s), %d stage(s), %d replica(s) x %d "
                    "micro-batch(es); this run has %d, 1, %d x %d",
                    name, program->ranks, program->grid.stages, program->grid.replicas,
                    program->micro_batches, config->ranks, config->replicas, config->micro_batches);
    if (program_shares(program) != config->sync_bn)
        return fail(STATUS_USAGE, "%s: the program's F and B %s statistics, this run is %s", name,
                    config->sync_bn ? "do not share" : "share",
                    config->sync_bn ? "with --sync-bn" : "without --sync-bn");
    if (program->sum == config->sum) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: the program adds gradients in the order %s, this run in %s\n  --sum %s", name,
                sum_order_name(program->sum), sum_order_name(config->sum),
                sum_order_name(program->sum));
}

/* Sums that need no buckets may be of one. */
static enum status check_buckets(const struct plan *plan, const char *name) {
    const struct rank_program *own = program_of(plan->program, plan->config.rank);
    for (int c = 0; c < plan->chunk_count; c++) {
        int have = own->chunk[c].buckets, want = plan->chunk[c].buckets.count;
        bool joined = have == 1 && group_size(&plan->config.grid, GROUP_REPLICAS, 0) == 1 &&
                      !program_tie_of(plan->program, plan->chunk[c].stage);
        if (have == want || joined) continue;
        return fail(STATUS_USAGE, "%s: stage %d has %d buckets in the program, %d in this model",
                    name, plan->chunk[c].stage, have, want);
    }
    return STATUS_OK;
}

enum status given_check(const struct plan *plan, const char *name) {
    TRY(check_program(plan, name));
    TRY(ties_check(&plan->ties, plan->program, name));
    TRY(program_verify(plan->program, NULL));
    return check_buckets(plan, name);
}

static void groups_text(const struct program *program, char *text, size_t bytes) {
    text[0] = 0;
    for (int g = 0; g < program->group_count; g++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", g ? " " : "",
                 group_family_name(program->group[g]));
    }
}

/* Both programs of a run name groups by their number: they must declare the same. */
enum status given_check_last(const struct plan *plan, const char *name) {
    char own[128], last[128];
    groups_text(plan->program, own, sizeof own);
    groups_text(plan->last_program, last, sizeof last);
    if (strcmp(own, last) == 0) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: groups \"%s\", the short last step of an epoch has \"%s\"\n"
                "  declare the same groups in the same order, or --drop-last",
                name, own, last);
}
