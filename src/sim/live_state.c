/* The state of a live simulator between steps, as numbers: see live.h. Then all operations are
 * complete, and all messages are on their way or taken: a list awaits that its sends have begun.
 * What is left is when ranks, links and groups are free, and when what a step left under way has
 * ended or will. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "sim/live_ranks.h"

/* One walk saves, loads or counts: numbers are at the same places in all three. */
struct walk {
    double *out;      /* saves; NULL: does not */
    const double *in; /* loads; NULL: does not */
    int count;
};

static void real(struct walk *walk, double *value) {
    if (walk->out) walk->out[walk->count] = *value;
    if (walk->in) *value = walk->in[walk->count];
    walk->count++;
}

static void whole(struct walk *walk, int64_t *value) {
    double number = (double)*value;
    real(walk, &number);
    *value = (int64_t)number;
}

static void whole32(struct walk *walk, int32_t *value) {
    int64_t wide = *value;
    whole(walk, &wide);
    *value = (int32_t)wide;
}

/* Of what was posted to a group: which operation it is, and when that was under way. */
static void walk_operation(struct walk *walk, struct sim *sim, struct sim_state *state,
                           const struct sim_op *op) {
    struct sim_group *group = &sim->group[state->group[op->target]];
    int64_t number = state->place[op->place].number;
    whole(walk, &number);
    state->place[op->place].number = number;
    double none = 0, *begin = &none, *end = &none;
    if (number >= 0) {
        begin = &group->ring[number & group->mask].begin;
        end = &group->ring[number & group->mask].end;
    }
    real(walk, begin);
    real(walk, end);
}

static void walk_rank(struct walk *walk, struct sim_live *live, int rank) {
    struct live_rank *of = &live->rank[rank];
    struct sim_state *state = &live->sim.run[of->run];
    int32_t part = of->begun ? (int32_t)of->part : -1;
    real(walk, &state->clock);
    whole32(walk, &part);
    of->begun = part >= 0;
    of->part = part >= 0 ? (enum sim_part)part : SIM_BODY;
    for (int g = 0; g < live->input.program->group_count; g++) whole32(walk, &state->posted[g]);
    for (int i = 0; i < of->chain.at[SIM_BODY + 1]; i++)
        if (of->op[i].action == SIM_POST) walk_operation(walk, &live->sim, state, &of->op[i]);
}

/* Of steps that overlap messages are on their way, as many as there are credits at most. */
static void walk_wire(struct walk *walk, struct sim_wire *wire, int credits) {
    real(walk, &wire->free_at);
    whole(walk, &wire->taken);
    whole(walk, &wire->posted);
    wire->begun = wire->posted;
    wire->received = wire->taken;
    for (int i = 0; i < credits; i++) real(walk, &wire->taken_at[i]);
    for (int i = 0; i < credits; i++) {
        struct sim_message *message = &wire->ring[(wire->taken + i) & wire->mask], none = {0};
        if (wire->taken + i >= wire->posted) message = &none;
        real(walk, &message->begin);
        real(walk, &message->time);
    }
}

static void walk_all(struct walk *walk, struct sim_live *live) {
    struct sim *sim = &live->sim;
    for (int g = 0; g < sim->group_count; g++) {
        real(walk, &sim->group[g].free_at);
        whole(walk, &sim->group[g].done);
        sim->group[g].opened = sim->group[g].done;
    }
    for (int w = 0; w < sim->wire_count; w++)
        walk_wire(walk, &sim->wire[w], live->input.program->credits);
    for (int r = 0; r < live->input.program->ranks; r++) walk_rank(walk, live, r);
}

/* 53 bits, which a double holds. */
static double fingerprint(const struct sim_live *live) {
    return (double)(program_hash(live->input.program) >> 11);
}

static double latest(const struct sim_live *live) {
    double most = 0;
    for (int r = 0; r < live->input.program->ranks; r++) most = fmax(most, sim_live_clock(live, r));
    return most;
}

enum { HEAD = 2 }; /* the program, the latest clock */

int sim_live_save(const struct sim_live *live, double *out) {
    struct walk walk = {.out = out, .count = HEAD};
    if (out) out[0] = fingerprint(live), out[SIM_LIVE_LATEST] = latest(live);
    walk_all(&walk, (struct sim_live *)live); /* which it leaves as it is */
    return walk.count;
}

bool sim_live_load(struct sim_live *live, const double *numbers, int count, bool all) {
    struct walk walk = {.in = numbers, .count = HEAD};
    if (count < HEAD) return false;
    bool same = all && count == sim_live_save(live, NULL) && numbers[0] == fingerprint(live);
    if (same) walk_all(&walk, live);
    for (int r = 0; !same && r < live->input.program->ranks; r++)
        live->sim.run[live->rank[r].run].clock = numbers[SIM_LIVE_LATEST];
    return same;
}
