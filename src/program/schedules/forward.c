/* Forward alone, for those who use a trained model: every list but those of an evaluation is
 * empty, and those are the same for all schedules (between.c). There are no gradients; a stage
 * has the one slot of a round. */
#include "base/log.h"
#include "program/schedule.h"

static enum status forward_prepare(const struct schedule_config *config, struct program *program) {
    CHECK(config->micro_batches == 0, "a step of %d micro-batches", config->micro_batches);
    program_declare_group(program, GROUP_WORLD);
    return STATUS_OK;
}

static void forward_build(const struct schedule_config *config, const struct program *program,
                          int rank, struct rank_program *out) {
    (void)config, (void)program, (void)rank;
    out->grads = 0;
}

const struct schedule schedule_forward = {.name = SCHEDULE_FORWARD,
                                          .help = "no step: the rounds of an evaluation",
                                          .prepare = forward_prepare,
                                          .build = forward_build};
