/* Channels of a communicator. Part of comm.h, which includes it. */
#ifndef COMM_CHANNEL_H
#define COMM_CHANNEL_H

#include "comm/comm.h"

/* Channels: messages of one size to one peer, in order, with buffers owned by the receiver and
 * credits, so that a sender runs ahead by at most `slots` messages. Both ends declare a channel
 * with the same kind and sizes; only the order inside one channel matters. Declaring is collective
 * over the job, not blocking; STATUS_MEMORY on all ranks when the receiver's channel_bytes do not
 * hold it. */
struct comm_channel;
enum status comm_channel_new(struct comm *comm, int from, int to, int kind, size_t bytes, int slots,
                             struct comm_channel **out);
/* Not blocking: *sent is false when no credit is left. The data may be reused at once after a send.
 */
enum status comm_channel_try_send(struct comm_channel *channel, const void *data, bool *sent);
enum status comm_channel_send(struct comm_channel *channel, const void *data); /* blocking */
/* The oldest message, in the receiver's buffer until it is released. try: *data is NULL when none
 * has come. */
enum status comm_channel_try_receive(struct comm_channel *channel, void **data);
enum status comm_channel_receive(struct comm_channel *channel, void **data); /* blocking */
enum status comm_channel_release(struct comm_channel *channel);

#endif
