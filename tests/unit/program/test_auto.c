/* `auto`: what it builds is an order, keeps to the limit and is as good as every fixed schedule
 * that does; the greedy builder never deadlocks, however little memory there is. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "pipe_kit.h"
#include "program/auto.h"

enum { MOST = 32 };

/* Costs and bytes of a random pipeline. */
struct problem {
    struct pipeline_shape shape;
    double forward[MOST], input[MOST], weight[MOST];
    int64_t kept[MOST], rest[MOST], limit[MOST];
    struct replay_costs costs;
    struct replay_bytes bytes;
    struct auto_input in;
    bool slots;
};

static uint32_t state = 1;
static double uniform(double low, double high) {
    state = state * 1664525u + 1013904223u;
    return low + (high - low) * (double)(state >> 8) / (double)(1 << 24);
}

static void link_parts(struct problem *of) {
    of->costs = (struct replay_costs){
        .forward = of->forward, .input = of->input, .weight = of->weight, .hop = of->costs.hop};
    of->bytes = (struct replay_bytes){of->kept, of->rest};
    of->in = (struct auto_input){.shape = &of->shape,
                                 .costs = &of->costs,
                                 .bytes = &of->bytes,
                                 .limit_bytes = of->limit,
                                 .slots = of->slots};
}

/* spread 0: all stages cost the same. room: micro-batches of all its stages that a position can
 * hold. */
static void fill(struct problem *of, struct pipeline_shape shape, double spread, double room) {
    of->shape = shape;
    for (int s = 0; s < pipeline_stages(&shape); s++) {
        of->forward[s] = 1 + uniform(0, spread);
        of->input[s] = 1 + uniform(0, spread);
        of->weight[s] = 1 + uniform(-spread / 2, spread);
        of->kept[s] = 1000 + (int64_t)uniform(0, spread * 500);
        of->rest[s] = 600 + (int64_t)uniform(0, spread * 1200);
    }
    for (int p = 0; p < shape.positions; p++) {
        int64_t all = 0;
        for (int c = 0; c < shape.chunks; c++) {
            int s = pipeline_stage(&shape, p, c);
            all += of->kept[s] > of->rest[s] ? of->kept[s] : of->rest[s];
        }
        of->limit[p] = (int64_t)(room * (double)all);
    }
    of->costs.hop = uniform(0, spread / 2);
    link_parts(of);
}

static void is_an_order(const struct problem *of, struct pipeline_order *orders) {
    struct pipe pipe = {.shape = of->shape, .orders = orders};
    pipe_expect_complete(&pipe);
    if (!pipe_runs_with_credits(&pipe, 2)) pipe_fail(&pipe, 0, "deadlocks with 2 credits");
    for (int p = 0; p < of->shape.positions; p++)
        cr_assert_leq(replay_peak_bytes(&orders[p], &of->bytes), of->limit[p]);
}

static double time_of(const struct problem *of, const struct pipeline_order *orders) {
    struct replay replay = {.shape = &of->shape, .orders = orders, .costs = &of->costs};
    struct replay_times times;
    cr_assert(replay_run(&replay, &times, NULL));
    return times.total;
}

static bool keeps_to_the_limit(const struct problem *of, const struct pipeline_order *orders) {
    for (int p = 0; p < of->shape.positions; p++)
        if (replay_peak_bytes(&orders[p], &of->bytes) > of->limit[p]) return false;
    return true;
}

static void no_fixed_one_is_better(const struct problem *of, double time) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (schedule->older) continue; /* steps overlap: see test_ahead.c */
        if (!pipeline_takes(schedule, &of->shape) || schedule->one_backward_at_a_time) continue;
        struct pipeline_order *orders = pipeline_orders_build(schedule, &of->shape);
        if (keeps_to_the_limit(of, orders))
            cr_expect(time <= time_of(of, orders) * (1 + 1e-6), "%s is better", schedule->name);
        pipeline_orders_free(&orders, of->shape.positions);
    }
}

static struct auto_choice solve(const struct problem *of) {
    struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, of->shape.positions);
    struct auto_choice choice;
    cr_assert(auto_find(&of->in, orders, &choice));
    is_an_order(of, orders);
    cr_expect_float_eq(choice.times.total, time_of(of, orders), 1e-9);
    no_fixed_one_is_better(of, choice.times.total);
    pipeline_orders_free(&orders, of->shape.positions);
    return choice;
}

static struct pipeline_shape any_shape(void) {
    int chunks = 1 + (int)uniform(0, 3);
    bool v_shape = chunks == 2 && uniform(0, 1) < 0.5;
    return (struct pipeline_shape){1 + (int)uniform(0, 8), chunks, v_shape,
                                   1 + (int)uniform(0, 20)};
}

Test(program_auto, best_under_the_limit_and_the_same_again) {
    int greedy = 0;
    for (int round = 0; round < 200; round++) {
        struct problem of = {0};
        fill(&of, any_shape(), uniform(0, 1), uniform(1, 10));
        struct auto_choice one = solve(&of), again = solve(&of);
        cr_expect_eq(one.times.total, again.times.total);
        cr_expect_str_eq(one.from, again.from);
        greedy += strcmp(one.from, "greedy") == 0;
    }
    cr_expect_gt(greedy, 100, "greedy is best in %d of 200", greedy);
}

/* Room for one micro-batch of each stage is enough for every setting. */
Test(program_auto, greedy_does_not_deadlock_in_little_memory) {
    for (int round = 0; round < 100; round++) {
        struct problem of = {0};
        fill(&of, any_shape(), 1, round % 2 ? 1 : uniform(1, 3));
        for (int switches = 0; switches < GREEDY_SETTINGS; switches++) {
            struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, of.shape.positions);
            cr_assert(greedy_build(&of.in, switches, orders));
            is_an_order(&of, orders);
            time_of(&of, orders);
            pipeline_orders_free(&orders, of.shape.positions);
        }
    }
}

/* With room for it and equal times the first position never idles: 6M + R - 1 on a V, as zbv. */
Test(program_auto, room_is_used) {
    struct problem of = {0};
    fill(&of, (struct pipeline_shape){4, 2, true, 12}, 0, 100);
    cr_expect_float_eq(solve(&of).times.total, 6 * 12 + 3, 1e-9);
    struct auto_choice roomy = solve(&of);
    cr_expect_str_eq(roomy.from, "zbv");
    for (int p = 0; p < 4; p++) of.limit[p] = 3 * 2000;
    struct auto_choice tight = solve(&of);
    cr_expect_gt(tight.times.total, roomy.times.total);
    cr_expect_leq(tight.peak_bytes, 3 * 2000);
}

/* Every switch is there because some costs need it. */
Test(program_auto, each_switch_is_best_for_some_costs) {
    int needed[2][4] = {{0}};
    for (int round = 0; round < 300; round++) {
        struct problem of = {0};
        fill(&of, any_shape(), 1, uniform(1, 8));
        double best[2][4] = {{1e99, 1e99, 1e99, 1e99}, {1e99, 1e99, 1e99, 1e99}};
        for (int switches = 0; switches < GREEDY_SETTINGS; switches++) {
            struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, of.shape.positions);
            greedy_build(&of.in, switches, orders);
            double time = time_of(&of, orders);
            for (int bit = 0; bit < 4; bit++)
                if (time < best[switches >> bit & 1][bit]) best[switches >> bit & 1][bit] = time;
            pipeline_orders_free(&orders, of.shape.positions);
        }
        for (int bit = 0; bit < 4; bit++) {
            needed[0][bit] += best[0][bit] < 0.995 * best[1][bit];
            needed[1][bit] += best[1][bit] < 0.995 * best[0][bit];
        }
    }
    for (int bit = 0; bit < 4; bit++)
        cr_expect(needed[0][bit] > 0 && needed[1][bit] > 0, "switch %d: off %d, on %d", bit,
                  needed[0][bit], needed[1][bit]);
}

Test(program_auto, what_cannot_fit_is_refused) {
    struct problem of = {0};
    fill(&of, (struct pipeline_shape){3, 1, false, 4}, 0, 1);
    of.limit[1] = 999;
    struct pipeline_order orders[3] = {{0}};
    struct auto_choice choice;
    char log[512] = "";
    cr_expect(!auto_find(&of.in, orders, &choice));
    log_capture(log, sizeof log);
    enum status status = auto_refuse(&of.in);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_MEMORY);
    cr_expect(strstr(log, "999 bytes on position 1") && strstr(log, "1000"), "%s", log);
    cr_expect_eq(orders[0].count, 0);
}

/* Stages that share no memory: what each has at its own peak counts, not what is kept at once. */
Test(program_auto, stages_with_memory_of_their_own_keep_to_the_limit) {
    int apart = 0;
    for (int round = 0; round < 100; round++) {
        struct problem of = {.slots = true};
        fill(&of, any_shape(), 1, uniform(1, 4));
        struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, of.shape.positions);
        struct auto_choice choice;
        bool found = auto_find(&of.in, orders, &choice);
        cr_expect(!found || choice.fits);
        for (int p = 0; found && p < of.shape.positions; p++) {
            int64_t sum = 0;
            for (int c = 0; c < of.shape.chunks; c++) {
                int stage = pipeline_stage(&of.shape, p, c), live = 0, most = 0;
                for (int i = 0; i < orders[p].count; i++) {
                    struct pipeline_op op = orders[p].items[i];
                    if (op.stage == stage)
                        live += (op.op == INSTR_F) - (op.op != INSTR_F && op.op != INSTR_I);
                    if (live > most) most = live;
                }
                sum += most * of.kept[stage];
            }
            cr_expect_leq(sum, of.limit[p]);
            apart += sum > replay_peak_bytes(&orders[p], &of.bytes);
        }
        pipeline_orders_free(&orders, of.shape.positions);
    }
    cr_expect_gt(apart, 10, "the two peaks differ in %d positions", apart);
}

/* What explain compares with: the same figures as the search has. */
Test(program_auto, fixed_ones_are_measured) {
    struct problem of = {0};
    fill(&of, (struct pipeline_shape){4, 1, false, 8}, 0, 4);
    of.costs.hop = 0;
    struct auto_choice found;
    cr_assert(auto_measure(&of.in, pipeline_find("1f1b"), &found));
    cr_expect_float_eq(found.times.total, 3 * (8 + 3), 1e-9);
    cr_expect(found.fits);
    cr_assert(auto_measure(&of.in, pipeline_find("gpipe"), &found));
    cr_expect_not(found.fits);
    cr_assert(auto_measure(&of.in, pipeline_find("pmp"), &found));
    cr_expect_float_eq(found.times.total, 8 + 3 + 8 * 4 * 2, 1e-9, "one backward at a time: %g",
                       found.times.total);
    cr_expect_not(auto_measure(&of.in, pipeline_find("zbv"), &found));
}
