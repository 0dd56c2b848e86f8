/* The update rules against PyTorch's (values.def, made by values.py), over spans, threads and
 * clipping. */
#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "optim/optim.h"

enum { COUNT = 6, STEPS = 5 };

#define ARRAY(...)                                                                                 \
    { __VA_ARGS__ }
#define CONFIG(rate, mu, decay, b1, b2, eps, nest)                                                 \
    {                                                                                              \
        .lr = rate, .momentum = mu, .weight_decay = decay, .beta1 = b1, .beta2 = b2,               \
        .epsilon = eps, .nesterov = nest                                                           \
    }

static const struct {
    const char *name, *rule;
    struct optim_config config;
    double param[COUNT], state[2][COUNT];
} rows[] = {
#define RULE(name, rule, config, param, first, second) {name, rule, config, param, {first, second}},
#define POLICY(...)
#include "values.def"
#undef RULE
#undef POLICY
};

static float start(int64_t i) {
    return (float)((i * 37 + 13) % 257 - 128) / 64;
}

static float slope(int64_t i, int step) {
    return (float)((i * 53 + step * 101 + 7) % 127 - 63) / 64;
}

struct arrays {
    float *param, *gradient, *state[2];
    int64_t count;
};

static struct arrays arrays_new(int64_t count) {
    struct arrays a = {.count = count};
    a.param = MEM_ARRAY(float, count);
    a.gradient = MEM_ARRAY(float, count);
    for (int i = 0; i < 2; i++) a.state[i] = MEM_ARRAY(float, count);
    for (int64_t i = 0; i < count; i++) a.param[i] = start(i);
    return a;
}

static void arrays_free(struct arrays *a) {
    free(a->param);
    free(a->gradient);
    free(a->state[0]);
    free(a->state[1]);
}

static void train(const struct optim_rule *rule, const struct optim_config *config,
                  struct arrays *a, const struct optim_span *spans, int span_count, float scale) {
    for (int step = 0; step < STEPS; step++) {
        for (int64_t i = 0; i < a->count; i++) a->gradient[i] = slope(i, step) / scale;
        struct optim_step view = {
            .config = config, .step = step, .lr = (float)config->lr, .gradient_scale = scale};
        optim_apply(rule, &view, spans, span_count, a->param, a->gradient, a->state);
    }
}

static void near(const char *name, const char *what, const float *got, const double *want) {
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(got[i], want[i], 2e-6 * (1 + fabs(want[i])),
                           "%s: %s[%d] is %.9g, PyTorch's %.9g", name, what, i, got[i], want[i]);
}

Test(optim_rules, values_of_pytorch) {
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const struct optim_rule *rule = optim_find(rows[r].rule);
        struct arrays a = arrays_new(COUNT);
        struct optim_span span = {0, COUNT, true};
        train(rule, &rows[r].config, &a, &span, 1, 1);
        near(rows[r].name, "param", a.param, rows[r].param);
        for (int s = 0; s < rule->state_count; s++) {
            /* Without momentum torch keeps no buffer; ours then holds the last gradient. */
            bool kept = strcmp(rows[r].rule, "sgd") != 0 || rows[r].config.momentum > 0;
            if (kept) near(rows[r].name, rule->state_names[s], a.state[s], rows[r].state[s]);
        }
        arrays_free(&a);
    }
}

/* Clipping multiplies gradients on the way: halves times two are the same. */
Test(optim_rules, the_gradient_scale_is_applied_first) {
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct arrays a = arrays_new(COUNT);
        struct optim_span span = {0, COUNT, true};
        train(optim_find(rows[r].rule), &rows[r].config, &a, &span, 1, 2);
        near(rows[r].name, "param", a.param, rows[r].param);
        arrays_free(&a);
    }
}

Test(optim_rules, weight_decay_reaches_its_spans_only) {
    const struct optim_config decayed = {
        .lr = 0.1, .weight_decay = 0.5, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
    struct optim_config plain = decayed;
    plain.weight_decay = 0;
    const struct optim_span mixed[] = {{0, 4, true}, {4, 4, false}}, whole = {0, 8, true};
    int count;
    const struct optim_rule *const *all = optim_all(&count);
    for (int r = 0; r < count; r++) {
        struct arrays a = arrays_new(8), with = arrays_new(8), without = arrays_new(8);
        train(all[r], &decayed, &a, mixed, 2, 1);
        train(all[r], &decayed, &with, &whole, 1, 1);
        train(all[r], &plain, &without, &whole, 1, 1);
        cr_expect_arr_eq(a.param, with.param, 4 * sizeof(float));
        cr_expect_arr_eq(a.param + 4, without.param + 4, 4 * sizeof(float));
        cr_expect(memcmp(with.param, without.param, 8 * sizeof(float)) != 0);
        arrays_free(&a);
        arrays_free(&with);
        arrays_free(&without);
    }
}

/* Elementwise: neither the team nor the cut into spans shows in the bits. */
Test(optim_rules, any_split_gives_the_same_bits) {
    enum { MANY = 3 * OPTIM_MAX_CHUNK + 1000 };
    const struct optim_config config = {.lr = 0.1,
                                        .momentum = 0.9,
                                        .weight_decay = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.99,
                                        .epsilon = 1e-8};
    const struct optim_span one = {0, MANY, true};
    const struct optim_span three[] = {
        {0, 777, true}, {777, 20001, true}, {20778, MANY - 20778, true}};
    int count;
    const struct optim_rule *const *all = optim_all(&count);
    for (int r = 0; r < count; r++) {
        struct arrays a = arrays_new(MANY), b = arrays_new(MANY);
        omp_set_num_threads(1);
        train(all[r], &config, &a, &one, 1, 1);
        omp_set_num_threads(3);
        train(all[r], &config, &b, three, 3, 1);
        cr_expect_arr_eq(a.param, b.param, MANY * sizeof(float), "%s", all[r]->name);
        cr_expect_arr_eq(a.state[0], b.state[0], MANY * sizeof(float));
        arrays_free(&a);
        arrays_free(&b);
    }
}

/* Padding of the store is zero in all arrays and must stay so. */
Test(optim_rules, zeros_stay_zero) {
    const struct optim_config config = {.lr = 0.1,
                                        .momentum = 0.9,
                                        .weight_decay = 0.01,
                                        .beta1 = 0.9,
                                        .beta2 = 0.99,
                                        .epsilon = 1e-8};
    int count;
    const struct optim_rule *const *all = optim_all(&count);
    for (int r = 0; r < count; r++) {
        float param[4] = {0}, gradient[4] = {0}, m[4] = {0}, v[4] = {0}, zero[4] = {0};
        struct optim_span span = {0, 4, true};
        struct optim_step step = {.config = &config, .lr = 0.1f, .gradient_scale = 1};
        optim_apply(all[r], &step, &span, 1, param, gradient, (float *[]){m, v});
        cr_expect_arr_eq(param, zero, sizeof zero);
        cr_expect_arr_eq(m, zero, sizeof zero);
    }
}

Test(optim_rules, names) {
    cr_expect_not_null(optim_find("adamw"));
    cr_expect_null(optim_find("adamax"));
    cr_expect_str_eq(optim_find("sgd")->state_names[0], "momentum_buffer");
    cr_expect_str_eq(optim_find("adam")->state_names[1], "exp_avg_sq");
}

/* --- sum of squares --- */

static float *numbers(int64_t count) {
    float *values = MEM_ARRAY(float, count);
    for (int64_t i = 0; i < count; i++) values[i] = sinf((float)i) * (1 + (float)(i % 97));
    return values;
}

Test(optim_squares, the_team_does_not_show_in_the_bits) {
    enum { MANY = 700 * NORM_BLOCK };
    float *values = numbers(MANY);
    omp_set_num_threads(1);
    double one = optim_sum_squares(values, MANY);
    for (int threads = 2; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        double many = optim_sum_squares(values, MANY);
        cr_expect_arr_eq(&one, &many, sizeof one, "%d threads: %.17g, one: %.17g", threads, many,
                         one);
    }
    /* By definition: f64 sums of blocks of 1,024 elements, added in order. */
    double by_blocks = 0, plain = 0;
    for (int64_t b = 0; b < MANY; b += NORM_BLOCK)
        by_blocks += optim_sum_squares(values + b, NORM_BLOCK);
    for (int64_t i = 0; i < MANY; i++) plain += (double)values[i] * values[i];
    cr_expect_arr_eq(&one, &by_blocks, sizeof one);
    cr_expect_float_eq(one, plain, 1e-9 * plain);
    free(values);
}

Test(optim_squares, nothing_infinite_hides) {
    enum { MANY = 300 * NORM_BLOCK };
    float *values = numbers(MANY);
    const int64_t places[] = {0, 1023, 1024, 256 * NORM_BLOCK - 1, 256 * NORM_BLOCK, MANY - 1};
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    cr_expect(isfinite(optim_sum_squares(values, MANY)));
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (int k = 0; k < 4; k++) {
            float kept = values[places[p]];
            values[places[p]] = bad[k];
            cr_expect(!isfinite(optim_sum_squares(values, MANY)), "%g at %d", bad[k],
                      (int)places[p]);
            values[places[p]] = kept;
        }
    }
    /* The largest floats do not overflow: squares are f64. */
    for (int64_t i = 0; i < MANY; i++) values[i] = 3e38f;
    cr_expect(isfinite(optim_sum_squares(values, MANY)));
    cr_expect_eq(optim_sum_squares(values, 0), 0);
    free(values);
}
