/* The thread of a client: says HELLO when connected, beats twice a second, sends what others ask
 * for and hands out the answers, and notices when the server is gone (its socket closed, or
 * silence). */
#include "control/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"

/* Between tries to say HELLO: longer from try to try, since where hundreds of ranks start at once
 * each waits for the others' handshakes. */
enum { HELLO_MS = 10, HELLO_MOST_MS = 40 };

/* A BYE goes on: a rank that leaves because another is lost is not lost itself. */
static void end_requests(struct control *control, int lost) {
    for (struct control_request *one = control->first; one; one = one->next) {
        if (one->done || (one->message.type == CONTROL_BYE && lost != CONTROL_SERVER)) continue;
        one->done = true;
        one->status = STATUS_PEER;
        snprintf(one->text, sizeof one->text, "%s", control->why);
    }
}

/* Of the losses that are reported, the first is the cause; the rest follow from it. */
void control_lose(struct control *control, int rank, const char *why) {
    pthread_mutex_lock(&control->lock);
    if (atomic_load(&control->lost) == CONTROL_NOBODY) {
        if (control->phase == CONTROL_JOINING) control->status = STATUS_PEER;
        if (control->phase != CONTROL_OUT) snprintf(control->why, sizeof control->why, "%s", why);
        atomic_store(&control->lost, rank);
    }
    control->phase = CONTROL_OUT;
    end_requests(control, rank);
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
}

/* --- what the server says --- */

/* Whether "host h1 (ranks 0-1)" is this very host. */
static bool is_here(const struct control *control, const char *there) {
    size_t length = strlen(control->host);
    return strncmp(there, "host ", 5) == 0 && strncmp(there + 5, control->host, length) == 0 &&
           (!there[5 + length] || there[5 + length] == ' ');
}

static void take_welcome(struct control *control) {
    struct control_unpack from = control_unpack(&control->in);
    bool same = control_unpack_u32(&from) != 0;
    int64_t silent = control_unpack_i64(&from);
    const char *soft = control_unpack_text(&from, CONTROL_WHY_BYTES);
    const char *there = control_unpack_text(&from, CONTROL_WHY_BYTES);
    if (!control_unpack_done(&from)) return;
    if (!same && control->rank == 0)
        log_note("the ranks differ in %s: results are right, but not equal to the last bit", soft);
    pthread_mutex_lock(&control->lock);
    if (control->phase == CONTROL_JOINING) control->phase = CONTROL_MEMBER;
    control->same_bits = same;
    if (silent > 0) control->silent_limit_ns = silent;
    control_clean_copy(control->there, sizeof control->there, is_here(control, there) ? "" : there);
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
}

static void take_refuse(struct control *control) {
    struct control_unpack from = control_unpack(&control->in);
    uint32_t status = control_unpack_u32(&from);
    const char *why = control_unpack_text(&from, CONTROL_WHY_BYTES);
    if (!control_unpack_done(&from)) return;
    pthread_mutex_lock(&control->lock);
    if (control->phase == CONTROL_JOINING) {
        control->phase = CONTROL_OUT;
        control->status = status == STATUS_PEER ? STATUS_PEER : STATUS_USAGE;
        snprintf(control->why, sizeof control->why, "%s", why);
    }
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
}

static void take_loss(struct control *control) {
    struct control_unpack from = control_unpack(&control->in);
    uint32_t rank = control_unpack_u32(&from);
    const char *why = control_unpack_text(&from, CONTROL_WHY_BYTES);
    if (control_unpack_done(&from) && rank < (uint32_t)control->world)
        control_lose(control, (int)rank, why);
}

static void finish(struct control_request *one, struct control_unpack *from) {
    size_t bytes;
    uint32_t status = control_unpack_u32(from);
    const char *text = control_unpack_text(from, CONTROL_WHY_BYTES);
    const void *value = control_unpack_bytes(from, CONTROL_VALUE_BYTES, &bytes);
    one->done = true;
    one->status = control_unpack_done(from) && status == STATUS_OK ? STATUS_OK : STATUS_USAGE;
    snprintf(one->text, sizeof one->text, "%s", text);
    one->value = mem_new(bytes + 1);
    one->bytes = bytes;
    if (bytes) memcpy(one->value, value, bytes);
}

static void take_reply(struct control *control) {
    struct control_unpack from = control_unpack(&control->in);
    pthread_mutex_lock(&control->lock);
    for (struct control_request *one = control->first; one; one = one->next) {
        if (one->message.id != control->in.id || one->done) continue;
        finish(one, &from);
        break;
    }
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
}

/* A rank that starts again may come upon the server of the start before, which has the address and
 * the key of the next one and is about to go: HELLO is said once more to who listens then. */
static void send_hello_again(struct control *control) {
    control->hello_sent = false;
    control->hello_ns = control->heard_ns + CONTROL_BEAT_MS * 200000LL;
    pthread_mutex_lock(&control->lock);
    control->greeted = false;
    pthread_mutex_unlock(&control->lock);
}

static void take_message(struct control *control) {
    if (control->in.epoch < control->epoch) {
        if (!control->known) send_hello_again(control);
        return;
    }
    if (control->in.epoch != control->epoch && control->in.type != CONTROL_REFUSE) return;
    control->known = true;
    switch (control->in.type) {
    case CONTROL_WELCOME: take_welcome(control); break;
    case CONTROL_REFUSE: take_refuse(control); break;
    case CONTROL_LOSS: take_loss(control); break;
    case CONTROL_REPLY: take_reply(control); break;
    default: break; /* ALIVE: that it came is all it says */
    }
}

static void take_messages(struct control *control, int64_t now) {
    enum control_received got;
    while ((got = control_message_receive(control->dealer, false, &control->in)) !=
           CONTROL_NOTHING) {
        control->heard_ns = now;
        if (got == CONTROL_RECEIVED) take_message(control);
    }
}

/* --- the connection --- */

/* `value` of a handshake that failed is errno: EAGAIN when its time was over. Somebody without the
 * key is shut out at once. */
static enum control_try try_of(int event, int value) {
    if (event == ZMQ_EVENT_CLOSED) return CONTROL_REFUSED;
    if (event == ZMQ_EVENT_CONNECTED) return CONTROL_CONNECTED;
    bool late = event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL && value == EAGAIN;
    return late ? CONTROL_UNANSWERED : CONTROL_OTHER_KEY;
}

static void note_connection(struct control *control, int event, int value) {
    enum control_try newest = try_of(event, value);
    pthread_mutex_lock(&control->lock);
    bool open = newest == CONTROL_CONNECTED; /* what comes of it tells more, if something did */
    if (!open || control->newest < CONTROL_CONNECTED) control->newest = newest;
    control->newest_ns = clock_ns();
    control->connects += open;
    control->other_keys += newest == CONTROL_OTHER_KEY;
    bool say = newest == CONTROL_OTHER_KEY && control->other_keys == 3 && !control->greeted;
    pthread_mutex_unlock(&control->lock);
    if (say)
        log_warning("rank %d: %s answers, but not with this job's key; trying on", control->rank,
                    control->address);
}

static void lose_closed(struct control *control) {
    char why[CONTROL_WHY_BYTES];
    pthread_mutex_lock(&control->lock);
    snprintf(why, sizeof why,
             "the control server at %.200s%s%.400s is gone: its connection closed\n"
             "  it runs in the launcher, or in rank 0: look there for the cause",
             control->address, control->there[0] ? " on " : "", control->there);
    pthread_mutex_unlock(&control->lock);
    control_lose(control, CONTROL_SERVER, why);
}

/* Silence from another host: what is out of reach is more than the server. */
static void lose_silent(struct control *control, double silent_s) {
    char why[CONTROL_WHY_BYTES];
    pthread_mutex_lock(&control->lock);
    bool elsewhere = control->there[0];
    snprintf(why, sizeof why, "%.400s%s%.200s%s silent for %.0f s", control->there,
             elsewhere ? " is out of reach: the control server there, at "
                       : "the control server at ",
             control->address, elsewhere ? ", is" : " is", silent_s);
    pthread_mutex_unlock(&control->lock);
    control_lose(control, CONTROL_SERVER, why);
}

static void take_events(struct control *control, int64_t now) {
    int event, value;
    while (control_socket_event(control->monitor, &event, &value)) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) continue; /* it has ended the poll */
        if (event != ZMQ_EVENT_DISCONNECTED) {
            note_connection(control, event, value);
        } else if (!control->hello_sent) {
            /* The report is ahead of the socket, which would still take a HELLO, and lose it. */
            control->hello_ns = now + HELLO_MS * 1000000LL;
        } else {
            take_messages(control, now); /* what it said before it went */
            if (control->epoch > 0 && !control->known) send_hello_again(control);
            if (!control->hello_sent) continue;
            lose_closed(control);
        }
    }
}

/* Tried until it goes out, which it does only once the handshake is done (ZMQ_IMMEDIATE). ZeroMQ's
 * report of that is no signal to rely on: the first ones of a socket get lost now and then, on a
 * busy machine once in some hundred starts. */
static void say_hello(struct control *control, int64_t now) {
    if (control->hello_sent || now < control->hello_ns) return;
    if (control_message_send(control->dealer, NULL, &control->hello) != 0) return;
    control->hello_sent = true;
    control->heard_ns = control->beat_ns = now;
    pthread_mutex_lock(&control->lock);
    control->greeted = true;
    pthread_mutex_unlock(&control->lock);
}

static void beat(struct control *control, int64_t now) {
    if (!control->hello_sent || now < control->beat_ns) return;
    struct control_message *out = &control->beat;
    struct control_doing doing;
    control_row_get(control->row, &doing);
    out->type = CONTROL_BEAT;
    out->epoch = control->epoch;
    out->rank = control->rank;
    out->bytes = 0;
    control_pack_i64(out, doing.step);
    control_pack_i64(out, clock_ns() - doing.since_ns);
    control_pack_text(out, doing.text, sizeof doing.text);
    control_message_send(control->dealer, NULL, out);
    control->beat_ns = now + CONTROL_BEAT_MS * 1000000LL;
}

/* A launcher that somebody stopped (SIGSTOP; Ctrl-Z stops the ranks, too) is not lost. Looked at
 * from early on: the silence of a stop must not count when it ends just before the limit. */
static bool server_is_stopped(const struct control *control, int64_t silent_ns) {
    const int64_t look_ns = 2 * CONTROL_BEAT_MS * 1000000LL;
    return control->server_pid && silent_ns > look_ns && process_is_stopped(control->server_pid);
}

static void watch_server(struct control *control, int64_t now) {
    pthread_mutex_lock(&control->lock);
    int64_t limit = control->silent_limit_ns;
    pthread_mutex_unlock(&control->lock);
    if (!control->hello_sent) return;
    if (server_is_stopped(control, now - control->heard_ns)) control->heard_ns = now;
    if (now - control->heard_ns < limit) return;
    lose_silent(control, (double)(now - control->heard_ns) * 1e-9);
    control->heard_ns = now;
}

static void send_requests(struct control *control) {
    pthread_mutex_lock(&control->lock);
    for (struct control_request *one = control->first; one; one = one->next) {
        if (one->sent || one->done) continue;
        if (control_message_send(control->dealer, NULL, &one->message) != 0) break;
        one->sent = true;
    }
    pthread_mutex_unlock(&control->lock);
}

static bool stopped(struct control *control) {
    pthread_mutex_lock(&control->lock);
    bool stop = control->stop;
    pthread_mutex_unlock(&control->lock);
    return stop;
}

void *control_client_run(void *argument) {
    struct control *control = argument;
    long hello_ms = HELLO_MS;
    while (!stopped(control)) {
        zmq_pollitem_t items[] = {
            {.socket = control->dealer, .events = ZMQ_POLLIN},
            {.socket = control->monitor, .events = ZMQ_POLLIN},
            {.fd = control->wake, .events = ZMQ_POLLIN},
        };
        uint64_t count;
        zmq_poll(items, 3, control->hello_sent ? CONTROL_BEAT_MS / 5 : hello_ms);
        if (hello_ms < HELLO_MOST_MS) hello_ms += hello_ms / 2;
        if (items[2].revents && read(control->wake, &count, sizeof count) < 0 && errno != EAGAIN)
            log_warning("rank %d: the control thread cannot be woken: %s", control->rank,
                        strerror(errno));
        int64_t now = control_watch_ns(&control->watch);
        take_messages(control, now);
        take_events(control, now);
        say_hello(control, now);
        beat(control, now);
        send_requests(control);
        watch_server(control, now);
    }
    return NULL;
}
