/* Gradient rules against differences: the outputs are contracted with a fixed random tensor, and
 * the slope of that number along single elements of every input is compared with what the emitted
 * backward calls gave.
 *
 * Slopes come from the four-point formula with a wide step (its error is of fourth order, so f32
 * rounding of the outputs does not matter). Where a function has kinks the step is small and points
 * with a kink inside the step are left out; most points must remain. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "chain.h"

enum { SAMPLES = 24, SAMPLES_COSTLY = 4 };
static const double costly_flops = 1e6; /* one evaluation of a case with fewer samples */
static const double tolerance = 1e-3;   /* of the gradient's rms */

/* The number that is differentiated: a loss times the seed, or the first output times the drawn
 * gradient. */
static double objective(const struct chain *chain, void *const in[]) {
    const struct chain_call *c = &chain->calls[0];
    const struct op_def *def = op_def(c->call.op);
    void *out[OP_MAX_OUT] = {0}, *scratch = NULL;
    double sum = 0;
    for (int i = 0; i < c->call.out_count; i++)
        out[i] = mem_new(tensor_type_bytes(&c->call.out[i]));
    if (def->scratch_bytes) scratch = mem_new(def->scratch_bytes(&c->call));
    def->run(&c->call, in, out, scratch);
    if (chain->seed >= 0) {
        sum = *(double *)out[0] * *(float *)chain->values[chain->seed].data;
    } else {
        const float *y = out[0], *weight = chain->values[chain->d_out].data;
        for (int64_t i = 0; i < shape_count(&c->call.out[0].shape); i++)
            sum += (double)y[i] * weight[i];
    }
    for (int i = 0; i < c->call.out_count; i++) free(out[i]);
    free(scratch);
    return sum;
}

static double slope(const struct chain *chain, void *const in[], float *at, float step) {
    float x = *at;
    *at = x + step;
    double above = objective(chain, in), h_above = *at;
    *at = x - step;
    double below = objective(chain, in), h_below = *at;
    *at = x;
    return (above - below) / (h_above - h_below);
}

static double rms(const float *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)x[i] * x[i];
    return sqrt(sum / (double)count);
}

/* Compares sampled elements of one input's gradient; returns how many were smooth enough to be
 * compared. */
static int check_input(const struct chain *chain, void *const in[], int input, int samples) {
    const struct chain_call *c = &chain->calls[0];
    const float *gradient = chain->values[chain->d_in[input]].data;
    int64_t count = shape_count(&c->call.in[input].shape);
    double limit = tolerance * rms(gradient, count) + 2e-5;
    float step = chain->of->kinks ? 0x1p-10f : 0x1p-5f;
    int compared = 0;
    for (int s = 0; s < samples; s++) {
        int64_t i = samples == count ? s : rng_word(99, (uint64_t)s) % count;
        float *at = (float *)in[input] + i;
        double near = slope(chain, in, at, step), far = slope(chain, in, at, 2 * step);
        double expected = (4 * near - far) / 3;
        if (chain->of->kinks && fabs(near - far) > limit) continue;
        compared++;
        cr_expect(fabs(expected - gradient[i]) <= limit,
                  "%s: gradient of input %d, element %lld: %.8g, differences give %.8g",
                  chain->of->name, input, (long long)i, (double)gradient[i], expected);
    }
    return compared;
}

static void check_case(const struct op_case *of) {
    struct chain *chain = chain_new(of, NULL, NULL);
    void *in[OP_MAX_IN] = {0};
    for (int i = 0; i < of->in_count; i++) in[i] = chain->values[i].data;
    for (int i = 0; i < of->in_count; i++) {
        if (of->in[i].dtype != DTYPE_F32) continue;
        cr_assert(chain->d_in[i] >= 0, "%s: input %d got no gradient", of->name, i);
        const struct chain_value *d = &chain->values[chain->d_in[i]];
        cr_assert(tensor_type_equal(&d->type, &of->in[i]), "%s: gradient %d has another type",
                  of->name, i);
        int64_t count = shape_count(&of->in[i].shape);
        int most = op_cost(&chain->calls[0].call).flops > costly_flops ? SAMPLES_COSTLY : SAMPLES;
        int samples = count < most ? (int)count : most;
        int compared = check_input(chain, in, i, samples);
        cr_expect(2 * compared >= samples, "%s: input %d has %d smooth points of %d", of->name, i,
                  compared, samples);
    }
    chain_free(&chain);
}

Test(op_gradients, agree_with_differences) {
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; i < count; i++)
        if (op_def(cases[i].op)->grad && !cases[i].part) check_case(&cases[i]);
}

/* Asked for one gradient, a rule gives that one, with the same bits, and no other. */
static void check_alone(const struct op_case *of, const struct chain *whole, int input) {
    bool need[OP_MAX_IN] = {0};
    need[input] = true;
    struct chain *chain = chain_new(of, need, NULL);
    for (int i = 0; i < of->in_count; i++)
        cr_expect((chain->d_in[i] >= 0) == (i == input), "%s: need %d, gradient of %d is %d",
                  of->name, input, i, chain->d_in[i]);
    if (chain->d_in[input] >= 0)
        cr_expect(memcmp(chain->values[chain->d_in[input]].data,
                         whole->values[whole->d_in[input]].data,
                         tensor_type_bytes(&of->in[input])) == 0,
                  "%s: gradient %d alone has other bits", of->name, input);
    chain_free(&chain);
}

Test(op_gradients, only_what_is_needed) {
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int c = 0; c < count; c++) {
        if (!op_def(cases[c].op)->grad || cases[c].part) continue;
        struct chain *whole = chain_new(&cases[c], NULL, NULL);
        for (int i = 0; i < cases[c].in_count; i++)
            if (cases[c].in[i].dtype == DTYPE_F32) check_alone(&cases[c], whole, i);
        chain_free(&whole);
    }
}

/* Weight gradients are the W half, everything else the I half; norms make both at once and are I.
 */
Test(op_gradients, halves) {
    static const bool is_w[OP_COUNT] = {[OP_CONV2D_BWD_WEIGHT] = true,
                                        [OP_LINEAR_BWD_WEIGHT] = true,
                                        [OP_EMBEDDING_BWD] = true,
                                        [OP_SUM_BATCH] = true};
    int count;
    const struct op_case *cases = op_cases(&count);
    for (int i = 0; i < count; i++) {
        struct chain *chain = chain_new(&cases[i], NULL, NULL);
        for (int c = 1; c < chain->call_count; c++)
            cr_expect((chain->calls[c].half == OP_HALF_W) == is_w[chain->calls[c].call.op],
                      "%s: %s is in the wrong half", cases[i].name,
                      op_def(chain->calls[c].call.op)->name);
        chain_free(&chain);
    }
}
