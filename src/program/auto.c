/* See auto.h. Candidates are compared by the time of a step, then by the bytes they keep; of equal
 * ones the first is taken, and the fixed schedules come first, so that a name people know wins. */
#include "program/auto.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

struct best {
    struct pipeline_order *orders; /* NULL: none fits yet */
    struct auto_choice choice;
};

static bool measure(const struct auto_input *input, const struct pipeline_order *orders,
                    struct auto_choice *out) {
    struct replay replay = {.shape = input->shape, .orders = orders, .costs = input->costs};
    out->peak_bytes = 0;
    for (int p = 0; p < input->shape->positions; p++) {
        int64_t peak = replay_peak_bytes(&orders[p], input->bytes);
        if (peak > input->limit_bytes[p]) return false;
        if (peak > out->peak_bytes) out->peak_bytes = peak;
    }
    struct replay_stop stop;
    bool runs = replay_run(&replay, &out->times, &stop);
    CHECK(runs, "%s deadlocks: position %d waits at %d", out->from, stop.position, stop.index);
    return true;
}

/* Times that differ by rounding alone are equal. */
static bool is_better(const struct auto_choice *a, const struct auto_choice *b) {
    double margin = 1e-9 * b->times.total;
    if (a->times.total < b->times.total - margin) return true;
    return a->times.total <= b->times.total + margin && a->peak_bytes < b->peak_bytes;
}

/* Takes the orders, or frees them. */
static void consider(const struct auto_input *input, const char *from,
                     struct pipeline_order *orders, struct best *best) {
    struct auto_choice choice = {.from = from};
    if (measure(input, orders, &choice) && (!best->orders || is_better(&choice, &best->choice))) {
        struct pipeline_order *worse = best->orders;
        *best = (struct best){orders, choice};
        orders = worse;
    }
    pipeline_orders_free(&orders, input->shape->positions);
}

static void consider_fixed(const struct auto_input *input, struct best *best) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (!pipeline_takes(schedule, input->shape) || schedule->one_backward_at_a_time) continue;
        consider(input, schedule->name, pipeline_orders_build(schedule, input->shape), best);
    }
}

static void consider_greedy(const struct auto_input *input, struct best *best) {
    int settings = input->shape->chunks > 1 ? GREEDY_SETTINGS : GREEDY_SETTINGS_ONE_CHUNK;
    for (int switches = 0; switches < settings; switches++) {
        struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, input->shape->positions);
        if (greedy_build(input, switches, orders))
            consider(input, "greedy", orders, best);
        else
            pipeline_orders_free(&orders, input->shape->positions);
    }
}

/* The position that has least room for one micro-batch of each of its stages. */
static enum status nothing_fits(const struct auto_input *input) {
    int worst = 0;
    int64_t missing = INT64_MIN, need = 0;
    for (int p = 0; p < input->shape->positions; p++) {
        int64_t own = 0;
        for (int c = 0; c < input->shape->chunks; c++)
            own += input->bytes->forward[pipeline_stage(input->shape, p, c)];
        if (own - input->limit_bytes[p] <= missing) continue;
        missing = own - input->limit_bytes[p];
        worst = p;
        need = own;
    }
    return fail(STATUS_MEMORY,
                "no order of the pipeline fits: activations may take %lld bytes on position %d,\n"
                "one micro-batch takes %lld\n"
                "  more stages, or smaller micro-batches (--micro-batch-size)",
                (long long)input->limit_bytes[worst], worst, (long long)need);
}

enum status pipeline_auto(const struct auto_input *input, struct pipeline_order *orders,
                          struct auto_choice *choice) {
    struct best best = {0};
    consider_fixed(input, &best);
    consider_greedy(input, &best);
    if (!best.orders) return nothing_fits(input);
    for (int p = 0; p < input->shape->positions; p++) orders[p] = best.orders[p];
    free(best.orders);
    *choice = best.choice;
    return STATUS_OK;
}
