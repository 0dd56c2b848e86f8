/* What ranks are doing, and the stall message of a wait that lasts (contract 4): which rank waits,
 * at what, for which rank, where that rank is now, slow or dead. */
#include "control/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "control/stall_message.h"
#include "control/where.h"

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
    control_row_set(control->row, step, text);
}

/* --- where ranks are --- */

static enum status ask_where(struct control *control, int rank, struct control_request *request) {
    request->message.type = CONTROL_WHERE;
    control_pack_u32(&request->message, (uint32_t)rank);
    return control_ask(control, request, 1, NULL);
}

static bool behind(const struct control_where *a, const struct control_where *b) {
    bool a_out = a->state != CONTROL_JOINED, b_out = b->state != CONTROL_JOINED;
    if (a_out != b_out) return a_out;
    return a->doing.step != b->doing.step ? a->doing.step < b->doing.step
                                          : a->silent_s > b->silent_s;
}

/* The rank asked for, or the one furthest behind of all but the asker. */
static bool find_where(struct control *control, const struct control_request *request, int rank,
                       struct control_where *out) {
    struct control_unpack from = {.at = request->value, .left = request->bytes};
    struct control_where one;
    bool found = false;
    while (from.left > 0 && control_where_unpack(&from, &one)) {
        bool candidate = rank >= 0 ? one.rank == rank : one.rank != control->rank;
        if (!candidate || (found && !behind(&one, out))) continue;
        *out = one;
        found = true;
    }
    return found;
}

static void speak(struct control *control, int rank, const char *what, int64_t since_ns) {
    struct control_request request = {0};
    struct control_where where;
    char there[400] = "the control server does not report where they are";
    if (ask_where(control, rank, &request) == STATUS_OK &&
        find_where(control, &request, rank, &where))
        control_where_text(&where, true, there, sizeof there);
    control_stall_message(control->rank, control->row, rank, what, since_ns, there);
    free(request.value);
}

void control_waiting(struct control *control, int rank, const char *what, int64_t since_ns,
                     double limit_s) {
    if (control_lost(control) != CONTROL_NOBODY) return;
    pthread_mutex_lock(&control->lock);
    bool due = control_stall_due(&control->stall, since_ns, limit_s);
    pthread_mutex_unlock(&control->lock);
    if (due) speak(control, rank, what, since_ns);
}

/* One message for all ranks would be cut at its limit: a line each. */
void control_print_all(struct control *control) {
    struct control_request request = {0};
    struct control_where one;
    char line[400];
    if (ask_where(control, -1, &request) != STATUS_OK) {
        log_warning("rank %d: the control server does not report where the ranks are",
                    control->rank);
        free(request.value);
        return;
    }
    struct control_unpack from = {.at = request.value, .left = request.bytes};
    while (from.left > 0 && control_where_unpack(&from, &one)) {
        control_where_text(&one, false, line, sizeof line);
        log_answer("%s, host %s", line, one.host);
    }
    free(request.value);
}
