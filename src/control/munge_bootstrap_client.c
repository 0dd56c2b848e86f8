/* The client of a MUNGE bootstrap: see munge_bootstrap.h. Sends a request to each of the job's
 * ports in turn until one replies with a record of this job. Other replies are skipped, and named
 * at the end. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/munge_bootstrap.h"
#include "control/munge_bootstrap_protocol.h"
#include "control/rendezvous_record.h"

enum { CONNECT_MS = 1000, REPLY_MS = 2000, AGAIN_MS = 50 };

struct search {
    const struct control_bootstrap_config *config;
    struct control_rendezvous_record me; /* its nonce is that of the request */
    int port;
    char refused[CONTROL_SEAL_WHY]; /* why the last reply was refused; "": there was none */
    int refused_port;
};

static bool ready(int fd, short events, int limit_ms) {
    struct pollfd item = {.fd = fd, .events = events};
    int got;
    do got = poll(&item, 1, limit_ms);
    while (got < 0 && errno == EINTR);
    return got > 0;
}

static int connect_to(const struct addrinfo *to) {
    int error = 0;
    socklen_t bytes = sizeof error;
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0) return fd;
    if (errno == EINPROGRESS && ready(fd, POLLOUT, CONNECT_MS) &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends the nonce, and reads until the server closes; the bytes of the reply, a zero byte after. */
static size_t ask(const struct search *search, int fd, char text[CONTROL_BOOTSTRAP_REPLY_BYTES]) {
    char request[CONTROL_BOOTSTRAP_REQUEST_BYTES + 1];
    size_t used = 0;
    int64_t until = clock_ns() + REPLY_MS * 1000000LL;
    snprintf(request, sizeof request, "%s%.*s\n", CONTROL_BOOTSTRAP_MAGIC, CONTROL_BOOTSTRAP_NONCE,
             search->me.nonce);
    if (send(fd, request, CONTROL_BOOTSTRAP_REQUEST_BYTES, MSG_NOSIGNAL) !=
        CONTROL_BOOTSTRAP_REQUEST_BYTES)
        return 0;
    while (used < CONTROL_BOOTSTRAP_REPLY_BYTES - 1 && clock_ns() < until) {
        if (!ready(fd, POLLIN, (int)((until - clock_ns()) / 1000000) + 1)) break;
        ssize_t got = recv(fd, text + used, CONTROL_BOOTSTRAP_REPLY_BYTES - 1 - used, 0);
        if (got <= 0) break;
        used += (size_t)got;
    }
    text[used] = 0;
    return used;
}

static bool refuse(struct search *search, const char *why) {
    bool first = !search->refused[0];
    snprintf(search->refused, sizeof search->refused, "%s", why);
    search->refused_port = search->port;
    if (first)
        log_warning("%s replies at port %d, but not as rank 0 of this job: %s; still looking",
                    search->config->address, search->port, why);
    return false;
}

/* Whether the reply is a record of this job with the nonce of this request. */
static bool take(struct search *search, const char *text, struct control_rendezvous_info *out) {
    const struct control_seal *seal = &search->config->seal;
    struct control_rendezvous_record record;
    char why[CONTROL_SEAL_WHY], *inside;
    size_t bytes;
    if (!seal->open(seal, text, &inside, &bytes, why)) return refuse(search, why);
    enum control_rendezvous_state state = control_rendezvous_record_parse(inside, bytes, &record);
    explicit_bzero(inside, bytes);
    free(inside);
    if (state != CONTROL_RENDEZVOUS_GOOD) return refuse(search, "the record inside cannot be read");
    if (strcmp(record.nonce, search->me.nonce) != 0)
        return refuse(search, "it answers another request, or is an old reply");
    if (strcmp(record.job, search->me.job) != 0) return refuse(search, "it is of another job");
    *out = record.info;
    explicit_bzero(&record, sizeof record);
    return true;
}

static bool try_port(struct search *search, struct control_rendezvous_info *out) {
    char text[CONTROL_BOOTSTRAP_REPLY_BYTES];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    char service[16];
    bool found = false;
    snprintf(service, sizeof service, "%d", search->port);
    if (getaddrinfo(search->config->address, service, &hints, &all) != 0) return false;
    for (struct addrinfo *one = all; one && !found; one = one->ai_next) {
        int fd = connect_to(one);
        if (fd < 0) continue;
        if (ask(search, fd, text) > 0) found = take(search, text, out);
        close(fd);
    }
    freeaddrinfo(all);
    return found;
}

static enum status nobody(const struct search *search) {
    char limit[TEXT_BYTES];
    text_duration(search->config->limit_s, limit);
    if (search->refused[0])
        return fail(STATUS_PEER,
                    "rank 0 of this job did not reply at %s within %s\n"
                    "  port %d replies, but is refused: %s",
                    search->config->address, limit, search->refused_port, search->refused);
    return fail(STATUS_PEER,
                "rank 0 of this job did not reply at %s within %s\n"
                "  was rank 0 started there, and may ports 20000 to 29999 be reached?\n"
                "  else give --key FILE and --init tcp://host:port, or --init file:///shared/path",
                search->config->address, limit);
}

enum status control_bootstrap_fetch(const struct control_bootstrap_config *config,
                                    struct control_rendezvous_info *out) {
    struct search search = {.config = config};
    const struct control_rendezvous_info nothing = {0};
    int port[CONTROL_BOOTSTRAP_PORTS];
    int64_t until = clock_ns() + (int64_t)(config->limit_s * 1e9);
    control_bootstrap_ports(config->job, port);
    do {
        for (int i = 0; i < CONTROL_BOOTSTRAP_PORTS; i++) {
            TRY(control_rendezvous_record_new(config->job, config->world, &nothing, &search.me));
            search.port = port[i];
            if (try_port(&search, out)) return STATUS_OK;
        }
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
    } while (clock_ns() < until);
    return nobody(&search);
}
