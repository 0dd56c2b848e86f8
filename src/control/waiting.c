/* What ranks are doing, and the sentence for a wait that lasts (contract 4): who waits, at what,
 * for whom, where that rank is now, slow or dead. */
#include "control/client.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "control/server.h"

/* A rank beats twice a second: unheard of for that long, it may be dead rather than slow. */
static const double suspicious_s = 3;

int control_lost(const struct control *control) {
    return atomic_load_explicit(&control->lost, memory_order_acquire);
}

const char *control_lost_text(struct control *control, char *text, size_t bytes) {
    if (control_lost(control) == CONTROL_NOBODY) {
        snprintf(text, bytes, "nobody is lost");
        return text;
    }
    pthread_mutex_lock(&control->lock);
    snprintf(text, bytes, "%s", control->why);
    pthread_mutex_unlock(&control->lock);
    return text;
}

void control_doing(struct control *control, int64_t step, const char *text) {
    int64_t now = clock_ns();
    size_t length = strnlen(text, CONTROL_DOING_BYTES - 1);
    while (atomic_flag_test_and_set_explicit(&control->doing_lock, memory_order_acquire))
        sched_yield();
    control->doing_step = step;
    control->doing_since_ns = now;
    memcpy(control->doing, text, length);
    control->doing[length] = 0;
    atomic_flag_clear_explicit(&control->doing_lock, memory_order_release);
}

/* --- where ranks are --- */

struct where {
    int rank;
    enum control_state state;
    double silent_s, doing_s;
    int64_t step;
    const char *doing, *host; /* inside the answer */
};

static bool read_where(struct control_unpack *from, struct where *where) {
    where->rank = (int)control_unpack_u32(from);
    where->state = control_unpack_u32(from);
    where->silent_s = (double)control_unpack_i64(from) * 1e-9;
    where->doing_s = (double)control_unpack_i64(from) * 1e-9;
    where->step = control_unpack_i64(from);
    where->doing = control_unpack_text(from, CONTROL_DOING_BYTES);
    where->host = control_unpack_text(from, CONTROL_HOST_BYTES);
    return !from->bad;
}

/* "step 411 #9 F" */
static const char *place(int64_t step, const char *doing, char *text, size_t bytes) {
    if (step < 0)
        snprintf(text, bytes, "%s", doing);
    else
        snprintf(text, bytes, "step %lld %s", (long long)step, doing);
    return text;
}

static void describe(const struct where *where, bool waited_for, char *text, size_t bytes) {
    char at[CONTROL_DOING_BYTES + 32], since[TEXT_BYTES], heard[TEXT_BYTES];
    place(where->step, where->doing, at, sizeof at);
    text_duration(where->doing_s, since);
    text_duration(where->silent_s, heard);
    if (where->state == CONTROL_ABSENT)
        snprintf(text, bytes, "rank %d has not joined", where->rank);
    else if (where->state == CONTROL_LEFT)
        snprintf(text, bytes, "rank %d has left the job, last at %s", where->rank, at);
    else if (where->state == CONTROL_LOST)
        snprintf(text, bytes, "rank %d is lost, last at %s", where->rank, at);
    else if (where->silent_s >= suspicious_s)
        snprintf(text, bytes, "rank %d was at %s, silent for %s, perhaps dead", where->rank, at,
                 heard);
    else
        snprintf(text, bytes, "rank %d is at %s for %s (heard %s ago%s)", where->rank, at, since,
                 heard, waited_for ? ", slow" : "");
}

static enum status ask_where(struct control *control, int rank, struct control_request *request) {
    request->message.type = CONTROL_WHERE;
    control_pack_u32(&request->message, (uint32_t)rank);
    return control_ask(control, request, 1, NULL);
}

static bool behind(const struct where *a, const struct where *b) {
    bool a_out = a->state != CONTROL_JOINED, b_out = b->state != CONTROL_JOINED;
    if (a_out != b_out) return a_out;
    return a->step != b->step ? a->step < b->step : a->silent_s > b->silent_s;
}

/* The rank asked for, or the one furthest behind of all but the asker. */
static bool find_where(struct control *control, const struct control_request *request, int rank,
                       struct where *out) {
    struct control_unpack from = {.at = request->value, .left = request->bytes};
    struct where one;
    bool found = false;
    while (from.left > 0 && read_where(&from, &one)) {
        bool candidate = rank >= 0 ? one.rank == rank : one.rank != control->rank;
        if (!candidate || (found && !behind(&one, out))) continue;
        *out = one;
        found = true;
    }
    return found;
}

static void speak(struct control *control, int rank, const char *what, double waited_s) {
    struct control_request request = {0};
    struct where where;
    char whom[32] = "other ranks", there[400], waited[TEXT_BYTES], step[32] = "";
    snprintf(there, sizeof there, "the control server does not say where they are");
    if (rank >= 0) snprintf(whom, sizeof whom, "rank %d", rank);
    if (ask_where(control, rank, &request) == STATUS_OK &&
        find_where(control, &request, rank, &where))
        describe(&where, true, there, sizeof there);
    while (atomic_flag_test_and_set_explicit(&control->doing_lock, memory_order_acquire))
        sched_yield();
    int64_t mine = control->doing_step;
    atomic_flag_clear_explicit(&control->doing_lock, memory_order_release);
    if (mine >= 0) snprintf(step, sizeof step, "step %lld ", (long long)mine);
    log_warning("rank %d waits %s for %s at %s%.120s; %s", control->rank,
                text_duration(waited_s, waited), whom, step, what, there);
    free(request.value);
}

void control_waiting(struct control *control, int rank, const char *what, int64_t since_ns,
                     double limit_s) {
    double waited_s = (double)(clock_ns() - since_ns) * 1e-9;
    if (waited_s < limit_s || control_lost(control) != CONTROL_NOBODY) return;
    pthread_mutex_lock(&control->lock);
    if (control->wait_since_ns != since_ns) {
        control->wait_since_ns = since_ns;
        control->wait_next_s = limit_s;
    }
    bool due = waited_s >= control->wait_next_s;
    if (due) control->wait_next_s = 2 * waited_s;
    pthread_mutex_unlock(&control->lock);
    if (due) speak(control, rank, what, waited_s);
}

/* One message for all ranks would be cut at its limit: a line each. */
void control_print_all(struct control *control) {
    struct control_request request = {0};
    struct where one;
    char line[400];
    if (ask_where(control, -1, &request) != STATUS_OK) {
        log_warning("rank %d: the control server does not say where the ranks are", control->rank);
        free(request.value);
        return;
    }
    struct control_unpack from = {.at = request.value, .left = request.bytes};
    while (from.left > 0 && read_where(&from, &one)) {
        describe(&one, false, line, sizeof line);
        log_note("%s, host %s", line, one.host);
    }
    free(request.value);
}
