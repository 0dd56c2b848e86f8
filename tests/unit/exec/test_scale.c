/* Loss scaling of f16, on the device `late`. */
#include <criterion/criterion.h>
#include <math.h>

#include "../../late/late.h"
#include "kit.h"

#define MLP "--model mlp --data synthetic:count=48,size=8 --batch 8 --steps 40 --dtype f16"

static struct loss_scale *scale_of(struct kit_run *run) {
    return &engine_state(run->engine)->done.scale;
}

/* Gradients of such a loss overflow: the step changes nothing but the scale. */
Test(exec_scale, a_step_whose_gradients_overflow_is_left_out) {
    late_add();
    struct kit_run *run = kit_open(MLP " --device late --threads 1");
    uint64_t before = kit_hash(run);
    scale_of(run)->scale = ldexp(1, 40);
    struct step_result step = kit_steps(run, 1);
    cr_expect_eq(step.loss_scale, ldexp(1, 40));
    cr_expect_eq(scale_of(run)->scale, ldexp(1, 39));
    cr_expect_eq(scale_of(run)->skipped, 1);
    cr_expect_eq(kit_hash(run), before);
    while (scale_of(run)->good == 0) step = kit_steps(run, 1);
    cr_expect_neq(kit_hash(run), before);
    cr_expect(isfinite(step.loss));
    kit_close(&run);
}

/* A scale that is a power of two changes no bit that f16 can hold, and the norm not at all. */
Test(exec_scale, the_norm_is_that_of_gradients_before_scaling) {
    late_add();
    double norms[2];
    for (int i = 0; i < 2; i++) {
        struct kit_run *run = kit_open(MLP " --device late --threads 1");
        scale_of(run)->scale = i ? 1024 : 512;
        struct step_result step = kit_steps(run, 1);
        cr_assert_eq(engine_settle(run->engine), STATUS_OK);
        cr_assert(engine_norm(run->engine, step.step, &norms[i]));
        kit_close(&run);
    }
    cr_expect(fabs(norms[0] / norms[1] - 1) < 1e-3, "%g and %g", norms[0], norms[1]);
}

Test(exec_scale, other_types_have_none) {
    late_add();
    struct kit_run *run = kit_open("--model mlp --data synthetic:count=24,size=8 --batch 8 --steps "
                                   "2 --device late --threads 1");
    cr_expect(isnan(kit_steps(run, 1).loss_scale));
    cr_expect_eq(scale_of(run)->scale, 0);
    kit_close(&run);
}
