/* See auto.h. Candidates are compared by the time of a step, then by the bytes they keep; of equal
 * ones the first is taken, and the fixed schedules come first, so that a name people know wins. */
#include "program/auto.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

struct best {
    struct pipeline_order *orders; /* NULL: none fits yet */
    struct auto_choice choice;
};

bool pipeline_is(const char *name) {
    return strcmp(name, PIPELINE_AUTO) == 0 || pipeline_find(name);
}

/* --- one order --- */

/* The most micro-batches of a stage that an order keeps at once. */
static int peak_of_stage(const struct pipeline_order *order, int stage) {
    int live = 0, peak = 0;
    for (int i = 0; i < order->count; i++) {
        const struct pipeline_op *op = &order->items[i];
        if (op->stage != stage) continue;
        live += (op->op == INSTR_F) - (op->op == INSTR_B || op->op == INSTR_W);
        if (live > peak) peak = live;
    }
    return peak;
}

int64_t auto_peak(const struct auto_input *input, const struct pipeline_order *orders,
                  int position) {
    int64_t peak = 0;
    if (!input->slots) return replay_peak_bytes(&orders[position], input->bytes);
    for (int c = 0; c < input->shape->chunks; c++) {
        int stage = pipeline_stage(input->shape, position, c);
        peak += input->bytes->forward[stage] * peak_of_stage(&orders[position], stage);
    }
    return peak;
}

static void measure_peak(const struct auto_input *input, const struct pipeline_order *orders,
                         struct auto_choice *out) {
    out->peak_bytes = 0;
    out->fits = true;
    for (int p = 0; p < input->shape->positions; p++) {
        int64_t peak = auto_peak(input, orders, p);
        out->fits &= peak <= input->limit_bytes[p];
        if (peak > out->peak_bytes) out->peak_bytes = peak;
    }
}

static void measure_times(const struct auto_input *input, const struct pipeline_order *orders,
                          bool one_backward, struct auto_choice *out) {
    struct replay replay = {.shape = input->shape,
                            .orders = orders,
                            .costs = input->costs,
                            .one_backward_at_a_time = one_backward};
    struct replay_stop stop;
    bool runs = replay_run(&replay, &out->times, &stop);
    CHECK(runs, "%s deadlocks: position %d waits at %d", out->from, stop.position, stop.index);
}

static bool measure(const struct auto_input *input, const struct pipeline_order *orders,
                    struct auto_choice *out) {
    measure_peak(input, orders, out);
    if (out->fits) measure_times(input, orders, false, out);
    return out->fits;
}

bool auto_measure(const struct auto_input *input, const struct pipeline_schedule *schedule,
                  struct auto_choice *out) {
    struct auto_choice choice = {.from = schedule->name};
    if (!pipeline_takes(schedule, input->shape)) return false;
    struct pipeline_order *orders = pipeline_orders_build(schedule, input->shape);
    measure_peak(input, orders, &choice);
    measure_times(input, orders, schedule->one_backward_at_a_time, &choice);
    pipeline_orders_free(&orders, input->shape->positions);
    *out = choice;
    return true;
}

/* --- the best --- */

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
        if (schedule->older) continue; /* another training */
        if (!pipeline_takes(schedule, input->shape) || schedule->one_backward_at_a_time) continue;
        consider(input, schedule->name, pipeline_orders_build(schedule, input->shape), best);
    }
}

/* Lowers the limits by what an order takes above them; false where it fits already. */
static bool tighten(const struct auto_input *input, const struct pipeline_order *orders,
                    int64_t *limits) {
    bool over = false;
    for (int p = 0; p < input->shape->positions; p++) {
        int64_t excess = auto_peak(input, orders, p) - input->limit_bytes[p];
        over |= excess > 0;
        if (excess > 0) limits[p] -= excess;
    }
    return over;
}

/* How long an order may take that is still of use. */
static double longest(const struct auto_input *input, const struct best *best) {
    double most = input->under_ns;
    if (best->orders && (most == 0 || best->choice.times.total < most))
        most = best->choice.times.total;
    return most;
}

/* The builder counts what is kept at one time. Where stages have memory of their own, what it makes
 * may take more than the limit: then it is told a lower one. One that is too slow with all of the
 * limit is not tried with less. */
static void consider_setting(const struct auto_input *input, int switches, struct best *best) {
    enum { TRIES = 6 };
    int positions = input->shape->positions;
    int64_t *limits = MEM_ARRAY(int64_t, positions);
    struct auto_input own = *input;
    own.limit_bytes = limits;
    own.under_ns = longest(input, best);
    memcpy(limits, input->limit_bytes, (size_t)positions * sizeof *limits);
    bool again = true;
    for (int i = 0; i < TRIES && again; i++) {
        struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, positions);
        again = greedy_build(&own, switches, orders) && tighten(input, orders, limits);
        if (!again && orders[0].count > 0)
            consider(input, "greedy", orders, best);
        else
            pipeline_orders_free(&orders, positions);
    }
    free(limits);
}

static void consider_greedy(const struct auto_input *input, struct best *best) {
    int settings = input->shape->chunks > 1 ? GREEDY_SETTINGS : GREEDY_SETTINGS_ONE_CHUNK;
    for (int switches = 0; switches < settings; switches++) consider_setting(input, switches, best);
}

/* The position that has least room for one micro-batch of each of its stages. */
enum status auto_refuse(const struct auto_input *input) {
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
                (long long)(input->limit_bytes[worst] > 0 ? input->limit_bytes[worst] : 0), worst,
                (long long)need);
}

bool auto_find(const struct auto_input *input, struct pipeline_order *orders,
               struct auto_choice *choice) {
    struct best best = {0};
    consider_fixed(input, &best);
    consider_greedy(input, &best);
    if (!best.orders) return false;
    for (int p = 0; p < input->shape->positions; p++) orders[p] = best.orders[p];
    free(best.orders);
    *choice = best.choice;
    return true;
}
