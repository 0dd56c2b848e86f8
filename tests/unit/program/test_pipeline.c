/* Orders of pipelines: golden ones to the letter, and what must hold of every schedule on every
 * shape. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pipe_kit.h"

/* T at f = i = w = 1 a stage. */
static const struct golden {
    const char *name;
    int positions, chunks, micros, position;
    double time;
    const char *order;
} golden[] = {
    {"mp", 2, 1, 3, 1, 18, "F0 B0 F1 B1 F2 B2"},
    {"pmp", 2, 1, 3, 0, 16, "F0 F1 F2 B0 B1 B2"},
    {"gpipe", 4, 1, 3, 2, 18, "F0 F1 F2 B0 B1 B2"},
    {"1f1b", 4, 1, 6, 0, 27, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5"},
    {"1f1b", 4, 1, 6, 2, 27, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5"},
    {"1f1b", 4, 1, 2, 0, 15, "F0 F1 B0 B1"},
    {"eager-1f1b", 4, 1, 6, 2, 27, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5"},
    {"eager-1f1b", 4, 1, 6, 0, 27, "F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5"},
    {"interleaved", 2, 2, 4, 0, 27,
     "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3"},
    {"interleaved", 2, 2, 4, 1, 27,
     "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"},
    {"looped-bfs", 2, 2, 3, 1, 21, "1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2"},
    {"zb-h1", 4, 1, 6, 1, 21, "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5"},
    {"zb-h2", 3, 1, 6, 1, 20, "F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5"},
    {"zbv", 2, 2, 4, 0, 25,
     "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 "
     "0W3"},
    {"zbv", 2, 2, 4, 1, 25,
     "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 "
     "1W3"},
    {"dualpipe-v", 2, 2, 4, 0, 25,
     "0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3F2 0B0 3B2 3F3 0B1 3B3 0I2 0W2 0I3 0W3"},
    {"v-min", 2, 2, 2, 0, 15, "0F0 3F0 3I0 3W0 0F1 0I0 0W0 3F1 3I1 3W1 0I1 0W1"},
    {"v-half", 2, 2, 2, 1, 17, "1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1"},
};

Test(program_pipeline, golden_orders) {
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        const struct golden *want = &golden[i];
        struct pipe pipe = pipe_new(want->name, want->positions, want->chunks, want->micros);
        char *text = pipe_text(&pipe, want->position);
        cr_expect_str_eq(text, want->order, "%s, position %d: %s", want->name, want->position,
                         text);
        double time = pipe_times(&pipe, (struct pipe_costs){1, 1, 1, 0}).total;
        cr_expect_float_eq(time, want->time, 1e-9, "%s: T=%g", want->name, time);
        free(text);
        pipe_free(&pipe);
    }
}

/* --- what holds of every schedule on every shape --- */

Test(program_pipeline, every_order_is_complete_and_ascends) {
    pipe_every(pipe_expect_complete);
}

static void runs_to_its_end(const struct pipe *pipe) {
    int work = 3 * pipe->shape.chunks * pipe->shape.micro_batches;
    struct replay_times times = pipe_times(pipe, (struct pipe_costs){1, 1, 1, 0.5});
    cr_expect(times.total >= work && times.bubble >= -1e-9 && times.bubble < 1);
    cr_expect(times.span_bubble <= times.bubble + 1e-9);
    if (pipe->shape.positions == 1) cr_expect_float_eq(times.total, work, 1e-9);
    cr_expect(pipe_runs_with_credits(pipe, 1000), "%s deadlocks", pipe->schedule->name);
}

Test(program_pipeline, no_order_deadlocks) {
    pipe_every(runs_to_its_end);
}

static void runs_with_two_credits(const struct pipe *pipe) {
    if (!pipe_runs_with_credits(pipe, 2)) pipe_fail(pipe, 0, "deadlocks with 2 credits");
}

Test(program_pipeline, two_credits_are_enough) {
    pipe_every(runs_with_two_credits);
}

static void add_all(struct pipeline_order *order, uint8_t op, int stage) {
    for (int m = 0; m < 4; m++)
        pipeline_order_add(order, (struct pipeline_op){op, (int16_t)stage, m});
}

/* The check itself can fail. Position 1 keeps one slot for stage 3, whose gradients position 0
 * takes only after the last forward has come round: two of them are under way, the third holds the
 * slot. */
Test(program_pipeline, too_few_credits_are_found) {
    struct pipeline_order orders[2] = {{0}};
    for (int stage = 0; stage <= 2; stage += 2) add_all(&orders[0], INSTR_F, stage);
    add_all(&orders[1], INSTR_F, 1);
    for (int m = 0; m < 4; m++) {
        pipeline_order_add(&orders[0], (struct pipeline_op){INSTR_F, 4, m});
        pipeline_order_add(&orders[0], (struct pipeline_op){INSTR_B, 4, m});
        for (int i = 0; i < 4; i++)
            pipeline_order_add(&orders[1], (struct pipeline_op){i < 2 ? INSTR_F : INSTR_B,
                                                                i == 0 || i == 3 ? 3 : 5, m});
    }
    for (int stage = 2; stage >= 0; stage -= 2) add_all(&orders[0], INSTR_B, stage);
    add_all(&orders[1], INSTR_B, 1);
    struct pipe pipe = {.shape = {.positions = 2, .chunks = 3, .micro_batches = 4},
                        .orders = orders};
    cr_expect_not(pipe_runs_with_credits(&pipe, 2));
    cr_expect(pipe_runs_with_credits(&pipe, 3));
    for (int p = 0; p < 2; p++) pipeline_order_free(&orders[p]);
}
