/* Whole programs in virtual time: the published table and golden times, agreement with the replay
 * of orders, credits, groups, slow ranks, equal replicas and the critical path. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kit.h"
#include "program/replay.h"
#include "program/schedule.h"
#include "sync/sync.h"

static const struct sim_units equal = {1, 1, 1, 0};
static const struct sim_units uneven = {1, 1.25, 0.5, 0};

/* --- figures others have printed --- */

static const struct row {
    const char *name;
    int chunks;
    const char *bubble, *span, *peak;
} table[] = {
    {"mp", 1, "87.5", "87.5", "1"},           {"gpipe", 1, "17.9", "17.9", "32"},
    {"1f1b", 1, "17.9", "17.9", "8"},         {"interleaved", 2, "9.9", "9.9", "11.5"},
    {"interleaved", 4, "5.2", "5.2", "9.75"}, {"zb-h1", 1, "6.8", "6.8", "8"},
    {"zb-h2", 1, "6.8", "0.0", "15"},         {"zbv", 2, "3.5", "0.0", "8"},
    {"dualpipe-v", 2, "3.5", "3.5", "8.5"},
};

static void expect_percent(double share, const char *want, const char *name, const char *what) {
    char *text = mem_format("%.1f", 100 * share + 1e-9);
    cr_expect_str_eq(text, want, "%s: %s %s, not %s", name, what, text, want);
    free(text);
}

static void expect_row(const struct row *row, int steps) {
    struct sim_kit kit;
    sim_kit_new(&(struct sim_case){row->name, 8, row->chunks, 1, 32, 0, 0}, equal, &kit);
    kit.input.steps = steps;
    struct sim_result result = sim_kit_run(&kit);
    char *peak = mem_format("%g", (double)result.peak_bytes / row->chunks);
    expect_percent(result.bubble, row->bubble, row->name, "bubble");
    expect_percent(result.span_bubble, row->span, row->name, "span bubble");
    cr_expect_str_eq(peak, row->peak, "%s: peak %s", row->name, peak);
    free(peak);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

Test(sim_run, eight_ranks_and_32_micro_batches_to_the_printed_digits) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) expect_row(&table[i], 1);
}

/* All ranks meet at the end of a step, so the next one is like it. */
Test(sim_run, later_steps_are_like_the_first) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) expect_row(&table[i], 3);
}

Test(sim_run, golden_times) {
    static const struct {
        const char *name;
        int stages, chunks, micros;
        double time;
    } rows[] = {{"1f1b", 4, 1, 6, 27},  {"interleaved", 2, 2, 4, 27}, {"zb-h1", 4, 1, 6, 21},
                {"zb-h2", 3, 1, 6, 20}, {"zbv", 2, 2, 4, 25},         {"dualpipe-v", 2, 2, 4, 25}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sim_case of = {
            rows[i].name, rows[i].stages, rows[i].chunks, 1, rows[i].micros, 0, 0};
        struct sim_result result = sim_of(&of, equal);
        cr_expect_float_eq(result.step, rows[i].time, 1e-9, "%s: %g", rows[i].name, result.step);
        sim_result_free(&result);
    }
}

/* Hops of 0.3 and of 1, with as many credits as micro-batches. */
Test(sim_run, latency) {
    static const struct {
        const char *name, *bubble;
        double time;
    } rows[] = {{"1f1b", "30.1", 185},
                {"eager-1f1b", "20.8", 131},
                {"zb-h1", "13.8", 151},
                {"zb-h2", "8.7", 110}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sim_case of = {
            .schedule = rows[i].name, .stages = 8, .replicas = 1, .micros = 32, .credits = 32};
        struct sim_result near = sim_of(&of, (struct sim_units){1, 1, 1, 0.3}),
                          far = sim_of(&of, (struct sim_units){1, 1, 1, 1});
        expect_percent(near.bubble, rows[i].bubble, rows[i].name, "bubble");
        cr_expect_float_eq(far.step, rows[i].time, 1e-9, "%s: %g", rows[i].name, far.step);
        sim_result_free(&near);
        sim_result_free(&far);
    }
}

/* --- the replay of orders --- */

static double replayed(const struct sim_case *of, struct sim_units units) {
    const struct pipeline_schedule *schedule = pipeline_find(of->schedule);
    struct pipeline_shape shape = {of->stages, of->chunks, schedule->v_shape, of->micros};
    int stages = pipeline_stages(&shape);
    double *time = MEM_ARRAY(double, 3 * stages);
    for (int s = 0; s < stages; s++) {
        time[s] = units.f;
        time[stages + s] = units.i;
        time[2 * stages + s] = units.w;
    }
    struct replay_costs costs = {
        .forward = time, .input = time + stages, .weight = time + 2 * stages, .hop = units.hop};
    struct pipeline_order *orders = pipeline_orders_build(schedule, &shape);
    struct replay replay = {.shape = &shape,
                            .orders = orders,
                            .costs = &costs,
                            .one_backward_at_a_time = schedule->one_backward_at_a_time};
    struct replay_times times;
    cr_assert(replay_run(&replay, &times, NULL));
    pipeline_orders_free(&orders, shape.positions);
    free(time);
    return times.total;
}

/* `meetings` of all stages take a hop each that the replay knows nothing of. */
static void expect_replayed(const struct sim_case *of, struct sim_units units, int meetings) {
    struct sim_result result = sim_of(of, units);
    double want = replayed(of, units) + meetings * units.hop;
    cr_expect_float_eq(
        result.step, want, 1e-6, "%s, %d stages, %d chunks, %d micro-batches, hop %g: %g, not %g",
        of->schedule, of->stages, of->chunks, of->micros, units.hop, result.step, want);
    sim_result_free(&result);
}

static void every_shape(const struct pipeline_schedule *schedule, int chunks,
                        void (*check)(const struct sim_case *of)) {
    for (int stages = 1; stages <= 6; stages++) {
        for (int micros = 1; micros <= 13; micros++)
            check(&(struct sim_case){schedule->name, stages, chunks, 1, micros, 0, 0});
    }
}

static void every_case(void (*check)(const struct sim_case *of)) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (schedule->older) continue; /* steps overlap: see test_ahead.c */
        for (int chunks = 1; chunks <= 3; chunks++) {
            struct pipeline_shape shape = {.chunks = chunks, .v_shape = schedule->v_shape};
            if (pipeline_takes(schedule, &shape)) every_shape(schedule, chunks, check);
        }
    }
}

static void check_without_hops(const struct sim_case *of) {
    expect_replayed(of, equal, 0);
    expect_replayed(of, uneven, 0);
}

Test(sim_run, agrees_with_the_replay_of_orders, .timeout = 120) {
    every_case(check_without_hops);
}

/* With credits enough. A step of pmp and its like ends with a meeting of all stages. */
static void check_with_hops(const struct sim_case *of) {
    struct sim_case many = *of;
    int meetings = of->stages > 1 && pipeline_find(of->schedule)->one_backward_at_a_time;
    many.credits = of->micros;
    expect_replayed(&many, (struct sim_units){1, 1.25, 0.5, 0.4}, meetings);
}

Test(sim_run, agrees_with_the_replay_of_orders_with_hops, .timeout = 120) {
    every_case(check_with_hops);
}

static void check_credits(const struct sim_case *of) {
    double last = INFINITY;
    for (int credits = 2; credits <= 5; credits++) {
        struct sim_case with = *of;
        with.credits = credits;
        struct sim_result result = sim_of(&with, (struct sim_units){1, 1, 1, 0.8});
        cr_expect_leq(result.step, last + 1e-9, "%s, %d stages, %d micro-batches", of->schedule,
                      of->stages, of->micros);
        last = result.step;
        sim_result_free(&result);
    }
}

Test(sim_run, more_credits_are_never_slower, .timeout = 120) {
    every_case(check_credits);
}

/* --- credits and links --- */

/* A hop of 4 and work of 1: with one credit the next message leaves when the last was taken. */
Test(sim_run, credits_hold_a_fast_sender_back) {
    struct sim_case of = {"gpipe", 2, 1, 1, 8, 0, 1};
    struct sim_units units = {1, 0.5, 0.5, 4};
    double step[2];
    for (int i = 0; i < 2; i++) {
        of.credits = i ? 4 : 1;
        struct sim_result result = sim_of(&of, units);
        step[i] = result.step;
        sim_result_free(&result);
    }
    /* Forwards of the second stage end at 6, 10, ... 34 or at 6, 7, ... 13. */
    cr_expect_float_eq(step[1], 13 + 8 + 4 + 1, 1e-9, "%g", step[1]);
    cr_expect_gt(step[0], step[1] + 20, "%g", step[0]);
}

/* Messages of 6 bytes at 2 a unit follow one another. */
Test(sim_run, bandwidth_keeps_messages_apart) {
    struct sim_case of = {"gpipe", 2, 1, 1, 4, 0, 4};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, 0.5, 0.5, 0}, &kit);
    kit.input.net.link = (struct cost_link){0.5, 2};
    kit.stage[0].message_bytes[SIM_FORWARD] = 6;
    struct sim_result result = sim_kit_run(&kit);
    /* Posted at 1, 2, 3, 4; sent from 1, 4, 7, 10 to 13; the last arrives at 13.5. */
    cr_expect_float_eq(result.step, 13.5 + 1 + 4 + 0.5 + 1, 1e-9, "%g", result.step);
    cr_expect_float_eq(result.rank[1].exposed, 3.5 + 3 * 2 + 0, 1e-9, "%g", result.rank[1].exposed);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

/* --- groups --- */

static const int64_t bucket_bytes[] = {4, 4, 4, 4};

/* Two replicas, four buckets of 4 bytes at 2 a unit: each sum takes 2 * 1/2 * 4/2 = 2. Backward is
 * cut into four, of b/4 each. */
static struct sim_result of_ddp(double b, double share_of_first) {
    struct sim_case of = {"single", 1, 1, 2, 1, 4, 0};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, b / 2, b / 2, 0}, &kit);
    double share[] = {share_of_first, (1 - share_of_first) / 3, (1 - share_of_first) / 3,
                      (1 - share_of_first) / 3};
    kit.stage[0].bucket_bytes = bucket_bytes;
    kit.stage[0].segment = share;
    kit.stage[0].segment_count = 4;
    kit.input.net.collective = COST_COLLECTIVE_RING;
    kit.input.net.group_link = (struct cost_link){0, 2};
    struct sim_result result = sim_kit_run(&kit);
    sim_kit_free(&kit);
    return result;
}

Test(sim_run, reductions_hide_behind_backward) {
    const struct {
        double b, first, step, exposed;
    } rows[] = {
        {8, 0.25, 1 + 8 + 2, 2},         /* a segment takes as long as a sum: the last one shows */
        {16, 0.25, 1 + 16 + 2, 2},       /* more time than needed */
        {4, 0.25, 1 + 1 + 4 * 2, 5},     /* too little: one after the other from the first on */
        {8, 0.85, 1 + 6.8 + 4 * 2, 6.8}, /* all buckets late */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sim_result result = of_ddp(rows[i].b, rows[i].first);
        cr_expect_float_eq(result.step, rows[i].step, 1e-9, "row %zu: %g", i, result.step);
        cr_expect_float_eq(result.exposed, rows[i].exposed, 1e-9, "row %zu: %g", i, result.exposed);
        double bubble = 1 - (1 + rows[i].b) / rows[i].step;
        cr_expect_float_eq(result.bubble, bubble, 1e-9, "row %zu: %g", i, result.bubble);
        sim_result_free(&result);
    }
}

/* By shared memory everybody reads and writes all bytes once. */
Test(sim_run, formulas_of_groups) {
    struct sim_case of = {"single", 1, 1, 4, 1, 1, 0};
    struct sim_kit kit;
    const int64_t bytes[] = {12};
    static const double want[] = {0, 5 + 2 * 12 / 3.0, 2 * 3 / 4.0 * 12 / 3 + 2 * 3 * 5};
    for (int i = 0; i < 3; i++) {
        sim_kit_new(&of, equal, &kit);
        kit.stage[0].bucket_bytes = bytes;
        kit.input.net.collective = (enum cost_collective)i;
        kit.input.net.group_link = (struct cost_link){5, 3};
        struct sim_result result = sim_kit_run(&kit);
        /* COUNT is done before backward, REPORT after the sum; each takes a latency. */
        double rest = i == 0 ? 3 : 5 + 2 + 5;
        cr_expect_float_eq(result.step, want[i] + rest, 1e-9, "%d: %g, not %g", i, result.step,
                           want[i] + rest);
        sim_result_free(&result);
        sim_kit_free(&kit);
    }
}

/* --- slow ranks, equal replicas --- */

static void make_slow(struct sim_kit *kit, const struct cluster_slow *slow, size_t count) {
    kit->input.net.slow = slow;
    kit->input.net.slow_count = count;
}

Test(sim_run, equal_replicas_are_run_once_and_give_the_same_numbers) {
    static const char *const names[] = {"1f1b", "zbv", "gpipe", "pmp"};
    struct cluster_slow slow = {{9, 9}, 1.7, 0};
    for (int i = 0; i < 8; i++) {
        struct sim_case of = {names[i / 2], 4, 0, 6, 7, 2, 0};
        struct sim_result result[2];
        for (int apart = 0; apart < 2; apart++) {
            struct sim_kit kit;
            sim_kit_new(&of, (struct sim_units){1, 1.25, 0.5, 0.4}, &kit);
            kit.input.steps = 3;
            kit.input.apart = apart;
            kit.input.net.collective = COST_COLLECTIVE_RING;
            kit.input.net.group_link.bytes_per_time = 100;
            if (i % 2) make_slow(&kit, &slow, 1);
            result[apart] = sim_kit_run(&kit);
            sim_kit_free(&kit);
        }
        cr_expect_eq(result[0].run_count, i % 2 ? 8 : 4);
        cr_expect_eq(result[1].run_count, 24);
        cr_expect_eq(result[0].rank[0].like, i % 2 ? 5 : 6);
        cr_expect_float_eq(result[0].step, result[1].step, 1e-9);
        cr_expect_float_eq(result[0].first_step, result[1].first_step, 1e-9);
        cr_expect_float_eq(result[0].bubble, result[1].bubble, 1e-9);
        cr_expect_float_eq(result[0].span_bubble, result[1].span_bubble, 1e-9);
        cr_expect_float_eq(result[0].exposed, result[1].exposed, 1e-9);
        sim_result_free(&result[0]);
        sim_result_free(&result[1]);
    }
}

/* --- the critical path --- */

/* It is as long as the step, without gaps. */
static void expect_whole_path(const struct sim_result *result, const struct sim_path *path,
                              const char *name) {
    double end = result->begin + result->step;
    for (int i = 0; i < path->count; i++) {
        cr_expect_float_eq(path->item[i].end, end, 1e-9, "%s: a gap at %g", name, end);
        end = path->item[i].begin;
    }
    cr_expect_float_eq(end, result->begin, 1e-9, "%s: begins at %g", name, end);
}

/* Waiting, also that at the end of the step, is not laid to the instruction before it. */
static void expect_own_times(const struct sim_kit *kit, const struct sim_result *result,
                             const struct sim_path *path, const char *name) {
    for (int i = 0; i < path->count; i++) {
        const struct sim_path_item *item = &path->item[i];
        const struct sim_rank *rank = &result->rank[item->run];
        const struct instr *instr =
            &program_list(kit->program, rank->rank, LIST_BODY)->items[item->at];
        const struct sim_record *record = &rank->record[item->at];
        if (item->transfer || instr_row(instr)->queue != QUEUE_COMPUTE) continue;
        cr_expect_leq(item->end - item->begin, record->end - record->begin + 1e-9,
                      "%s: %s takes %g, on the path %g", name, instr_row(instr)->name,
                      record->end - record->begin, item->end - item->begin);
    }
}

static void check_path_at(const struct sim_case *of, struct sim_units units) {
    struct sim_kit kit;
    sim_kit_new(of, units, &kit);
    kit.input.steps = 2;
    kit.input.record = true;
    kit.input.costs = &kit.costs;
    struct sim_result result = sim_kit_run(&kit);
    struct sim_path path;
    sim_path(&kit.input, &result, &path);
    expect_whole_path(&result, &path, of->schedule);
    expect_own_times(&kit, &result, &path, of->schedule);
    sim_path_free(&path);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

/* At equal costs the first rank of a V is not the last to end. */
static void check_path(const struct sim_case *of) {
    check_path_at(of, (struct sim_units){1, 1.25, 0.5, 0.4});
    check_path_at(of, equal);
}

Test(sim_run, critical_paths_have_no_gaps, .timeout = 120) {
    every_case(check_path);
}

/* Of a pipeline with a slow rank nearly all of the path is on it. */
Test(sim_run, a_slow_rank_is_on_the_critical_path) {
    struct cluster_slow slow = {{2, 2}, 3, 0};
    struct sim_case of = {"1f1b", 4, 0, 1, 16, 0, 0};
    struct sim_kit kit;
    sim_kit_new(&of, equal, &kit);
    struct sim_result before = sim_kit_run(&kit);
    kit.input.record = true;
    make_slow(&kit, &slow, 1);
    struct sim_result result = sim_kit_run(&kit);
    struct sim_path path;
    double own = 0;
    sim_path(&kit.input, &result, &path);
    expect_whole_path(&result, &path, "1f1b");
    for (int i = 0; i < path.count; i++)
        if (result.rank[path.item[i].run].rank == 2) own += path.item[i].end - path.item[i].begin;
    cr_expect_gt(result.step, 2.5 * before.step, "%g after %g", result.step, before.step);
    cr_expect_geq(own, 16 * 9 - 1e-9, "%g of %g", own, result.step);
    sim_path_free(&path);
    sim_result_free(&before);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

/* --- programs that were not verified --- */

Test(sim_run, a_deadlock_is_said_not_waited_for) {
    struct sim_case of = {"1f1b", 2, 0, 1, 2, 0, 0};
    struct sim_kit kit;
    sim_kit_new(&of, equal, &kit);
    struct instr_list *body = &program_edit(kit.program, 0)->list[LIST_BODY];
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == INSTR_SEND_F && body->items[i].micro == 1) {
            memmove(&body->items[i], &body->items[i + 1],
                    (size_t)(body->count - i - 1) * sizeof *body->items);
            body->count--;
        }
    kit.input.costs = &kit.costs;
    struct sim_result result = {.step = -1};
    cr_expect_eq(sim_run(&kit.input, &result), STATUS_USAGE);
    cr_expect_eq(result.step, -1);
    sim_kit_free(&kit);
}

/* --- shared statistics --- */

/* Passes that share statistics meet, and pay for their exchanges: a latency each. */
Test(sim_run, shared_statistics) {
    struct sim_case of = {"single", 1, 1, 2, 2, 1, 0};
    struct cluster_slow slow = {{1, 1}, 2, 0};
    double step[2];
    for (int exchanges = 0; exchanges < 2; exchanges++) {
        struct sim_kit kit;
        sim_kit_new(&of, (struct sim_units){10, 1, 1, 0}, &kit);
        struct schedule_config config = {
            .grid = grid_flat(2, 2), .micro_batches = 2, .shares = true};
        program_free(&kit.program);
        cr_assert_eq(schedule_build("single", &config, &kit.program), STATUS_OK);
        cr_assert_eq(
            sync_insert("allreduce", kit.program, &(struct sync_config){.buckets = (int[]){1}}),
            STATUS_OK);
        kit.input.program = kit.program;
        kit.stage[0].stats[SIM_FORWARD] = exchanges * 3;
        kit.stage[0].stats[SIM_BACKWARD] = exchanges * 1;
        kit.input.net.collective = COST_COLLECTIVE_SHARED;
        kit.input.net.group_link.latency = 2;
        make_slow(&kit, &slow, 1);
        struct sim_result result = sim_kit_run(&kit);
        /* The fast rank waits for the slow one at each of four passes but the first. */
        cr_expect_geq(result.rank[0].waits, 10 + 2 + 10 - 1e-9, "%g", result.rank[0].waits);
        step[exchanges] = result.step;
        sim_result_free(&result);
        sim_kit_free(&kit);
    }
    cr_expect_float_eq(step[1] - step[0], 2 * (3 + 1) * 2, 1e-9, "%g", step[1] - step[0]);
}

/* Without the meetings at its end: the second rank has sent its gradients, of 10 bytes at 1 a unit,
 * before its step ends. */
Test(sim_run, a_step_ends_when_all_it_posted_is_done) {
    struct sim_case of = {"gpipe", 2, 1, 1, 1, 0, 0};
    struct sim_kit kit;
    sim_kit_new(&of, (struct sim_units){1, 1, 1, 0}, &kit);
    for (int r = 0; r < 2; r++) {
        struct instr_list *body = &program_edit(kit.program, r)->list[LIST_BODY];
        while (body->items[body->count - 1].op != INSTR_TIE) body->count--;
    }
    kit.input.net.link.bytes_per_time = 1;
    kit.stage[1].message_bytes[SIM_BACKWARD] = 10;
    struct sim_result result = sim_kit_run(&kit);
    cr_expect_float_eq(result.rank[1].end, 2 + 2 + 10, 1e-9, "%g", result.rank[1].end);
    cr_expect_float_eq(result.rank[0].end, 2 + 2 + 10 + 2, 1e-9, "%g", result.rank[0].end);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

/* --- memory and size --- */

/* The most that a rank keeps follows from its order alone. */
static void check_memory(const struct sim_case *of) {
    struct sim_kit kit;
    const struct pipeline_schedule *schedule = pipeline_find(of->schedule);
    struct pipeline_shape shape = {of->stages, of->chunks, schedule->v_shape, of->micros};
    int stages = pipeline_stages(&shape);
    int64_t *bytes = MEM_ARRAY(int64_t, 2 * stages);
    sim_kit_new(of, equal, &kit);
    for (int s = 0; s < stages; s++) {
        bytes[s] = kit.stage[s].kept_bytes = 5 + s;
        bytes[stages + s] = kit.stage[s].kept_half_bytes = 3 + 2 * s;
        kit.stage[s].fixed_bytes = 100;
    }
    struct replay_bytes kept = {bytes, bytes + stages};
    struct pipeline_order *orders = pipeline_orders_build(schedule, &shape);
    struct sim_result result = sim_kit_run(&kit);
    for (int p = 0; p < of->stages; p++)
        cr_expect_eq(result.rank[p].peak_bytes,
                     replay_peak_bytes(&orders[p], &kept) + 100 * of->chunks,
                     "%s, position %d of %d: %lld", of->schedule, p, of->stages,
                     (long long)result.rank[p].peak_bytes);
    sim_result_free(&result);
    pipeline_orders_free(&orders, of->stages);
    sim_kit_free(&kit);
    free(bytes);
}

Test(sim_run, peaks_are_those_of_the_orders, .timeout = 120) {
    every_case(check_memory);
}

/* 12,500 pipelines of two kinds: with a slow last rank and without. */
Test(sim_run, a_hundred_thousand_ranks, .timeout = 60) {
    struct sim_case of = {"1f1b", 8, 1, 12500, 64, 4, 0};
    struct sim_kit kit;
    sim_kit_new(&of, equal, &kit);
    struct cluster_slow slow[100];
    for (int i = 0; i < 100; i++)
        slow[i] = (struct cluster_slow){{i * 1000 + 7, i * 1000 + 7}, 3, 0};
    make_slow(&kit, slow, 100);
    struct sim_result result = sim_kit_run(&kit);
    cr_expect_eq(result.run_count, 16);
    cr_expect_eq(result.rank[0].like + result.rank[8].like, 12500);
    cr_expect_eq(result.rank[0].like, 100);
    cr_expect_geq(result.step, 64 * 9);
    sim_result_free(&result);
    sim_kit_free(&kit);
}

/* --- calls of a driver --- */

static double step_with_driver(int stages, int micros, double hop) {
    struct schedule_config config = {
        .grid = {.stages = stages, .chunks = 1, .replicas = 1, .replicas_each = 1, .drivers = 1},
        .micro_batches = micros};
    struct sim_kit kit;
    sim_kit_new(&(struct sim_case){"pmp", stages, 1, 1, micros, 0, 0},
                (struct sim_units){1, 1.25, 0.5, hop}, &kit);
    program_free(&kit.program);
    cr_assert_eq(schedule_build("rpc", &config, &kit.program), STATUS_OK);
    cr_assert_eq(program_verify(kit.program, NULL), STATUS_OK);
    kit.input.program = kit.program;
    kit.input.steps = 2;
    struct sim_result result = sim_kit_run(&kit);
    double step = result.step;
    cr_expect_eq(result.rank[0].rank, 0);
    cr_expect_eq(result.rank[0].busy, 0, "a driver computes nothing");
    sim_result_free(&result);
    sim_kit_free(&kit);
    return step;
}

/* Calls that take no time change nothing. */
Test(sim_run, a_driver_of_no_distance_costs_nothing) {
    for (int i = 0; i < 4 * 6; i++) {
        struct sim_case of = {"pmp", 1 + i % 4, 1, 1, 1 + i / 4, 0, 0};
        struct sim_units units = {1, 1.25, 0.5, 0};
        cr_expect_float_eq(step_with_driver(of.stages, of.micros, 0), replayed(&of, units), 1e-9);
    }
}

/* One stage: for each micro-batch a call and a meeting around its B, while forwards are called for
 * ahead of time. REPORT and NORM are free here; the call for the update goes together with the
 * first of the next step. */
Test(sim_run, a_driver_pays_a_round_trip_for_each_backward) {
    for (int micros = 1; micros <= 5; micros++) {
        double hop = 0.4, want = micros * (1 + 1.75 + 2 * hop);
        cr_expect_float_eq(step_with_driver(1, micros, hop), want, 1e-9, "%d: %g, not %g", micros,
                           step_with_driver(1, micros, hop), want);
    }
}
