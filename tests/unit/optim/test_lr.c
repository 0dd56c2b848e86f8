/* Learning rates over a run, against PyTorch's schedulers and by their ends. */
#include <criterion/criterion.h>
#include <math.h>

#include "optim/optim.h"

enum { MOST = 10 };

#define ARRAY(...)                                                                                 \
    { __VA_ARGS__ }

static const struct {
    const char *name;
    enum lr_policy policy;
    double base, gamma, low;
    int total, size;
    double rate[MOST];
} rows[] = {
#define RULE(...)
#define POLICY(name, kind, base, gamma, low, total, size, rates)                                   \
    {name, kind, base, gamma, low, total, size, rates},
#include "values.def"
#undef RULE
#undef POLICY
};

Test(optim_lr, values_of_pytorch) {
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct lr_config config = {.policy = rows[r].policy,
                                   .base = rows[r].base,
                                   .gamma = rows[r].gamma,
                                   .low = rows[r].low,
                                   .total_steps = rows[r].total,
                                   .step_size = rows[r].size};
        for (int step = 0; step < rows[r].total; step++)
            cr_expect_float_eq(lr_at(&config, step), rows[r].rate[step], 1e-12, "%s at %d: %.17g",
                               rows[r].name, step, lr_at(&config, step));
    }
}

/* Rises in equal parts to the base rate on its last step, then the policy runs over what is left.
 */
Test(optim_lr, warm_up) {
    for (int policy = 0; policy < LR_POLICY_COUNT; policy++) {
        if (policy == LR_RANGE) continue; /* it has no warm-up */
        struct lr_config config = {.policy = (enum lr_policy)policy,
                                   .base = 0.4,
                                   .gamma = 0.1,
                                   .warmup_steps = 4,
                                   .total_steps = 14,
                                   .step_size = 100};
        for (int step = 0; step < 4; step++)
            cr_expect_float_eq(lr_at(&config, step), 0.1 * (step + 1), 1e-12);
        cr_expect_float_eq(lr_at(&config, 4), 0.4, 1e-12, "policy %d starts at the base rate",
                           policy);
        for (int step = 5; step < 14; step++)
            cr_expect_leq(lr_at(&config, step), lr_at(&config, step - 1) + 1e-15);
        if (policy == LR_COSINE || policy == LR_LINEAR)
            cr_expect_float_eq(lr_at(&config, 14), 0, 1e-12);
    }
}

/* DeepSpeed's WarmupLR with warmup_type log, warmup_max_lr 0.4 and 8 steps: ln(s + 1) / ln(8) of
 * it. */
Test(optim_lr, logarithmic_warm_up) {
    static const double rates[] = {0,
                                   0.13333333333333333,
                                   0.21132833342948754,
                                   0.26666666666666666,
                                   0.30959041265164833,
                                   0.34466166676282084,
                                   0.3743139896076806,
                                   0.4,
                                   0.4,
                                   0.4};
    struct lr_config config = {
        .policy = LR_CONST, .base = 0.4, .warmup_steps = 8, .total_steps = 10, .warmup_log = true};
    for (int step = 0; step < 10; step++)
        cr_expect_float_eq(lr_at(&config, step), rates[step], 1e-12, "step %d: %.17g", step,
                           lr_at(&config, step));
    config.warmup_steps = 1;
    cr_expect_eq(lr_at(&config, 0), 0.4, "a warm-up of one step begins at the full rate");
}

Test(optim_lr, every_policy_has_values) {
    for (int policy = 0; policy < LR_POLICY_COUNT; policy++) {
        size_t r = 0;
        while (r < sizeof rows / sizeof rows[0] && (int)rows[r].policy != policy) r++;
        cr_expect_lt(r, sizeof rows / sizeof rows[0], "%s has no row in values.def",
                     lr_policy_name((enum lr_policy)policy));
    }
}

Test(optim_lr, odd_lengths_stay_finite) {
    for (int policy = 0; policy < LR_POLICY_COUNT; policy++) {
        struct lr_config config = {.policy = (enum lr_policy)policy, .base = 1, .gamma = 0.5};
        for (int total = 0; total < 3; total++) {
            for (int warmup = 0; warmup < 5; warmup++) {
                config.total_steps = total;
                config.warmup_steps = warmup; /* also longer than the run */
                for (int step = 0; step < 6; step++) {
                    double rate = lr_at(&config, step);
                    cr_expect(isfinite(rate), "policy %d, %d of %d: %g", policy, step, total, rate);
                }
            }
        }
    }
}
