/* Operations under way, by the buffers that they are under way on (program/resource.h); private to
 * src/exec.
 *
 * An operation goes through three stages. What it needs of the device goes out, on the stream of
 * communication; then the communicator moves it; then what came goes in, on that stream too. On a
 * device whose memory is the host's the first and the last take no time. The first instruction that
 * touches one of its buffers waits for the last stage: its stream does, by the event, not the host.
 * A LOAD is in its last stage from the start. */
#ifndef EXEC_POSTED_H
#define EXEC_POSTED_H

#include "backend/plane.h"
#include "comm/comm.h"
#include "program/resource.h"

struct engine;
struct step;

enum posted_stage { POSTED_OUT, POSTED_MOVES, POSTED_IN };

/* An operation that an instruction posted, done later; the first instruction that touches its
 * buffers awaits it. */
struct posted {
    const struct instr *instr; /* NULL: nothing is under way */
    enum posted_stage stage;
    bool copies;         /* of stage OUT or IN: the device copies, up to: */
    struct event *event; /* NULL on a device that has none */
    struct comm_request *request;
    struct plane_request *moving; /* of the plane, instead of `request` */
    bool asks;                    /* whoever decides on groups is to answer; instead of both */
    bool by_plane;                /* it was, or is */
    bool pretended;               /* there is none: only its virtual time passes (overlap.h) */
    struct posted *by; /* where the operation is kept, if it is on two buffers and this is the
                          second; else NULL */
    struct step *step; /* that posted it */
    int64_t of_step;   /* the number of the step that the instruction belongs to */
    /* Awaited, but the copy of what came may still read the communicator's memory; then it is
     * closed. NULL: nothing. */
    const struct instr *closing;
    /* By the communicator's hooks, so under its lock: which operation it is, and its times. */
    int group;
    uint64_t sequence;
    int64_t begin_ns, end_ns; /* 0: not yet */
    int64_t start_ns;         /* of a message: see comm_event */
    uint64_t number;          /* of a message to be received; of one that mail sends: its place */
    int row;                  /* of the clock of virtual time */
};

/* In the order in which they must be moved, or closed. */
struct posted_queue {
    struct posted **items; /* a ring of `room` */
    int first, count, room;
};

/* Local. One place for each buffer of the engine's map. */
enum status posted_open(struct engine *engine);
void posted_free(struct engine *engine);

/* Local. The place for the operation that an instruction posts. */
struct posted *engine_posted(struct engine *engine, const struct instr *instr);
/* Local. Whether an operation is under way on the buffer of a kind that has only one. */
bool engine_is_under_way(const struct engine *engine, enum resource kind);

/* Local. Begins the operation of an instruction of the queue COMM; a copy that the instruction has
 * enqueued on a stream; or nothing, where the operation takes its virtual time alone. */
enum status posted_begin(struct engine *engine, const struct instr *instr);
enum status posted_pretend(struct engine *engine, const struct instr *instr);
enum status posted_begin_copy(struct engine *engine, const struct instr *instr,
                              struct stream *stream);
/* Local, blocking for the device where `wait`. Hands what has gone out to the communicator, in
 * order; closes what has gone in. */
enum status posted_move(struct engine *engine, bool wait);
/* Local. Finishes what is done of all that the instruction must await; engine->awaiting is the
 * first that is not. */
enum status posted_settle(struct engine *engine, const struct instr *instr);
/* Collective, blocking. Waits for one operation; for all that are under way. With `leave`,
 * operations on buffers that last beyond a step are left under way. */
enum status posted_await(struct engine *engine, struct posted *posted);
enum status posted_await_all(struct engine *engine, bool leave);
/* Collective, blocking. All of an operation that nobody awaits, between steps; of one that was
 * prepared: the rest. */
enum status posted_run(struct engine *engine, const struct instr *instr);
enum status posted_tell(struct engine *engine, const struct instr *instr);
/* Local. What a list left under way when it failed is nobody's any more. */
void posted_forget(struct engine *engine);

#endif
