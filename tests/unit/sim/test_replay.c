/* The replay of orders, which `auto` chooses by, agrees with whole programs where messages queue.
 */
#include <criterion/criterion.h>

#include "kit.h"
#include "program/replay.h"

enum { STAGES = 4, MICROS = 6, AHEAD = 30, BACK = 20 };

/* Ahead or back, links are slower than the passes: messages queue. */
static double replayed(const char *name, double rate, double latency) {
    const struct pipeline_schedule *schedule = pipeline_find(name);
    struct pipeline_shape shape = {
        .positions = STAGES, .chunks = 1, .v_shape = false, .micro_batches = MICROS};
    double one[STAGES], late[STAGES], ahead[STAGES], back[STAGES];
    for (int s = 0; s < STAGES; s++) {
        one[s] = 1, late[s] = latency;
        ahead[s] = AHEAD / rate, back[s] = BACK / rate;
    }
    struct replay_costs costs = {
        .forward = one, .input = one, .weight = one, .latency = late, .moving = {ahead, back}};
    struct pipeline_order *orders = pipeline_orders_build(schedule, &shape);
    struct replay replay = {.shape = &shape, .orders = orders, .costs = &costs};
    struct replay_times times;
    cr_assert(replay_run(&replay, &times, NULL));
    pipeline_orders_free(&orders, STAGES);
    return times.total;
}

static double simulated(const char *name, double rate, double latency) {
    struct sim_case of = {name, STAGES, 1, 1, MICROS, 0, MICROS};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, 1, 1, 0}, &kit);
    for (int s = 0; s < STAGES; s++) {
        kit.stage[s].message_bytes[SIM_FORWARD] = AHEAD;
        kit.stage[s].message_bytes[SIM_BACKWARD] = BACK;
    }
    kit.input.net.link = (struct cost_link){latency, rate};
    struct sim_result result = sim_kit_run(&kit);
    double step = result.step;
    sim_result_free(&result);
    sim_kit_free(&kit);
    return step;
}

/* Where every micro-batch has a slot of its own, they are the same: nobody waits for one that a
 * message still leaves. */
Test(sim_replay, messages_queue_in_the_replay_as_in_programs) {
    static const double rates[] = {1000, 20, 10, 4};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double want = simulated("gpipe", rates[i], 0.7), got = replayed("gpipe", rates[i], 0.7);
        cr_expect_float_eq(got, want, 1e-9, "rate %g: %g, not %g", rates[i], got, want);
    }
}
