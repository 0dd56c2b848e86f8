/* Planning with `auto`: the choice is made, or rank 0's is taken over as it came: the texts of its
 * programs. They are verified like any other. */
#include "plan/plan_auto.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "plan/cut.h"
#include "plan/resolve.h"

bool plan_is_auto(const struct run_config *config) {
    return strcmp(config->schedule, PIPELINE_AUTO) == 0;
}

/* Gradient buffers of a rank: a tree has one for each of its levels at most. */
static int grads_of(const struct run_config *config) {
    int grads = 1;
    if (config->sum == SUM_REPLICA) return grads;
    for (int m = 1; m < config->micro_batches; m *= 2) grads++;
    return grads + 1;
}

/* The loader; and parameters in plain layout, one at a time. */
static size_t other_bytes(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    const struct run_config *config = &plan->config;
    size_t largest = 0;
    for (int p = 0; p < graph->param_count; p++) {
        const struct value *value = &graph->values[graph->params[p].value];
        size_t bytes = 2 * tensor_type_bytes(&value->type);
        if (bytes > largest) largest = bytes;
    }
    return largest + loader_bytes(config->dataset, &plan->train_loader) +
           loader_bytes(config->dataset, &plan->eval_loader);
}

static void settle(struct plan *plan, int chunks, bool v_shape) {
    struct run_config config = resolve_for_shape(&plan->config, chunks, v_shape);
    plan_configure(plan, &config);
}

static enum status take_agreed(struct plan *plan) {
    const struct bytes *text = plan->given.agreed;
    TRY(program_parse(PLAN_AGREED, (const char *)text->data, text->count, &plan->program));
    settle(plan, plan->program->grid.chunks, plan->program->grid.v_shape);
    return STATUS_OK;
}

enum status plan_choose(struct plan *plan) {
    const struct run_config *config = &plan->config;
    const struct choice *chosen = plan->given.chosen;
    if (!plan_is_auto(config)) return STATUS_OK;
    if (plan->given.agreed) return take_agreed(plan);
    if (chosen) {
        settle(plan, chosen->row[0].chunks, chosen->row[0].v_shape);
        return STATUS_OK;
    }
    struct grid grid = config->grid;
    struct choice_input input = {.config = config,
                                 .graph = plan->micro[0].graph,
                                 .partition = cut_config(plan),
                                 .pool = plan->pool,
                                 .other_bytes = other_bytes(plan)};
    input.partition.grads = grads_of(config);
    TRY(choice_make(&input, &grid, &plan->choice));
    settle(plan, grid.chunks, grid.v_shape);
    return STATUS_OK;
}

const struct pipeline_order *plan_orders(const struct plan *plan) {
    return plan->given.chosen ? plan->given.chosen->orders : plan->choice.orders;
}

static bool fits(const struct plan *plan, const struct program *program) {
    const struct run_config *config = &plan->config;
    return program->ranks == config->ranks && program->grid.stages == config->grid.stages &&
           program->grid.chunks == config->grid.chunks &&
           program->grid.v_shape == config->grid.v_shape &&
           program->grid.replicas == config->replicas && program->sum == config->sum &&
           program->micro_batches == config->micro_batches &&
           program_shares(program) == config->sync_bn;
}

enum status plan_check_agreed(const struct plan *plan) {
    bool last = program_has_last(plan->program) == (plan->last_samples != NULL);
    char ranks[TEXT_BYTES], stages[TEXT_BYTES];
    if (!fits(plan, plan->program) || !last)
        return fail(STATUS_USAGE, "%s: the program is for another run: %s, %s", PLAN_AGREED,
                    text_count(plan->program->ranks, "rank", ranks),
                    text_count(plan->program->grid.stages, "stage", stages));
    return ties_check(&plan->ties, plan->program, PLAN_AGREED);
}

struct bytes plan_text(const struct plan *plan) {
    char *text = NULL;
    size_t count = 0;
    FILE *stream = open_memstream(&text, &count);
    CHECK(stream, "no memory for the text of a program");
    program_print(plan->program, stream);
    fclose(stream);
    return (struct bytes){.data = (uint8_t *)text, .count = count};
}
