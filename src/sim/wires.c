/* Channels and groups in virtual time: see run.h. */
#include <stdlib.h>

#include "base/mem.h"
#include "program/laws.h"
#include "sim/choices.h"
#include "sim/sim_state.h"

/* --- channels --- */

/* Begins the messages that are posted and have a credit: message n has one when message n - credits
 * was taken. The sender then knows when its buffer is free. */
static void begin_messages(struct sim *sim, struct sim_wire *wire) {
    int64_t credits = sim->input->program->credits;
    while (wire->begun < wire->posted && wire->begun < wire->taken + credits) {
        struct sim_message *message = &wire->ring[wire->begun & wire->mask];
        int64_t before = wire->begun - credits;
        double begin = message->time, moving = message->bytes * wire->per_byte;
        if (wire->free_at > begin) begin = wire->free_at;
        if (before >= 0 && wire->taken_at[before % credits] > begin) {
            begin = wire->taken_at[before % credits];
            message->cause = wire->taken_by[before % credits];
        }
        wire->free_at = begin + moving;
        message->begin = begin;
        message->time = begin + moving + wire->latency;
        struct sim_state *sender = &sim->run[wire->sender];
        sender->place[message->place].end = wire->free_at;
        if (sender->record) {
            sender->record[message->at].begin = begin;
            sender->record[message->at].end = message->time;
        }
        wire->begun++;
        if (wire->receiver_waits) sim_wake(sim, wire->receiver);
        if (wire->sender_waits) sim_wake(sim, wire->sender);
        wire->receiver_waits = wire->sender_waits = false;
    }
}

void sim_send(struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *sender = &sim->run[run];
    struct sim_wire *wire = &sim->wire[sender->channels + op->target];
    sender->place[op->place].end = SIM_UNKNOWN;
    wire->ring[wire->posted++ & wire->mask] =
        (struct sim_message){.time = sender->clock,
                             .place = op->place,
                             .at = sender->at,
                             .bytes = op->bytes,
                             .cause = {run, sender->at, false}};
    begin_messages(sim, wire);
}

const struct sim_message *sim_arrival(struct sim *sim, int32_t wire, int64_t number) {
    struct sim_wire *of = &sim->wire[wire];
    if (number < of->begun) return &of->ring[number & of->mask];
    of->receiver_waits = true;
    return NULL;
}

void sim_take(struct sim *sim, int32_t run, int32_t wire) {
    struct sim_wire *of = &sim->wire[wire];
    int64_t entry = of->taken++ % sim->input->program->credits;
    of->taken_at[entry] = sim->run[run].clock;
    of->taken_by[entry] = (struct sim_cause){run, sim->run[run].at, false};
    begin_messages(sim, of);
}

/* --- groups --- */

/* Time of one round of an operation on `bytes`. */
static double round_time(const struct sim *sim, const struct sim_group *group,
                         const struct sim_op *op) {
    enum cost_operation operation = op->barrier   ? COST_BARRIER
                                    : op->reduces ? COST_SUM
                                                  : COST_EXCHANGE;
    return cost_group_time(sim->input->net.collective, group->link, group->size, op->bytes,
                           operation);
}

static void complete(struct sim *sim, struct sim_group *group, struct sim_meeting *meeting,
                     const struct sim_op *op) {
    meeting->begin = meeting->latest > group->free_at ? meeting->latest : group->free_at;
    meeting->end = meeting->begin + op->rounds * round_time(sim, group, op);
    group->free_at = meeting->end;
    group->done++;
    for (int32_t run = group->waiting; run >= 0; run = sim->run[run].next_waiting)
        sim_wake(sim, run);
    group->waiting = -1;
}

static bool is_chosen(const struct sim *sim, int group) {
    return sim->choices.controller && group_is_chosen(sim->input->program->group[group]);
}

int64_t sim_arrive(struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *state = &sim->run[run];
    if (is_chosen(sim, op->target)) return sim_choices_arrive(sim, run, op);
    struct sim_group *group = &sim->group[state->group[op->target]];
    int64_t number = state->posted[op->target]++;
    struct sim_meeting *meeting = &group->ring[number & group->mask];
    if (number == group->opened) {
        *meeting = (struct sim_meeting){.latest = -1};
        group->opened++;
    }
    if (state->clock > meeting->latest) {
        meeting->latest = state->clock;
        meeting->last = (struct sim_cause){run, state->at, false};
    }
    if (++meeting->arrived == group->members) complete(sim, group, meeting, op);
    return number;
}

const struct sim_meeting *sim_meeting(struct sim *sim, int32_t run, int32_t group, int64_t number) {
    if (is_chosen(sim, group)) return sim_choices_meeting(sim, run, number);
    struct sim_group *of = &sim->group[sim->run[run].group[group]];
    if (number < of->done) return &of->ring[number & of->mask];
    sim->run[run].next_waiting = of->waiting;
    of->waiting = run;
    return NULL;
}

/* --- making them --- */

static int64_t power_of_two(int64_t least) {
    int64_t size = 1;
    while (size < least) size *= 2;
    return size;
}

static int32_t run_of(const struct sim *sim, int pipeline, int stage) {
    const struct grid *grid = &sim->input->program->grid;
    return sim->share.others + pipeline * grid->stages + grid_position(grid, stage);
}

/* Channels of the cuts, both ways; then those of calls. */
static int cut_wires(const struct grid *grid) {
    return 2 * (grid->stages * grid->chunks - 1);
}

/* A sender has at most as many messages under way as it has slots, and a message that has begun is
 * kept until its credit comes back. */
static void wire_new(struct sim *sim, struct sim_wire *wire, int pipeline, int channel) {
    const struct program *program = sim->input->program;
    int cut = channel / 2, back = channel % 2, from = cut + back, to = cut + 1 - back,
        called = channel - cut_wires(&program->grid);
    bool calls = called >= 0; /* from the driver, the first of all */
    *wire = (struct sim_wire){.sender = calls ? 0 : run_of(sim, pipeline, from),
                              .receiver = run_of(sim, pipeline, calls ? called : to)};
    int sender = sim->share.rank[wire->sender], receiver = sim->share.rank[wire->receiver];
    struct cost_link link = cost_link(&sim->input->net, sender, receiver);
    wire->latency = link.latency;
    wire->per_byte = cost_moving(link, 1);
    int slots =
        calls ? 1 : program_of(program, sender)->chunk[grid_chunk(&program->grid, from)].slots;
    int64_t size = power_of_two(slots + program->credits + 1);
    wire->ring = MEM_ARRAY(struct sim_message, size);
    wire->mask = size - 1;
    wire->taken_at = MEM_ARRAY(double, program->credits);
    wire->taken_by = MEM_ARRAY(struct sim_cause, program->credits);
}

static void channels_new(struct sim *sim) {
    const struct grid *grid = &sim->input->program->grid;
    sim->wires_each = cut_wires(grid) + (grid->drivers > 0 ? grid->stages : 0);
    sim->wire_count = sim->wires_each * sim->share.pipeline_count;
    sim->wire = MEM_ARRAY(struct sim_wire, sim->wire_count + 1);
    for (int w = 0; w < sim->wire_count; w++)
        wire_new(sim, &sim->wire[w], w / sim->wires_each, w % sim->wires_each);
    for (int r = sim->share.others; r < sim->share.run_count; r++)
        sim->run[r].channels = (r - sim->share.others) / grid->stages * sim->wires_each;
}

/* The slowest link around a ring of all members. */
static struct cost_link ring_link(const struct sim_input *input, enum group_family family,
                                  int index) {
    const struct grid *grid = &input->program->grid;
    int size = group_size(grid, family, index);
    struct cost_link slowest = {0};
    for (int i = 0; size > 1 && i < size; i++)
        slowest = cost_slower_link(
            slowest, cost_link(&input->net, group_rank(grid, family, index, i),
                               group_rank(grid, family, index, i + 1 < size ? i + 1 : 0)));
    return slowest;
}

static struct cost_link group_link(const struct sim_input *input, enum group_family family,
                                   int index) {
    const struct hetero *law = input->net.hetero;
    struct cost_link link =
        input->net.cluster ? ring_link(input, family, index) : input->net.group_link;
    return law ? cost_longer_link(link, program_law_link(input->program, law, family, index))
               : link;
}

/* Each pipeline has a group of the family. */
static bool is_of_pipelines(enum group_family family) {
    return family == GROUP_PIPELINE || family == GROUP_TIED;
}

/* Groups of a family that has runs in it: of pipelines, one for each that is run. */
static int groups_of_family(const struct sim *sim, enum group_family family) {
    int all = group_count(&sim->input->program->grid, family);
    return is_of_pipelines(family) && all > 0 ? sim->share.pipeline_count : all;
}

static int group_index(const struct sim *sim, enum group_family family, int run) {
    int of_pipelines = run - sim->share.others, stages = sim->input->program->grid.stages;
    if (family == GROUP_WORLD) return 0;
    if (of_pipelines < 0) return -1;
    const int *tied = sim->input->program->grid.tied;
    int position = of_pipelines % stages;
    if (family == GROUP_TIED &&
        (tied[0] == tied[1] || (position != tied[0] && position != tied[1])))
        return -1;
    return is_of_pipelines(family) ? of_pipelines / stages : position;
}

/* Operations of a group in a rank's step, or in list last, whichever has more. */
static int operations_of(const struct sim *sim, int g, int run) {
    const struct instr_list *last =
        program_list(sim->input->program, sim->share.rank[run], LIST_LAST);
    int body = sim->run[run].kind->operations[g], count = 0;
    for (int i = 0; i < last->count; i++)
        count += instr_row(&last->items[i])->meets == MEETS_GROUP && last->items[i].group == g;
    return count > body ? count : body;
}

static void join(struct sim *sim, int g, int first, int run) {
    int index = group_index(sim, sim->input->program->group[g], run);
    sim->run[run].group[g] = index < 0 ? -1 : first + index;
    if (index < 0) return;
    struct sim_group *group = &sim->group[first + index];
    int64_t least = 3 * (int64_t)operations_of(sim, g, run) + 2;
    group->members++;
    if (least > group->mask) group->mask = least;
}

/* A step awaits what the one before has left under way, so the fastest member is at most two steps
 * ahead of the slowest. */
static void groups_new(struct sim *sim) {
    const struct program *program = sim->input->program;
    int first[PROGRAM_MAX_GROUPS];
    for (int g = 0; g < program->group_count; g++) {
        first[g] = sim->group_count;
        sim->group_count += groups_of_family(sim, program->group[g]);
    }
    sim->group = MEM_ARRAY(struct sim_group, sim->group_count + 1);
    for (int g = 0; g < program->group_count; g++) {
        for (int r = 0; r < sim->share.run_count; r++) join(sim, g, first[g], r);
        for (int i = 0; i < groups_of_family(sim, program->group[g]); i++) {
            enum group_family family = program->group[g];
            struct sim_group *group = &sim->group[first[g] + i];
            int index = is_of_pipelines(family) ? sim->share.pipeline[i] : i;
            group->size = group_size(&program->grid, family, index);
            group->link = group_link(sim->input, family, index);
            group->waiting = -1;
            int64_t size = power_of_two(group->mask);
            group->ring = MEM_ARRAY(struct sim_meeting, size);
            group->mask = size - 1;
        }
    }
}

void sim_wires_new(struct sim *sim) {
    channels_new(sim);
    groups_new(sim);
}

void sim_wires_free(struct sim *sim) {
    for (int w = 0; w < sim->wire_count; w++) {
        free(sim->wire[w].ring);
        free(sim->wire[w].taken_at);
        free(sim->wire[w].taken_by);
    }
    for (int g = 0; g < sim->group_count; g++) free(sim->group[g].ring);
    free(sim->wire);
    free(sim->group);
}
