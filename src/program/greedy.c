/* The greedy builder of `auto`: runs the pipeline in virtual time and lets each position that is
 * free take the best of what is at hand: I, since others wait for it; else F, where memory allows
 * it; else the oldest W, for which nobody waits. What is best between these depends on the costs,
 * so there are switches, and whoever calls tries them all. An integer program was rejected: it
 * takes minutes where this takes milliseconds, for a few percent.
 *
 * Memory cannot deadlock it. An F is admitted when its bytes fit and one micro-batch of each later
 * stage of the same position would still fit after it. So the micro-batch that has come farthest
 * can always go on: those before it are on their way back and need nothing new, and whatever of
 * earlier stages is kept on its position has left room for it. */
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/auto.h"

enum { NOT_YET = -1 };
#define MARGIN 1e-6 /* for the rounding of sums in another order */

struct event {
    double time;
    int position;
};

struct stage_state {
    int position, forwards, inputs, weights; /* next micro-batch of each */
    int64_t charge_bytes;                    /* from F to I: the most it keeps until W */
    int64_t reserve_bytes;                   /* for later stages of the same position */
};

struct position_state {
    double free_at, left_ns; /* of all its computations that have not begun */
    int64_t used_bytes;
    int *waiting; /* stages whose W waits, oldest first, from `first` to `count` */
    int first, count;
};

struct greedy {
    const struct auto_input *in;
    int switches, stages, micros, chunks;
    struct stage_state *stage;
    struct position_state *position;
    double *forward_at, *input_at; /* [stage, micro-batch]: when what F, or I, waits for is there */
    double *link[2];               /* per cut, ahead and back: when it is free */
    struct event *heap;
    int heap_count;
    size_t heap_capacity;
    struct pipeline_order *out;
    /* Per stage: from the begin of an F, or an I, to the end of all, at least: its way to the last
     * stage and back. */
    double *forward_tail, *input_tail;
    double most_ns; /* an order that takes longer is of no use */
    bool late;      /* this one does */
};

static size_t cell(const struct greedy *g, int stage, int micro) {
    return (size_t)stage * (size_t)g->micros + (size_t)micro;
}

/* --- events, the earliest first --- */

static bool earlier(struct event a, struct event b) {
    return a.time < b.time || (a.time == b.time && a.position < b.position);
}

static void push(struct greedy *g, double time, int position) {
    g->heap = mem_grow(g->heap, &g->heap_capacity, (size_t)g->heap_count + 1, sizeof *g->heap);
    struct event event = {time, position};
    int at = g->heap_count++;
    for (; at > 0 && earlier(event, g->heap[(at - 1) / 2]); at = (at - 1) / 2)
        g->heap[at] = g->heap[(at - 1) / 2];
    g->heap[at] = event;
}

static struct event pop(struct greedy *g) {
    struct event top = g->heap[0], last = g->heap[--g->heap_count];
    int at = 0;
    for (int child = 1; child < g->heap_count; child = 2 * at + 1) {
        if (child + 1 < g->heap_count && earlier(g->heap[child + 1], g->heap[child])) child++;
        if (!earlier(g->heap[child], last)) break;
        g->heap[at] = g->heap[child];
        at = child;
    }
    g->heap[at] = last;
    return top;
}

/* --- what a position could do now --- */

static bool has(const struct greedy *g, enum greedy_switch which) {
    return g->switches & which;
}

/* When the next I of a stage can begin; NOT_YET where that is not known. */
static double next_input_at(const struct greedy *g, int s) {
    const struct stage_state *stage = &g->stage[s];
    return stage->inputs < stage->forwards ? g->input_at[cell(g, s, stage->inputs)] : NOT_YET;
}

static bool is_there(double at, double now) {
    return at >= 0 && at <= now;
}

static bool fits(const struct greedy *g, int s) {
    const struct stage_state *stage = &g->stage[s];
    int64_t used = g->position[stage->position].used_bytes;
    return used + stage->charge_bytes + stage->reserve_bytes <= g->in->limit_bytes[stage->position];
}

/* The stage whose I goes first, or -1. */
static int best_input(const struct greedy *g, int position, double now) {
    int best = -1;
    for (int c = g->chunks - 1; c >= 0; c--) {
        int s = pipeline_stage(g->in->shape, position, c);
        if (!is_there(next_input_at(g, s), now)) continue;
        bool better =
            best < 0 || (!has(g, GREEDY_DEEP_INPUT) && g->stage[s].inputs < g->stage[best].inputs);
        if (better) best = s;
    }
    return best;
}

static int best_forward(const struct greedy *g, int position, double now) {
    for (int k = 0; k < g->chunks; k++) {
        int c = has(g, GREEDY_DEEP_FORWARD) ? g->chunks - 1 - k : k;
        int s = pipeline_stage(g->in->shape, position, c), m = g->stage[s].forwards;
        if (m < g->micros && is_there(g->forward_at[cell(g, s, m)], now) && fits(g, s)) return s;
    }
    return -1;
}

static int oldest_weight(const struct greedy *g, int position) {
    const struct position_state *state = &g->position[position];
    return state->first < state->count ? state->waiting[state->first] : -1;
}

/* Would a computation that ends at `end` delay an I which is under way to this position? */
static bool delays_input(const struct greedy *g, int position, double end) {
    for (int c = 0; c < g->chunks; c++) {
        double at = next_input_at(g, pipeline_stage(g->in->shape, position, c));
        if (at >= 0 && at < end) return true;
    }
    return false;
}

/* Are as many micro-batches under way behind stage s as there are stages? */
static bool way_is_full(const struct greedy *g, int s) {
    return g->stage[s].forwards - g->stage[s].inputs >= g->stages - s;
}

/* What a position does next; false: it waits. */
static bool choose(const struct greedy *g, int position, double now, struct pipeline_op *out) {
    int input = best_input(g, position, now), forward = best_forward(g, position, now);
    int weight = oldest_weight(g, position);
    if (input >= 0) {
        *out = (struct pipeline_op){INSTR_I, (int16_t)input, g->stage[input].inputs};
        return true;
    }
    if (weight >= 0 && has(g, GREEDY_HOLD_WEIGHT) &&
        delays_input(g, position, now + g->in->costs->weight[weight]))
        weight = -1;
    if (forward >= 0 && weight >= 0 && has(g, GREEDY_WEIGHT_FIRST) && way_is_full(g, forward))
        forward = -1;
    if (forward >= 0)
        *out = (struct pipeline_op){INSTR_F, (int16_t)forward, g->stage[forward].forwards};
    else if (weight >= 0)
        *out = (struct pipeline_op){INSTR_W, (int16_t)weight, g->stage[weight].weights};
    return forward >= 0 || weight >= 0;
}

/* --- doing it --- */

/* When stage `to` has what stage `from` made at `end` of micro-batch m; those of the others follow
 * over the same link. */
static double arrives(struct greedy *g, int from, int to, int m, double end) {
    bool crosses = g->stage[from].position != g->stage[to].position;
    bool back = to < from;
    double more = crosses && g->in->costs->latency
                      ? (g->micros - 1 - m) * g->in->costs->moving[back][back ? to : from]
                      : 0;
    double *link = &g->link[back][back ? to : from],
           at = crosses ? replay_message(g->in->costs, from, to, end, link) : end;
    push(g, at, g->stage[to].position);
    g->late |= at + more + (back ? g->input_tail : g->forward_tail)[to] > g->most_ns;
    return at;
}

static double start_forward(struct greedy *g, int s, int m, double now) {
    double end = now + g->in->costs->forward[s];
    g->stage[s].forwards++;
    g->position[g->stage[s].position].used_bytes += g->stage[s].charge_bytes;
    if (s + 1 < g->stages)
        g->forward_at[cell(g, s + 1, m)] = arrives(g, s, s + 1, m, end);
    else
        g->input_at[cell(g, s, m)] = end;
    return end;
}

static double start_input(struct greedy *g, int s, int m, double now) {
    double end = now + g->in->costs->input[s];
    struct position_state *position = &g->position[g->stage[s].position];
    g->stage[s].inputs++;
    position->used_bytes += g->in->bytes->input[s] - g->stage[s].charge_bytes;
    position->waiting[position->count++] = s;
    if (s > 0) g->input_at[cell(g, s - 1, m)] = arrives(g, s, s - 1, m, end);
    return end;
}

static double start_weight(struct greedy *g, int s, double now) {
    struct position_state *position = &g->position[g->stage[s].position];
    g->stage[s].weights++;
    position->first++;
    position->used_bytes -= g->in->bytes->input[s];
    return now + g->in->costs->weight[s];
}

/* What a position has not begun comes behind what it begins now, and so do the micro-batches of
 * this stage; the last of them has its way to go. */
static void look_at_clock(struct greedy *g, struct position_state *position, struct pipeline_op op,
                          double now, double end) {
    const double *tail = op.op == INSTR_F ? g->forward_tail : g->input_tail;
    double more = (g->micros - 1 - op.micro) * (end - now);
    g->late |= now + position->left_ns > g->most_ns;
    g->late |= op.op != INSTR_W && now + more + tail[op.stage] > g->most_ns;
    position->left_ns -= end - now;
}

static double hop_ns(const struct greedy *g, int cut, int way) {
    const struct replay_costs *costs = g->in->costs;
    if (g->stage[cut].position == g->stage[cut + 1].position) return 0;
    if (!costs->latency) return costs->hop;
    const double *back = costs->back_latency ? costs->back_latency : costs->latency;
    return (way ? back : costs->latency)[cut] + costs->moving[way][cut];
}

static void find_tails(struct greedy *g) {
    const struct replay_costs *costs = g->in->costs;
    g->forward_tail = MEM_ARRAY(double, g->stages);
    g->input_tail = MEM_ARRAY(double, g->stages);
    for (int s = 0; s < g->stages; s++)
        g->input_tail[s] =
            costs->input[s] + (s ? hop_ns(g, s - 1, 1) + g->input_tail[s - 1] : costs->weight[s]);
    for (int s = g->stages - 1; s >= 0; s--)
        g->forward_tail[s] =
            costs->forward[s] +
            (s + 1 < g->stages ? hop_ns(g, s, 0) + g->forward_tail[s + 1] : g->input_tail[s]);
}

static void start(struct greedy *g, int position, struct pipeline_op op, double now) {
    double end = op.op == INSTR_F   ? start_forward(g, op.stage, op.micro, now)
                 : op.op == INSTR_I ? start_input(g, op.stage, op.micro, now)
                                    : start_weight(g, op.stage, now);
    look_at_clock(g, &g->position[position], op, now, end);
    g->position[position].free_at = end;
    push(g, end, position);
    pipeline_order_add(&g->out[position], op);
}

/* --- a whole build --- */

static void init_position(struct greedy *g, int position) {
    const struct replay_bytes *bytes = g->in->bytes;
    int64_t later_bytes = 0;
    for (int c = g->chunks - 1; c >= 0; c--) {
        int s = pipeline_stage(g->in->shape, position, c);
        int64_t forward = bytes->forward[s], input = bytes->input[s];
        g->stage[s].position = position;
        g->stage[s].charge_bytes = forward > input ? forward : input;
        g->stage[s].reserve_bytes = later_bytes;
        later_bytes += g->stage[s].charge_bytes;
        g->position[position].left_ns +=
            g->micros *
            (g->in->costs->forward[s] + g->in->costs->input[s] + g->in->costs->weight[s]);
    }
    g->position[position].waiting = MEM_ARRAY(int, (size_t)g->chunks *(size_t)g->micros);
}

static struct greedy greedy_new(const struct auto_input *input, int switches,
                                struct pipeline_order *orders) {
    struct greedy g = {.in = input,
                       .switches = switches,
                       .stages = pipeline_stages(input->shape),
                       .micros = input->shape->micro_batches,
                       .chunks = input->shape->chunks,
                       .most_ns = input->under_ns > 0 ? input->under_ns * (1 + MARGIN) : INFINITY,
                       .out = orders};
    size_t cells = (size_t)g.stages * (size_t)g.micros;
    g.stage = MEM_ARRAY(struct stage_state, g.stages);
    g.position = MEM_ARRAY(struct position_state, input->shape->positions);
    g.forward_at = MEM_ARRAY(double, cells);
    g.input_at = MEM_ARRAY(double, cells);
    for (int d = 0; d < 2; d++) g.link[d] = MEM_ARRAY(double, g.stages);
    for (size_t i = 0; i < cells; i++) {
        g.forward_at[i] = i < (size_t)g.micros ? 0 : NOT_YET;
        g.input_at[i] = NOT_YET;
    }
    for (int p = 0; p < input->shape->positions; p++) init_position(&g, p);
    find_tails(&g);
    return g;
}

static void greedy_free(struct greedy *g) {
    for (int p = 0; p < g->in->shape->positions; p++) free(g->position[p].waiting);
    free(g->stage);
    free(g->position);
    free(g->forward_at);
    free(g->input_at);
    for (int d = 0; d < 2; d++) free(g->link[d]);
    free(g->heap);
    free(g->forward_tail);
    free(g->input_tail);
}

static bool all_fit(const struct greedy *g) {
    for (int p = 0; p < g->in->shape->positions; p++)
        if (!fits(g, pipeline_stage(g->in->shape, p, 0))) return false;
    return true;
}

bool greedy_build(const struct auto_input *input, int switches, struct pipeline_order *orders) {
    SCOPED(greedy_free) struct greedy g = greedy_new(input, switches, orders);
    bool possible = all_fit(&g);
    if (possible) push(&g, 0, 0);
    while (g.heap_count > 0 && !g.late) {
        struct event event = pop(&g);
        struct pipeline_op op;
        if (g.position[event.position].free_at > event.time) continue;
        if (choose(&g, event.position, event.time, &op)) start(&g, event.position, op, event.time);
    }
    for (int p = 0; g.late && p < input->shape->positions; p++) pipeline_order_free(&orders[p]);
    for (int s = 0; possible && !g.late && s < g.stages; s++)
        CHECK(g.stage[s].weights == g.micros, "greedy: stage %d did %d of %d", s,
              g.stage[s].weights, g.micros);
    return possible;
}
