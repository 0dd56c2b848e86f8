/* What is between ranks: groups whose members post the same operations one after the other, and
 * wires with credits; and how what was posted takes effect when it is awaited. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "program/resource.h"
#include "world.h"

bool world_wrong(struct world *world, const char *why) {
    if (!world->wrong) world->wrong = why;
    return false;
}

/* --- groups --- */

struct meeting_group *group_here(const struct world *world, const struct rank *rank, int group) {
    const struct program *program = world->program;
    return &world->groups[group][group_of(&program->grid, program->group[group], rank->number)];
}

int group_place(const struct world *world, const struct rank *rank, int group) {
    const struct program *program = world->program;
    enum group_family family = program->group[group];
    int index = group_of(&program->grid, family, rank->number), place = 0;
    while (group_rank(&program->grid, family, index, place) != rank->number) place++;
    return place;
}

int group_post(struct world *world, struct rank *rank, int group, int kind, int64_t detail,
               value given, value also) {
    struct meeting_group *of = group_here(world, rank, group);
    int number = rank->posted[group]++, place = group_place(world, rank, group);
    bool exchange = kind == MEETING_LABELS || kind == MEETING_REPORT || kind == MEETING_NORM ||
                    kind == MEETING_PASS;
    if (exchange && rank->exchange[group] > 0) world_wrong(world, "two exchanges at once");
    if (number == of->count) {
        of->items = mem_grow(of->items, &of->capacity, (size_t)number + 1, sizeof *of->items);
        of->items[of->count++] = (struct meeting){.kind = kind, .detail = detail};
    }
    struct meeting *meeting = &of->items[number];
    if (meeting->kind != kind || meeting->detail != detail)
        world_wrong(world, "members of a group meet for different things");
    meeting->given[place] = given;
    meeting->also[place] = also;
    meeting->arrived++;
    world->posted++;
    return number;
}

bool group_done(const struct meeting_group *group, int number) {
    const struct meeting *meeting = &group->items[number];
    return meeting->arrived == (meeting->members ? meeting->members : group->members);
}

const struct meeting *group_meet(struct world *world, struct rank *rank, int group, int kind,
                                 int64_t detail, value given) {
    struct meeting_group *of = group_here(world, rank, group);
    if (!rank->in_pass) group_post(world, rank, group, kind, detail, given, 0);
    int number = rank->posted[group] - 1;
    rank->in_pass = world->wrong || !group_done(of, number);
    return rank->in_pass ? NULL : &of->items[number];
}

/* --- wires --- */

int wire_find(struct world *world, struct wire like) {
    for (int w = 0; w < world->wire_count; w++) {
        const struct wire *wire = &world->wires[w];
        if (wire->from == like.from && wire->to == like.to && wire->cut == like.cut &&
            wire->backward == like.backward)
            return w;
    }
    world->wires = mem_grow(world->wires, &world->wire_capacity, (size_t)world->wire_count + 1,
                            sizeof *world->wires);
    world->wires[world->wire_count] = like;
    return world->wire_count++;
}

void wire_send(struct world *world, int wire, struct message message) {
    struct wire *of = &world->wires[wire];
    of->items = mem_grow(of->items, &of->capacity, (size_t)of->sent + 1, sizeof *of->items);
    of->items[of->sent++] = message;
}

/* --- awaiting --- */

static bool is_receive(const struct instr *instr) {
    return instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B;
}

bool wire_has(const struct world *world, int wire, int number) {
    const struct wire *of = &world->wires[wire];
    return number < of->sent && number < of->released + world->program->credits;
}

static bool has_come(const struct world *world, const struct under_way *posted) {
    if (posted->wire < 0) return group_done(posted->group, posted->number);
    return wire_has(world, posted->wire, posted->number);
}

static bool take_message(struct world *world, struct slot *slot, const struct under_way *posted) {
    struct wire *wire = &world->wires[posted->wire];
    const struct message *message = &wire->items[posted->number];
    if (posted->number != wire->released) return world_wrong(world, "a message taken out of turn");
    wire->released++;
    if (slot->micro < 0) return world_wrong(world, "a message for an empty slot");
    if (message->micro != slot->micro)
        return world_wrong(world, "the message of another micro-batch");
    if (posted->instr->op == INSTR_RECV_F) {
        if (slot->forward || slot->kept || slot->input_gradient || slot->segment > 0)
            return world_wrong(world, "received over activations");
        slot->received = message->value;
    } else {
        if (slot->segment > 0 || slot->kept)
            return world_wrong(world, "received in the middle of backward");
        slot->gradient = message->value;
        slot->output = VALUE_NONE;
    }
    return true;
}

void take_sums(struct rank *rank, const struct instr *instr, int step, value sum, value also) {
    if (instr->op == INSTR_COUNT) rank->seeds = sum;
    if (instr->op == INSTR_NORM) rank->norm = rank->norms[step] = value_of(VALUE_NORM, sum, 0);
    if (instr->op != INSTR_REPORT) return;
    rank->losses = sum;
    rank->heard = also;
}

static void take_exchange(struct rank *rank, const struct under_way *posted) {
    const struct meeting *meeting = &posted->group->items[posted->number];
    value sum = 0, also = 0;
    for (int m = 0; m < posted->group->members; m++) {
        sum += meeting->given[m];
        also += meeting->also[m];
    }
    rank->exchange[posted->instr->group]--;
    take_sums(rank, posted->instr, posted->step, sum, also);
}

static bool ready(const struct world *world, const struct under_way *posted) {
    return !posted->instr || has_come(world, posted);
}

bool await(struct world *world, struct rank *rank, struct under_way *posted) {
    if (!posted->instr) return true;
    if (!ready(world, posted)) return false;
    take_exchange(rank, posted);
    posted->instr = NULL;
    return true;
}

bool await_norm(struct world *world, struct rank *rank) {
    return await(world, rank, &rank->report) && await(world, rank, &rank->squares);
}

bool await_slot(struct world *world, struct rank *rank, struct slot *slot) {
    (void)rank;
    struct under_way posted = slot->posted;
    if (!posted.instr) return true;
    if (!ready(world, &posted)) return false;
    slot->posted.instr = NULL;
    return is_receive(posted.instr) ? take_message(world, slot, &posted) : true;
}

bool await_bucket(struct world *world, struct rank *rank, struct bucket *bucket) {
    if (!ready(world, &bucket->posted)) return false;
    if (bucket->posted.instr) take_sum(world, rank, &bucket->posted);
    return !world->wrong;
}

bool await_params(struct world *world, struct rank *rank, struct param_bucket *params) {
    (void)rank;
    if (!ready(world, &params->posted)) return false;
    if (params->posted.instr) take_gather(world, params, &params->posted);
    params->posted.instr = NULL;
    return !world->wrong;
}

/* Behind the last instruction of a list, in the executor's order. Where another step follows
 * (goes_on), what the header calls lasting may stay under way. */
bool await_list(struct world *world, struct rank *rank, bool goes_on) {
    unsigned lasting = goes_on ? world->program->lasting : 0;
    for (int b = 0; b < rank->bucket_count * rank->own->grads; b++)
        if (!await_bucket(world, rank, &rank->buckets[b])) return false;
    for (int s = 0; s < rank->slot_count; s++)
        if (!await_slot(world, rank, &rank->slots[s])) return false;
    if (!await(world, rank, &rank->count) || !await(world, rank, &rank->report)) return false;
    for (int b = 0; b < rank->bucket_count && !(lasting >> RESOURCE_PARAMS & 1); b++)
        if (!await_params(world, rank, &rank->params[b])) return false;
    return lasting >> RESOURCE_NORM & 1 || await(world, rank, &rank->squares);
}
