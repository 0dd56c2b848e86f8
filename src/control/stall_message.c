/* See stall_message.h. */
#include "control/stall_message.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

static double waited_s(int64_t since_ns) {
    return (double)(clock_ns() - since_ns) * 1e-9;
}

bool control_stall_due(struct control_stall *stall, int64_t since_ns, double limit_s) {
    double waited = waited_s(since_ns);
    if (waited < limit_s) return false;
    if (stall->since_ns != since_ns)
        *stall = (struct control_stall){.since_ns = since_ns, .next_s = limit_s};
    if (waited < stall->next_s) return false;
    stall->next_s = 2 * waited;
    return true;
}

void control_stall_message(int rank, struct control_row *row, int peer, const char *what,
                           int64_t since_ns, const char *there) {
    char whom[32] = "other ranks", waited[TEXT_BYTES], step[32] = "";
    struct control_doing mine;
    if (peer >= 0) snprintf(whom, sizeof whom, "rank %d", peer);
    control_row_get(row, &mine);
    if (mine.step >= 0) snprintf(step, sizeof step, "step %lld ", (long long)mine.step);
    log_warning("rank %d waits %s for %s at %s%.120s; %s", rank,
                text_duration(waited_s(since_ns), waited), whom, step, what, there);
}
