/* See explain_recompute.h. The saving is the difference of two plans, not a formula: slots, shared
 * memory and what the halves of backward need all count. */
#include "cli/explain_recompute.h"

#include <stdlib.h>

#include "base/mem.h"

static enum status activations_at(const struct run_config *of, int position,
                                  enum recompute_policy policy, size_t *out) {
    struct run_config config = *of;
    struct plan *plan;
    config.rank = group_rank(&config.grid, GROUP_PIPELINE, 0, position);
    config.cell = grid_cell(&config.grid, config.rank);
    config.recompute = policy;
    config.dry = true;
    config.memory_limit = 0; /* auto, too, shall make both */
    TRY(plan_new(&config, NULL, NULL, &plan));
    *out = plan->memory.activations;
    plan_free(&plan);
    return STATUS_OK;
}

static void count_again(const struct plan *plan, struct recompute_cost *cost) {
    const struct instr_list *body = program_list(plan->program, plan->config.rank, LIST_BODY);
    for (int i = 0; i < body->count; i++) {
        cost->again += body->items[i].op == INSTR_R;
        cost->micros += body->items[i].op == INSTR_F;
    }
    cost->flops = plan_recompute_flops(plan);
}

enum status recompute_cost_of(const struct job *job, struct recompute_cost *out) {
    const struct run_config *config = &job->plan->config;
    int positions = config->grid.stages;
    *out = (struct recompute_cost){.positions = positions,
                                   .bytes = MEM_ARRAY(size_t, positions),
                                   .kept_bytes = MEM_ARRAY(size_t, positions)};
    count_again(job->plan, out);
    for (int p = 0; p < positions; p++) {
        TRY(activations_at(config, p, config->recompute, &out->bytes[p]));
        TRY(activations_at(config, p, RECOMPUTE_NEVER, &out->kept_bytes[p]));
    }
    return STATUS_OK;
}

void recompute_cost_free(struct recompute_cost *cost) {
    free(cost->bytes);
    free(cost->kept_bytes);
    *cost = (struct recompute_cost){0};
}
