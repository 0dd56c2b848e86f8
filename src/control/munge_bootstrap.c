/* The server of a MUNGE bootstrap: see munge_bootstrap.h. One thread, one poll. A reply fits into a
 * socket's buffer, so the server never waits for a client; it waits for the seal's daemon, which is
 * local. */
#include "control/munge_bootstrap.h"

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
#include "control/munge_bootstrap_protocol.h"
#include "control/rendezvous_record.h"
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
static const int64_t client_limit_ns = CONTROL_HANDSHAKE_MS * 1000000LL;

struct client {
    int fd; /* -1: a free slot */
    int64_t since_ns;
    size_t bytes;
    char text[CONTROL_BOOTSTRAP_REQUEST_BYTES];
};

struct control_bootstrap {
    struct control_seal seal;
    struct control_rendezvous_record record; /* the reply, but for its nonce */
    int listener, port, wake;
    bool running;
    int64_t until_ns;
    struct client client[SLOTS];
    pthread_t thread;
};

void control_bootstrap_ports(const char *job, int port[CONTROL_BOOTSTRAP_PORTS]) {
    uint64_t hash = hash64(HASH64_START, job, strlen(job));
    for (int i = 0; i < CONTROL_BOOTSTRAP_PORTS; i++)
        port[i] = FIRST_PORT + (int)((hash + (uint64_t)i * PORT_STRIDE) % PORT_COUNT);
}

/* --- replies --- */

static void close_client(struct client *client) {
    close(client->fd);
    client->fd = -1;
}

static bool is_request(const struct client *client) {
    size_t head = sizeof CONTROL_BOOTSTRAP_MAGIC - 1;
    if (memcmp(client->text, CONTROL_BOOTSTRAP_MAGIC, head) != 0) return false;
    if (client->text[CONTROL_BOOTSTRAP_REQUEST_BYTES - 1] != '\n') return false;
    for (size_t i = head; i < CONTROL_BOOTSTRAP_REQUEST_BYTES - 1; i++)
        if (!client->text[i] || !strchr("0123456789abcdef", client->text[i])) return false;
    return true;
}

static void reply(struct control_bootstrap *bootstrap, struct client *client) {
    char text[CONTROL_RENDEZVOUS_BYTES], *sealed = NULL;
    const char *nonce = client->text + sizeof CONTROL_BOOTSTRAP_MAGIC - 1;
    snprintf(bootstrap->record.nonce, sizeof bootstrap->record.nonce, "%.*s",
             CONTROL_BOOTSTRAP_NONCE, nonce);
    size_t bytes = control_rendezvous_record_print(&bootstrap->record, text);
    enum status status = bootstrap->seal.close(&bootstrap->seal, text, bytes, &sealed);
    explicit_bzero(text, sizeof text);
    if (status != STATUS_OK) return;
    ssize_t sent = send(client->fd, sealed, strlen(sealed), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* gone: it asks again, or was no rank of this job */
    free(sealed);
}

static void receive(struct control_bootstrap *bootstrap, struct client *client) {
    size_t left = sizeof client->text - client->bytes;
    ssize_t got = recv(client->fd, client->text + client->bytes, left, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) client->bytes += (size_t)got;
    if (got > 0 && client->bytes < sizeof client->text) return;
    if (got > 0 && is_request(client)) reply(bootstrap, client);
    close_client(client);
}

static void add_client(struct control_bootstrap *bootstrap, int fd, int64_t now) {
    struct client *slot = &bootstrap->client[0]; /* a free one, or the oldest */
    for (int i = 1; i < SLOTS && slot->fd >= 0; i++) {
        struct client *other = &bootstrap->client[i];
        if (other->fd < 0 || other->since_ns < slot->since_ns) slot = other;
    }
    if (slot->fd >= 0) close_client(slot);
    *slot = (struct client){.fd = fd, .since_ns = now};
}

/* Few at once: a client that sends at once is served before later ones can replace it. */
static void accept_clients(struct control_bootstrap *bootstrap, int64_t now) {
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = accept4(bootstrap->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        add_client(bootstrap, fd, now);
    }
}

/* A descriptor of -1 is one that poll leaves out. */
static void turn(struct control_bootstrap *bootstrap) {
    struct pollfd item[SLOTS + 2];
    for (int i = 0; i < SLOTS; i++)
        item[i] = (struct pollfd){.fd = bootstrap->client[i].fd, .events = POLLIN};
    item[SLOTS] = (struct pollfd){.fd = bootstrap->listener, .events = POLLIN};
    item[SLOTS + 1] = (struct pollfd){.fd = bootstrap->wake, .events = POLLIN};
    if (poll(item, SLOTS + 2, TICK_MS) < 0) return;
    int64_t now = clock_ns();
    for (int i = 0; i < SLOTS; i++) {
        struct client *client = &bootstrap->client[i];
        if (client->fd >= 0 && item[i].revents) receive(bootstrap, client);
        if (client->fd >= 0 && now - client->since_ns > client_limit_ns) close_client(client);
    }
    if (item[SLOTS].revents) accept_clients(bootstrap, now);
}

static bool asked_to_stop(const struct control_bootstrap *bootstrap) {
    struct pollfd item = {.fd = bootstrap->wake, .events = POLLIN};
    return poll(&item, 1, 0) > 0;
}

static void *run(void *argument) {
    struct control_bootstrap *bootstrap = argument;
    while (!asked_to_stop(bootstrap) && clock_ns() < bootstrap->until_ns) turn(bootstrap);
    close(bootstrap->listener);
    bootstrap->listener = -1;
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

static enum status open_bootstrap(struct control_bootstrap *bootstrap,
                                  const struct control_bootstrap_config *config) {
    int port[CONTROL_BOOTSTRAP_PORTS];
    control_bootstrap_ports(config->job, port);
    for (int i = 0; i < CONTROL_BOOTSTRAP_PORTS && bootstrap->listener < 0; i++) {
        bootstrap->port = port[i];
        bootstrap->listener = listen_at(config->address, bootstrap->port);
    }
    if (bootstrap->listener < 0)
        return fail(STATUS_USAGE,
                    "no free port for the MUNGE bootstrap on %s: tried %d, %d, %d and %d: %s\n"
                    "  --key FILE and --init tcp://host:port need none of them",
                    config->address, port[0], port[1], port[2], port[3], strerror(errno));
    bootstrap->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bootstrap->wake < 0) return fail(STATUS_DATA, "no event descriptor: %s", strerror(errno));
    TRY(thread_start(&bootstrap->thread, run, bootstrap));
    bootstrap->running = true;
    return STATUS_OK;
}

enum status control_bootstrap_serve(const struct control_bootstrap_config *config,
                                    const struct control_rendezvous_info *info,
                                    struct control_bootstrap **out) {
    struct control_bootstrap *bootstrap = MEM_NEW(struct control_bootstrap);
    bootstrap->seal = config->seal;
    bootstrap->listener = bootstrap->wake = -1;
    bootstrap->until_ns = clock_ns() + (int64_t)(config->limit_s * 1e9);
    for (int i = 0; i < SLOTS; i++) bootstrap->client[i].fd = -1;
    enum status status =
        control_rendezvous_record_new(config->job, config->world, info, &bootstrap->record);
    if (status == STATUS_OK) status = open_bootstrap(bootstrap, config);
    if (status == STATUS_OK)
        *out = bootstrap;
    else
        control_bootstrap_close(&bootstrap);
    return status;
}

int control_bootstrap_port(const struct control_bootstrap *bootstrap) {
    return bootstrap->port;
}

void control_bootstrap_close(struct control_bootstrap **bootstrap) {
    struct control_bootstrap *old = *bootstrap;
    if (!old) return;
    if (old->running) {
        uint64_t one = 1;
        ssize_t written = write(old->wake, &one, sizeof one);
        (void)written;
        pthread_join(old->thread, NULL);
    }
    for (int i = 0; i < SLOTS; i++)
        if (old->client[i].fd >= 0) close_client(&old->client[i]);
    if (old->listener >= 0) close(old->listener);
    if (old->wake >= 0) close(old->wake);
    explicit_bzero(&old->record, sizeof old->record);
    free(old);
    *bootstrap = NULL;
}
