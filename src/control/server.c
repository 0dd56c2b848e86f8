/* The server's thread: one loop over the ranks' socket, the key checks, the events of connections
 * and a descriptor by which other threads wake it. It never waits for a rank: what cannot be sent
 * at once is a loss. What messages mean is in server_message.c. */
#include "control/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "control/where.h"

enum { TICK_MS = 50, BATCH = 256, SERVER_FILES = 20 };
static const double late_rank_s = 5, unknown_rank_s = 1.5;
static const int64_t unauthenticated_every_ns = 10000000000;
static const int64_t outside_leave_ns = 300000000; /* to read why, and close */

static const int watched = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                           ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/* A peer without the secret, or a program that is no rank. One log line in ten seconds at most. */
static void count_unauthenticated(struct control_server *server) {
    server->unauthenticated++;
    if (server->unauthenticated_logged_ns &&
        server->now_ns - server->unauthenticated_logged_ns < unauthenticated_every_ns)
        return;
    log_note("%s: refused %ld connection%s without the job's key", server->address,
             server->unauthenticated, server->unauthenticated == 1 ? "" : "s");
    server->unauthenticated_logged_ns = server->now_ns;
    server->unauthenticated = 0;
}

void control_server_events(struct control_server *server) {
    int event, value;
    while (control_socket_event(server->monitor, &event, &value)) {
        if (event == ZMQ_EVENT_DISCONNECTED)
            control_server_closed(server, value);
        else
            count_unauthenticated(server);
    }
}

/* What other threads told us: oldest first. */
static void take_ended(struct control_server *server) {
    uint64_t count;
    ssize_t got = read(server->wake, &count, sizeof count);
    (void)got; /* it may have been a tick */
    pthread_mutex_lock(&server->lock);
    struct control_ended *newest = server->ended, *oldest = NULL;
    server->ended = NULL;
    pthread_mutex_unlock(&server->lock);
    while (newest) {
        struct control_ended *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct control_ended *next = oldest->next;
        control_server_lose(server, oldest->rank, oldest->why);
        free(oldest);
        oldest = next;
    }
}

static void take_messages(struct control_server *server) {
    for (int i = 0; i < BATCH; i++) {
        enum control_received got = control_message_receive(server->router, true, &server->in);
        if (got == CONTROL_NOTHING) return;
        if (got == CONTROL_RECEIVED) control_server_message(server);
    }
}

static bool asked_to_stop(struct control_server *server) {
    pthread_mutex_lock(&server->lock);
    bool stop = server->stop;
    pthread_mutex_unlock(&server->lock);
    return stop;
}

/* Ranks that disagree on the world may still be on their way, and shall hear what was wrong; for a
 * while. Who comes are those both sides count on; those whom we do not know only where at least as
 * many speak of them as do not. */
static bool more_may_come(const struct control_server *server, double waited_s) {
    int world = server->config.world;
    if (!server->failed || server->welcome || !server->claims) return false;
    for (int i = 0; i < world && i < server->least_claimed; i++)
        if (server->member[i].state == CONTROL_ABSENT && waited_s < late_rank_s) return true;
    bool others = server->claims >= server->joined && waited_s < unknown_rank_s;
    return (others && server->outside < server->most_claimed - world) ||
           (server->outside && server->now_ns - server->outside_ns < outside_leave_ns);
}

static bool all_gone(const struct control_server *server, double waited_s) {
    for (int i = 0; i < server->config.world; i++)
        if (server->member[i].state == CONTROL_JOINED) return false;
    return !more_may_come(server, waited_s);
}

/* --- where ranks are --- */

struct control_row *control_server_row(const struct control_server *server, int rank) {
    const struct control_status_table *status_table = server->config.status_table;
    int index = rank - server->config.status_table_first;
    if (!status_table || index < 0 || index >= status_table->count) return NULL;
    return &status_table->row[index];
}

/* With the lock held. Where the status table has the rank, its row says what it does now. */
static bool look_at_status_table(struct control_server *server, int rank) {
    struct control_row *row = control_server_row(server, rank);
    struct control_member *member = &server->member[rank];
    struct control_doing now;
    if (!row) return false;
    control_row_get(row, &now);
    if (!now.text[0]) return false;
    member->doing = now;
    member->doing_ns = clock_ns() - now.since_ns;
    return true;
}

void control_server_where(struct control_server *server, int rank, struct control_where *out) {
    struct control_member *member = &server->member[rank];
    pthread_mutex_lock(&server->lock);
    bool exact = look_at_status_table(server, rank);
    pthread_mutex_unlock(&server->lock);
    int64_t silent = member->heard_ns ? server->now_ns - member->heard_ns : 0;
    int64_t doing = member->doing_ns + (exact ? 0 : server->now_ns - member->beat_ns);
    *out = (struct control_where){.rank = rank,
                                  .state = member->state,
                                  .silent_s = (double)silent * 1e-9,
                                  .doing_s = (double)doing * 1e-9,
                                  .doing = member->doing,
                                  .host = member->host};
}

static void print_all(struct control_server *server) {
    struct control_where where;
    char line[400];
    for (int r = 0; r < server->config.world; r++) {
        control_server_where(server, r, &where);
        control_where_text(&where, false, line, sizeof line);
        log_answer("%s%s%s", line, *where.host ? ", host " : "", where.host);
    }
}

static void take_print(struct control_server *server) {
    pthread_mutex_lock(&server->lock);
    bool wanted = server->print;
    server->print = false;
    pthread_mutex_unlock(&server->lock);
    if (wanted) print_all(server);
}

static void take_also(struct control_server *server) {
    pthread_mutex_lock(&server->lock);
    struct control_also *also = server->also;
    if (also) {
        also->status = control_socket_also(server->router, also->bind, also->address);
        also->done = true;
        server->also = NULL;
        pthread_cond_broadcast(&server->also_done);
    }
    pthread_mutex_unlock(&server->lock);
}

/* --- the thread --- */

static void turn(struct control_server *server) {
    zmq_pollitem_t items[] = {
        {.socket = server->router, .events = ZMQ_POLLIN},
        {.socket = server->zap, .events = ZMQ_POLLIN},
        {.socket = server->monitor, .events = ZMQ_POLLIN},
        {.fd = server->wake, .events = ZMQ_POLLIN},
    };
    zmq_poll(items, 4, TICK_MS);
    server->now_ns = control_watch_ns(&server->watch);
    take_ended(server);
    take_print(server);
    take_also(server);
    if (items[1].revents) control_zap_answer(server->zap, server->client_public);
    control_server_events(server);
    take_messages(server);
    control_server_timers(server);
}

/* Stops only when nobody is left, also after a failure: closing a connection with something unread
 * in it would take the refusal, or the report of a loss, from the rank at its other end. */
static void *run(void *argument) {
    struct control_server *server = argument;
    int64_t stop_ns = 0;
    while (true) {
        turn(server);
        if (!asked_to_stop(server)) continue;
        if (!stop_ns) stop_ns = server->now_ns;
        double waited_s = (double)(server->now_ns - stop_ns) * 1e-9;
        if (waited_s > server->config.leave_limit_s || all_gone(server, waited_s)) return NULL;
    }
}

static enum status open_sockets(struct control_server *server, const struct control_keys *keys) {
    server->zmq = zmq_ctx_new();
    if (!server->zmq) return fail(STATUS_MEMORY, "ZeroMQ does not start: %s", strerror(errno));
    TRY(control_zap_open(server->zmq, &server->zap));
    TRY(control_socket_listen(server->zmq, server->config.bind, keys, server->config.silent_limit_s,
                              server->address, &server->router));
    TRY(control_socket_monitor(server->zmq, server->router, watched, &server->monitor));
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake < 0) return limit_fail("an event descriptor", errno);
    return STATUS_OK;
}

static enum status open_within_limits(struct control_server *server,
                                      const struct control_keys *keys) {
    TRY(limit_room("the control server", SERVER_FILES + server->config.world,
                   CONTROL_ZMQ_THREADS + 1, "start fewer ranks"));
    limit_begin();
    enum status status = open_sockets(server, keys);
    limit_end();
    return status;
}

static void close_sockets(struct control_server *server) {
    if (server->monitor) zmq_socket_monitor(server->router, NULL, 0);
    void *sockets[] = {server->monitor, server->router, server->zap};
    for (int i = 0; i < 3; i++)
        if (sockets[i]) zmq_close(sockets[i]);
    if (server->zmq) zmq_ctx_term(server->zmq);
    if (server->wake >= 0) close(server->wake);
}

static void free_server(struct control_server *server) {
    close_sockets(server);
    for (int i = 0; i < server->config.world; i++) control_facts_free(&server->member[i].facts);
    while (server->ended) {
        struct control_ended *next = server->ended->next;
        free(server->ended);
        server->ended = next;
    }
    control_key_values_free(&server->key_values);
    control_message_free(&server->in);
    control_message_free(&server->out);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->also_done);
    free(server->member);
    free(server);
}

static struct control_server *new_server(const struct control_server_config *config) {
    struct control_server *server = MEM_NEW(struct control_server);
    server->config = *config;
    control_secret_wipe(&server->config.secret);
    if (config->join_limit_s <= 0) server->config.join_limit_s = 60;
    if (config->silent_limit_s <= 0) server->config.silent_limit_s = 15;
    if (config->leave_limit_s <= 0) server->config.leave_limit_s = 5;
    server->wake = -1;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->also_done, NULL);
    server->member = MEM_ARRAY(struct control_member, config->world);
    for (int i = 0; i < config->world; i++) server->member[i].fd = -1;
    server->key_values = control_key_values_new(config->world, control_server_found, server);
    server->begin_ns = server->now_ns = control_watch_ns(&server->watch);
    return server;
}

enum status control_server_start(const struct control_server_config *config,
                                 struct control_server **out) {
    struct control_keys keys;
    CHECK(config->world > 0, "a world of %d ranks", config->world);
    TRY(control_keys_derive(&config->secret, &keys));
    struct control_server *server = new_server(config);
    memcpy(server->client_public, keys.client_public, sizeof keys.client_public);
    enum status status = open_within_limits(server, &keys);
    explicit_bzero(&keys, sizeof keys);
    if (status == STATUS_OK) status = thread_start(&server->thread, run, server);
    if (status == STATUS_OK)
        *out = server;
    else
        free_server(server);
    return status;
}

static void wake(struct control_server *server) {
    uint64_t one = 1;
    ssize_t written = write(server->wake, &one, sizeof one);
    (void)written; /* full means it is awake */
}

void control_server_stop(struct control_server **server) {
    if (!*server) return;
    pthread_mutex_lock(&(*server)->lock);
    (*server)->stop = true;
    pthread_mutex_unlock(&(*server)->lock);
    wake(*server);
    pthread_join((*server)->thread, NULL);
    free_server(*server);
    *server = NULL;
}

const char *control_server_address(const struct control_server *server) {
    return server->address;
}

enum status control_server_also(struct control_server *server, const char *bind,
                                char address[CONTROL_ADDRESS_BYTES]) {
    struct control_also also = {.bind = bind, .address = address};
    pthread_mutex_lock(&server->lock);
    CHECK(!server->also, "two requests to listen at once");
    server->also = &also;
    wake(server);
    while (!also.done) pthread_cond_wait(&server->also_done, &server->lock);
    pthread_mutex_unlock(&server->lock);
    return also.status;
}

void control_server_rank_ended(struct control_server *server, int rank, const char *why) {
    CHECK(rank >= 0 && rank < server->config.world, "rank %d of %d", rank, server->config.world);
    struct control_ended *ended = MEM_NEW(struct control_ended);
    ended->rank = rank;
    control_clean_copy(ended->why, sizeof ended->why, why);
    pthread_mutex_lock(&server->lock);
    ended->next = server->ended;
    server->ended = ended;
    pthread_mutex_unlock(&server->lock);
    wake(server);
}

const char *control_server_doing(struct control_server *server, int rank, char *text,
                                 size_t bytes) {
    CHECK(rank >= 0 && rank < server->config.world, "rank %d of %d", rank, server->config.world);
    pthread_mutex_lock(&server->lock);
    bool exact = look_at_status_table(server, rank);
    const struct control_member *member = &server->member[rank];
    if (member->state == CONTROL_ABSENT && !exact)
        snprintf(text, bytes, "not joined yet");
    else
        control_doing_text(&member->doing, text, bytes);
    pthread_mutex_unlock(&server->lock);
    return text;
}

void control_server_print_all(struct control_server *server) {
    pthread_mutex_lock(&server->lock);
    server->print = true;
    pthread_mutex_unlock(&server->lock);
    wake(server);
}
