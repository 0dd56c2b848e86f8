/* Planes: how ranks move data between their devices without the host's memory.
 *
 * A plane stands over a communicator, which finds the ranks, compares what they mean to do and
 * tells of lost ones. `peer` is for devices of one machine that reach one another's memory: sums
 * are our own, in the order of the fixed tree. `nccl` leaves the data to NCCL.
 *
 * An operation has up to three stages. All members tell one another what they mean; then each
 * enqueues its part on the plane's stream; then (peer) all have enqueued theirs, and the stream
 * waits for them. Operations of a group go through the first stage one behind the other. Those of
 * NCCL do so whatever their group is, since a device waits inside of them: programs must allow it
 * (rule 35 of the verifier).
 *
 * A handle belongs to one thread. Nothing here waits for a device. */
#ifndef BACKEND_PLANE_H
#define BACKEND_PLANE_H

#include "backend/backend.h"
#include "comm/comm.h"

struct plane;         /* one rank's; it owns groups and requests */
struct plane_group;   /* members that move data together */
struct plane_request; /* a posted operation, gone once it is seen done */

struct plane_config {
    struct device *device;
    struct comm *comm;     /* of all ranks; outlives the plane */
    struct stream *stream; /* where data moves; the caller's */
    size_t bytes;          /* of plane_alloc in all; may differ between ranks */
    const char *interface; /* network to use, NULL: any */
};

/* Collective over all ranks, blocking. By its name in comm.def. STATUS_NO on all ranks where two
 * devices do not reach one another, said as a note. The caller closes it; NULL is accepted. */
enum status plane_open(const char *name, const struct plane_config *config, struct plane **out);
void plane_close(struct plane **plane);
/* Local. Whether this build and machine have what a plane needs; nothing is logged. */
bool plane_exists(const char *name);
const char *plane_name(const struct plane *plane);

/* Local. Device memory that other ranks reach: 64-byte aligned, zeros, until the close. */
enum status plane_alloc(struct plane *plane, size_t bytes, const char *what, void **out);
/* Local. Any group of ranks, declared by all of them in the same order; NULL for who is no member.
 */
enum status plane_group_new(struct plane *plane, const int *ranks, int count,
                            struct plane_group **out);

/* Kinds are those of comm.h: sums of all, of slices (comm_slice), all slices, the root's. */
enum plane_kind {
    PLANE_ALL_REDUCE,
    PLANE_REDUCE_SCATTER,
    PLANE_ALL_GATHER,
    PLANE_BROADCAST,
    PLANE_KINDS
};
struct plane_op {
    enum plane_kind kind;
    struct elements data; /* memory of plane_alloc */
    int root;
};
/* Collective over the group, not blocking. Follows what is enqueued on the plane's stream; once the
 * request is done, so does what is enqueued there later follow it. */
enum status plane_post(struct plane_group *group, const struct plane_op *op,
                       struct plane_request **out);
/* Local. Moves all operations on without waiting. plane_test: whether one is done. plane_wait
 * blocks, as comm_wait does; it accepts a NULL request. */
enum status plane_progress(struct plane *plane);
enum status plane_test(struct plane_request **request, bool *done);
enum status plane_wait(struct plane_request **request);

/* Messages from one rank to another, which tell one another of them by the communicator. Local, of
 * a plane that carries them. plane_offer: `memory` of plane_alloc has what the plane's stream has
 * written so far, for others; where it lies is said to them. plane_follow: the stream goes on
 * behind what a rank has offered. plane_fetch copies, on the stream, from what it has offered. */
bool plane_carries(const struct plane *plane);
enum status plane_offer(struct plane *plane, const void *memory, uint64_t *offset);
enum status plane_follow(struct plane *plane, int rank);
enum status plane_fetch(struct plane *plane, int rank, uint64_t offset, void *to, size_t bytes);

/* Local. Whether a device may wait for other ranks: whoever waits for it looks for lost ones. */
bool plane_waits(const struct plane *plane);
/* Local. A rank is lost: what is under way on the device ends. */
void plane_abort(struct plane *plane);

#endif
