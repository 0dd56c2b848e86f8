/* Channels of a communicator: messages from one rank to another, or to itself. Part of comm.h,
 * which includes it.
 *
 * The messages of a channel keep their order and are numbered from 1. They come into `slots`
 * buffers that the receiver owns; each has a credit, which the receiver gives back by a release. So
 * a sender is at most `slots` messages ahead of what was released. Sends and receives are posted;
 * their requests are those of comm.h: comm_progress moves them on, and so does every wait for
 * anything else. */
#ifndef COMM_CHANNEL_H
#define COMM_CHANNEL_H

#include "comm/comm.h"

struct comm_channel;

/* Collective over the job (the same calls in order, ends or not), not blocking. Both ends declare
 * the same; `bytes` is the most that a message has. `kind` is the caller's, for texts and events;
 * two ranks may have any number of channels, also of one kind. The communicator owns the channel.
 * STATUS_MEMORY on all ranks when the receiver's channel_bytes do not hold it. */
enum status comm_channel_new(struct comm *comm, int from, int to, int kind, size_t bytes, int slots,
                             struct comm_channel **out);

/* Local. Memory that a channel takes: of the receiver's channel_bytes; and at either end besides
 * (the sender's copies of messages that are on their way, and a little at both ends). same_host:
 * the two ranks have the same host. Nothing besides with self and shm. Of a channel from a rank to
 * itself the receiver's end alone counts. */
enum comm_side { COMM_SENDER, COMM_RECEIVER };
size_t comm_channel_bytes(size_t bytes, int slots);
size_t comm_channel_overhead(const char *name, enum comm_side side, bool same_host, size_t bytes,
                             int slots);

/* Sender's call, not blocking. Posts a message: the pieces, one behind the other. It leaves when a
 * credit is there and all posted before it have left, often before the call returns. The data of
 * the pieces is the caller's and stays untouched until the request is done; the array is copied.
 * Only what the pieces hold is sent. */
struct comm_piece {
    const void *data;
    size_t bytes;
};
enum status comm_channel_post_send(struct comm_channel *channel, const struct comm_piece *pieces,
                                   int count, struct comm_request **out);
/* Receiver's call, not blocking. The n-th receive of a channel is done when message n has come. */
enum status comm_channel_post_receive(struct comm_channel *channel, struct comm_request **out);

/* Receiver's calls, not blocking. The message of a receive that is done, 64-byte aligned, in the
 * channel's buffer, and its length (bytes may be NULL); it is there until its release. release:
 * gives back the oldest message that was not, whose receive is done. */
void *comm_channel_message(struct comm_channel *channel, uint64_t number, size_t *bytes);
enum status comm_channel_release(struct comm_channel *channel);

/* Blocking: a post of one piece of all `bytes`, or of a receive, and the wait for it. */
enum status comm_channel_send(struct comm_channel *channel, const void *data);
enum status comm_channel_receive(struct comm_channel *channel, void **data);

#endif
