/* See forward.h. Ranks run ahead of one another for some rounds; then they agree whether to go on:
 * a disk that is full, a score that is none or a signal comes to one of them. */
#include "run/forward.h"

#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/stop.h"

enum { ROUNDS_ALONE = 8 }; /* of several ranks, before they agree */
static const int64_t told_every_ns = 10 * INT64_C(1000000000);

struct running {
    struct session *session;
    const struct forward *forward;
    enum status status; /* this rank's first failure, not told yet */
    int64_t rounds, told_ns;
};

bool forward_is_first(const struct session *session) {
    return comm_rank(engine_comm(session->engine)) == 0;
}

int64_t forward_class(const float *scores, int64_t classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (scores[c] > scores[best]) best = c;
    return best;
}

static enum status take(void *context, const struct engine_output *output) {
    struct running *running = context;
    if (running->status == STATUS_OK)
        running->status = running->forward->output(running->forward->context, output);
    return STATUS_OK;
}

static void tell(struct running *running, int64_t samples) {
    const struct run_config *config = &running->session->planned.plan->config;
    int64_t now = clock_ns();
    if (!forward_is_first(running->session) || now - running->told_ns < told_every_ns) return;
    running->told_ns = now;
    log_note("%lld of %lld samples", (long long)samples,
             (long long)config->dataset->count[config->eval_split]);
}

static enum status agree(struct running *running) {
    enum status own = running->status;
    if (own == STATUS_OK && stop_signal()) own = STATUS_STOPPED;
    enum status status = engine_agree(running->session->engine, own);
    if (status == STATUS_STOPPED) session_stopped_by(stop_signal() ? stop_signal() : SIGTERM);
    return status;
}

static enum status go_on(void *context, int64_t samples) {
    struct running *running = context;
    bool alone = comm_size(engine_comm(running->session->engine)) == 1;
    tell(running, samples);
    if (++running->rounds % ROUNDS_ALONE != 0 && !alone) return STATUS_OK;
    return agree(running);
}

enum status forward_run(struct session *session, const struct forward *forward,
                        struct eval_result *out) {
    struct running running = {.session = session, .forward = forward, .told_ns = clock_ns()};
    struct engine_sink sink = {
        .context = &running, .output = forward->output ? take : NULL, .round = go_on};
    TRY(engine_forward(session->engine, &sink, out));
    return agree(&running);
}
