/* The update rules against PyTorch's (values.def, made by values.py), over spans, threads and
 * clipping. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/host.h"
#include "base/mem.h"

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

Test(optim_rules, every_rule_has_values) {
    int count;
    const struct optim_rule *const *all = optim_all(&count);
    for (int i = 0; i < count; i++) {
        size_t r = 0;
        while (r < sizeof rows / sizeof rows[0] && strcmp(rows[r].rule, all[i]->name) != 0) r++;
        cr_expect_lt(r, sizeof rows / sizeof rows[0], "%s has no row in values.def", all[i]->name);
    }
}

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

static struct elements floats(float *data, int64_t count) {
    return (struct elements){DTYPE_F32, data, count};
}

/* On `device`, whose memory is the host's. */
static bool apply(struct device *device, const struct optim_rule *rule,
                  const struct optim_step *step, const struct optim_span *spans, int span_count,
                  struct arrays *a) {
    struct optim_update update = {
        .rule = rule,
        .step = step,
        .spans = spans,
        .span_count = span_count,
        .param = floats(a->param, a->count),
        .gradient = floats(a->gradient, a->count),
        .state = {floats(a->state[0], a->count), floats(a->state[1], a->count)}};
    int32_t bad = 0;
    cr_assert_eq(device->backend->array_update(device, &update, &bad, NULL), STATUS_OK);
    return !bad;
}

static struct device *open_device(const char *name, int threads) {
    struct device *device = NULL;
    cr_assert_eq(device_open(name, 0, threads, &device), STATUS_OK);
    return device;
}

static void train(struct device *device, const struct optim_rule *rule,
                  const struct optim_config *config, struct arrays *a,
                  const struct optim_span *spans, int span_count, float scale) {
    for (int step = 0; step < STEPS; step++) {
        for (int64_t i = 0; i < a->count; i++) a->gradient[i] = slope(i, step) / scale;
        struct optim_step view = {
            .config = config, .step = step, .lr = (float)config->lr, .gradient_scale = scale};
        cr_expect(apply(device, rule, &view, spans, span_count, a));
    }
}

static void near(const char *name, const char *what, const float *got, const double *want) {
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(got[i], want[i], 2e-6 * (1 + fabs(want[i])),
                           "%s: %s[%d] is %.9g, PyTorch's %.9g", name, what, i, got[i], want[i]);
}

static void check_row(struct device *device, size_t row, float scale) {
    const struct optim_rule *rule = optim_find(rows[row].rule);
    struct arrays a = arrays_new(COUNT);
    struct optim_span span = {0, COUNT, true};
    train(device, rule, &rows[row].config, &a, &span, 1, scale);
    near(rows[row].name, "param", a.param, rows[row].param);
    for (int s = 0; s < rule->state_count; s++) {
        /* Without momentum torch keeps no buffer; ours then holds the last gradient. */
        bool kept = strcmp(rows[row].rule, "sgd") != 0 || rows[row].config.momentum > 0;
        if (kept) near(rows[row].name, rule->state_names[s], a.state[s], rows[row].state[s]);
    }
    arrays_free(&a);
}

/* Clipping multiplies gradients on the way: halves times two are the same. */
Test(optim_rules, values_of_pytorch) {
    for (int i = 0; backend_all()[i]; i++) {
        if (backend_all()[i]->apart) continue; /* tests/gpu/arrays.c */
        struct device *device = open_device(backend_all()[i]->name, 1);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            check_row(device, r, 1);
            check_row(device, r, 2);
        }
        device_close(&device);
    }
}

Test(optim_rules, weight_decay_reaches_its_spans_only) {
    const struct optim_config decayed = {
        .lr = 0.1, .weight_decay = 0.5, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
    struct optim_config plain = decayed;
    plain.weight_decay = 0;
    const struct optim_span mixed[] = {{0, 4, true}, {4, 4, false}}, whole = {0, 8, true};
    int count;
    struct device *device = open_device("cpu", 2);
    const struct optim_rule *const *all = optim_all(&count);
    for (int r = 0; r < count; r++) {
        struct arrays a = arrays_new(8), with = arrays_new(8), without = arrays_new(8);
        train(device, all[r], &decayed, &a, mixed, 2, 1);
        train(device, all[r], &decayed, &with, &whole, 1, 1);
        train(device, all[r], &plain, &without, &whole, 1, 1);
        cr_expect_arr_eq(a.param, with.param, 4 * sizeof(float));
        cr_expect_arr_eq(a.param + 4, without.param + 4, 4 * sizeof(float));
        cr_expect(memcmp(with.param, without.param, 8 * sizeof(float)) != 0);
        arrays_free(&a);
        arrays_free(&with);
        arrays_free(&without);
    }
    device_close(&device);
}

/* Elementwise: neither the device, nor the team, nor the cut into spans shows in the bits. */
Test(optim_rules, any_split_gives_the_same_bits) {
    enum { MANY = 3 * 16384 + 1000 };
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
        struct device *ref = open_device("ref", 1);
        train(ref, all[r], &config, &a, &one, 1, 1);
        device_close(&ref);
        struct device *team = open_device("cpu", 3);
        train(team, all[r], &config, &b, three, 3, 1);
        device_close(&team);
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
    struct device *device = open_device("ref", 1);
    const struct optim_rule *const *all = optim_all(&count);
    for (int r = 0; r < count; r++) {
        float zero[4] = {0};
        struct arrays a = arrays_new(4);
        struct optim_span span = {0, 4, true};
        struct optim_step step = {.config = &config, .lr = 0.1f, .gradient_scale = 1};
        memset(a.param, 0, sizeof zero);
        cr_expect(apply(device, all[r], &step, &span, 1, &a));
        cr_expect_arr_eq(a.param, zero, sizeof zero);
        cr_expect_arr_eq(a.state[0], zero, sizeof zero);
        arrays_free(&a);
    }
    device_close(&device);
}

/* Whoever updates a parameter tells when it is no longer finite, wherever it lies. */
Test(optim_rules, a_parameter_that_is_not_finite_is_told) {
    enum { MANY = 2 * 16384 + 5 };
    const struct optim_config config = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
    const struct optim_step step = {.config = &config, .lr = 0.1f, .gradient_scale = 1};
    const struct optim_span spans[] = {{0, 100, true}, {100, MANY - 100, false}};
    const int64_t places[] = {0, 99, 100, 16384, MANY - 1};
    for (int i = 0; backend_all()[i]; i++) {
        if (backend_all()[i]->apart) continue; /* tests/gpu/arrays.c */
        struct device *device = open_device(backend_all()[i]->name, 2);
        struct arrays a = arrays_new(MANY);
        cr_expect(apply(device, optim_find("adam"), &step, spans, 2, &a));
        for (int p = 0; p < 5; p++) {
            float kept = a.param[places[p]];
            a.param[places[p]] = p % 2 ? -INFINITY : NAN;
            cr_expect(!apply(device, optim_find("adam"), &step, spans, 2, &a), "%s at %d",
                      device->backend->name, (int)places[p]);
            a.param[places[p]] = kept;
        }
        arrays_free(&a);
        device_close(&device);
    }
}

Test(optim_rules, names) {
    cr_expect_not_null(optim_find("adamw"));
    cr_expect_null(optim_find("adamax"));
    cr_expect_str_eq(optim_find("sgd")->state_names[0], "momentum_buffer");
    cr_expect_str_eq(optim_find("adam")->state_names[1], "exp_avg_sq");
}
