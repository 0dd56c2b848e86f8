/* What is proven of waiting: ranks are walked as they would run, each until it ends or awaits what
 * another has not done yet; who does it wakes those that wait. When nobody can go on and some have
 * not ended, they wait for ever, and the cycle of who waits for whom is the answer.
 *
 * A rank is looked at again only when what it awaits may have come, so the walk takes time in
 * proportion to the instructions. Rejected: looking at all ranks in turn until none moves, which
 * takes ranks x micro-batches turns of all ranks. */

#include "base/log.h"
#include "base/mem.h"
#include "program/verify.h"

bool verify_done(const struct verifier *verifier, const struct pending *pending) {
    if (pending->channel) return verify_message_done(verifier, pending);
    return !pending->group ||
           pending->group->items[pending->number].arrived == pending->group->members;
}

void verify_wait(struct walk *walk, const struct pending *pending) {
    walk->waits = true;
    walk->awaited = *pending;
    if (pending->channel) {
        pending->channel->waiting[instr_receives(pending->instr)] = walk;
    } else {
        walk->next_waiting = pending->group->waiting;
        pending->group->waiting = walk;
    }
}

void verify_wake(struct walk *walk) {
    struct verifier *verifier = walk->verifier;
    if (walk->queued || walk->ended) return;
    walk->queued = true;
    int at = (verifier->queue_first + verifier->queue_count++) % verifier->walk_count;
    verifier->queue[at] = walk;
}

void verify_wake_end(struct channel *channel, bool receiver) {
    struct walk *walk = channel->waiting[receiver];
    channel->waiting[receiver] = NULL;
    if (walk) verify_wake(walk);
}

void verify_wake_group(struct meeting_group *group) {
    struct walk *walk = group->waiting;
    group->waiting = NULL;
    while (walk) {
        struct walk *next = walk->next_waiting;
        verify_wake(walk);
        walk = next;
    }
}

/* --- who waits for whom --- */

/* The first member of the group that has not posted this operation. */
static const struct walk *missing_member(const struct walk *walk) {
    const struct verifier *verifier = walk->verifier;
    int group = walk->awaited.instr->group;
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *other = &verifier->walks[w];
        if (verify_group_index(other, group) == verify_group_index(walk, group) &&
            other->posted[group] <= walk->awaited.number)
            return other;
    }
    return walk;
}

static const struct walk *waits_for(const struct walk *walk) {
    const struct instr *instr = walk->awaited.instr;
    if (walk->awaited.group) return missing_member(walk);
    if (instr->op == INSTR_SERVE) return walk->verifier->walks; /* the driver is the first */
    if (instr->op == INSTR_CALL)
        return walk + 1 + grid_position(&walk->program->grid, instr->stage);
    int position = grid_position(&walk->program->grid, verify_other_stage(instr));
    return walk + (position - walk->cell.position);
}

/* Follows the waits to a rank that was seen before, or that has ended. */
static const struct walk *find_cycle(const struct verifier *verifier, const struct walk *walk) {
    SCOPED_FREE bool *seen = MEM_ARRAY(bool, verifier->walk_count);
    while (walk->waits && !seen[walk - verifier->walks]) {
        seen[walk - verifier->walks] = true;
        walk = waits_for(walk);
    }
    return walk;
}

enum { SHOWN = 32 }; /* a message has a few thousand characters */

/* "rank 0 waits at A for rank 1, which waits at B for rank 0" */
static void describe(const struct walk *from, FILE *out) {
    const struct walk *walk = from;
    char line[INSTR_TEXT_BYTES];
    fprintf(out, "rank %d", walk->rank);
    for (int i = 0; i < SHOWN; i++) {
        const struct walk *next = waits_for(walk);
        fprintf(out, "%s waits at %s for rank %d", i ? ", which" : "",
                instr_text(walk->awaited.instr, walk->rank, line), next->rank);
        walk = next;
        if (walk == from) return;
        if (!walk->waits) {
            fprintf(out, ", whose body ends without it");
            return;
        }
    }
    fprintf(out, ", and so on");
}

enum status verify_none_waits(const struct verifier *verifier) {
    const struct walk *walk = NULL;
    for (int w = verifier->walk_count - 1; w >= 0; w--)
        if (verifier->walks[w].waits) walk = &verifier->walks[w];
    if (!walk) return STATUS_OK;
    const struct walk *cycle = find_cycle(verifier, walk);
    SCOPED_FREE char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for a message");
    describe(cycle->waits ? cycle : walk, out);
    fclose(out);
    return fail(STATUS_USAGE, "program refused by rule %d: %s", RULE_WAITING, text);
}
