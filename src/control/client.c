/* A rank's end of the control plane: joining, leaving, the key-value store. See client.h for how
 * threads share it. */
#include "control/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"

static const int watched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                           ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

enum { CLIENT_FILES = 16 }; /* of ZeroMQ's threads and sockets, and the connection */

/* Waits for a change, at most until a time of the monotonic clock. */
static void await_change(struct control *control, int64_t until_ns) {
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    pthread_cond_timedwait(&control->changed, &control->lock, &until);
}

static void wake(struct control *control) {
    uint64_t one = 1;
    ssize_t written = write(control->wake, &one, sizeof one);
    (void)written; /* full means it is awake */
}

/* --- joining and leaving --- */

static enum status check_facts(const struct control_config *config) {
    CHECK(config->fact_count <= CONTROL_FACTS_MOST, "%d facts", config->fact_count);
    for (int i = 0; i < config->fact_count; i++) {
        const struct control_fact *fact = &config->facts[i];
        if (strlen(fact->key) >= CONTROL_FACT_KEY || strlen(fact->value) >= CONTROL_FACT_VALUE)
            return fail(STATUS_USAGE,
                        "the fact %.64s is too long to compare: %zu bytes, %d at most", fact->key,
                        strlen(fact->value), CONTROL_FACT_VALUE - 1);
    }
    return STATUS_OK;
}

static void pack_hello(struct control *control, const struct control_config *config) {
    struct control_message *hello = &control->hello;
    hello->type = CONTROL_HELLO;
    hello->epoch = config->epoch;
    hello->rank = config->rank;
    control_pack_u32(hello, (uint32_t)config->world);
    control_pack_u32(hello, (uint32_t)getpid());
    control_pack_text(hello, control->host, CONTROL_HOST_BYTES - 1);
    control_pack_u32(hello, (uint32_t)config->fact_count);
    for (int i = 0; i < config->fact_count; i++) {
        control_pack_text(hello, config->facts[i].key, CONTROL_FACT_KEY);
        control_pack_text(hello, config->facts[i].value, CONTROL_FACT_VALUE);
        control_pack_u32(hello, config->facts[i].fixed);
    }
}

static struct control *new_client(const struct control_config *config) {
    struct control *control = MEM_NEW(struct control);
    pthread_condattr_t attributes;
    control->rank = config->rank;
    control->world = config->world;
    control->server_pid = config->server_pid;
    control->epoch = config->epoch;
    snprintf(control->address, sizeof control->address, "%s", config->address);
    snprintf(control->host, sizeof control->host, "%s", config->host ? config->host : "?");
    control->wake = -1;
    pthread_mutex_init(&control->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&control->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_init(&control->lost, CONTROL_NOBODY);
    control->row = config->row ? config->row : &control->own_row;
    control->silent_limit_ns = 15000000000;
    control_doing(control, -1, "joining");
    pack_hello(control, config);
    return control;
}

static enum status open_sockets(struct control *control, const struct control_config *config) {
    struct control_keys keys;
    control->zmq = zmq_ctx_new();
    if (!control->zmq) return fail(STATUS_MEMORY, "ZeroMQ does not start: %s", strerror(errno));
    control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control->wake < 0) return limit_fail("an event descriptor", errno);
    TRY(control_keys_derive(&config->secret, &keys));
    enum status status = control_socket_connect(control->zmq, control->address, &keys, watched,
                                                &control->dealer, &control->monitor);
    explicit_bzero(&keys, sizeof keys);
    return status;
}

static enum status open_client(struct control *control, const struct control_config *config) {
    TRY(limit_room("the control plane", CLIENT_FILES, CONTROL_ZMQ_THREADS + 1, NULL));
    limit_begin();
    enum status status = open_sockets(control, config);
    limit_end();
    TRY(status);
    return thread_start(&control->thread, control_client_run, control);
}

static void free_client(struct control *control) {
    if (control->monitor) zmq_socket_monitor(control->dealer, NULL, 0);
    if (control->monitor) zmq_close(control->monitor);
    if (control->dealer) zmq_close(control->dealer);
    if (control->zmq) zmq_ctx_term(control->zmq);
    if (control->wake >= 0) close(control->wake);
    control_message_free(&control->in);
    control_message_free(&control->hello);
    control_message_free(&control->beat);
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->lock);
    free(control);
}

static void stop_client(struct control *control) {
    pthread_mutex_lock(&control->lock);
    control->stop = true;
    pthread_mutex_unlock(&control->lock);
    wake(control);
    pthread_join(control->thread, NULL);
    free_client(control);
}

/* The server never answered: what the newest try to connect says of the cause. One that is long ago
 * says nothing: tries follow one another within a handshake and a second. */
static enum status no_server(const struct control *control, double limit_s) {
    const int64_t long_ns = 2000000LL * CONTROL_HANDSHAKE_MS + 1000000000;
    bool gone = control->newest == CONTROL_REFUSED || clock_ns() - control->newest_ns > long_ns;
    char limit[TEXT_BYTES];
    text_duration(limit_s, limit);
    if (control->greeted)
        return fail(STATUS_PEER, "rank %d: the control server at %s did not reply for %s",
                    control->rank, control->address, limit);
    if (control->connects && gone)
        return fail(STATUS_PEER,
                    "rank %d: the control server at %s is gone: it was there, and does not listen "
                    "any more\n  it runs in the launcher, or in rank 0: look there for the cause",
                    control->rank, control->address);
    if (control->newest == CONTROL_OTHER_KEY)
        return fail(STATUS_PEER,
                    "rank %d: %s answers, but not with this job's key, for %s\n"
                    "  is the key the same on all hosts, and does this job listen there?",
                    control->rank, control->address, limit);
    if (control->connects)
        return fail(STATUS_PEER,
                    "rank %d: %s takes connections, but does not answer, for %s\n"
                    "  the server (launcher, or rank 0) is stopped or too busy, or something else "
                    "listens there",
                    control->rank, control->address, limit);
    return fail(STATUS_PEER,
                "rank %d: nothing listens at %s, for %s\n"
                "  was the server (launcher, or rank 0) started, and is that its address?",
                control->rank, control->address, limit);
}

/* The server knows the missing ranks by name: it gets two seconds more than we have. */
static enum status await_welcome(struct control *control, double limit_s) {
    int64_t begin = clock_ns();
    pthread_mutex_lock(&control->lock);
    while (control->phase == CONTROL_JOINING) {
        double limit = limit_s + (control->greeted ? 2 : 0);
        int64_t until = begin + (int64_t)(limit * 1e9);
        if (clock_ns() >= until) break;
        await_change(control, until);
    }
    enum control_phase phase = control->phase;
    enum status status = control->status;
    pthread_mutex_unlock(&control->lock);
    if (phase == CONTROL_MEMBER) return STATUS_OK;
    if (phase == CONTROL_JOINING) return no_server(control, limit_s);
    return fail(status, "%-s", control->why);
}

enum status control_join(const struct control_config *config, struct control **out) {
    double limit_s = config->join_limit_s > 0 ? config->join_limit_s : 60;
    TRY(check_facts(config));
    struct control *control = new_client(config);
    enum status status = open_client(control, config);
    if (status != STATUS_OK) {
        free_client(control);
        return status;
    }
    status = await_welcome(control, limit_s);
    if (status == STATUS_OK) {
        control_doing(control, -1, "starting");
        *out = control;
    } else
        stop_client(control);
    return status;
}

void control_give_up(struct control *control, const char *why) {
    struct control_request bye = {.message = {.type = CONTROL_BYE}};
    control_pack_text(&bye.message, why, CONTROL_WHY_BYTES);
    control_ask(control, &bye, 2, NULL);
    free(bye.value);
    control_lose(control, control->rank, why);
}

void control_leave(struct control **control) {
    if (!*control) return;
    struct control_request bye = {.message = {.type = CONTROL_BYE}};
    int lost = control_lost(*control);
    if (lost != CONTROL_SERVER && lost != (*control)->rank) {
        control_ask(*control, &bye, 2, NULL);
        free(bye.value);
    }
    stop_client(*control);
    *control = NULL;
}

bool control_same_bits(const struct control *control) {
    return control->same_bits; /* written before the join returned */
}

/* --- asking --- */

static void enlist(struct control *control, struct control_request *request) {
    request->message.epoch = control->epoch;
    request->message.rank = control->rank;
    request->message.id = ++control->next_id;
    struct control_request **link = &control->first;
    while (*link) link = &(*link)->next;
    *link = request;
    request->next = NULL;
}

static void delist(struct control *control, struct control_request *request) {
    struct control_request **link = &control->first;
    while (*link != request) link = &(*link)->next;
    *link = request->next;
}

enum status control_ask(struct control *control, struct control_request *request, double limit_s,
                        const char *what) {
    int64_t begin = clock_ns();
    double say_s = 10;
    bool bye = request->message.type == CONTROL_BYE;
    pthread_mutex_lock(&control->lock);
    enlist(control, request);
    wake(control);
    while (!request->done) {
        double waited_s = (double)(clock_ns() - begin) * 1e-9;
        if (!bye && atomic_load(&control->lost) != CONTROL_NOBODY) break;
        if (limit_s > 0 && waited_s >= limit_s) break;
        if (what && waited_s >= say_s) {
            log_warning("rank %d waits %.0f s for %s", control->rank, waited_s, what);
            say_s *= 2;
        }
        double next_s = limit_s > 0 && limit_s < say_s ? limit_s : say_s;
        await_change(control, begin + (int64_t)(next_s * 1e9));
    }
    delist(control, request);
    enum status status = request->done ? request->status : STATUS_PEER;
    if (!request->done)
        snprintf(request->text, sizeof request->text, "%s",
                 control->why[0] ? control->why : "the control server does not answer");
    pthread_mutex_unlock(&control->lock);
    control_message_free(&request->message);
    return status;
}

static enum status check_key(const char *key, size_t bytes) {
    size_t length = strlen(key);
    if (length == 0 || length > CONTROL_KEY_BYTES)
        return fail(STATUS_USAGE, "a key of the store has 1 to %d bytes, this one %zu",
                    CONTROL_KEY_BYTES, length);
    if (bytes > CONTROL_VALUE_BYTES)
        return fail(STATUS_USAGE, "the value of %.80s has %zu bytes, at most %d fit", key, bytes,
                    CONTROL_VALUE_BYTES);
    return STATUS_OK;
}

enum status control_put(struct control *control, const char *key, const void *value, size_t bytes) {
    char what[CONTROL_KEY_BYTES + 64];
    TRY(check_key(key, bytes));
    struct control_request put = {.message = {.type = CONTROL_PUT}};
    control_pack_text(&put.message, key, CONTROL_KEY_BYTES);
    control_pack_bytes(&put.message, value, bytes);
    snprintf(what, sizeof what, "the control server to store %s", key);
    enum status status = control_ask(control, &put, 0, what);
    free(put.value);
    if (status != STATUS_OK) return fail(status, "cannot publish %.80s: %-s", key, put.text);
    return STATUS_OK;
}

enum status control_get(struct control *control, const char *key, void **value, size_t *bytes) {
    char what[CONTROL_KEY_BYTES + 64];
    TRY(check_key(key, 0));
    struct control_request get = {.message = {.type = CONTROL_GET}};
    control_pack_text(&get.message, key, CONTROL_KEY_BYTES);
    snprintf(what, sizeof what, "the value of %s, which no rank has published yet", key);
    enum status status = control_ask(control, &get, 0, what);
    if (status != STATUS_OK) {
        free(get.value);
        return fail(status, "no value of %.80s: %-s", key, get.text);
    }
    *value = get.value;
    *bytes = get.bytes;
    return STATUS_OK;
}
