/* Whatever two clients say to the server of the control plane, over real sockets: frames as they
 * come, or messages with a good header around any body. The server may refuse and forget; it must
 * stay in step with the frames, and what it answers must be messages.
 *
 * Input: messages of a flag byte (bit 0: which client; bit 1: raw), then
 * raw: count of frames, and for each its length (2 bytes) and bytes;
 * else: type, rank, id, length of the body (2 bytes) and the body. */
#include "fuzz.h"

#include <zmq.h>

#include "control/server.h"
#include "control/where.h"

enum { WORLD = 2, EPOCH = 1, CLIENTS = 2 };

static void *router, *monitor, *client[CLIENTS];

/* Cuts pieces off the input. */
struct cursor {
    const uint8_t *at;
    size_t left;
};

static size_t number(struct cursor *from, int bytes) {
    size_t value = 0;
    for (int i = 0; i < bytes && from->left > 0; i++, from->left--)
        value |= (size_t)*from->at++ << 8 * i;
    return value;
}

static const uint8_t *piece(struct cursor *from, size_t *bytes) {
    const uint8_t *at = from->at;
    if (*bytes > from->left) *bytes = from->left;
    from->at += *bytes;
    from->left -= *bytes;
    return at;
}

static void *socket_new(void *zmq, int type, const char *name) {
    void *socket = zmq_socket(zmq, type);
    int code = type == ZMQ_DEALER ? zmq_connect(socket, name) : zmq_bind(socket, name);
    if (!socket || code != 0) fuzz_wrong("no socket");
    return socket;
}

static void open_sockets(void) {
    void *zmq = zmq_ctx_new();
    router = socket_new(zmq, ZMQ_ROUTER, "inproc://server");
    monitor = socket_new(zmq, ZMQ_PAIR, "inproc://monitor"); /* nothing ever happens there */
    for (int i = 0; i < CLIENTS; i++) client[i] = socket_new(zmq, ZMQ_DEALER, "inproc://server");
}

static struct control_server server_new(void) {
    struct control_server server = {.router = router, .monitor = monitor, .wake = -1};
    server.config = (struct control_server_config){.world = WORLD, .epoch = EPOCH};
    pthread_mutex_init(&server.lock, NULL);
    server.member = calloc(WORLD, sizeof *server.member);
    return server;
}

static void server_free(struct control_server *server) {
    for (int i = 0; i < WORLD; i++) control_facts_free(&server->member[i].facts);
    control_key_values_free(&server->key_values);
    control_message_free(&server->in);
    control_message_free(&server->out);
    pthread_mutex_destroy(&server->lock);
    free(server->member);
}

static void send_raw(void *socket, struct cursor *input) {
    size_t frames = 1 + number(input, 1) % 5;
    for (size_t i = 0; i < frames; i++) {
        size_t bytes = number(input, 2);
        const uint8_t *data = piece(input, &bytes);
        if (zmq_send(socket, data, bytes, i + 1 < frames ? ZMQ_SNDMORE : 0) < 0)
            fuzz_wrong("a client cannot send");
    }
}

static void send_message(void *socket, struct cursor *input) {
    struct control_message message = {.epoch = EPOCH};
    message.type = (uint32_t)number(input, 1);
    message.rank = (int32_t)(int8_t)number(input, 1);
    message.id = number(input, 1);
    message.bytes = number(input, 2);
    message.body = (unsigned char *)piece(input, &message.bytes);
    if (control_message_send(socket, NULL, &message) != 0) fuzz_wrong("a client cannot send");
}

/* The answers: whole messages, and those that tell where ranks are can be read. */
static void read_answers(void *socket, struct control_message *answer) {
    enum control_received received;
    while ((received = control_message_receive(socket, false, answer)) != CONTROL_NOTHING) {
        if (received == CONTROL_MALFORMED) fuzz_wrong("the server's answer is no message");
        fuzz_touch(answer->body, answer->bytes);
        if (answer->type != CONTROL_REPLY) continue;
        struct control_unpack from = control_unpack(answer);
        size_t bytes;
        control_unpack_u32(&from);
        control_unpack_text(&from, CONTROL_WHY_BYTES);
        const void *value = control_unpack_bytes(&from, answer->bytes, &bytes);
        if (!control_unpack_done(&from)) fuzz_wrong("the server's reply cannot be read");
        struct control_unpack rows = {.at = value, .left = bytes};
        struct control_where where;
        while (rows.left > 0 && control_where_unpack(&rows, &where)) continue;
    }
}

static void one_message(struct control_server *server, struct cursor *input) {
    size_t flags = number(input, 1);
    void *socket = client[flags & 1];
    if (flags & 2)
        send_raw(socket, input);
    else
        send_message(socket, input);
    enum control_received received = control_message_receive(router, true, &server->in);
    if (received == CONTROL_NOTHING) fuzz_wrong("a message got lost");
    if (received == CONTROL_RECEIVED) control_server_message(server);
    if (control_message_receive(router, true, &server->in) != CONTROL_NOTHING)
        fuzz_wrong("one message became two");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cursor input = {data, size};
    struct control_message answer = {0};
    if (!router) open_sockets();
    fuzz_begin();
    struct control_server server = server_new();
    server.key_values = control_key_values_new(WORLD, control_server_found, &server);
    while (input.left > 0) {
        one_message(&server, &input);
        for (int i = 0; i < CLIENTS; i++) read_answers(client[i], &answer);
    }
    control_message_free(&answer);
    server_free(&server);
    log_capture(NULL, 0);
    return 0;
}
