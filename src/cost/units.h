/* Costs of instructions given by hand. All local; nothing blocks.
 *
 * --costs f=1,i=1,w=1,c=0 gives them in units that the user chooses, for formulas and golden
 * orders. --delay f=5ms,i=5ms,w=5ms gives times: passes wait that long instead of computing, and
 * the program stays the same. A cost that is not given follows from the others: b = i + w (a whole
 * backward pass is its two halves), r = f (recomputation is a forward pass). */
#ifndef COST_UNITS_H
#define COST_UNITS_H

#include "base/status.h"

/* Kinds of cost, the rows of units.def. */
enum cost_kind {
#define COST(NAME, letter, initial, delay, doc) COST_##NAME,
#include "cost/units.def"
    COST_COUNT
};

struct cost_units {
    double of[COST_COUNT]; /* units (--costs) or nanoseconds (--delay) */
};

/* `where` is for messages: "--costs". STATUS_USAGE names the part that is wrong. */
enum status cost_units_parse(const char *where, const char *text, struct cost_units *out);
enum status cost_units_parse_delay(const char *where, const char *text, struct cost_units *out);

/* All units as text that cost_units_parse reads back to the same values; the caller frees it. */
char *cost_units_text(const struct cost_units *costs);

#endif
