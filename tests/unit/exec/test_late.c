/* The executor on the device `late` (tests/late): memory that the host cannot touch, streams that
 * run as late as they may. Who reaches past the backend's table ends with SIGSEGV, who reads before
 * an event has other bits than `ref`. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "../../late/late.h"
#include "kit.h"

struct trained {
    double loss, eval_loss, norm;
    uint64_t hash;
};

static struct trained train(const char *device, const char *line) {
    struct kit_run *run = kit_open("%s --device %s --threads 1", line, device);
    struct eval_result eval;
    struct step_result step = kit_steps(run, -1);
    struct trained trained = {.loss = step.loss};
    cr_assert_eq(engine_settle(run->engine), STATUS_OK);
    cr_expect(engine_norm(run->engine, step.step, &trained.norm));
    cr_assert_eq(engine_evaluate(run->engine, &eval), STATUS_OK);
    trained.eval_loss = eval.loss;
    trained.hash = kit_hash(run);
    kit_close(&run);
    return trained;
}

#define IMAGES "--data synthetic:count=24,test_count=12,size=8,channels=1,classes=3 --batch 8 "
static const char *const lines[] = {
    "--model mlp --data synthetic:count=24,size=8 --batch 8 --steps 5 --micro-batches 2 --clip 1",
    "--model lenet --data synthetic:count=20,size=28,channels=1 --batch 8 --epochs 2 --optimizer "
    "adamw",
    "--model resnet8 " IMAGES "--steps 4 --micro-batches 2 --recompute always:block",
    "--model resnet8 " IMAGES "--steps 3 --deal 2x1 --sync-bn",
    "--model resnet8 " IMAGES "--steps 3 --deal 2x2 --sum tree",
    "--model gpt2-nano --data synthetic:kind=text,seq=16,vocab=200,count=8,test_count=4 --batch 4 "
    "--steps 3 --dtype bf16"};

Test(exec_late, one_rank_has_the_bits_of_ref, .timeout = 120) {
    late_add();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct trained here = train("ref", lines[i]), late = train("late", lines[i]);
        cr_expect_eq(here.hash, late.hash, "%s", lines[i]);
        cr_expect_eq(here.loss, late.loss, "%s", lines[i]);
        cr_expect_eq(here.norm, late.norm, "%s", lines[i]);
        cr_expect_eq(here.eval_loss, late.eval_loss, "%s", lines[i]);
    }
}
