/* See explain_recompute.h. What is saved is the difference of plans, not a formula: slots, shared
 * memory and what the halves of backward need all count. */
#include "view/explain_recompute.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "plan/resolve.h"

static enum status look_at(const struct plan *plan, const struct view_forecast *view, int positions,
                           struct recompute_mode *mode) {
    struct forecast forecast;
    for (int p = 0; p < positions; p++) {
        struct memory_estimate memory;
        TRY(plan_memory_of(plan, group_rank(&plan->config.grid, GROUP_PIPELINE, 0, p), &memory));
        mode->bytes[p] = memory.activations;
    }
    mode->flops = plan_recompute_flops(plan);
    if (view && forecast_new(plan, &view->costs, false, &forecast) == STATUS_OK) {
        mode->step = forecast.result.step;
        forecast_free(&forecast);
    }
    return STATUS_OK;
}

/* The first rank's program is that of all, and is simulated. */
static enum status look(const struct planned_run *planned, const struct view_forecast *view,
                        int positions, enum recompute_policy policy, struct recompute_mode *mode) {
    const struct run_config *of = &planned->plan->config;
    bool same = policy == of->recompute && of->memory_limit == 0 && of->cell.position == 0;
    SCOPED(plan_free) struct plan *plan = NULL;
    if (same && !planned->plan->given.name) return look_at(planned->plan, view, positions, mode);
    struct run_config other = resolve_to_compare(&planned->options, of, policy, of->micro_batches);
    other = resolve_for_rank(&other, group_rank(&of->grid, GROUP_PIPELINE, 0, 0), true);
    TRY(plan_new(&other, NULL, &plan));
    return look_at(plan, view, positions, mode);
}

/* A pass in segments is one. */
static void count_again(const struct plan *plan, struct recompute_cost *cost) {
    const struct instr_list *body = program_list(plan->program, plan->config.rank, LIST_BODY);
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i];
        cost->again += instr->op == INSTR_R && instr->segment <= 0;
        cost->micros += instr->op == INSTR_F && instr->segment <= 0;
    }
    cost->flops = plan_recompute_flops(plan);
}

/* Where each backward follows its forward these keep nothing back. */
static bool is_for_pipelines(enum recompute_policy policy) {
    return policy != RECOMPUTE_NEVER && policy != RECOMPUTE_ALWAYS_BLOCK;
}

enum status explain_recompute_cost_of(const struct planned_run *planned,
                                      const struct view_forecast *view,
                                      struct recompute_cost *out) {
    const struct run_config *config = &planned->plan->config;
    int stages = config->grid.stages;
    *out = (struct recompute_cost){.positions =
                                       stages < RECOMPUTE_POSITIONS ? stages : RECOMPUTE_POSITIONS};
    count_again(planned->plan, out);
    for (int i = 0; i < RECOMPUTE_POLICY_COUNT; i++) {
        enum recompute_policy policy = (enum recompute_policy)i;
        out->mode[i].bytes = MEM_ARRAY(size_t, out->positions);
        if (!view && policy != RECOMPUTE_NEVER && policy != config->recompute) continue;
        if (!pipeline_is(config->schedule) && is_for_pipelines(policy)) continue;
        TRY(look(planned, view, out->positions, policy, &out->mode[i]));
    }
    return STATUS_OK;
}

void explain_recompute_cost_free(struct recompute_cost *cost) {
    for (int i = 0; i < RECOMPUTE_POLICY_COUNT; i++) free(cost->mode[i].bytes);
    *cost = (struct recompute_cost){0};
}

void explain_recompute_cost_print(const struct recompute_cost *cost,
                                  const struct view_forecast *view, FILE *out) {
    char size[TEXT_BYTES], time[TEXT_BYTES];
    fprintf(out, "  recompute          more GFLOP  forecast of a step  activations%s\n",
            cost->positions > 1 ? " of each rank" : "");
    for (int i = 0; i < RECOMPUTE_POLICY_COUNT; i++) {
        const struct recompute_mode *mode = &cost->mode[i];
        if (mode->bytes[0] == 0) continue; /* not of this schedule */
        if (view->forecast.units)
            snprintf(time, sizeof time, "%g", mode->step);
        else
            text_duration(mode->step * 1e-9, time);
        fprintf(out, "  %-17s  %10.3f  %18s  ", recompute_policy_name((enum recompute_policy)i),
                mode->flops * 1e-9, time);
        for (int p = 0; p < cost->positions; p++)
            fprintf(out, "%s%s", p ? ", " : "", text_size((int64_t)mode->bytes[p], size));
        fprintf(out, "\n");
    }
}
