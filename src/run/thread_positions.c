/* See thread_positions.h. */
#include "run/thread_positions.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/stall_message.h"
#include "exec/stop.h"

struct thread_position {
    const struct thread_positions *all;
    int rank;
    const struct session *session;
    struct control_row row; /* what it is doing */
    struct comm_link link;  /* how its communicator tells whom it waits for */
    struct control_stall stall;
};

void run_thread_positions_new(int ranks, struct thread_positions *out) {
    *out = (struct thread_positions){ranks, MEM_ARRAY(struct thread_position, ranks)};
}

void run_thread_positions_free(struct thread_positions *positions) {
    free(positions->of);
    *positions = (struct thread_positions){0};
}

static void position_text(struct thread_position *at, char *text, size_t bytes) {
    struct control_doing doing;
    char what[CONTROL_DOING_BYTES + 32], since[TEXT_BYTES];
    control_row_get(&at->row, &doing);
    control_doing_text(&doing, what, sizeof what);
    text_duration((double)(clock_ns() - doing.since_ns) * 1e-9, since);
    snprintf(text, bytes, "rank %d is at %s for %s", at->rank, what, since);
}

static void print_all(void *context) {
    const struct thread_positions *all = context;
    char line[256];
    for (int r = 0; r < all->ranks; r++) {
        position_text(&all->of[r], line, sizeof line);
        log_answer("%s", line);
    }
}

static int64_t step_of(struct thread_position *at) {
    struct control_doing doing;
    control_row_get(&at->row, &doing);
    return doing.step;
}

static struct thread_position *furthest_behind(const struct thread_position *asker) {
    struct thread_position *found = NULL;
    for (int r = 0; r < asker->all->ranks; r++) {
        struct thread_position *one = &asker->all->of[r];
        if (one != asker && (!found || step_of(one) < step_of(found))) found = one;
    }
    return found;
}

static void on_waiting(void *context, int peer, const char *what, int64_t since_ns) {
    struct thread_position *at = context;
    char there[256];
    if (stop_take_report()) print_all((void *)at->all);
    double limit_s = session_wait_limit_s(at->session);
    if (control_stall_due(&at->stall, since_ns, limit_s)) {
        position_text(peer >= 0 ? &at->all->of[peer] : furthest_behind(at), there, sizeof there);
        control_stall_message(at->rank, &at->row, peer, what, since_ns, there);
    }
    stop_end_stalled(at->rank, since_ns, limit_s);
}

void run_thread_positions_show(struct thread_positions *positions, int rank,
                               struct session *session) {
    struct thread_position *at = &positions->of[rank];
    at->all = positions;
    at->rank = rank;
    at->session = session;
    at->link = (struct comm_link){.context = at, .waiting = on_waiting};
    session->recorder.rank = rank;
    session->recorder.row = &at->row;
    session->recorder.print_positions = print_all;
    session->recorder.position_context = positions;
    control_row_set(&at->row, -1, "starting");
}

const struct comm_link *run_thread_positions_link(const struct thread_positions *positions,
                                                  int rank) {
    return &positions->of[rank].link;
}
