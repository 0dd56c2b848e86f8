/* Private to the judge: what is under way between ranks. */
#ifndef TESTS_MUTANTS_WIRES_H
#define TESTS_MUTANTS_WIRES_H

#include <stdbool.h>
#include <stddef.h>

#include "program/instr.h"
#include "value.h"

enum { MOST_MEMBERS = 32 };

/* One operation of a group. */
enum meeting_kind {
    MEETING_LABELS,
    MEETING_REPORT,
    MEETING_NORM,
    MEETING_REDUCE,
    MEETING_SCATTER,
    MEETING_JOIN,
    MEETING_GATHER,
    MEETING_PASS,
    MEETING_STANDING,         /* and one for each instruction that waits where it stands */
    MEETING_AVERAGE = 1 << 24 /* and one for each bucket of each stage */
};
struct meeting {
    int kind;
    int64_t detail; /* must be the same for all */
    int arrived;
    int members; /* of a group that was chosen; 0: all of the group */
    value given[MOST_MEMBERS], also[MOST_MEMBERS];
    value *first; /* running statistics of the first member, where they are given to all */
};
struct meeting_group {
    struct meeting *items;
    int count, members;
    size_t capacity;
};

struct message {
    value value;
    int micro;
};
/* From one rank to another, of one cut and direction; of calls, the cut is CALLS. */
enum { CALLS = -1 };
struct wire {
    int from, to, cut;
    bool backward;
    struct message *items;
    int sent, posted, released; /* sends posted; receives posted; messages given back */
    size_t capacity;
};

/* What was posted on a buffer and is not awaited yet. */
struct under_way {
    const struct instr *instr; /* NULL: nothing */
    struct meeting_group *group;
    int wire; /* -1: none */
    int number;
    int step; /* that posted it */
};

#endif
