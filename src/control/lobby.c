/* The host's side of the lobby: see lobby.h. One thread, one poll. What it answers fits into a
 * socket's buffer, so it never waits for an asker; it waits for the seal's daemon, which is local.
 */
#include "control/lobby.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "control/lobby_words.h"
#include "control/record.h"
#include "control/socket.h"

enum {
    SLOTS = 64,
    BACKLOG = 1024,
    AT_ONCE = 16,
    FIRST_PORT = 20000,
    PORT_COUNT = 10000,
    PORT_STRIDE = 1009,
    TICK_MS = 500
};
static const int64_t asker_limit_ns = CONTROL_HANDSHAKE_MS * 1000000LL;

struct asker {
    int fd; /* -1: a free slot */
    int64_t since_ns;
    size_t bytes;
    char text[CONTROL_LOBBY_ASK_BYTES];
};

struct control_lobby {
    struct control_seal seal;
    struct control_record record; /* the answer, but for its number */
    int listener, port, wake;
    bool running;
    int64_t until_ns;
    struct asker asker[SLOTS];
    pthread_t thread;
};

void control_lobby_ports(const char *job, int port[CONTROL_LOBBY_PORTS]) {
    uint64_t hash = hash64(HASH64_START, job, strlen(job));
    for (int i = 0; i < CONTROL_LOBBY_PORTS; i++)
        port[i] = FIRST_PORT + (int)((hash + (uint64_t)i * PORT_STRIDE) % PORT_COUNT);
}

/* --- answering --- */

static void dismiss(struct asker *asker) {
    close(asker->fd);
    asker->fd = -1;
}

static bool is_question(const struct asker *asker) {
    size_t head = sizeof CONTROL_LOBBY_HELLO - 1;
    if (memcmp(asker->text, CONTROL_LOBBY_HELLO, head) != 0) return false;
    if (asker->text[CONTROL_LOBBY_ASK_BYTES - 1] != '\n') return false;
    for (size_t i = head; i < CONTROL_LOBBY_ASK_BYTES - 1; i++)
        if (!asker->text[i] || !strchr("0123456789abcdef", asker->text[i])) return false;
    return true;
}

static void answer(struct control_lobby *lobby, struct asker *asker) {
    char text[CONTROL_RECORD_BYTES], *sealed = NULL;
    const char *number = asker->text + sizeof CONTROL_LOBBY_HELLO - 1;
    snprintf(lobby->record.nonce, sizeof lobby->record.nonce, "%.*s", CONTROL_LOBBY_NUMBER, number);
    size_t bytes = control_record_print(&lobby->record, text);
    enum status status = lobby->seal.close(&lobby->seal, text, bytes, &sealed);
    explicit_bzero(text, sizeof text);
    if (status != STATUS_OK) return;
    ssize_t sent = send(asker->fd, sealed, strlen(sealed), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* gone: it asks again, or was none of ours */
    free(sealed);
}

static void hear(struct control_lobby *lobby, struct asker *asker) {
    size_t left = sizeof asker->text - asker->bytes;
    ssize_t got = recv(asker->fd, asker->text + asker->bytes, left, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) asker->bytes += (size_t)got;
    if (got > 0 && asker->bytes < sizeof asker->text) return;
    if (got > 0 && is_question(asker)) answer(lobby, asker);
    dismiss(asker);
}

static void seat(struct control_lobby *lobby, int fd, int64_t now) {
    struct asker *slot = &lobby->asker[0]; /* a free one, or the oldest */
    for (int i = 1; i < SLOTS && slot->fd >= 0; i++) {
        struct asker *other = &lobby->asker[i];
        if (other->fd < 0 || other->since_ns < slot->since_ns) slot = other;
    }
    if (slot->fd >= 0) dismiss(slot);
    *slot = (struct asker){.fd = fd, .since_ns = now};
}

/* Few at once: who asks right away is heard before the next ones can push him out. */
static void let_in(struct control_lobby *lobby, int64_t now) {
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = accept4(lobby->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        seat(lobby, fd, now);
    }
}

/* A descriptor of -1 is one that poll leaves out. */
static void turn(struct control_lobby *lobby) {
    struct pollfd item[SLOTS + 2];
    for (int i = 0; i < SLOTS; i++)
        item[i] = (struct pollfd){.fd = lobby->asker[i].fd, .events = POLLIN};
    item[SLOTS] = (struct pollfd){.fd = lobby->listener, .events = POLLIN};
    item[SLOTS + 1] = (struct pollfd){.fd = lobby->wake, .events = POLLIN};
    if (poll(item, SLOTS + 2, TICK_MS) < 0) return;
    int64_t now = clock_ns();
    for (int i = 0; i < SLOTS; i++) {
        struct asker *asker = &lobby->asker[i];
        if (asker->fd >= 0 && item[i].revents) hear(lobby, asker);
        if (asker->fd >= 0 && now - asker->since_ns > asker_limit_ns) dismiss(asker);
    }
    if (item[SLOTS].revents) let_in(lobby, now);
}

static bool asked_to_stop(const struct control_lobby *lobby) {
    struct pollfd item = {.fd = lobby->wake, .events = POLLIN};
    return poll(&item, 1, 0) > 0;
}

static void *run(void *argument) {
    struct control_lobby *lobby = argument;
    while (!asked_to_stop(lobby) && clock_ns() < lobby->until_ns) turn(lobby);
    close(lobby->listener);
    lobby->listener = -1;
    return NULL;
}

/* --- opening --- */

static socklen_t own_address(const char *text, int port, struct sockaddr_storage *out) {
    struct sockaddr_in *fourth = (struct sockaddr_in *)out;
    struct sockaddr_in6 *sixth = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &fourth->sin_addr) == 1) {
        fourth->sin_family = AF_INET;
        fourth->sin_port = htons((uint16_t)port);
        return sizeof *fourth;
    }
    if (inet_pton(AF_INET6, text, &sixth->sin6_addr) != 1) return 0;
    sixth->sin6_family = AF_INET6;
    sixth->sin6_port = htons((uint16_t)port);
    return sizeof *sixth;
}

static int listen_at(const char *text, int port) {
    struct sockaddr_storage address;
    int on = 1;
    socklen_t bytes = own_address(text, port, &address);
    CHECK(bytes > 0, "%s is no address", text);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, BACKLOG) == 0) return fd;
    close(fd);
    return -1;
}

static enum status open_lobby(struct control_lobby *lobby,
                              const struct control_lobby_config *config) {
    int port[CONTROL_LOBBY_PORTS];
    control_lobby_ports(config->job, port);
    for (int i = 0; i < CONTROL_LOBBY_PORTS && lobby->listener < 0; i++) {
        lobby->port = port[i];
        lobby->listener = listen_at(config->address, lobby->port);
    }
    if (lobby->listener < 0)
        return fail(STATUS_USAGE,
                    "none of the ports %d, %d, %d and %d of %s can be had to meet at: %s\n"
                    "  --key FILE and --init tcp://host:port need none of them",
                    port[0], port[1], port[2], port[3], config->address, strerror(errno));
    lobby->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lobby->wake < 0) return fail(STATUS_DATA, "no event descriptor: %s", strerror(errno));
    TRY(thread_start(&lobby->thread, run, lobby));
    lobby->running = true;
    return STATUS_OK;
}

enum status control_lobby_host(const struct control_lobby_config *config,
                               const struct control_meeting_info *info,
                               struct control_lobby **out) {
    struct control_lobby *lobby = MEM_NEW(struct control_lobby);
    lobby->seal = config->seal;
    lobby->listener = lobby->wake = -1;
    lobby->until_ns = clock_ns() + (int64_t)(config->limit_s * 1e9);
    for (int i = 0; i < SLOTS; i++) lobby->asker[i].fd = -1;
    enum status status = control_record_new(config->job, config->world, info, &lobby->record);
    if (status == STATUS_OK) status = open_lobby(lobby, config);
    if (status == STATUS_OK)
        *out = lobby;
    else
        control_lobby_close(&lobby);
    return status;
}

int control_lobby_port(const struct control_lobby *lobby) {
    return lobby->port;
}

void control_lobby_close(struct control_lobby **lobby) {
    struct control_lobby *old = *lobby;
    if (!old) return;
    if (old->running) {
        uint64_t one = 1;
        ssize_t written = write(old->wake, &one, sizeof one);
        (void)written;
        pthread_join(old->thread, NULL);
    }
    for (int i = 0; i < SLOTS; i++)
        if (old->asker[i].fd >= 0) dismiss(&old->asker[i]);
    if (old->listener >= 0) close(old->listener);
    if (old->wake >= 0) close(old->wake);
    explicit_bzero(&old->record, sizeof old->record);
    free(old);
    *lobby = NULL;
}
