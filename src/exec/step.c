/* See step.h. */
#include "exec/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

void step_init(struct step *step, int ranks) {
    *step = (struct step){.number = -1,
                          .labels = mem_array((size_t)ranks, sizeof *step->labels),
                          .all_squares = MEM_ARRAY(struct exact_sum, ranks),
                          .shares = MEM_ARRAY(struct step_share, ranks),
                          .rank_loss = MEM_ARRAY(double, ranks),
                          .rank_ms = MEM_ARRAY(double, ranks)};
}

void step_free(struct step *step) {
    free(step->labels);
    free(step->all_squares);
    free(step->shares);
    free(step->rank_loss);
    free(step->rank_ms);
}

void step_renew(struct step *step, int64_t number) {
    step->number = number;
    step->normed = step->updated = false;
    step->asked = (struct exec_request){0};
}

void step_begin(struct step *step) {
    step->begin_ns = clock_ns();
    step->times = (struct exec_times){0};
    step->tally = (struct tally){0};
    memset(step->loss, 0, sizeof step->loss);
}
