/* Sockets, see socket.h. The limits and why:
 *   handshake 2 s       a silent connection is closed then
 *   frame size          what an unauthenticated peer can make us set aside, see message.h
 *   backlog             a burst of connections must not push ranks out
 *   IPC user filter     an abstract socket has no file mode; the kernel names the peer's user
 *   queue of a rank     one that does not read holds 64 messages here, of 1 MiB at most; more are
 *                       dropped, and silence will find it
 *   mandatory routing   sending to a rank that is gone fails instead of vanishing
 *   heartbeats          a connection whose other end lost its power is closed; long after our own
 *                       beats have found the rank silent, since ZeroMQ's timers count pauses too */
#include "control/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/message.h"

enum { BACKLOG = 1024, QUEUED = 64, OPEN_FILES = 16384, PAUSE_NS = 1000000000 };

struct int_option {
    int name, value;
};

static bool set_ints(void *socket, const struct int_option *options, int count) {
    for (int i = 0; i < count; i++)
        if (zmq_setsockopt(socket, options[i].name, &options[i].value, sizeof(int)) != 0)
            return false;
    return true;
}

static bool set_limits(void *socket, bool ipv6) {
    int64_t frame = CONTROL_FRAME_BYTES + 256; /* as encrypted */
    const struct int_option options[] = {
        {ZMQ_HANDSHAKE_IVL, CONTROL_HANDSHAKE_MS},
        {ZMQ_LINGER, 0},
        {ZMQ_IPV6, ipv6},
    };
    return set_ints(socket, options, sizeof options / sizeof options[0]) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame, sizeof frame) == 0;
}

static bool set_key(void *socket, int name, const char key[CONTROL_KEY_TEXT]) {
    return zmq_setsockopt(socket, name, key, CONTROL_KEY_TEXT) == 0;
}

static bool set_server(void *socket, const struct control_keys *keys, int silent_ms) {
    unsigned user = geteuid();
    const struct int_option options[] = {
        {ZMQ_CURVE_SERVER, 1},          {ZMQ_BACKLOG, BACKLOG},
        {ZMQ_ROUTER_MANDATORY, 1},      {ZMQ_SNDHWM, QUEUED},
        {ZMQ_HEARTBEAT_IVL, silent_ms}, {ZMQ_HEARTBEAT_TIMEOUT, 4 * silent_ms},
    };
    /* The server's linger lets the last refusals out. */
    int linger = 200;
    return set_ints(socket, options, sizeof options / sizeof options[0]) &&
           zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) == 0 &&
           zmq_setsockopt(socket, ZMQ_IPC_FILTER_UID, &user, sizeof user) == 0 &&
           zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "stretto", 7) == 0 &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, keys->server_secret);
}

static bool set_client(void *socket, const struct control_keys *keys) {
    const struct int_option options[] = {
        {ZMQ_IMMEDIATE, 1},
        {ZMQ_RECONNECT_IVL, 50},
        {ZMQ_RECONNECT_IVL_MAX, 1000},
    };
    return set_ints(socket, options, sizeof options / sizeof options[0]) &&
           set_key(socket, ZMQ_CURVE_SERVERKEY, keys->server_public) &&
           set_key(socket, ZMQ_CURVE_PUBLICKEY, keys->client_public) &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, keys->client_secret);
}

/* What ZeroMQ is to bind: see control_server_config. */
static enum status where_to_bind(const char *bind, char where[CONTROL_ADDRESS_BYTES]) {
    if (!bind) {
        uint64_t name[2];
        if (getrandom(name, sizeof name, 0) != (ssize_t)sizeof name)
            return fail(STATUS_DATA, "the system gave no random bytes: %s", strerror(errno));
        snprintf(where, CONTROL_ADDRESS_BYTES, "ipc://@stretto-%016llx%016llx",
                 (unsigned long long)name[0], (unsigned long long)name[1]);
        return STATUS_OK;
    }
    const char *loopback = strncmp(bind, "tcp://:", 7) == 0 ? "127.0.0.1" : "";
    bool known = strncmp(bind, "tcp://", 6) == 0 || strncmp(bind, "ipc://", 6) == 0;
    if (!known || strlen(bind) + 10 > CONTROL_ADDRESS_BYTES)
        return fail(STATUS_USAGE,
                    "%.80s: is no address to listen on\n"
                    "  write tcp://ADDRESS:PORT or ipc://PATH",
                    bind);
    snprintf(where, CONTROL_ADDRESS_BYTES, "%.6s%s%s", bind, loopback, bind + 6);
    return STATUS_OK;
}

/* Uninvited connections hold a descriptor for two seconds; they must not use up those of ranks. */
static void make_room_for_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= OPEN_FILES) return;
    limit.rlim_cur = limit.rlim_max < OPEN_FILES ? limit.rlim_max : OPEN_FILES;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static enum status bind_failed(const char *where) {
    int cause = zmq_errno();
    const char *hint = cause == EADDRINUSE ? "another program listens there: name another port; "
                                             "--init file:// takes a free one"
                       : cause == EADDRNOTAVAIL ? "no interface of this host has that address"
                       : cause == ENODEV        ? "no interface of this host has that name"
                       : cause == ENAMETOOLONG  ? "the path of a socket has at most 107 bytes"
                                                : "write tcp://ADDRESS:PORT or ipc://PATH";
    return fail(STATUS_USAGE, "cannot listen on %s: %s\n  %s", where, zmq_strerror(cause), hint);
}

enum status control_socket_listen(void *zmq, const char *bind, const struct control_keys *keys,
                                  double silent_limit_s, char address[CONTROL_ADDRESS_BYTES],
                                  void **out) {
    char where[CONTROL_ADDRESS_BYTES];
    size_t bytes = CONTROL_ADDRESS_BYTES;
    TRY(where_to_bind(bind, where));
    make_room_for_files();
    void *socket = zmq_socket(zmq, ZMQ_ROUTER);
    if (!socket || !set_limits(socket, strchr(where, '[') != NULL) ||
        !set_server(socket, keys, (int)(silent_limit_s * 1000))) {
        fail(STATUS_USAGE, "ZeroMQ does not give a server socket: %s", zmq_strerror(zmq_errno()));
        if (socket) zmq_close(socket);
        return STATUS_USAGE;
    }
    if (zmq_bind(socket, where) != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &bytes) != 0) {
        enum status status = bind_failed(where);
        zmq_close(socket);
        return status;
    }
    *out = socket;
    return STATUS_OK;
}

enum status control_socket_also(void *socket, const char *bind,
                                char address[CONTROL_ADDRESS_BYTES]) {
    char where[CONTROL_ADDRESS_BYTES];
    size_t bytes = CONTROL_ADDRESS_BYTES;
    TRY(where_to_bind(bind, where));
    const struct int_option sixth = {ZMQ_IPV6, strchr(where, '[') != NULL};
    if (!set_ints(socket, &sixth, 1) || zmq_bind(socket, where) != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &bytes) != 0)
        return bind_failed(where);
    return STATUS_OK;
}

enum status control_socket_monitor(void *zmq, void *socket, int events, void **out) {
    char name[64];
    int unlimited = 0; /* a full queue would stop ZeroMQ's own thread */
    snprintf(name, sizeof name, "inproc://monitor-%p", socket);
    void *monitor = zmq_socket(zmq, ZMQ_PAIR);
    if (!monitor || zmq_socket_monitor(socket, name, events) != 0 ||
        zmq_setsockopt(monitor, ZMQ_RCVHWM, &unlimited, sizeof unlimited) != 0 ||
        zmq_connect(monitor, name) != 0) {
        fail(STATUS_USAGE, "ZeroMQ does not report events: %s", zmq_strerror(zmq_errno()));
        if (monitor) zmq_close(monitor);
        return STATUS_USAGE;
    }
    *out = monitor;
    return STATUS_OK;
}

static enum status connect_failed(const char *address) {
    return fail(STATUS_USAGE,
                "cannot connect to %.200s: %s\n  write tcp://ADDRESS:PORT or ipc://PATH", address,
                zmq_strerror(zmq_errno()));
}

enum status control_socket_connect(void *zmq, const char *address, const struct control_keys *keys,
                                   int events, void **out, void **monitor) {
    void *socket = zmq_socket(zmq, ZMQ_DEALER), *watch = NULL;
    enum status status = STATUS_OK;
    if (!socket || !set_limits(socket, strchr(address, '[') != NULL) || !set_client(socket, keys))
        status = connect_failed(address);
    if (status == STATUS_OK) status = control_socket_monitor(zmq, socket, events, &watch);
    if (status == STATUS_OK && zmq_connect(socket, address) != 0) status = connect_failed(address);
    if (status == STATUS_OK) {
        *out = socket;
        *monitor = watch;
        return STATUS_OK;
    }
    if (watch) zmq_socket_monitor(socket, NULL, 0), zmq_close(watch);
    if (socket) zmq_close(socket);
    return status;
}

bool control_socket_event(void *monitor, int *event, int *value) {
    unsigned char bytes[6];
    char endpoint[CONTROL_ADDRESS_BYTES];
    uint16_t number;
    int32_t number_value;
    if (zmq_recv(monitor, bytes, sizeof bytes, ZMQ_DONTWAIT) != (int)sizeof bytes) return false;
    zmq_recv(monitor, endpoint, sizeof endpoint, 0);
    memcpy(&number, bytes, 2); /* host order: it never left the process */
    memcpy(&number_value, bytes + 2, 4);
    *event = number;
    *value = number_value;
    return true;
}

enum status control_zap_open(void *zmq, void **out) {
    void *zap = zmq_socket(zmq, ZMQ_REP);
    if (!zap || zmq_bind(zap, "inproc://zeromq.zap.01") != 0) {
        fail(STATUS_USAGE, "ZeroMQ does not let us check keys: %s", zmq_strerror(zmq_errno()));
        if (zap) zmq_close(zap);
        return STATUS_USAGE;
    }
    *out = zap;
    return STATUS_OK;
}

/* Frames: version, request, domain, address, identity, mechanism, key. */
enum { ZAP_REQUEST = 1, ZAP_MECHANISM = 5, ZAP_KEY = 6, ZAP_FRAMES = 7, ZAP_FRAME_BYTES = 256 };

void control_zap_answer(void *zap, const char client_public[CONTROL_KEY_TEXT]) {
    char frame[ZAP_FRAMES][ZAP_FRAME_BYTES];
    int bytes[ZAP_FRAMES] = {0}, count = 0, more = 1;
    size_t size = sizeof more;
    while (more) {
        char rest[ZAP_FRAME_BYTES];
        int at = count < ZAP_FRAMES ? count : -1;
        int got = zmq_recv(zap, at < 0 ? rest : frame[at], ZAP_FRAME_BYTES, ZMQ_DONTWAIT);
        if (got < 0) return;
        if (at >= 0) bytes[at] = got;
        count++;
        zmq_getsockopt(zap, ZMQ_RCVMORE, &more, &size);
    }
    uint8_t wanted[32] = {0};
    zmq_z85_decode(wanted, client_public);
    bool known = count == ZAP_FRAMES && bytes[ZAP_MECHANISM] == 5 &&
                 memcmp(frame[ZAP_MECHANISM], "CURVE", 5) == 0 && bytes[ZAP_KEY] == 32 &&
                 control_same_bytes(frame[ZAP_KEY], wanted, 32);
    int request = bytes[ZAP_REQUEST] < ZAP_FRAME_BYTES ? bytes[ZAP_REQUEST] : ZAP_FRAME_BYTES;
    zmq_send(zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(zap, frame[ZAP_REQUEST], (size_t)request, ZMQ_SNDMORE);
    zmq_send(zap, known ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(zap, known ? "" : "unknown key", known ? 0 : 11, ZMQ_SNDMORE);
    zmq_send(zap, known ? "rank" : "", known ? 4 : 0, ZMQ_SNDMORE);
    zmq_send(zap, "", 0, 0);
}

int64_t control_watch_ns(struct control_watch *watch) {
    int64_t now = clock_ns();
    int64_t gap = watch->last_ns ? now - watch->last_ns : 0;
    if (gap > PAUSE_NS) watch->paused_ns += gap - CONTROL_BEAT_MS * 1000000LL;
    watch->last_ns = now;
    return now - watch->paused_ns;
}
