/* A literal replay of local SGD and DiLoCo: see replay.h.
 *
 * Each replica is a training of one device of its own, which loads what that replica has. After a
 * step of so many all parameters are taken out as plain tensors, moved by the formulas of the
 * paper, and put into all of them. Nothing here knows of programs that train apart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#include "base/log.h"
#include "base/mem.h"
#include "exec/engine.h"
#include "plan/plan_auto.h"

struct replica {
    struct train_state state;
    struct engine *engine;
    float *value; /* all parameters, one behind the other */
};

struct local {
    struct plan *plan;
    const struct replay_rule *rule;
    struct replica *replica;
    int64_t count; /* of parameters, elements */
    float *common, *momentum, *sum;
};

/* --- one behind the other --- */

static int64_t elements_of(const struct store *store, int param) {
    return shape_count(&store->layout->params[param].type.shape);
}

static enum status take(const struct replica *replica) {
    const struct store *store = engine_store(replica->engine);
    int array = state_array(store->layout, ARRAY_PARAM, 0);
    float *to = replica->value;
    for (int p = 0; p < store->layout->param_count; p++) {
        TRY(store_get(store, array, p, to));
        to += elements_of(store, p);
    }
    return STATUS_OK;
}

static enum status give(const struct replica *replica, const float *from) {
    struct store *store = engine_store(replica->engine);
    int array = state_array(store->layout, ARRAY_PARAM, 0);
    for (int p = 0; p < store->layout->param_count; p++) {
        TRY(store_put(store, array, p, from));
        from += elements_of(store, p);
    }
    return STATUS_OK;
}

/* --- the formulas --- */

/* d = mean(common - w_r); v = m v + d; common -= lr (d + m v). */
static enum status outer_step(struct local *local) {
    const struct replay_rule *rule = local->rule;
    float part = 1 / (float)rule->replicas, *term = local->sum;
    for (int r = 0; r < rule->replicas; r++) TRY(take(&local->replica[r]));
    for (int64_t i = 0; i < local->count; i++) {
        double plain = 0;
        for (int r = 0; r < rule->replicas; r++) {
            term[r] = local->common[i] - local->replica[r].value[i];
            plain += (double)local->replica[r].value[i] / rule->replicas;
        }
        float delta = replay_sum(term, rule->replicas) * part;
        if (rule->outer_momentum > 0) {
            local->momentum[i] = rule->outer_momentum * local->momentum[i] + delta;
            delta = delta + rule->outer_momentum * local->momentum[i];
        }
        local->common[i] = local->common[i] - rule->outer_lr * delta;
        bool averages = rule->outer_lr == 1 && rule->outer_momentum == 0;
        if (averages && fabs((double)local->common[i] - plain) > 1e-6 * fmax(1, fabs(plain)))
            return fail(STATUS_NO, "element %lld is %.9g, the mean of the replicas %.9g",
                        (long long)i, (double)local->common[i], plain);
    }
    for (int r = 0; r < rule->replicas; r++) TRY(give(&local->replica[r], local->common));
    return STATUS_OK;
}

/* Of the parameters; where all replicas have the same ones, they are their mean. */
static enum status give_mean(struct local *local) {
    int replicas = local->rule->replicas;
    size_t bytes = (size_t)local->count * sizeof(float);
    bool same = true;
    for (int r = 0; r < replicas; r++) {
        TRY(take(&local->replica[r]));
        same &= memcmp(local->replica[r].value, local->replica[0].value, bytes) == 0;
    }
    for (int64_t i = 0; i < local->count && !same; i++) {
        for (int r = 0; r < replicas; r++) local->sum[r] = local->replica[r].value[i];
        local->common[i] = replay_sum(local->sum, replicas) * (1 / (float)replicas);
    }
    if (same) return STATUS_OK;
    return give(&local->replica[0], local->common);
}

static enum status give_mean_buffer(struct local *local, int array, int item) {
    struct store *first = engine_store(local->replica[0].engine);
    const struct tensor_type *type = &first->layout->buffers[item].type;
    int replicas = local->rule->replicas;
    int64_t count = shape_count(&type->shape);
    SCOPED_FREE float *sum = mem_new(tensor_type_bytes(type)),
                      *one = mem_new(tensor_type_bytes(type));
    if (type->dtype != DTYPE_F32) return STATUS_OK; /* a count, the same everywhere */
    for (int r = 0; r < replicas; r++) {
        TRY(store_get(engine_store(local->replica[r].engine), array, item, one));
        for (int64_t i = 0; i < count; i++) sum[i] = r ? sum[i] + one[i] : one[i];
    }
    for (int64_t i = 0; i < count; i++) sum[i] = sum[i] / (float)replicas;
    return store_put(first, array, item, sum);
}

static enum status give_mean_buffers(struct local *local) {
    const struct state_layout *layout = local->plan->store;
    for (int b = 0; b < layout->buffer_count; b++)
        TRY(give_mean_buffer(local, state_array(layout, ARRAY_BUFFER, 0), b));
    return STATUS_OK;
}

/* --- the training --- */

static enum status open_replica(struct local *local, int number) {
    struct replica *replica = &local->replica[number];
    TRY(replay_open(local->plan, local->rule, number, &replica->state, &replica->engine));
    replica->value = MEM_ARRAY(float, local->count);
    return take(replica);
}

static enum status run_steps(struct local *local, double *loss) {
    const struct replay_rule *rule = local->rule;
    memcpy(local->common, local->replica[0].value, (size_t)local->count * sizeof(float));
    for (int64_t t = 0; t < local->plan->config.steps; t++) {
        struct step_result result;
        *loss = 0;
        for (int r = 0; r < rule->replicas; r++) {
            TRY(engine_step(local->replica[r].engine, &result));
            *loss += result.loss / rule->replicas;
        }
        if ((t + 1) % rule->every == 0) TRY(outer_step(local));
    }
    TRY(give_mean(local));
    return give_mean_buffers(local);
}

enum status replay_local(struct plan *plan, const struct replay_rule *rule, struct answer *out) {
    struct local local = {.plan = plan,
                          .rule = rule,
                          .replica = MEM_ARRAY(struct replica, rule->replicas),
                          .sum = MEM_ARRAY(float, rule->replicas)};
    double loss = NAN;
    enum status status = STATUS_OK;
    for (int p = 0; p < plan->store->param_count; p++)
        local.count += shape_count(&plan->store->params[p].type.shape);
    local.common = MEM_ARRAY(float, local.count);
    local.momentum = MEM_ARRAY(float, local.count);
    for (int r = 0; r < rule->replicas && status == STATUS_OK; r++)
        status = open_replica(&local, r);
    if (status == STATUS_OK) status = run_steps(&local, &loss);
    if (status == STATUS_OK) {
        *out = (struct answer){.loss = loss};
        status = engine_param_hash(local.replica[0].engine, &out->params);
    }
    if (status == STATUS_OK)
        status = store_buffer_hash(engine_store(local.replica[0].engine), &out->buffers);
    for (int r = 0; r < rule->replicas; r++) {
        engine_close(&local.replica[r].engine);
        free(local.replica[r].value);
    }
    free(local.replica);
    free(local.common);
    free(local.momentum);
    free(local.sum);
    return status;
}
