/* Passes: the nodes of a graph that an instruction runs; private to src/exec. */
#ifndef EXEC_PASS_H
#define EXEC_PASS_H

#include "comm/comm.h"
#include "exec/runnable.h"

struct engine;

/* What a pass runs: its nodes, and whether and where it makes gradients. The last two kinds are the
 * part of a rank without samples where others share statistics. */
enum pass {
    PASS_FORWARD,
    PASS_AGAIN,
    PASS_BACKWARD,
    PASS_INPUT_HALF,
    PASS_WEIGHT_HALF,
    PASS_ABSENT_FORWARD,
    PASS_ABSENT_BACKWARD
};
struct pass_config {
    enum pass pass;
    int stage, segment; /* INSTR_ALL: all segments */
    int grad;           /* buffer; below 0: no gradients are made */
    bool fresh, pure;
    const bool *again;          /* of PASS_AGAIN, per node: whether it runs */
    struct comm_group *sharers; /* NULL: exchange nothing */
    /* Called after each node when not NULL; a true answer ends the pass. */
    bool (*after)(void *context, const struct runnable *runnable, int slot, int node);
    void *context;
};

/* A pass under way. One that shares statistics stops at every exchange and is gone on with when
 * that is done. */
struct pass_run {
    const struct instr *instr; /* NULL: none */
    struct runnable *runnable;
    int slot, replica;
    struct pass_config config;
    int node, end;   /* next node, and where the pass ends */
    bool exchanging; /* at `node`, of whose bytes so many are done or under way: */
    size_t exchanged, piece;
};

/* Local. Points a pass at its first node. */
void pass_begin(struct pass_run *run);
/* Local. Runs a pass up to its end, or up to the next exchange, which it posts and engine->awaiting
 * names. Fails if a kernel does, or an operation that is moved on meanwhile does (comm_status). */
enum status pass_go_on(struct engine *engine, struct pass_run *run);
/* Local. Runs passes of one device that share statistics in lockstep: each up to where they share,
 * then all share, and so on. */
enum status pass_run_lockstep(struct engine *engine, struct pass_run *runs, int count);

#endif
