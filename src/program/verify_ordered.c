/* What is proven where a device waits inside the operations it is given, as it does with NCCL: a
 * rank's operations on buckets are done in the order posted, whatever their groups. One that
 * another rank has not come to holds up all behind it. So a rank comes to an operation when all
 * that it posted before are done; the walk goes on as it does else, and nobody may wait for ever.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/verify.h"

bool verify_is_ordered(const struct walk *walk) {
    return walk->verifier->in_order && strchr(instr_row(walk->instr)->operands, 'b');
}

/* Comes to the first that it can; true: one was done. */
static bool move_on(struct walk *walk) {
    if (walk->ordered_first == walk->ordered_count) return false;
    struct ordered *first = &walk->ordered[walk->ordered_first];
    struct meeting *meeting = &first->of->items[first->number];
    if (!first->came && ++meeting->arrived == first->of->members) verify_wake_group(first->of);
    first->came = true;
    if (meeting->arrived < first->of->members) return false;
    walk->ordered_first++;
    return true;
}

void verify_order(struct walk *walk, const struct pending *pending) {
    struct verifier *verifier = walk->verifier;
    walk->ordered = mem_grow(walk->ordered, &walk->ordered_capacity,
                             (size_t)walk->ordered_count + 1, sizeof *walk->ordered);
    walk->ordered[walk->ordered_count++] =
        (struct ordered){pending->group, pending->number, pending->instr, false};
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < verifier->walk_count; w++)
            while (move_on(&verifier->walks[w])) moved = true;
    }
}

enum status verify_none_held_up(const struct verifier *verifier) {
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *walk = &verifier->walks[w];
        if (!walk->waits || walk->ordered_first == walk->ordered_count) continue;
        char at[INSTR_TEXT_BYTES], first[INSTR_TEXT_BYTES];
        instr_text(walk->awaited.instr, walk->rank, at);
        instr_text(walk->ordered[walk->ordered_first].instr, walk->rank, first);
        return fail(STATUS_USAGE,
                    "program refused by rule %d: rank %d waits at %s, and its device at %s, which "
                    "another rank never comes to\n  --comm peer or shm has no such order",
                    RULE_ORDERED, walk->rank, at, first);
    }
    return STATUS_OK;
}
