/* Cutting a row of layers into chunks whose largest is as small as can be.
 *
 * Exact, by dynamic programming over (chunk, first layer): layers^2 x chunks steps, some
 * milliseconds for 200 layers. Of all splits with the least largest chunk it takes the one that
 * sends the fewest bytes over its cuts, and of those the one whose first cut is earliest, then the
 * second, and so on: every rank finds the same. Rejected: a search over the limit with a greedy
 * fill, which is faster but needs weights that grow with the chunk and no slots that differ. */
#ifndef PLAN_BALANCE_H
#define PLAN_BALANCE_H

#include <stdbool.h>
#include <stddef.h>

enum balance {
#define BALANCE(NAME, name, unit, doc) BALANCE_##NAME,
#include "plan/balance.def"
#undef BALANCE
    BALANCE_COUNT
};

/* Local. By its option value, BALANCE_COUNT when there is none; the option value. */
enum balance balance_find(const char *name);
const char *balance_name(enum balance balance);

/* The weight of layers [a, b) as chunk k: fixed + per_slot x slots of the chunk, each taken from a
 * table of (layers + 1) x (layers + 1) entries by a and b. */
struct balance_problem {
    int layers, chunks;
    const double *fixed, *per_slot; /* per_slot: NULL is 0 */
    const int *slots;               /* per chunk; NULL: 1 each */
    const size_t *cross_bytes;      /* per layer: what crosses a cut before it */
    bool grows; /* longer runs are never lighter: those behind one too heavy are not looked at */
};

/* Local. The entry of a table. */
static inline size_t balance_entry(int layers, int a, int b) {
    return (size_t)a * (size_t)(layers + 1) + (size_t)b;
}

/* Local. The weight of layers [a, b) as chunk `chunk`. */
double balance_weight(const struct balance_problem *problem, int chunk, int a, int b);

/* Local. The first layer of every chunk but the first, written to `cuts` (chunks - 1 entries). At
 * most as many chunks as layers. */
void balance_cut(const struct balance_problem *problem, int *cuts);

#endif
