/* Operations under way, by the buffers that they are under way on (program/resource.h); private to
 * src/exec. */
#ifndef EXEC_POSTED_H
#define EXEC_POSTED_H

#include "program/resource.h"

struct engine;
struct step;

/* An operation that an instruction posted, done later; the first instruction that touches its
 * buffers awaits it. */
struct posted {
    const struct instr *instr; /* NULL: nothing is under way */
    struct comm_request *request;
    struct posted *by; /* an operation on two buffers, which is kept at the other one */
    struct step *step; /* that posted it */
    /* By the communicator's hooks, so under its lock: which operation it is, and its times. */
    int group;
    uint64_t sequence;
    int64_t begin_ns, end_ns; /* 0: not yet */
    int64_t start_ns;         /* of a message: see comm_event */
    uint64_t number;          /* of a message to be received */
    int row;                  /* of the clock of virtual time */
};

/* Local. Where what an instruction posts is kept; is something under way on the one buffer of a
 * kind? */
struct posted *engine_posted(struct engine *engine, const struct instr *instr);
bool engine_is_under_way(const struct engine *engine, enum resource kind);

#endif
