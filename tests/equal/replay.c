/* See replay.h. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/engine.h"

void replay_note(const struct plan *plan, struct replay_rule *rule) {
    const struct state_layout *layout = plan->store;
    rule->stages = plan->config.grid.stages;
    rule->two_versions = strcmp(plan->config.schedule, "pipedream-2bw") == 0;
    rule->vertical_sync = plan->config.vertical_sync;
    rule->every = plan->program->every;
    rule->replicas = plan->config.replicas;
    rule->outer_lr = plan->config.outer.lr;
    rule->outer_momentum = plan->config.outer.momentum;
    rule->batch = plan->config.batch;
    rule->steps_per_epoch = plan->config.steps_per_epoch;
    if (!rule->stage_of) rule->stage_of = MEM_ARRAY(int, layout->param_count + 1);
    for (int p = 0; p < layout->param_count; p++)
        if (state_holds(&layout->params[p])) rule->stage_of[p] = plan->config.cell.position;
}

/* PipeDream: w(t+1) = w(t) - lr * g(w_0(t-S+1), ..., w_{S-1}(t)), stage s being S - 1 - s updates
 * behind; with vertical sync all are S - 1 behind. 2BW: W(t+1) = W(t) - lr * g(W(t-1)). */
static int64_t version_read(const struct replay_rule *rule, int param, int64_t step) {
    int64_t behind = rule->two_versions    ? 1
                     : rule->vertical_sync ? rule->stages - 1
                                           : rule->stages - 1 - rule->stage_of[param];
    return step > behind ? step - behind : 0;
}

/* Plain tensors of an array, one for each parameter. */
struct tensors {
    void **item;
};

static struct tensors take(const struct store *store, int array) {
    int count = store->layout->param_count;
    struct tensors out = {MEM_ARRAY(void *, count + 1)};
    for (int p = 0; p < count; p++) {
        out.item[p] = mem_new(tensor_type_bytes(&store->layout->params[p].type));
        CHECK(store_get(store, array, p, out.item[p]) == STATUS_OK, "parameter %d", p);
    }
    return out;
}

static void drop(const struct store *store, struct tensors *tensors) {
    for (int p = 0; tensors->item && p < store->layout->param_count; p++) free(tensors->item[p]);
    free(tensors->item);
    tensors->item = NULL;
}

static enum status put(struct store *store, int array, const struct tensors *from) {
    for (int p = 0; p < store->layout->param_count; p++)
        TRY(store_put(store, array, p, from->item[p]));
    return STATUS_OK;
}

static int final_gradient(const struct plan *plan) {
    const struct instr_list *body = program_list(plan->program, 0, LIST_BODY);
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == INSTR_STEP) return body->items[i].grad;
    return 0;
}

struct repeated {
    const struct plan *plan;
    const struct replay_rule *rule;
    struct engine *engine;
    struct store *store;
    int params, states, state_count; /* arrays of the store */
    struct tensors *version;         /* [steps + 1]: after so many updates */
    struct tensors *state;           /* of the optimizer, as they are now */
};

static enum status set_step(struct repeated *replay, int64_t step) {
    for (int p = 0; p < replay->store->layout->param_count; p++)
        TRY(store_put(replay->store, replay->params, p,
                      replay->version[version_read(replay->rule, p, step)].item[p]));
    return STATUS_OK;
}

/* The gradients of the step lie in their buffer. */
static enum status update(struct repeated *replay, int64_t step, double lr) {
    struct optim_step how = {
        .config = &replay->plan->config.optim, .step = step, .lr = (float)lr, .gradient_scale = 1};
    int32_t bad = 0;
    TRY(put(replay->store, replay->params, &replay->version[step]));
    for (int s = 0; s < replay->state_count; s++)
        TRY(put(replay->store, replay->states + s, &replay->state[s]));
    TRY(store_update(replay->store, &how, NULL, final_gradient(replay->plan), &bad));
    replay->version[step + 1] = take(replay->store, replay->params);
    for (int s = 0; s < replay->state_count; s++) {
        drop(replay->store, &replay->state[s]);
        replay->state[s] = take(replay->store, replay->states + s);
    }
    return STATUS_OK;
}

static enum status run_steps(struct repeated *replay, struct answer *out) {
    struct step_result result = {0};
    replay->version[0] = take(replay->store, replay->params);
    for (int s = 0; s < replay->state_count; s++)
        replay->state[s] = take(replay->store, replay->states + s);
    for (int64_t t = 0; t < replay->plan->config.steps; t++) {
        TRY(set_step(replay, t));
        TRY(engine_step(replay->engine, &result));
        TRY(update(replay, t, result.lr));
    }
    *out = (struct answer){.loss = result.loss};
    TRY(engine_param_hash(replay->engine, &out->params));
    return store_buffer_hash(replay->store, &out->buffers);
}

enum status replay_train(const struct plan *plan, const struct replay_rule *rule,
                         struct answer *out) {
    struct train_state state = train_fresh();
    struct engine_config config = {.plan = plan, .state = &state};
    struct repeated replay = {.plan = plan, .rule = rule};
    enum status status = engine_open(&config, &replay.engine);
    if (status == STATUS_OK) {
        const struct state_layout *layout = plan->store;
        replay.store = engine_store(replay.engine);
        replay.params = state_array(layout, ARRAY_PARAM, 0);
        replay.states = layout->first[ARRAY_STATE];
        replay.state_count = layout->optimizer->state_count;
        replay.version = MEM_ARRAY(struct tensors, plan->config.steps + 1);
        replay.state = MEM_ARRAY(struct tensors, replay.state_count + 1);
        status = run_steps(&replay, out);
        for (int64_t t = 0; t <= plan->config.steps; t++) drop(replay.store, &replay.version[t]);
        for (int s = 0; s < replay.state_count; s++) drop(replay.store, &replay.state[s]);
        free(replay.version);
        free(replay.state);
    }
    engine_close(&replay.engine);
    return status;
}
