/* See choices.h. */
#include "sim/choices.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

/* An average over members that were chosen, bucket by bucket; kept at the first of them. */
struct sim_chosen {
    int64_t number; /* of the group */
    struct cost_link link;
    int32_t waiting;
    double free_at;
    struct sim_meeting *operation;
};

/* --- who a run is --- */

static struct grid_cell cell_of(const struct sim *sim, int32_t run) {
    return grid_cell(&sim->input->program->grid, sim->share.rank[run]);
}

static bool by_stage(const struct sim *sim) {
    const struct program *program = sim->input->program;
    return program->group[program_chosen(program)] == GROUP_CHOSEN_BY_STAGE;
}

static int key_of(const struct sim *sim, int32_t run) {
    return by_stage(sim) ? cell_of(sim, run).position : 0;
}

/* Of a replica the rank with the loss, or each for itself. */
static bool asks(const struct sim *sim, int32_t run) {
    const struct grid *grid = &sim->input->program->grid;
    int last = grid_position(grid, grid->stages * grid->chunks - 1);
    return by_stage(sim) || cell_of(sim, run).position == last;
}

static int operations_of(const struct sim *sim, int32_t run) {
    return sim->run[run].kind->operations[program_chosen(sim->input->program)];
}

/* --- making them --- */

static void chosen_new(struct sim *sim, int at, int position) {
    struct sim_choices *choices = &sim->choices;
    int32_t run = 0;
    while (cell_of(sim, run).position != position) run++;
    choices->chosen[at] = (struct sim_chosen){
        .number = -1,
        .waiting = -1,
        .operation = MEM_ARRAY(struct sim_meeting, operations_of(sim, run) + 1)};
}

void sim_choices_new(struct sim *sim) {
    const struct sim_input *input = sim->input;
    int runs = sim->share.run_count, stages = input->program->grid.stages,
        replicas = input->program->grid.replicas;
    if (program_chosen(input->program) < 0 || !input->groups) return;
    struct sim_choices *choices = &sim->choices;
    *choices = (struct sim_choices){.controller = controller_open(input->groups, 0),
                                    .asked = MEM_ARRAY(struct sim_asked, runs + 1),
                                    .drawn = MEM_ARRAY(struct sim_asked, runs + 1),
                                    .waits = MEM_ARRAY(bool, runs + 1),
                                    .formed_at = MEM_ARRAY(double, replicas *stages),
                                    .chosen = MEM_ARRAY(struct sim_chosen, replicas * stages)};
    for (int i = 0; i < replicas * stages; i++) chosen_new(sim, i, i / replicas);
}

void sim_choices_free(struct sim *sim) {
    struct sim_choices *choices = &sim->choices;
    const struct grid *grid = &sim->input->program->grid;
    if (!choices->controller) return;
    for (int i = 0; i < grid->replicas * grid->stages; i++) free(choices->chosen[i].operation);
    controller_close(&choices->controller);
    free(choices->asked);
    free(choices->drawn);
    free(choices->waits);
    free(choices->formed_at);
    free(choices->chosen);
    free(choices->finish);
}

/* --- deciding --- */

static void wake_replica(struct sim *sim, int key, int replica) {
    for (int32_t run = 0; run < sim->share.run_count; run++) {
        if (!sim->choices.waits[run] || cell_of(sim, run).first_replica != replica) continue;
        if (key >= 0 && key_of(sim, run) != key) continue;
        sim->choices.waits[run] = false;
        sim_wake(sim, run);
    }
}

static void form_all(struct sim *sim, int64_t now_ns, double now) {
    struct sim_choices *choices = &sim->choices;
    struct group_formed formed;
    while (controller_form(choices->controller, now_ns, &formed)) {
        choices->groups++;
        choices->members += formed.count;
        for (int i = 0; i < formed.count; i++) {
            int at = formed.key * sim->input->program->grid.replicas + formed.replica[i];
            choices->formed_at[at] = now;
            wake_replica(sim, formed.key, formed.replica[i]);
        }
    }
}

static bool is_earlier(const struct sim *sim, const struct sim_asked *a, int32_t run, double time,
                       int rank) {
    return a->asks && (a->at < time || (a->at == time && sim->share.rank[run] <= rank));
}

/* What was asked for first; NULL: nothing was by then. */
static struct sim_asked *first_asked(const struct sim *sim, double time, int rank, int32_t *out) {
    const struct sim_choices *choices = &sim->choices;
    struct sim_asked *first = NULL;
    for (int32_t run = 0; run < sim->share.run_count; run++) {
        struct sim_asked *of[] = {&choices->drawn[run], &choices->asked[run]};
        for (int i = 0; i < 2; i++) {
            if (!is_earlier(sim, of[i], run, time, rank)) continue;
            if (first && first->at == of[i]->at && sim->share.rank[*out] <= sim->share.rank[run])
                continue;
            first = of[i];
            *out = run;
            time = first->at;
            rank = sim->share.rank[run];
        }
    }
    return first;
}

bool sim_choices_decide(struct sim *sim, double time, int rank) {
    struct sim_choices *choices = &sim->choices;
    int32_t run = 0;
    struct sim_asked *first = first_asked(sim, time, rank, &run);
    int64_t due_ns = controller_wake_ns(choices->controller);
    if (due_ns < INT64_MAX && (double)due_ns <= (first ? first->at : time)) {
        form_all(sim, due_ns, (double)due_ns);
        return true;
    }
    if (!first) return false;
    int replica = cell_of(sim, run).first_replica;
    int64_t now_ns = (int64_t)ceil(first->at);
    first->asks = false;
    if (first == &choices->drawn[run]) {
        controller_draw(choices->controller, replica, first->index);
        wake_replica(sim, -1, replica);
    } else {
        controller_arrive(choices->controller, key_of(sim, run), replica, first->index, now_ns);
    }
    form_all(sim, now_ns, first->at);
    return true;
}

/* --- what runs ask for --- */

void sim_choices_ask(struct sim *sim, int32_t run) {
    if (asks(sim, run))
        sim->choices.asked[run] = (struct sim_asked){true, sim->run[run].clock, sim->run[run].step};
}

bool sim_choices_formed(struct sim *sim, int32_t run, double *at) {
    struct sim_choices *choices = &sim->choices;
    int key = key_of(sim, run), replica = cell_of(sim, run).first_replica;
    struct controller_group group;
    bool formed = controller_group(choices->controller, key, replica, sim->run[run].step, &group);
    if (formed) *at = choices->formed_at[key * sim->input->program->grid.replicas + replica];
    choices->waits[run] = !formed;
    return formed;
}

void sim_choices_draw(struct sim *sim, int32_t run, int64_t index) {
    if (cell_of(sim, run).position == 0)
        sim->choices.drawn[run] = (struct sim_asked){true, sim->run[run].clock, index};
}

bool sim_choices_number(struct sim *sim, int32_t run, int64_t index, int64_t *out) {
    *out = controller_number(sim->choices.controller, cell_of(sim, run).first_replica, index);
    sim->choices.waits[run] = *out == CONTROLLER_UNKNOWN;
    return *out != CONTROLLER_UNKNOWN;
}

/* --- runs that draw --- */

void sim_choices_begin(struct sim *sim, int steps) {
    struct sim_choices *choices = &sim->choices;
    int64_t count = (int64_t)steps * sim->input->program->grid.replicas;
    if (!choices->controller) return;
    choices->draws = true;
    choices->finish = MEM_ARRAY(double, count);
    controller_begin(choices->controller, 0, count, true);
}

bool sim_choices_step(struct sim *sim, int32_t run, bool *ended) {
    struct sim_state *state = &sim->run[run];
    if (!sim_choices_number(sim, run, state->step, &state->number)) return false;
    *ended = state->number == CONTROLLER_NONE;
    if (!*ended) sim_choices_draw(sim, run, state->step + 1);
    return true;
}

void sim_choices_finish(struct sim *sim, const struct sim_state *state) {
    double *finish = &sim->choices.finish[state->number];
    if (state->clock > *finish) *finish = state->clock;
}

static int by_time(const void *a, const void *b) {
    const double *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

void sim_choices_ends(struct sim *sim) {
    int steps = sim->input->steps, replicas = sim->input->program->grid.replicas;
    if (!sim->choices.draws) return;
    qsort(sim->choices.finish, (size_t)(steps * replicas), sizeof *sim->choices.finish, by_time);
    for (int k = 0; k < steps; k++) sim->step_end[k] = sim->choices.finish[(k + 1) * replicas - 1];
}

/* --- averages --- */

static int member_rank(const struct sim *sim, int position, const struct controller_group *group,
                       int member) {
    return group_rank(&sim->input->program->grid, GROUP_REPLICAS, position,
                      group->replica[member % group->count]);
}

/* What laws of links add to an operation: the slowest of those between two members. */
static struct cost_link law_link(const struct sim *sim, int position,
                                 const struct controller_group *group) {
    const struct hetero *law = sim->input->net.hetero;
    struct cost_link slowest = {0};
    for (size_t i = 0; i < law->link_count; i++) {
        int ends = 0;
        for (int m = 0; m < group->count; m++) {
            int rank = member_rank(sim, position, group, m);
            ends += rank == law->link[i].rank[0] || rank == law->link[i].rank[1];
        }
        if (ends == 2) slowest = cost_slower_link(slowest, law->link[i].more);
    }
    return slowest;
}

/* The slowest link around a ring of the members. */
static struct cost_link members_link(const struct sim *sim, int position,
                                     const struct controller_group *group) {
    const struct cost_net *net = &sim->input->net;
    struct cost_link link = {0};
    for (int m = 0; net->cluster && group->count > 1 && m < group->count; m++)
        link = cost_slower_link(link, cost_link(net, member_rank(sim, position, group, m),
                                                member_rank(sim, position, group, m + 1)));
    if (!net->cluster) link = net->group_link;
    return net->hetero ? cost_longer_link(link, law_link(sim, position, group)) : link;
}

static struct controller_group group_now(const struct sim *sim, int32_t run) {
    struct controller_group group = {0};
    controller_group(sim->choices.controller, key_of(sim, run), cell_of(sim, run).first_replica,
                     sim->run[run].step, &group);
    return group;
}

static struct sim_chosen *chosen_of(const struct sim *sim, int32_t run,
                                    const struct controller_group *group) {
    int position = cell_of(sim, run).position;
    return &sim->choices.chosen[position * sim->input->program->grid.replicas + group->replica[0]];
}

static void form_anew(const struct sim *sim, int32_t run, const struct controller_group *group,
                      struct sim_chosen *chosen) {
    if (chosen->number == group->number) return;
    chosen->number = group->number;
    chosen->waiting = -1;
    chosen->free_at = 0;
    chosen->link = members_link(sim, cell_of(sim, run).position, group);
    for (int i = 0; i < operations_of(sim, run); i++)
        chosen->operation[i] = (struct sim_meeting){.latest = -1};
}

static void complete(struct sim *sim, struct sim_chosen *chosen, int members,
                     struct sim_meeting *meeting, const struct sim_op *op) {
    meeting->begin = fmax(meeting->latest, chosen->free_at);
    meeting->end = meeting->begin + cost_group_time(sim->input->net.collective, chosen->link,
                                                    members, op->bytes, COST_SUM);
    chosen->free_at = meeting->end;
    for (int32_t run = chosen->waiting; run >= 0; run = sim->run[run].next_waiting)
        sim_wake(sim, run);
    chosen->waiting = -1;
}

int64_t sim_choices_arrive(struct sim *sim, int32_t run, const struct sim_op *op) {
    struct sim_state *state = &sim->run[run];
    struct controller_group group = group_now(sim, run);
    struct sim_chosen *chosen = chosen_of(sim, run, &group);
    int64_t number = state->posted[op->target]++ % operations_of(sim, run);
    form_anew(sim, run, &group, chosen);
    struct sim_meeting *meeting = &chosen->operation[number];
    if (state->clock > meeting->latest) {
        meeting->latest = state->clock;
        meeting->last = (struct sim_cause){run, state->at, false};
    }
    if (++meeting->arrived == group.count) complete(sim, chosen, group.count, meeting, op);
    return number;
}

const struct sim_meeting *sim_choices_meeting(struct sim *sim, int32_t run, int64_t number) {
    struct controller_group group = group_now(sim, run);
    struct sim_chosen *chosen = chosen_of(sim, run, &group);
    const struct sim_meeting *meeting = &chosen->operation[number];
    if (meeting->arrived == group.count) return meeting;
    sim->run[run].next_waiting = chosen->waiting;
    chosen->waiting = run;
    return NULL;
}
