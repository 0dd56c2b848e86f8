/* The messages between ranks and server: a fixed header and a bounded body.
 *
 * On the socket a message is a frame of 32 bytes (the header, little endian) and as many frames of
 * at most CONTROL_FRAME_BYTES as the body needs. The pieces are small because ZeroMQ's size limit
 * holds before the handshake too: an unauthenticated peer can make the server set aside one frame,
 * no more. Every length is checked against its bound before it is used. */
#ifndef CONTROL_MESSAGE_H
#define CONTROL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONTROL_VERSION = 2,
    CONTROL_HEADER_BYTES = 32,
    CONTROL_FRAME_BYTES = 16 << 10,
    CONTROL_PEER_BYTES = 32, /* of a connection's name in the server's socket */
};

enum control_message_type {
#define MESSAGE(name, limit) CONTROL_##name,
#include "control/message.def"
#undef MESSAGE
    CONTROL_MESSAGE_COUNT
};

struct control_peer {
    unsigned char name[CONTROL_PEER_BYTES];
    size_t bytes;
};

struct control_message {
    struct control_peer from; /* server only */
    int fd;                   /* of the connection it came by, -1 when unknown */
    uint32_t version, type, epoch;
    int32_t rank;
    uint64_t id;
    unsigned char *body; /* owned, used again by the next receive */
    size_t bytes, capacity;
};

enum control_received { CONTROL_NOTHING, CONTROL_MALFORMED, CONTROL_RECEIVED };

/* Local, not blocking. Reads the next message of a ROUTER (`routed`) or DEALER socket. After
 * CONTROL_MALFORMED only `from` and `fd` hold. */
enum control_received control_message_receive(void *socket, bool routed,
                                              struct control_message *message);
/* Local, not blocking. `to` is NULL for a DEALER. 0, or errno (EAGAIN: its queue is full;
 * EHOSTUNREACH: it is gone). */
int control_message_send(void *socket, const struct control_peer *to,
                         const struct control_message *message);
/* Local. Header bytes to fields and back; false when it is no header, or its body would be too
 * long. The fuzz test enters here. */
bool control_header_read(const unsigned char bytes[CONTROL_HEADER_BYTES],
                         struct control_message *out);
void control_header_write(const struct control_message *message,
                          unsigned char bytes[CONTROL_HEADER_BYTES]);
void control_message_free(struct control_message *message);

/* Local. Bodies: values are appended with pack, and read in the same order with unpack. A read past
 * the end or against a bound sets `bad` and gives 0 or ""; check once, at the end. Texts are read
 * in place: they live as long as the message. */
void control_pack_u32(struct control_message *message, uint32_t value);
void control_pack_i64(struct control_message *message, int64_t value);
void control_pack_text(struct control_message *message, const char *text, size_t most_bytes);
void control_pack_bytes(struct control_message *message, const void *data, size_t bytes);

struct control_unpack {
    const unsigned char *at;
    size_t left;
    bool bad;
};
struct control_unpack control_unpack(const struct control_message *message);
uint32_t control_unpack_u32(struct control_unpack *from);
int64_t control_unpack_i64(struct control_unpack *from);
const char *control_unpack_text(struct control_unpack *from, size_t most_bytes);
const void *control_unpack_bytes(struct control_unpack *from, size_t most_bytes, size_t *bytes);
/* True when nothing was bad and nothing is left. */
bool control_unpack_done(const struct control_unpack *from);

#endif
