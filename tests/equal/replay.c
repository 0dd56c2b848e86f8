/* See replay.h. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/engine.h"
#include "plan/plan_auto.h"

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

enum status replay_open(struct plan *plan, const struct replay_rule *rule, int replica,
                        struct train_state *state, struct engine **out) {
    struct run_config config = plan->config;
    CHECK(config.replicas == 1, "a device replays one replica, and its plan has %d",
          config.replicas);
    config.batch = rule->batch;
    config.steps_per_epoch = rule->steps_per_epoch;
    plan_configure(plan, &config);
    plan->train_loader.batch = rule->batch;
    plan->train_loader.replicas = rule->replicas;
    plan->train_loader.first_micro = replica * config.micro_batches;
    plan->train_loader.micro_count = config.micro_batches;
    *state = train_fresh();
    struct engine_config engine = {.plan = plan, .state = state};
    return engine_open(&engine, out);
}

float replay_sum(float *term, int count) {
    while (count > 1) {
        for (int i = 0; i < count / 2; i++) term[i] = term[2 * i] + term[2 * i + 1];
        if (count % 2) term[count / 2] = term[count - 1];
        count = count / 2 + count % 2;
    }
    return term[0];
}

struct replica {
    struct train_state state;
    struct engine *engine;
    struct store *store;
};

struct repeated {
    struct plan *plan;
    const struct replay_rule *rule;
    struct replica *replica; /* the first one also keeps the parameters and updates them */
    struct store *store;     /* its own */
    int params, grads, states, state_count; /* arrays of the store */
    struct tensors *version;                /* [steps + 1]: after so many updates */
    struct tensors *state;                  /* of the optimizer, as they are now */
};

/* All replicas do it with the same versions. */
static enum status run_step(struct repeated *replay, int64_t step, struct answer *out, double *lr) {
    struct step_result result;
    *out = (struct answer){0};
    for (int r = 0; r < replay->rule->replicas; r++) {
        struct store *store = replay->replica[r].store;
        for (int p = 0; p < store->layout->param_count; p++)
            TRY(store_put(store, replay->params, p,
                          replay->version[version_read(replay->rule, p, step)].item[p]));
        TRY(engine_step(replay->replica[r].engine, &result));
        out->loss += result.loss / replay->rule->replicas;
    }
    *lr = result.lr;
    return STATUS_OK;
}

static void add_gradients(const struct tensors *part, int replicas, int64_t count, int param) {
    SCOPED_FREE float *term = MEM_ARRAY(float, replicas);
    for (int64_t i = 0; i < count; i++) {
        for (int r = 0; r < replicas; r++)
            term[r] = ((float *)part[r].item[param])[i] * (1 / (float)replicas);
        ((float *)part[0].item[param])[i] = replay_sum(term, replicas);
    }
}

/* Into the first replica's buffer. The mean is exact for 2 and 4 replicas, whose parts are the
 * same however they are divided. */
static enum status mean_gradients(struct repeated *replay) {
    const struct state_layout *layout = replay->store->layout;
    int replicas = replay->rule->replicas;
    SCOPED_FREE struct tensors *part = MEM_ARRAY(struct tensors, replicas);
    if (replicas == 1) return STATUS_OK;
    for (int r = 0; r < replicas; r++) part[r] = take(replay->replica[r].store, replay->grads);
    for (int p = 0; p < layout->param_count; p++)
        add_gradients(part, replicas, shape_count(&layout->params[p].type.shape), p);
    enum status status = put(replay->store, replay->grads, &part[0]);
    for (int r = 0; r < replicas; r++) drop(replay->store, &part[r]);
    return status;
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
    double lr = 0;
    replay->version[0] = take(replay->store, replay->params);
    for (int s = 0; s < replay->state_count; s++)
        replay->state[s] = take(replay->store, replay->states + s);
    for (int64_t t = 0; t < replay->plan->config.steps; t++) {
        TRY(run_step(replay, t, out, &lr));
        TRY(mean_gradients(replay));
        TRY(update(replay, t, lr));
    }
    TRY(engine_param_hash(replay->replica[0].engine, &out->params));
    return store_buffer_hash(replay->store, &out->buffers);
}

static enum status train(struct repeated *replay, struct answer *out) {
    const struct state_layout *layout = replay->plan->store;
    int64_t steps = replay->plan->config.steps;
    replay->store = replay->replica[0].store;
    replay->params = state_array(layout, ARRAY_PARAM, 0);
    replay->grads = state_array(layout, ARRAY_GRAD, final_gradient(replay->plan));
    replay->states = layout->first[ARRAY_STATE];
    replay->state_count = layout->optimizer->state_count;
    replay->version = MEM_ARRAY(struct tensors, steps + 1);
    replay->state = MEM_ARRAY(struct tensors, replay->state_count + 1);
    enum status status = run_steps(replay, out);
    for (int64_t t = 0; t <= steps; t++) drop(replay->store, &replay->version[t]);
    for (int s = 0; s < replay->state_count; s++) drop(replay->store, &replay->state[s]);
    free(replay->version);
    free(replay->state);
    return status;
}

enum status replay_train(struct plan *plan, const struct replay_rule *rule, struct answer *out) {
    struct repeated replay = {
        .plan = plan, .rule = rule, .replica = MEM_ARRAY(struct replica, rule->replicas)};
    enum status status = STATUS_OK;
    for (int r = 0; r < rule->replicas && status == STATUS_OK; r++) {
        struct replica *replica = &replay.replica[r];
        status = replay_open(plan, rule, r, &replica->state, &replica->engine);
        if (status == STATUS_OK) replica->store = engine_store(replica->engine);
    }
    if (status == STATUS_OK) status = train(&replay, out);
    for (int r = 0; r < rule->replicas; r++) engine_close(&replay.replica[r].engine);
    free(replay.replica);
    return status;
}
