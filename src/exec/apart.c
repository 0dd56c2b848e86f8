/* Handlers of replicas that train apart: their average at the end of a step, by an outer optimizer;
 * their mean, for an evaluation or a checkpoint.
 *
 * What is averaged goes through a gradient buffer, which is free behind STEP, lies where others
 * reach it, and spans the same elements as the parameters. So an average takes no memory of its
 * own: while the mean stands in for the parameters, these are in the buffer. Padding of the
 * parameters is 0, and so stays that of the buffer. */
#include "backend/blend.h"
#include "exec/handlers.h"
#include "exec/state.h"
#include "exec/versions.h"

/* All parameters of the rank in an array that has one element for each. */
static struct elements params_in(const struct engine *engine, enum array_kind kind, int index) {
    const struct state_layout *layout = engine->store->layout;
    return store_elements(engine->store, state_array(layout, kind, index), 0,
                          layout->param_elements);
}

static struct elements own_params(const struct engine *engine) {
    return params_in(engine, ARRAY_PARAM, 0);
}

static struct elements buffer_of(const struct engine *engine, const struct instr *instr) {
    return params_in(engine, ARRAY_GRAD, instr->grad);
}

static enum status copy(struct engine *engine, const struct elements *to,
                        const struct elements *from) {
    return engine->plan->device->backend->array_copy(engine->plan->device, to->data, from->data,
                                                     elements_bytes(from), engine->store->stream);
}

static enum status blend(struct engine *engine, const struct elements *into, float keep,
                         const struct elements *from, float share) {
    struct device *device = engine->plan->device;
    return device->backend->blend->blend(device, into, keep, from, share, engine->store->stream);
}

/* The mean of the replicas, of which the buffer has the sum. */
static enum status divide(struct engine *engine, const struct elements *sum) {
    return blend(engine, sum, 1 / (float)engine->plan->config.replicas, NULL, 0);
}

/* --- the average --- */

enum status run_DELTA(struct engine *engine, const struct instr *instr) {
    struct elements delta = buffer_of(engine, instr), own = own_params(engine),
                    common = params_in(engine, ARRAY_COMMON, 0);
    TRY(copy(engine, &delta, &own));
    return blend(engine, &delta, -1, &common, 1);
}

/* Nesterov's momentum as torch has it: v = m v + d; the step is d + m v. */
static enum status add_momentum(struct engine *engine, const struct elements *delta) {
    float momentum = engine->plan->config.outer.momentum;
    if (momentum == 0) return STATUS_OK;
    struct elements kept = params_in(engine, ARRAY_OUTER, 0);
    TRY(blend(engine, &kept, momentum, delta, 1));
    return blend(engine, delta, 1, &kept, momentum);
}

enum status run_OUTER(struct engine *engine, const struct instr *instr) {
    struct elements delta = buffer_of(engine, instr), own = own_params(engine),
                    common = params_in(engine, ARRAY_COMMON, 0);
    TRY(divide(engine, &delta));
    TRY(add_momentum(engine, &delta));
    TRY(blend(engine, &common, 1, &delta, -engine->plan->config.outer.lr));
    engine->same_params = true;
    return copy(engine, &own, &common);
}

enum status engine_begin_apart(struct engine *engine) {
    if (engine->plan->program->every == 0 || engine->common_read) return STATUS_OK;
    struct elements own = own_params(engine), common = params_in(engine, ARRAY_COMMON, 0);
    return copy(engine, &common, &own);
}

/* --- the mean --- */

enum status run_TAKE(struct engine *engine, const struct instr *instr) {
    struct elements taken = buffer_of(engine, instr), own = own_params(engine);
    return copy(engine, &taken, &own);
}

enum status run_MEAN(struct engine *engine, const struct instr *instr) {
    struct elements sum = buffer_of(engine, instr), own = own_params(engine);
    if (engine->same_params) return copy(engine, &sum, &own);
    TRY(divide(engine, &sum));
    struct device *device = engine->plan->device;
    return device->backend->blend->swap(device, &own, &sum, engine->store->stream);
}

enum status run_OWN(struct engine *engine, const struct instr *instr) {
    struct elements kept = buffer_of(engine, instr), own = own_params(engine);
    return copy(engine, &own, &kept);
}
