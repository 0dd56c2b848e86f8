/* See mutate.h. */
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "program/resource.h"

const char *const mutation_words[MUTATION_COUNT] = {
#define ROW(NAME, words) words,
    MUTATIONS(ROW)
#undef ROW
};

int dice_roll(struct dice *dice, int count) {
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    uint64_t word = dice->state;
    word = (word ^ word >> 33) * 0xff51afd7ed558ccdu;
    return (int)((word >> 33) % (uint64_t)count);
}

struct program *mutant_copy(const struct program *program) {
    struct program *copy = program_like(program);
    for (int k = 1; k < program->kind_count; k++) program_begin(copy, 0);
    for (int k = 0; k < program->kind_count; k++) {
        const struct rank_program *from = &program->kinds[k];
        struct rank_program *to = &copy->kinds[k];
        *to = *from;
        for (int l = 0; l < LIST_COUNT; l++) {
            int count = from->list[l].count;
            to->list[l] = (struct instr_list){.count = count, .capacity = (size_t)count + 1};
            to->list[l].items = MEM_ARRAY(struct instr, count + 1);
            if (count)
                memcpy(to->list[l].items, from->list[l].items,
                       (size_t)count * sizeof(struct instr));
        }
    }
    memcpy(copy->kind_of, program->kind_of, (size_t)program->ranks * sizeof *copy->kind_of);
    return copy;
}

/* Where one mutant is made. */
struct spot {
    struct program *program;
    struct rank_program *rank;
    struct instr_list *body;
    int number; /* of a rank that runs it */
    struct dice *dice;
    char *what;
};

static void say(const struct spot *spot, const char *how, const struct instr *instr) {
    char line[INSTR_TEXT_BYTES];
    snprintf(spot->what, 160, "%s: %s", instr_text(instr, spot->number, line), how);
}

static struct instr take(struct instr_list *list, int at) {
    struct instr taken = list->items[at];
    memmove(list->items + at, list->items + at + 1,
            (size_t)(list->count - at - 1) * sizeof *list->items);
    list->count--;
    return taken;
}

static void put(struct instr_list *list, int at, struct instr instr) {
    list->items =
        mem_grow(list->items, &list->capacity, (size_t)list->count + 1, sizeof *list->items);
    memmove(list->items + at + 1, list->items + at,
            (size_t)(list->count - at) * sizeof *list->items);
    list->items[at] = instr;
    list->count++;
}

static bool same(const struct instr *a, const struct instr *b) {
    struct instr one = *a;
    one.id = b->id;
    return memcmp(&one, b, sizeof one) == 0;
}

static bool swap(struct spot *spot, int a, int b) {
    struct instr *items = spot->body->items, kept = items[a];
    if (same(&items[a], &items[b])) return false;
    say(spot, "swapped", &items[a]);
    items[a] = items[b];
    items[b] = kept;
    return true;
}

static bool retarget(struct spot *spot, struct instr *instr) {
    const char *operands = instr_row(instr)->operands;
    char letters[16];
    int count = 0;
    for (const char *at = operands; *at; at++)
        if (*at != '?') letters[count++] = *at;
    if (count == 0) return false;
    char letter = letters[dice_roll(spot->dice, count)];
    const char *at = strchr(operands, letter);
    bool optional = at > operands && at[-1] == '?';
    static const int by[] = {-1, 1, -1, 1, 2, -2};
    int old = instr_operand(instr, letter), roll = dice_roll(spot->dice, 7);
    int now = roll < 6 ? old + by[roll] : optional ? INSTR_ALL : 0;
    if (now < 0 && !(optional && now == INSTR_ALL)) now = 0;
    if (now == old) return false;
    say(spot, "re-targeted", instr);
    instr_set_operand(instr, letter, now);
    return true;
}

static bool other_instr(struct spot *spot, struct instr *instr) {
    enum instr_op op = (enum instr_op)dice_roll(spot->dice, INSTR_COUNT_);
    if (op == instr->op) return false;
    struct instr now = instr_make(op);
    now.id = instr->id;
    for (const char *letter = instr_rows[op].operands; *letter; letter++)
        if (*letter != '?' && strchr(instr_row(instr)->operands, *letter))
            instr_set_operand(&now, *letter, instr_operand(instr, *letter));
    say(spot, "another instruction", instr);
    *instr = now;
    return true;
}

static bool other_list(struct spot *spot) {
    int from = dice_roll(spot->dice, LIST_COUNT), to = dice_roll(spot->dice, LIST_COUNT);
    struct instr_list *source = &spot->rank->list[from];
    if (from == to || source->count == 0) return false;
    struct instr moved = take(source, dice_roll(spot->dice, source->count));
    struct instr_list *target = &spot->rank->list[to];
    say(spot, "in another list", &moved);
    put(target, dice_roll(spot->dice, target->count + 1), moved);
    return true;
}

/* Nothing that the text form would not take: its limits are the parser's. */
static bool can_have(const struct program *program, const struct rank_program *rank) {
    for (int c = 0; c < rank->chunks; c++) {
        const struct chunk_sizes *sizes = &rank->chunk[c];
        bool windows = program->sliced & SLICED_GRADIENTS, places = program->sliced & SLICED_PARAMS;
        int least = program->frozen > 0 ? 0 : 1;
        if (sizes->slots < 1 || sizes->buckets < least || sizes->kept < 0 || sizes->kept > 1)
            return false;
        if (sizes->windows < 0 || sizes->gathered < 0 || sizes->older < 0) return false;
        if (sizes->windows > 0 ? !windows : windows && least > 0) return false;
        if ((sizes->gathered > 0) != places) return false;
        if (sizes->windows + sizes->kept > sizes->buckets ||
            sizes->gathered + sizes->kept > sizes->buckets)
            return false;
        if (sizes->kept && !places && !windows) return false;
    }
    return rank->grads >= (program->frozen > 0 ? 0 : 1);
}

static bool change_size(struct spot *spot) {
    struct chunk_sizes *sizes = &spot->rank->chunk[dice_roll(spot->dice, spot->rank->chunks)];
    int *const fields[] = {&spot->rank->grads, &sizes->slots, &sizes->buckets, &sizes->windows,
                           &sizes->gathered,   &sizes->kept,  &sizes->older};
    static const char *const names[] = {"grads",    "slots", "buckets", "windows",
                                        "gathered", "kept",  "older"};
    int which = dice_roll(spot->dice, spot->program->sliced ? 6 : 3),
        by = dice_roll(spot->dice, 2) ? 1 : -1;
    if (spot->program->ahead > 0 && dice_roll(spot->dice, 2)) which = 6;
    *fields[which] += by;
    snprintf(spot->what, 160, "rank %d: %s %d", spot->number, names[which], *fields[which]);
    return can_have(spot->program, spot->rank);
}

/* The same number of ranks, in other pipelines. */
static bool change_grid(struct spot *spot, int *old, int *now) {
    struct grid *grid = &spot->program->grid;
    *old = grid->stages, *now = grid->replicas;
    if (grid->replicas_each > 1 || grid->drivers > 0) return false;
    grid->stages = *now;
    grid->replicas = *old;
    return true;
}

static bool change_sliced(struct spot *spot, int *old, int *now) {
    struct program *program = spot->program;
    *old = (int)program->sliced;
    *now = *old ^ 1 << dice_roll(spot->dice, 3);
    program->sliced = (unsigned)*now;
    for (int k = 0; k < program->kind_count; k++)
        if (!can_have(program, &program->kinds[k])) return false;
    return true;
}

static bool change_tie(struct spot *spot, int *old, int *now) {
    struct program *program = spot->program;
    struct program_tie *tie = &program->tie[0];
    bool other = tie_is_apart(tie) && dice_roll(spot->dice, 2);
    int *bucket = other ? &tie->other_bucket : &tie->bucket;
    if (program->tie_count == 0) return false;
    *old = *bucket;
    *now = *bucket + (dice_roll(spot->dice, 2) ? 1 : -1);
    if (*now < 0) return false;
    *bucket = *now;
    return true;
}

static bool change_frozen(struct spot *spot) {
    struct program *program = spot->program;
    int old = program->frozen, stages = program->grid.stages * program->grid.chunks;
    program->frozen += dice_roll(spot->dice, 2) ? 1 : -1;
    snprintf(spot->what, 160, "frozen %d instead of %d", program->frozen, old);
    for (int k = 0; k < program->kind_count; k++)
        if (!can_have(program, &program->kinds[k])) return false;
    return program->frozen < stages;
}

/* Ties name stages of the grid: it stays as it is where there are some. */
static bool change_header(struct spot *spot) {
    struct program *program = spot->program;
    struct grid *grid = &program->grid;
    int old = 0, now = 0, which = dice_roll(spot->dice, 8);
    if (program->ahead > 0 && dice_roll(spot->dice, 4) == 0) {
        old = program->ahead, now = old + (dice_roll(spot->dice, 2) ? 1 : -1);
        if (now < 0) return false;
        program->ahead = now;
        snprintf(spot->what, 160, "ahead %d instead of %d", now, old);
        return true;
    }
    if (program->every > 0 && dice_roll(spot->dice, 4) == 0) {
        old = program->every, now = dice_roll(spot->dice, 2) ? 0 : old + 1;
        program->every = now;
        snprintf(spot->what, 160, "every %d instead of %d", now, old);
        return true;
    }
    if (program->frozen > 0 && dice_roll(spot->dice, 3) == 0) return change_frozen(spot);
    bool can = true;
    static const char *const fields[] = {"sum",    "credits", "micro-batches", "v-shape",
                                         "stages", "sliced",  "lasting",       "tied"};
    switch (which) {
    case 0:
        old = (int)program->sum, now = dice_roll(spot->dice, SUM_ORDER_COUNT);
        program->sum = (enum sum_order)now;
        break;
    case 1:
        old = program->credits, now = dice_roll(spot->dice, 4);
        program->credits = now;
        break;
    case 2:
        old = program->micro_batches, now = old + (dice_roll(spot->dice, 2) ? 1 : -1);
        can = now >= 1;
        program->micro_batches = now;
        break;
    case 3:
        old = grid->v_shape, now = !old;
        can = program->tie_count == 0;
        grid->v_shape = now;
        break;
    case 4: can = program->tie_count == 0 && change_grid(spot, &old, &now); break;
    case 5: can = change_sliced(spot, &old, &now); break;
    case 6:
        old = (int)program->lasting;
        now = old ^ 1 << (dice_roll(spot->dice, 2) ? RESOURCE_NORM : RESOURCE_PARAMS);
        program->lasting = (unsigned)now;
        break;
    default: can = change_tie(spot, &old, &now);
    }
    snprintf(spot->what, 160, "%s %d instead of %d", fields[which], now, old);
    return can && old != now;
}

static bool change_group(struct spot *spot) {
    struct program *program = spot->program;
    int group = dice_roll(spot->dice, program->group_count);
    enum group_family now = (enum group_family)dice_roll(spot->dice, GROUP_FAMILY_COUNT);
    if (program->group[group] == now) return false;
    snprintf(spot->what, 160, "group %d: %s instead of %s", group, group_family_name(now),
             group_family_name(program->group[group]));
    program->group[group] = now;
    return true;
}

static bool change_body(struct spot *spot, enum mutation mutation) {
    struct instr_list *body = spot->body;
    int count = body->count, at = dice_roll(spot->dice, count), near;
    switch (mutation) {
    case MUTATION_REMOVE:
        say(spot, "removed", &body->items[at]);
        take(body, at);
        return true;
    case MUTATION_NEIGHBOURS: return at + 1 < count && swap(spot, at, at + 1);
    case MUTATION_SWAP: return swap(spot, at, dice_roll(spot->dice, count));
    case MUTATION_DUPLICATE:
        say(spot, "twice", &body->items[at]);
        near = at + dice_roll(spot->dice, 8);
        put(body, near < count ? near : dice_roll(spot->dice, count + 1), body->items[at]);
        return true;
    case MUTATION_MOVE:
        near = at + dice_roll(spot->dice, 9) - 4;
        if (near < 0 || near >= count) near = dice_roll(spot->dice, count);
        if (near == at) return false;
        say(spot, "moved", &body->items[at]);
        put(body, near, take(body, at));
        return true;
    case MUTATION_OPERAND: return retarget(spot, &body->items[at]);
    case MUTATION_FLAG:
        say(spot, "flag flipped", &body->items[at]);
        body->items[at].flags ^= (uint16_t)(1 << dice_roll(spot->dice, FLAG_COUNT));
        return true;
    default: return other_instr(spot, &body->items[at]);
    }
}

static bool change_start(struct spot *spot) {
    static const enum mutation kinds[] = {MUTATION_REMOVE, MUTATION_DUPLICATE, MUTATION_OPERAND,
                                          MUTATION_FLAG};
    spot->body = &spot->rank->list[LIST_START];
    return spot->body->count > 0 && change_body(spot, kinds[dice_roll(spot->dice, 4)]);
}

static bool change_between(struct spot *spot) {
    int list = LIST_EVAL_START + dice_roll(spot->dice, LIST_COUNT - LIST_EVAL_START);
    spot->body = &spot->rank->list[list];
    return spot->body->count > 0 &&
           change_body(spot, (enum mutation)dice_roll(spot->dice, MUTATION_LIST));
}

/* A few instructions that stand one behind the other: what belongs together often does. */
static bool move_block(struct spot *spot) {
    struct instr_list *body = spot->body;
    int size = 2 + dice_roll(spot->dice, 7);
    if (body->count <= size) return false;
    int from = dice_roll(spot->dice, body->count - size + 1),
        to = dice_roll(spot->dice, body->count - size + 1);
    if (dice_roll(spot->dice, 2)) to = from + 1 + dice_roll(spot->dice, 3);
    if (to == from || to > body->count - size) return false;
    say(spot, "moved, with those behind it", &body->items[from]);
    struct instr block[8];
    for (int i = 0; i < size; i++) block[i] = take(body, from);
    for (int i = 0; i < size; i++) put(body, to + i, block[i]);
    return true;
}

/* The next instruction of a list at or behind `at`, all around, that waits for others. */
static int next_meeting(const struct instr_list *list, int at) {
    for (int i = 0; i < list->count; i++) {
        const struct instr *instr = &list->items[(at + i) % list->count];
        if (instr_row(instr)->meets != MEETS_NOBODY) return (at + i) % list->count;
    }
    return at;
}

/* Ranks that come to one another in other orders, with no more credits than they need: many of
 * these wait for ever. */
static bool change_waits(struct spot *spot) {
    const struct instr_list *body = spot->body;
    int first = next_meeting(body, dice_roll(spot->dice, body->count)),
        second = next_meeting(body, (first + 1 + dice_roll(spot->dice, 6)) % body->count);
    spot->program->credits = 1;
    return swap(spot, first, second);
}

/* Damages may hide one another, or make a third program that is right. */
static bool change_twice(struct program *program, struct dice *dice, char what[160]) {
    char first[160] = "", second[160] = "";
    bool changed = true;
    for (int i = 0; i < 2 && changed; i++)
        changed =
            mutate(program, (enum mutation)dice_roll(dice, MUTATION_TWO), dice, i ? second : first);
    snprintf(what, 160, "%.76s and %.76s", first, second);
    return changed;
}

bool mutate(struct program *program, enum mutation mutation, struct dice *dice, char what[160]) {
    if (mutation == MUTATION_TWO) return change_twice(program, dice, what);
    int number = dice_roll(dice, program->ranks);
    bool alone = dice_roll(dice, 2);
    struct rank_program *rank =
        alone ? program_edit(program, number) : &program->kinds[program->kind_of[number]];
    enum list_name step = program_has_last(program) && dice_roll(dice, 2) ? LIST_LAST : LIST_BODY;
    struct spot spot = {program, rank, &rank->list[step], number, dice, what};
    if (spot.body->count == 0) return false; /* the first of two damages took its one instruction */
    switch (mutation) {
    case MUTATION_LIST: return other_list(&spot);
    case MUTATION_SIZE: return change_size(&spot);
    case MUTATION_HEADER: return change_header(&spot);
    case MUTATION_GROUP: return change_group(&spot);
    case MUTATION_START: return change_start(&spot);
    case MUTATION_BETWEEN: return change_between(&spot);
    case MUTATION_BLOCK: return move_block(&spot);
    case MUTATION_WAITS: return change_waits(&spot);
    default: return change_body(&spot, mutation);
    }
}
