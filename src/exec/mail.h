/* Messages between stages that go from device to device; private to src/exec.
 *
 * Where ranks reach the memory of one another's devices (plane.h), a message is put together in
 * memory of the sender's device, and its receiver copies it from there. The channel of the
 * communicator carries only its place. It has the same credits as without: the receiver releases a
 * message when its copy is done. A sender's box has a place for each message that may be
 * unreleased, those that left (credits) and those that wait for a credit (one a slot), so that
 * putting one together never waits. */
#ifndef EXEC_MAIL_H
#define EXEC_MAIL_H

#include "backend/plane.h"
#include "comm/comm.h"
#include "plan/plan.h"

struct engine;
struct instr;

/* Where a message lies in the sender's memory of plane_alloc. */
struct mail_place {
    uint64_t offset;
};
_Static_assert(sizeof(struct mail_place) == PLAN_PLACE_BYTES, "channels have that much room");

/* Of a channel that this rank sends on. */
struct mail_box {
    char *memory;
    size_t bytes; /* of a place */
    int places;
    uint64_t count;           /* of messages so far */
    struct mail_place *place; /* of each, as it is sent; owned */
};

struct mail {
    struct plane *plane;  /* NULL: messages go through memory of the host */
    bool own;             /* it is not the plane of the engine */
    struct mail_box *box; /* per channel; without memory: another rank's */
};

/* Collective, blocking. Opens the plane of messages where that of the plan does not carry them;
 * then, behind the channels, the boxes. mail_close accepts what was not opened. */
enum status mail_open_plane(struct engine *engine);
enum status mail_open(struct engine *engine);
void mail_close(struct engine *engine);

/* Local, asynchronous. Puts the message of a SEND together, behind all computation so far; the
 * piece that the channel carries in its place. */
enum status mail_put(struct engine *engine, const struct instr *instr,
                     const struct comm_piece *pieces, int count);
struct comm_piece mail_piece(struct engine *engine, const struct instr *instr);
/* Local, asynchronous. Copies the message of a RECV to its pieces. `from` is what came. */
enum status mail_take(struct engine *engine, const struct instr *instr, const void *from,
                      const struct comm_piece *pieces, int count);

#endif
