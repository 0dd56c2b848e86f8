/* Encoding, decoding and moving of messages: see message.h. */
#include "control/message.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/mem.h"

static const unsigned char magic[4] = {'S', 't', 'r', 'C'};

static const size_t body_limit[CONTROL_MESSAGE_COUNT] = {
#define MESSAGE(name, limit) limit,
#include "control/message.def"
#undef MESSAGE
};

static void store(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t load(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* magic 4, version 2, type 2, epoch 4, rank 4, id 8, body bytes 4, zero 4 */
void control_header_write(const struct control_message *message,
                          unsigned char bytes[CONTROL_HEADER_BYTES]) {
    memset(bytes, 0, CONTROL_HEADER_BYTES);
    memcpy(bytes, magic, sizeof magic);
    store(bytes + 4, CONTROL_VERSION, 2);
    store(bytes + 6, message->type, 2);
    store(bytes + 8, message->epoch, 4);
    store(bytes + 12, (uint32_t)message->rank, 4);
    store(bytes + 16, message->id, 8);
    store(bytes + 24, message->bytes, 4);
}

bool control_header_read(const unsigned char bytes[CONTROL_HEADER_BYTES],
                         struct control_message *out) {
    if (memcmp(bytes, magic, sizeof magic) != 0 || load(bytes + 28, 4) != 0) return false;
    uint64_t type = load(bytes + 6, 2), body = load(bytes + 24, 4);
    if (type >= CONTROL_MESSAGE_COUNT || body > body_limit[type]) return false;
    out->version = (uint32_t)load(bytes + 4, 2);
    out->type = (uint32_t)type;
    out->epoch = (uint32_t)load(bytes + 8, 4);
    out->rank = (int32_t)(uint32_t)load(bytes + 12, 4);
    out->id = load(bytes + 16, 8);
    out->bytes = (size_t)body;
    return true;
}

void control_message_free(struct control_message *message) {
    free(message->body);
    *message = (struct control_message){0};
}

/* --- receiving --- */

static bool take_frame(void *socket, zmq_msg_t *frame, int flags) {
    zmq_msg_init(frame);
    if (zmq_msg_recv(frame, socket, flags) >= 0) return true;
    zmq_msg_close(frame);
    return false;
}

/* Reads what is left of a message nobody wants. */
static void skip_frames(void *socket, bool more) {
    while (more) {
        zmq_msg_t frame;
        if (!take_frame(socket, &frame, 0)) return;
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
}

static bool take_name(void *socket, struct control_peer *from, bool *more) {
    zmq_msg_t frame;
    if (!take_frame(socket, &frame, ZMQ_DONTWAIT)) return false;
    from->bytes = zmq_msg_size(&frame);
    *more = zmq_msg_more(&frame);
    bool fits = from->bytes <= sizeof from->name;
    if (fits) memcpy(from->name, zmq_msg_data(&frame), from->bytes);
    if (!fits) from->bytes = 0;
    zmq_msg_close(&frame);
    return true;
}

static bool take_header(void *socket, struct control_message *message, int flags, bool *more,
                        bool *good) {
    zmq_msg_t frame;
    if (!take_frame(socket, &frame, flags)) return false;
    message->fd = zmq_msg_get(&frame, ZMQ_SRCFD);
    *more = zmq_msg_more(&frame);
    *good = zmq_msg_size(&frame) == CONTROL_HEADER_BYTES &&
            control_header_read(zmq_msg_data(&frame), message);
    zmq_msg_close(&frame);
    return true;
}

static bool take_body(void *socket, struct control_message *message, bool *more) {
    size_t used = 0;
    /* A byte more than the body: an empty body is no NULL. */
    message->body = mem_grow(message->body, &message->capacity, message->bytes + 1, 1);
    while (*more) {
        zmq_msg_t frame;
        if (!take_frame(socket, &frame, 0)) return false;
        size_t bytes = zmq_msg_size(&frame);
        bool fits = bytes <= message->bytes - used;
        if (fits) memcpy(message->body + used, zmq_msg_data(&frame), bytes);
        *more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
        if (!fits) return false;
        used += bytes;
    }
    return used == message->bytes;
}

enum control_received control_message_receive(void *socket, bool routed,
                                              struct control_message *message) {
    bool more = true, good = false;
    message->from.bytes = 0;
    message->fd = -1;
    if (routed && !take_name(socket, &message->from, &more)) return CONTROL_NOTHING;
    if (!more) return CONTROL_MALFORMED;
    if (!take_header(socket, message, routed ? 0 : ZMQ_DONTWAIT, &more, &good))
        return routed ? CONTROL_MALFORMED : CONTROL_NOTHING;
    if (good) good = take_body(socket, message, &more);
    skip_frames(socket, more);
    return good ? CONTROL_RECEIVED : CONTROL_MALFORMED;
}

/* --- sending --- */

int control_message_send(void *socket, const struct control_peer *to,
                         const struct control_message *message) {
    unsigned char header[CONTROL_HEADER_BYTES];
    control_header_write(message, header);
    if (to && zmq_send(socket, to->name, to->bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return zmq_errno();
    int more = message->bytes ? ZMQ_SNDMORE : 0;
    if (zmq_send(socket, header, sizeof header, ZMQ_DONTWAIT | more) < 0) return zmq_errno();
    for (size_t at = 0; at < message->bytes;) {
        size_t bytes = message->bytes - at;
        if (bytes > CONTROL_FRAME_BYTES) bytes = CONTROL_FRAME_BYTES;
        more = at + bytes < message->bytes ? ZMQ_SNDMORE : 0;
        if (zmq_send(socket, message->body + at, bytes, ZMQ_DONTWAIT | more) < 0)
            return zmq_errno();
        at += bytes;
    }
    return 0;
}

/* --- bodies --- */

void control_pack_bytes(struct control_message *message, const void *data, size_t bytes) {
    control_pack_u32(message, (uint32_t)bytes);
    message->body = mem_grow(message->body, &message->capacity, message->bytes + bytes + 1, 1);
    if (bytes) memcpy(message->body + message->bytes, data, bytes);
    message->bytes += bytes;
}

static void pack_number(struct control_message *message, uint64_t value, int bytes) {
    message->body = mem_grow(message->body, &message->capacity, message->bytes + (size_t)bytes, 1);
    store(message->body + message->bytes, value, bytes);
    message->bytes += (size_t)bytes;
}

void control_pack_u32(struct control_message *message, uint32_t value) {
    pack_number(message, value, 4);
}

void control_pack_i64(struct control_message *message, int64_t value) {
    pack_number(message, (uint64_t)value, 8);
}

/* With its zero byte, so that it can be read in place. */
void control_pack_text(struct control_message *message, const char *text, size_t most_bytes) {
    size_t bytes = strnlen(text, most_bytes);
    control_pack_bytes(message, text, bytes);
    pack_number(message, 0, 1);
}

struct control_unpack control_unpack(const struct control_message *message) {
    return (struct control_unpack){.at = message->body, .left = message->bytes};
}

static const unsigned char *unpack(struct control_unpack *from, size_t bytes) {
    if (from->bad || bytes > from->left) {
        from->bad = true;
        return NULL;
    }
    const unsigned char *at = from->at;
    from->at += bytes;
    from->left -= bytes;
    return at;
}

uint32_t control_unpack_u32(struct control_unpack *from) {
    const unsigned char *at = unpack(from, 4);
    return at ? (uint32_t)load(at, 4) : 0;
}

int64_t control_unpack_i64(struct control_unpack *from) {
    const unsigned char *at = unpack(from, 8);
    return at ? (int64_t)load(at, 8) : 0;
}

const void *control_unpack_bytes(struct control_unpack *from, size_t most_bytes, size_t *bytes) {
    size_t count = control_unpack_u32(from);
    if (count > most_bytes) from->bad = true;
    const void *at = unpack(from, count);
    *bytes = at ? count : 0;
    return at;
}

const char *control_unpack_text(struct control_unpack *from, size_t most_bytes) {
    size_t bytes;
    const char *text = control_unpack_bytes(from, most_bytes, &bytes);
    const unsigned char *end = unpack(from, 1);
    if (!text || !end || *end != 0 || memchr(text, 0, bytes)) {
        from->bad = true;
        return "";
    }
    return text;
}

bool control_unpack_done(const struct control_unpack *from) {
    return !from->bad && from->left == 0;
}
