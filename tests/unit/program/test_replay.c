/* Schedules in virtual time: the published table, closed forms where their condition holds, latency
 * and memory; and the replay itself on orders made by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pipe_kit.h"

static const struct pipe_costs equal = {1, 1, 1, 0};

static struct replay_times times_of(const char *name, int positions, int chunks, int micros,
                                    struct pipe_costs costs) {
    struct pipe pipe = pipe_new(name, positions, chunks, micros);
    struct replay_times times = pipe_times(&pipe, costs);
    pipe_free(&pipe);
    return times;
}

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

Test(program_replay, eight_ranks_and_32_micro_batches_to_the_printed_digits) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct row *row = &table[i];
        struct pipe pipe = pipe_new(row->name, 8, row->chunks, 32);
        struct replay_times times = pipe_times(&pipe, equal);
        char *bubble = mem_format("%.1f", 100 * times.bubble);
        char *span = mem_format("%.1f", 100 * times.span_bubble + 1e-9);
        char *peak = mem_format("%g", pipe_peak(&pipe));
        cr_expect_str_eq(bubble, row->bubble, "%s: bubble %s", row->name, bubble);
        cr_expect_str_eq(span, row->span, "%s: span bubble %s", row->name, span);
        cr_expect_str_eq(peak, row->peak, "%s: peak %s", row->name, peak);
        free(bubble);
        free(span);
        free(peak);
        pipe_free(&pipe);
    }
}

/* Latency turns the ranking round: hop 0.3 of a forward, and a whole one. */
Test(program_replay, latency) {
    static const struct {
        const char *name, *bubble;
        double time;
    } rows[] = {{"1f1b", "30.1", 185},
                {"eager-1f1b", "20.8", 131},
                {"zb-h1", "13.8", 151},
                {"zb-h2", "8.7", 110}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pipe_costs near = {1, 1, 1, 0.3}, far = {1, 1, 1, 1};
        char *bubble = mem_format("%.1f", 100 * times_of(rows[i].name, 8, 1, 32, near).bubble);
        cr_expect_str_eq(bubble, rows[i].bubble, "%s: %s", rows[i].name, bubble);
        cr_expect_float_eq(times_of(rows[i].name, 8, 1, 32, far).total, rows[i].time, 1e-9, "%s",
                           rows[i].name);
        free(bubble);
    }
}

/* With unequal halves of backward zbv idles after all. */
Test(program_replay, zbv_with_unequal_times) {
    struct replay_times times = times_of("zbv", 8, 2, 32, (struct pipe_costs){1, 1.3, 0.7, 0});
    char *span = mem_format("%.1f", 100 * times.span_bubble);
    cr_expect_str_eq(span, "4.2", "%s", span);
    free(span);
}

/* --- closed forms --- */

static void total_is(const char *name, int positions, int chunks, int micros,
                     struct pipe_costs costs, double want) {
    double time = times_of(name, positions, chunks, micros, costs).total;
    cr_expect_float_eq(time, want, 1e-6,
                       "%s, %d positions, %d chunks, %d micro-batches: %g, not %g", name, positions,
                       chunks, micros, time, want);
}

static const struct pipe_costs uneven = {1, 1.25, 0.5, 0};

Test(program_replay, whole_backwards_take_as_long_as_their_closed_forms_say) {
    double f = uneven.f, b = uneven.i + uneven.w;
    for (int s = 1; s <= 8; s++) {
        for (int m = 1; m <= 20; m++) {
            total_is("mp", s, 1, m, uneven, m * s * (f + b));
            total_is("pmp", s, 1, m, uneven, (m + s - 1) * f + m * s * b);
            total_is("gpipe", s, 1, m, uneven, (m + s - 1) * (f + b));
            total_is("1f1b", s, 1, m, uneven, (m + s - 1) * (f + b));
            total_is("eager-1f1b", s, 1, m, uneven, (m + s - 1) * (f + b));
            for (int v = 1; v <= 4; v++) {
                double want = (v * m + s - 1) * (f + b);
                if (m % s == 0) total_is("interleaved", s, v, m, uneven, want);
                if (m >= s) total_is("looped-bfs", s, v, m, uneven, want);
            }
        }
    }
}

Test(program_replay, hops_that_are_paid_once_a_step) {
    for (int s = 1; s <= 8; s++) {
        for (int m = s; m <= 20; m++) {
            struct pipe_costs far = {1, 1, 1, 0.25};
            total_is("gpipe", s, 1, m, far, (m + s - 1) * 3 + 2 * (s - 1) * 0.25);
            if (m >= 2 * s)
                total_is("eager-1f1b", s, 1, m, far, (m + s - 1) * 3 + 2 * (s - 1) * 0.25);
            if (m % s == 0 && s > 1)
                total_is("1f1b", s, 1, m, (struct pipe_costs){1, 1, 1, 0.01},
                         (m + s - 1) * 3 + 0.01 * (2.0 * (s - 1) * m / s + 2 * (s - 2)));
            if (m >= 2 * s)
                total_is("zb-h1", s, 1, m, (struct pipe_costs){1, 1, 1, 0.01},
                         3 * m + s - 1 + 4 * (s - 1) * 0.01);
        }
    }
}

/* Where M meets the condition, at equal times: idle from first to last computation. */
Test(program_replay, split_backwards_leave_little_or_no_bubble) {
    for (int r = 1; r <= 8; r++) {
        for (int m = 2 * r; m <= 40; m++) {
            total_is("zb-h1", r, 1, m, equal, 3 * m + r - 1);
            total_is("zb-h1", r, 1, m, uneven,
                     m * 2.75 + (r - 1) * (uneven.f + uneven.i - uneven.w));
            total_is("zb-h2", r, 1, m, equal, 3 * m + r - 1);
            total_is("zbv", r, 2, m, equal, 6 * m + r - 1);
            total_is("dualpipe-v", r, 2, m, equal, 6 * m + r - 1);
            cr_expect_float_eq(times_of("zb-h2", r, 1, m, equal).span_bubble, 0, 1e-9, "%d %d", r,
                               m);
            cr_expect_float_eq(times_of("zbv", r, 2, m, equal).span_bubble, 0, 1e-9, "%d %d", r, m);
        }
    }
}

/* --- memory --- */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Peaks in chunks: exact where the order is not cut, a bound where micro-batches were dropped. */
static int peak_of(const struct pipe *pipe, int p) {
    const char *name = pipe->schedule->name;
    int r = pipe->shape.positions, v = pipe->shape.chunks, m = pipe->shape.micro_batches;
    if (strcmp(name, "mp") == 0) return 1;
    if (strcmp(name, "1f1b") == 0) return least(m, r - p);
    if (strcmp(name, "eager-1f1b") == 0) return least(m, 2 * (r - 1 - p) + 1);
    if (strcmp(name, "interleaved") == 0) return least(m * v, (v - 1) * r + 2 * (r - 1 - p) + 1);
    if (strcmp(name, "zb-h1") == 0) return least(m, r);
    if (strcmp(name, "zb-h2") == 0) return least(m, 2 * r - 1);
    if (strcmp(name, "zbv") == 0) return least(2 * m, 2 * r);
    if (strcmp(name, "dualpipe-v") == 0) return least(2 * m, 2 * r + 1);
    return v * m;
}

static bool is_exact(const struct pipe *pipe) {
    return !pipe->schedule->micros ||
           pipe->schedule->micros(&pipe->shape) == pipe->shape.micro_batches;
}

static void peak_as_documented(const struct pipe *pipe) {
    if (strncmp(pipe->schedule->name, "v-", 2) == 0) return;
    for (int p = 0; p < pipe->shape.positions; p++) {
        int peak = pipe_peak_at(pipe, p), want = peak_of(pipe, p);
        cr_expect(is_exact(pipe) ? peak == want : peak <= want,
                  "%s, position %d of %d, %d chunks, %d micro-batches: peak %d, not %d",
                  pipe->schedule->name, p, pipe->shape.positions, pipe->shape.chunks,
                  pipe->shape.micro_batches, peak, want);
    }
}

Test(program_replay, peaks_as_documented) {
    pipe_every(peak_as_documented);
}

/* A third and a half of 1f1b's first rank, and one more; on R ranks 1f1b idles for 6(R-1) of these
 * half stages. */
Test(program_replay, v_min_and_v_half_save_memory) {
    for (int r = 1; r <= 16; r++) {
        struct pipe min = pipe_new("v-min", r, 2, 32), half = pipe_new("v-half", r, 2, 32);
        cr_expect_eq(pipe_peak(&min), (r + 1) / 3 + 1, "v-min, %d: %g", r, pipe_peak(&min));
        cr_expect_eq(pipe_peak(&half), r / 2 + 1, "v-half, %d: %g", r, pipe_peak(&half));
        double bubble = 6 * (r - 1);
        cr_expect(pipe_times(&min, equal).total - 192 <= 0.75 * bubble, "v-min, %d", r);
        cr_expect(pipe_times(&half, equal).total - 192 <= 0.84 * bubble, "v-half, %d", r);
        pipe_free(&min);
        pipe_free(&half);
    }
}

/* The figures of the published blocks at 8 ranks: peaks of 6 to 8 and of 10 half stages, 27 and 26
 * idle. */
Test(program_replay, v_min_and_v_half_on_eight_ranks) {
    struct pipe min = pipe_new("v-min", 8, 2, 32), half = pipe_new("v-half", 8, 2, 32);
    for (int p = 0; p < 8; p++) {
        int peak = pipe_peak_at(&min, p);
        cr_expect(peak >= 6 && peak <= 8, "%d: %d", p, peak);
        cr_expect_eq(pipe_peak_at(&half, p), 10);
    }
    cr_expect_float_eq(pipe_times(&min, equal).total, 192 + 27, 1e-9);
    cr_expect_float_eq(pipe_times(&half, equal).total, 192 + 26, 1e-9);
    pipe_free(&min);
    pipe_free(&half);
}

/* --- the replay itself --- */

static const double ones[] = {1, 1}, twos[] = {2, 2};
static const struct replay_costs costs = {
    .forward = ones, .input = ones, .weight = twos, .hop = 10};
static const struct pipeline_shape two = {.positions = 2, .chunks = 1, .micro_batches = 1};

static struct pipeline_order order_of(struct pipeline_op *items, int count) {
    return (struct pipeline_order){.items = items, .count = count};
}

Test(program_replay, begins_bubbles_and_bytes_by_hand) {
    struct pipeline_op first[] = {{INSTR_F, 0, 0}, {INSTR_I, 0, 0}, {INSTR_W, 0, 0}};
    struct pipeline_op second[] = {{INSTR_F, 1, 0}, {INSTR_B, 1, 0}};
    struct pipeline_order orders[] = {order_of(first, 3), order_of(second, 2)};
    double begin_first[3], begin_second[2], *begin[] = {begin_first, begin_second};
    struct replay replay = {.shape = &two, .orders = orders, .costs = &costs, .begin = begin};
    struct replay_times times;
    cr_assert(replay_run(&replay, &times, NULL));
    const double want_first[] = {0, 25, 26}, want_second[] = {11, 12};
    for (int i = 0; i < 3; i++) cr_expect_float_eq(begin_first[i], want_first[i], 1e-12);
    for (int i = 0; i < 2; i++) cr_expect_float_eq(begin_second[i], want_second[i], 1e-12);
    cr_expect_float_eq(times.total, 28, 1e-12);
    cr_expect_float_eq(times.bubble, 1 - 8.0 / 56, 1e-12);
    cr_expect_float_eq(times.span_bubble, 1 - 8.0 / 56, 1e-12);
    const int64_t kept[] = {5, 7}, rest[] = {6, 1};
    struct replay_bytes bytes = {.forward = kept, .input = rest};
    cr_expect_eq(replay_peak_bytes(&orders[0], &bytes), 6);
    cr_expect_eq(replay_peak_bytes(&orders[1], &bytes), 7);
}

Test(program_replay, a_deadlock_is_found) {
    struct pipeline_shape shape = {.positions = 2, .chunks = 1, .micro_batches = 2};
    struct pipeline_op first[] = {
        {INSTR_F, 0, 0}, {INSTR_B, 0, 0}, {INSTR_F, 0, 1}, {INSTR_B, 0, 1}};
    struct pipeline_op second[] = {
        {INSTR_F, 1, 0}, {INSTR_F, 1, 1}, {INSTR_B, 1, 0}, {INSTR_B, 1, 1}};
    struct pipeline_order orders[] = {order_of(first, 4), order_of(second, 4)};
    struct replay replay = {.shape = &shape, .orders = orders, .costs = &costs};
    struct replay_times times = {.total = -1};
    struct replay_stop stop;
    cr_expect_not(replay_run(&replay, &times, &stop));
    cr_expect_eq(stop.position, 0);
    cr_expect_eq(stop.index, 1);
    cr_expect_eq(times.total, -1);
    struct pipe pipe = {.shape = shape, .orders = orders};
    cr_expect_not(pipe_runs_with_credits(&pipe, 2));
}
