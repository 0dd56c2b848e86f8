/* --delay: the passes of a step take a given time instead of computing, so that a schedule can be
 * timed with more ranks than there are cores.
 *
 * The program is the one that would compute: it is verified, simulated and traced as such, and all
 * else of it runs. Rejected: an instruction DELAY in place of F, B, I and W, of whose program the
 * verifier could prove nothing. */
#include "exec/delay.h"

#include <time.h>

#include "base/clock.h"

enum { SLICE_NS = 250 * 1000 }; /* between two looks at what is under way */

/* A segment is an equal part of its pass: nothing says what its nodes would take. */
int64_t delay_ns(const struct plan *plan, const struct instr *instr) {
    int chunk = grid_chunk(&plan->program->grid, instr->stage);
    int parts = instr_is_segment(instr) ? plan->chunk[chunk].buckets.count : 1;
    return plan_delay_ns(plan, instr) / parts;
}

static void sleep_until(int64_t end_ns) {
    struct timespec until = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

bool delays(const struct engine *engine, const struct instr *instr) {
    return engine->plan->config.costs->delays && list_is_step(engine->list_name) &&
           instr_runs_nodes(instr);
}

enum status delay(struct engine *engine, const struct instr *instr) {
    return delay_until(engine, clock_ns() + delay_ns(engine->plan, instr));
}

enum status delay_until(struct engine *engine, int64_t end_ns) {
    for (int64_t now = clock_ns(); now < end_ns; now = clock_ns()) {
        sleep_until(now + SLICE_NS < end_ns ? now + SLICE_NS : end_ns);
        engine_progress(engine);
        if (engine->comm_status != STATUS_OK) return engine->comm_status;
    }
    return STATUS_OK;
}
