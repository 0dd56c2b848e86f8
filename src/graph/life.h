/* Lifetimes: when the nodes of a stage run in a slot, and from when to when the bytes of a value
 * are in use. Private to src/graph but for the parts that a memory plan (memory.h) shows. */
#ifndef GRAPH_LIFE_H
#define GRAPH_LIFE_H

#include "graph/recompute.h"

/* How programs run a stage. */
struct life_config {
    bool split; /* backward runs as two passes, all of I and then all of W, instead of op by
                   op */
    bool mixed; /* with split: in some steps it runs op by op all the same; good for both */
    bool segments_apart; /* passes of other slots may run between the segments of a pass */
    bool lockstep;       /* passes of several slots run together, each up to the next exchange */
    bool recompute;      /* forward keeps nothing for backward: it is run again right before it */
    bool blocks;         /* with recompute: one segment of it at a time, before that of backward */
    bool some_kept;      /* with recompute: of some micro-batches it keeps all; good for both */
    bool inputs; /* have a place in the slot, since nobody else's memory can be read: filled before
                    its first pass, and kept for the last that reads them */
};

enum { LIFE_NEVER = -1, LIFE_KEPT = -2, LIFE_ORDERS = 5 };

/* An order in which the nodes of a slot run, and what it means for values. */
struct life_order {
    int *time;         /* per node: when it runs; LIFE_NEVER: not in this order or stage */
    int *first, *last; /* per value: its bytes are in use from and to these times; LIFE_NEVER: they
                          are not */
};

/* Views count for their root. */
struct life {
    /* Of what is kept: I before W where split, else op by op; where mixed, then op by op. Of what
     * is recomputed: the same with the nodes that run again in front, of all segments or of each;
     * then the first forward. */
    struct life_order order[LIFE_ORDERS];
    int order_count;
    int *pass; /* per value: the one pass that it lives in; LIFE_KEPT: it outlives a pass */
    struct recompute recompute; /* empty where nothing is */
};

/* Local. Does a node run in any order? Is a value in use in any? */
bool life_runs(const struct life *life, int node);
bool life_uses(const struct life *life, int value);

/* Local. Lifetimes of what the nodes of a stage touch. What crosses its cuts is kept: received
 * before the pass that reads it begins; sent after the pass that makes it, which must be done in
 * forward before the slot's backward begins, and in backward before the slot is used again. Where
 * forward runs again, it and the backward behind it are one pass. The caller frees the result with
 * life_free. */
struct life life_of(const struct ranges *ranges, int stage, const struct life_config *config);
void life_free(struct life *life);

#endif
