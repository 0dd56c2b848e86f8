/* The parts of a memory estimate, as users see them: rows of memory.def. */
#include "plan/plan.h"

bool memory_part(const struct memory_estimate *estimate, int index, struct memory_part *out) {
    const struct memory_part parts[] = {
#define MEMORY(field, name, where, doc) {name, doc, estimate->field},
#include "plan/memory.def"
#undef MEMORY
    };
    enum { HOST, DEVICE };
    static const int where[] = {
#define MEMORY(field, name, where, doc) where,
#include "plan/memory.def"
#undef MEMORY
    };
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) {
        if ((estimate->apart && where[i] == HOST) || index-- > 0) continue;
        *out = parts[i];
        return true;
    }
    return false;
}

size_t memory_sum(const struct memory_estimate *estimate) {
    struct memory_part part;
    size_t sum = 0;
    for (int i = 0; memory_part(estimate, i, &part); i++) sum += part.bytes;
    return sum;
}
