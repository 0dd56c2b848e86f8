/* Building and running chains. */
#include "chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "op/precision.h"

static int add_value(struct chain *chain, const struct tensor_type *type) {
    CHECK(chain->value_count < CHAIN_VALUES, "%s", chain->of->name);
    chain->values[chain->value_count] = (struct chain_value){.type = *type};
    chain->values[chain->value_count].data = mem_new(tensor_type_bytes(type));
    return chain->value_count++;
}

/* --- narrow types --- */

static void narrow(enum dtype dtype, const float *from, uint16_t *to, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = dtype == DTYPE_BF16 ? bf16_from_f32(from[i]) : f16_from_f32(from[i]);
}

static void widen(enum dtype dtype, const uint16_t *from, float *to, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = dtype == DTYPE_BF16 ? bf16_to_f32(from[i]) : f16_to_f32(from[i]);
}

/* From now on the value is narrow; what it holds is rounded. */
static void narrow_value(struct chain *chain, int index) {
    struct chain_value *value = &chain->values[index];
    if (value->type.dtype != DTYPE_F32) return;
    value->type.dtype = chain->dtype;
    value->wide = value->data;
    value->data = mem_new(tensor_type_bytes(&value->type));
    narrow(chain->dtype, value->wide, value->data, shape_count(&value->type.shape));
}

/* Of forward: the first input, those of its shape, and operands of products. */
static bool input_narrows(const struct op_call *call, int in) {
    if (op_def(call->op)->flags & OP_SIDE_EFFECT || op_exact_in(call->op)) return false;
    return op_narrow_in(call->op, in) || shape_equal(&call->in[in].shape, &call->in[0].shape);
}

/* Gradients of f32 inputs, and of weights, are f32: parameters are. */
static bool is_param_gradient(const struct chain *chain, int value) {
    const struct op_call *call = &chain->calls[0].call;
    for (int i = 1; i < call->in_count; i++)
        if (chain->d_in[i] == value && !shape_equal(&call->in[i].shape, &call->in[0].shape))
            return true;
    return false;
}

static void narrow_chain(struct chain *chain) {
    const struct op_call forward = chain->calls[0].call;
    for (int i = 0; i < forward.in_count; i++)
        if (input_narrows(&forward, i)) narrow_value(chain, chain->calls[0].in[i]);
    if (chain->d_out >= 0 && op_narrow_out(forward.op, 0)) narrow_value(chain, chain->d_out);
    for (int c = 0; c < chain->call_count; c++)
        for (int i = 0; i < chain->calls[c].call.out_count; i++) {
            int value = chain->calls[c].out[i];
            bool view = op_def(chain->calls[c].call.op)->flags & OP_VIEW;
            bool narrow = view ? chain->values[chain->calls[c].in[0]].wide != NULL
                               : op_narrow_out(chain->calls[c].call.op, i);
            if (narrow && !is_param_gradient(chain, value)) narrow_value(chain, value);
        }
    for (int c = 0; c < chain->call_count; c++) {
        struct chain_call *call = &chain->calls[c];
        for (int i = 0; i < call->call.in_count; i++)
            call->call.in[i] = chain->values[call->in[i]].type;
        for (int i = 0; i < call->call.out_count; i++)
            call->call.out[i] = chain->values[call->out[i]].type;
    }
}

static bool is_opaque(const struct op_call *call, int out) {
    return (call->op == OP_MAX_POOL && out == 1) || (call->op == OP_BATCH_NORM && out == 3) ||
           (call->op == OP_BATCH_NORM_APPLY && out == 1) ||
           (call->op == OP_CROSS_ENTROPY && out > 0);
}

static void add_call(struct chain *chain, enum op op, const struct op_attrs *attrs,
                     enum op_half half, int in_count, const int *in) {
    char why[256] = "";
    CHECK(chain->call_count < CHAIN_CALLS, "%s", chain->of->name);
    struct chain_call *c = &chain->calls[chain->call_count++];
    *c = (struct chain_call){.call = {.op = op, .attrs = *attrs, .in_count = in_count}};
    c->half = half;
    for (int i = 0; i < in_count; i++) {
        CHECK(in[i] >= 0 && in[i] < chain->value_count, "%s: %s has no input %d", chain->of->name,
              op_def(op)->name, i);
        c->in[i] = in[i];
        c->call.in[i] = chain->values[in[i]].type;
    }
    CHECK(op_infer(&c->call, why, sizeof why) == STATUS_OK, "%s: %s: %s", chain->of->name,
          op_def(op)->name, why);
    for (int i = 0; i < c->call.out_count; i++) {
        c->out[i] = add_value(chain, &c->call.out[i]);
        chain->values[c->out[i]].opaque = is_opaque(&c->call, i);
    }
}

static void emit(struct op_grad *grad, enum op op, const struct op_attrs *attrs, enum op_half half,
                 int in_count, const int *in, int *out) {
    struct chain *chain = grad->graph;
    add_call(chain, op, attrs, half, in_count, in);
    const struct chain_call *c = &chain->calls[chain->call_count - 1];
    for (int i = 0; i < c->call.out_count; i++) out[i] = c->out[i];
}

/* --- inputs --- */

uint64_t chain_seed = 7;

void chain_draw_random(const struct op_case *of, int input, const struct tensor_type *type,
                       void *data) {
    uint64_t key = rng_key(rng_key_text(chain_seed, of->name), (uint64_t)input);
    int64_t count = shape_count(&type->shape);
    for (int64_t i = 0; i < count; i++) {
        float normal = rng_normal(key, (uint64_t)i);
        if (type->dtype == DTYPE_F32)
            ((float *)data)[i] = of->positive >> input & 1 ? 0.5f + normal * normal : normal;
        if (type->dtype == DTYPE_I64) ((uint64_t *)data)[i] = rng_key(key, (uint64_t)i);
        if (type->dtype == DTYPE_I32) {
            int32_t value = (int32_t)(rng_word(key, (uint64_t)i) % (uint32_t)of->range);
            bool ignored = of->ignore_every && i % of->ignore_every == 0;
            ((int32_t *)data)[i] = ignored ? LABEL_IGNORE : value;
        }
    }
}

/* A label's sum starts backward from a seed, everything else from a drawn gradient of the first
 * output. */
static void add_start(struct chain *chain, chain_draw *draw) {
    static const struct tensor_type scalar = {DTYPE_F32, {0, {0}}};
    const struct op_call *call = &chain->calls[0].call;
    chain->seed = chain->d_out = -1;
    if (call->op == OP_NLL || call->op == OP_CROSS_ENTROPY) {
        chain->seed = add_value(chain, &scalar);
        *(float *)chain->values[chain->seed].data = 0.375f;
    } else {
        chain->d_out = add_value(chain, &call->out[0]);
        draw(chain->of, OP_MAX_IN, &call->out[0], chain->values[chain->d_out].data);
    }
}

static void add_backward(struct chain *chain, const bool need[], chain_draw *draw) {
    struct chain_call forward = chain->calls[0];
    bool all[OP_MAX_IN];
    int d_out[OP_MAX_OUT] = {-1, -1, -1, -1};
    for (int i = 0; i < OP_MAX_IN; i++) {
        all[i] = i < forward.call.in_count && forward.call.in[i].dtype == DTYPE_F32;
        chain->d_in[i] = -1;
    }
    if (!op_def(forward.call.op)->grad) return;
    add_start(chain, draw);
    d_out[0] = chain->d_out;
    struct op_grad grad = {.call = &forward.call,
                           .in = forward.in,
                           .out = forward.out,
                           .d_out = d_out,
                           .need = need ? need : all,
                           .seed = chain->seed,
                           .d_in = chain->d_in,
                           .graph = chain,
                           .emit = emit};
    op_def(forward.call.op)->grad(&grad);
}

/* --- reference values --- */

/* Narrow inputs as the f32 numbers that they are. */
static void *widened(const struct chain_value *value, void *after) {
    if (!value->wide) return after;
    int64_t count = shape_count(&value->type.shape);
    float *wide = MEM_ARRAY(float, count + 1);
    widen(value->type.dtype, after, wide, count);
    return wide;
}

static void run_call(struct chain *chain, struct chain_call *c) {
    const struct op_def *def = op_def(c->call.op);
    struct op_call wide = op_call_wide(&c->call);
    void *in[OP_MAX_IN] = {0}, *out[OP_MAX_OUT] = {0}, *scratch = NULL;
    if (def->scratch_bytes) scratch = mem_new(def->scratch_bytes(&wide));
    for (int i = 0; i < c->call.in_count; i++) {
        const struct chain_value *value = &chain->values[c->in[i]];
        size_t bytes = tensor_type_bytes(&c->call.in[i]);
        c->after[i] = memcpy(mem_new(bytes), value->data, bytes);
        in[i] = widened(value, c->after[i]);
    }
    for (int i = 0; i < c->call.out_count; i++) {
        const struct chain_value *value = &chain->values[c->out[i]];
        out[i] = value->wide ? value->wide : value->data;
    }
    def->run(&wide, in, out, scratch);
    for (int i = 0; i < c->call.out_count; i++) {
        const struct chain_value *value = &chain->values[c->out[i]];
        if (value->wide)
            narrow(chain->dtype, value->wide, value->data, shape_count(&value->type.shape));
    }
    for (int i = 0; i < c->call.in_count; i++)
        if (in[i] != c->after[i]) free(in[i]);
    free(scratch);
}

static struct chain *new_chain(const struct op_case *of, const bool need[], chain_draw *draw,
                               enum dtype dtype) {
    bool narrow = dtype != DTYPE_F32;
    struct chain *chain = MEM_NEW(struct chain);
    int in[OP_MAX_IN];
    chain->of = of;
    chain->narrow = narrow;
    chain->dtype = dtype;
    chain->d_out = chain->seed = -1;
    if (!draw) draw = chain_draw_random;
    for (int i = 0; i < of->in_count; i++) {
        in[i] = add_value(chain, &of->in[i]);
        draw(of, i, &of->in[i], chain->values[in[i]].data);
    }
    add_call(chain, of->op, &of->attrs, OP_HALF_I, of->in_count, in);
    add_backward(chain, need, draw);
    if (narrow) narrow_chain(chain);
    for (int i = 0; i < chain->call_count; i++) run_call(chain, &chain->calls[i]);
    return chain;
}

struct chain *chain_new(const struct op_case *of, const bool need[], chain_draw *draw) {
    return new_chain(of, need, draw, DTYPE_F32);
}

struct chain *chain_new_narrow(const struct op_case *of, chain_draw *draw) {
    return new_chain(of, NULL, draw, DTYPE_BF16);
}

struct chain *chain_new_narrow_of(const struct op_case *of, chain_draw *draw, enum dtype dtype) {
    return new_chain(of, NULL, draw, dtype);
}

void chain_free(struct chain **chain) {
    if (!*chain) return;
    for (int i = 0; i < (*chain)->value_count; i++) {
        free((*chain)->values[i].data);
        free((*chain)->values[i].wide);
    }
    for (int c = 0; c < (*chain)->call_count; c++)
        for (int i = 0; i < OP_MAX_IN; i++) free((*chain)->calls[c].after[i]);
    free(*chain);
    *chain = NULL;
}
