/* Forward over samples that are no data set's: a round of evaluation whose batch is the caller's.
 * The first pipeline runs it; others take part in what they share, as in a round without samples.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/engine.h"
#include "exec/state.h"

int64_t engine_apply_samples(const struct engine *engine, int64_t samples) {
    int64_t small = engine->plan->config.forward_batch, large = engine->plan->eval_batch;
    if (small > large) small = large, large = engine->plan->config.forward_batch;
    return small > 0 && samples <= small ? small : large;
}

static struct step_batch *batch_of(const struct engine *engine, int64_t samples,
                                   void *const *field) {
    const struct grid_cell *cell = &engine->plan->config.cell;
    bool first = cell->role == GRID_STAGE && cell->first_replica == 0;
    struct step_batch *batch = mem_new(sizeof *batch + sizeof batch->micro[0]);
    batch->micro_count = 1;
    batch->micro[0].samples = first ? samples : 0;
    for (int f = 0; f < engine->plan->config.dataset->field_count; f++)
        batch->micro[0].field[f] = field[f];
    return batch;
}

/* The output, out of the slot that evaluation runs in, where this rank has its stage. */
static enum status take_output(struct engine *engine, int64_t samples, void *output, bool *here) {
    const struct plan *plan = engine->plan;
    const struct micro_plan *micro = plan_micro(plan, samples, false);
    const struct grid_cell *cell = &plan->config.cell;
    int value = micro->graph->output, stage = ranges_output_stage(&micro->ranges);
    *here = cell->role == GRID_STAGE && cell->first_replica == 0 &&
            grid_position(&plan->program->grid, stage) == cell->position;
    if (!*here) return STATUS_OK;
    int slot = sizes_slot(plan->sizes, grid_chunk(&plan->program->grid, stage), 0);
    const struct runnable *runnable = &engine->runnable[micro - plan->micro];
    return layout_to_plain(plan->device, micro->graph->values[value].layout,
                           runnable->slot[slot].address[value], output);
}

static enum status run_round(struct engine *engine, int64_t samples, void *output, bool *here) {
    TRY(engine_run_list(engine, LIST_EVAL_START));
    TRY(engine_run_list(engine, LIST_EVAL));
    TRY(take_output(engine, samples, output, here));
    return engine_run_list(engine, LIST_EVAL_END);
}

enum status engine_apply(struct engine *engine, int64_t samples, void *const *field, void *output,
                         bool *here) {
    CHECK(engine_apply_samples(engine, samples) == samples, "%lld samples", (long long)samples);
    TRY(engine_settle(engine));
    struct step_batch *batch = batch_of(engine, samples, field);
    step_begin(engine->step);
    engine->step->batch = batch;
    enum status status = run_round(engine, samples, output, here);
    if (status != STATUS_OK) restore_statistics(engine);
    engine->step->batch = NULL;
    free(batch);
    return status;
}
