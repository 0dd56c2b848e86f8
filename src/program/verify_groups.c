/* What is proven of groups: all members post the same operations in the same order, and none waits
 * for ever.
 *
 * An instruction of the queue COMM is posted and done once all members have posted theirs; the
 * first instruction that reads or writes one of its buffers awaits that. Passes that share
 * statistics wait where they stand. */
#include <limits.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

static struct meeting_group *group_of_walk(const struct walk *walk, int group) {
    return &walk->verifier->groups[group][verify_group_index(walk, group)];
}

/* A group carries one exchange at a time: what COUNT, REPORT or NORM posted there was awaited.
 * Operations on buckets are no exchanges. */
static enum status check_exchange(const struct walk *walk, const struct meeting_group *of,
                                  int group) {
    const struct pending *open = NULL;
    for (int i = 0; i < walk->under_way_count && !open; i++) {
        const struct under_way *one = &walk->under_way[i];
        if (one->pending.group == of && resource_is_exchange(&walk->map, one->on.buffer[0]))
            open = &one->pending;
    }
    bool data = strchr(instr_row(walk->instr)->operands, 'b');
    if (!open || data) return STATUS_OK;
    return verify_broken(walk, RULE_MEETINGS, verify_own(walk, open->instr),
                         "an exchange of group %d is under way and was not awaited", group);
}

/* Posts the walk's instruction as the next operation of a group. */
static enum status post(struct walk *walk, int group, int64_t what, struct pending *out) {
    struct meeting_group *of = group_of_walk(walk, group);
    TRY(check_exchange(walk, of, group));
    int number = walk->posted[group]++;
    if (number == of->count) {
        of->items = mem_grow(of->items, &of->capacity, (size_t)number + 1, sizeof *of->items);
        of->items[of->count++] = (struct meeting){.what = what, .first = {walk->instr, walk->rank}};
    }
    struct meeting *meeting = &of->items[number];
    if (meeting->what != what)
        return verify_broken(walk, RULE_MEETINGS, meeting->first,
                             "rank %d comes to this meeting of group %d with something else",
                             meeting->first.rank, group);
    *out = (struct pending){.group = of, .number = number, .instr = walk->instr};
    if (verify_is_ordered(walk))
        verify_order(walk, out);
    else if (++meeting->arrived == of->members)
        verify_wake_group(of);
    return STATUS_OK;
}

/* --- posted, and awaited by the first to touch the buffer --- */

void verify_under_way(struct walk *walk, const struct pending *pending) {
    walk->under_way = mem_grow(walk->under_way, &walk->under_way_capacity,
                               (size_t)walk->under_way_count + 1, sizeof *walk->under_way);
    walk->under_way[walk->under_way_count++] =
        (struct under_way){resource_posted(&walk->map, pending->instr), *pending};
}

/* What was awaited is under way no more. They are awaited one by one, as the executor does it. */
static enum status await_one(struct walk *walk, int index) {
    struct pending pending = walk->under_way[index].pending;
    if (!verify_done(walk->verifier, &pending)) {
        verify_wait(walk, &pending);
        return STATUS_OK;
    }
    walk->under_way[index] = walk->under_way[--walk->under_way_count];
    return pending.channel && instr_receives(pending.instr) ? verify_take_message(walk, &pending)
                                                            : STATUS_OK;
}

/* The operation under way on the lowest of these buffers; -1: none is. */
static int first_under_way(const struct walk *walk, const struct touched *touched) {
    int found = -1, lowest = INT_MAX;
    for (int i = 0; i < walk->under_way_count; i++) {
        const struct posted_on *on = &walk->under_way[i].on;
        for (int b = 0; b < on->count; b++)
            if (on->buffer[b] < lowest && resource_holds(touched, on->buffer[b])) {
                lowest = on->buffer[b];
                found = i;
            }
    }
    return found;
}

static enum status await_touched(struct walk *walk, const struct touched *touched) {
    for (int found; !walk->waits && (found = first_under_way(walk, touched)) >= 0;)
        TRY(await_one(walk, found));
    return STATUS_OK;
}

static enum status await_letters(struct walk *walk, const char *letters) {
    for (; *letters && walk->under_way_count > 0; letters++) {
        struct touched touched = resource_touched(&walk->map, walk->instr, *letters);
        TRY(await_touched(walk, &touched));
    }
    return STATUS_OK;
}

enum status verify_await(struct walk *walk) {
    TRY(await_letters(walk, instr_row(walk->instr)->reads));
    return await_letters(walk, instr_row(walk->instr)->writes);
}

enum status verify_await_step(struct walk *walk) {
    for (int kind = 0; kind < RESOURCE_COUNT; kind++) {
        const int *first = &walk->map.first[kind];
        struct touched all = {.first = first[0], .count = first[1] - first[0]};
        if (!(walk->program->lasting >> kind & 1)) TRY(await_touched(walk, &all));
    }
    return STATUS_OK;
}

uint64_t verify_left(const struct walk *walk) {
    uint64_t left = 0;
    for (int i = 0; i < walk->under_way_count; i++) {
        const struct under_way *one = &walk->under_way[i];
        const int key[] = {one->pending.instr->op, one->pending.instr->group, one->on.buffer[0],
                           one->on.count > 1 ? one->on.buffer[1] : 0};
        left += hash64(HASH64_START, key, sizeof key);
    }
    return left;
}

/* An instruction of a step that is not posted: it waits where it stands. */
static bool waits_there(const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    return instr_may_stand(instr, LIST_BODY) && row->meets == MEETS_GROUP &&
           row->queue == QUEUE_COMPUTE;
}

/* The two sides of a tie name it by buckets of their own. */
static int64_t operation(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    int stage = instr->stage, bucket = instr->bucket;
    const struct program_tie *tie =
        instr->op == INSTR_JOIN ? program_tie_at(walk->program, stage, bucket) : NULL;
    if (tie) stage = tie->stage, bucket = tie->bucket;
    int grad = instr->op == INSTR_NORM ? 0 : instr->grad; /* each has its own, or none */
    return (int64_t)instr->op << 48 | (int64_t)grad << 32 | (int64_t)stage << 16 | (uint16_t)bucket;
}

enum status verify_post(struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct instr_row *row = instr_row(instr);
    struct pending pending;
    if (row->meets != MEETS_GROUP || instr->group == INSTR_ALL || waits_there(instr))
        return STATUS_OK;
    TRY(post(walk, instr->group, operation(walk), &pending));
    if (row->queue == QUEUE_COMM) verify_under_way(walk, &pending);
    return STATUS_OK;
}

/* --- shared statistics --- */

/* What a segment of a pass shares: the statistics of a stage, distinguished by direction and by
 * the place of the micro-batch in its replica's step. */
static int64_t shared_by(const struct walk *walk, int segment) {
    const struct instr *instr = walk->instr;
    int place = instr->micro % walk->program->micro_batches;
    return (int64_t)segment << 48 | (int64_t)instr->stage << 32 | (int64_t)place * 2 |
           !instr_is_forward(instr);
}

static int sharers_of(const struct walk *walk, int micro) {
    int count = 0, each = walk->program->micro_batches;
    for (int m = micro % each; m < walk->micros; m += each) count += verify_present(walk, m);
    return count;
}

/* One rank runs the replicas that share statistics as one: their passes follow one another
 * without a gap. So they have slots of their own, since nothing is loaded in between. */
static enum status share_here(struct walk *walk) {
    const struct instr *instr = walk->instr;
    int what = (int)shared_by(walk, 0);
    if (instr->op == INSTR_STATS_F || instr->op == INSTR_STATS_B)
        return verify_broken(walk, RULE_SHARED, nobody,
                             "a replica without samples needs no part on one rank");
    if (instr_is_segment(instr))
        return verify_broken(walk, RULE_SHARED, nobody,
                             "on one rank a pass that shares statistics is not cut");
    if (walk->together > 0 && what != walk->together_what)
        return verify_broken(walk, RULE_SHARED, nobody,
                             "replicas that share statistics stand before it, but not all of them");
    walk->together_what = what;
    if (++walk->together == sharers_of(walk, instr->micro)) walk->together = 0;
    return STATUS_OK;
}

static enum status check_group(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool shares = instr_shares(instr), frozen = instr->stage < walk->program->frozen;
    if (frozen && shares)
        return verify_broken(walk, RULE_FROZEN, nobody,
                             "stage %d is frozen, and shares no statistics", instr->stage);
    if (!frozen && walk->verifier->shares != shares)
        return verify_broken(walk, RULE_SHARED, nobody,
                             "some instructions share statistics (a group) and this one does not");
    if (shares && !verify_group_is(walk->program, instr->group, GROUP_REPLICAS))
        return verify_broken(walk, RULE_SHARED, nobody,
                             "group %d is not the replicas of this stage", instr->group);
    if (shares && walk->program->grid.replicas == 1)
        return verify_broken(walk, RULE_SHARED, nobody,
                             "there is no other replica to share statistics with");
    return STATUS_OK;
}

/* Posts once; waits until all have come. */
static enum status meet(struct walk *walk, int64_t what) {
    const struct instr *instr = walk->instr;
    struct pending pending = {.group = group_of_walk(walk, instr->group),
                              .number = walk->posted[instr->group] - 1,
                              .instr = instr};
    if (!walk->arrived) TRY(post(walk, instr->group, what, &pending));
    walk->arrived = !verify_done(walk->verifier, &pending);
    if (walk->arrived) verify_wait(walk, &pending);
    return STATUS_OK;
}

/* Batch norms anywhere in a pass meet: each of its segments is a meeting, also of a pass that is
 * run whole. So a replica may cut a pass that another runs whole, and what stands between its
 * segments stands inside the other's pass. */
static enum status share_between(struct walk *walk) {
    const struct instr *instr = walk->instr;
    int count = walk->own->chunk[verify_chunk(walk)].buckets,
        parts = instr_is_segment(instr) ? 1 : count;
    for (; walk->shared < parts; walk->shared++) {
        int next = instr_is_forward(instr) ? count - 1 - walk->shared : walk->shared;
        TRY(meet(walk, shared_by(walk, instr_is_segment(instr) ? instr->segment : next)));
        if (walk->arrived) return STATUS_OK;
    }
    walk->shared = 0;
    return STATUS_OK;
}

enum status verify_share(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (instr_row(instr)->meets == MEETS_SHARERS) TRY(check_group(walk));
    if (walk->together > 0 && !instr_shares(instr))
        return verify_broken(walk, RULE_SHARED, nobody,
                             "replicas that share statistics stand before it, but not all of them");
    if (waits_there(instr)) return meet(walk, operation(walk));
    if (!instr_shares(instr)) return STATUS_OK;
    return walk->cell.replica_count > 1 ? share_here(walk) : share_between(walk);
}
