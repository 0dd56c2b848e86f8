/* See traces.h. In pieces of what comm_exchange carries: every rank gets everything, but it is some
 * hundred kilobytes, once a run. Rank 0 keeps none of it in memory: what many ranks traced is more
 * than a small model takes. */
#include "run/traces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"

struct head {
    uint64_t count, dropped;
    struct traces_clock clock;
};

enum { PIECE_EVENTS = COMM_EXCHANGE_BYTES / sizeof(struct trace_event) };

struct piece {
    struct trace_event event[PIECE_EVENTS];
};

/* How far apart ranks of one clock leave a barrier says what the scheduler did, and nothing else.
 */
int64_t traces_shift(const struct traces_clock *mine, const struct traces_clock *other) {
    return mine->id && mine->id == other->id ? 0 : mine->now_ns - other->now_ns;
}

static uint64_t longest(const struct head *heads, int ranks) {
    uint64_t most = 0;
    for (int r = 1; r < ranks; r++) most = heads[r].count > most ? heads[r].count : most;
    return most;
}

static size_t piece_of(const struct head *head, uint64_t at) {
    uint64_t left = head->count > at ? head->count - at : 0;
    return left < PIECE_EVENTS ? (size_t)left : PIECE_EVENTS;
}

static enum status write_at(int file, const void *data, size_t bytes, size_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t put = pwrite(file, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0)
            return fail(STATUS_DATA, "traces of other ranks cannot be written: %s",
                        strerror(errno));
        done += (size_t)put;
    }
    return STATUS_OK;
}

/* Those of the ranks lie one behind the other. */
static enum status store(int file, const struct head *heads, int ranks, uint64_t at,
                         const struct piece *pieces) {
    uint64_t begin = 0;
    for (int r = 1; r < ranks; begin += heads[r++].count)
        TRY(write_at(file, pieces[r].event, piece_of(&heads[r], at) * sizeof(struct trace_event),
                     (begin + at) * sizeof(struct trace_event)));
    return STATUS_OK;
}

/* All go on whatever becomes of rank 0's file. */
static enum status exchange(struct comm *comm, const struct trace *mine, const struct head *heads,
                            int file, enum status *lacks) {
    int ranks = comm_size(comm);
    bool first = comm_rank(comm) == 0;
    struct piece piece = {0}, *pieces = MEM_ARRAY(struct piece, ranks);
    enum status status = STATUS_OK;
    uint64_t most = longest(heads, ranks);
    size_t cursor = 0;
    for (uint64_t at = 0; at < most && status == STATUS_OK; at += PIECE_EVENTS) {
        trace_copy(mine, &cursor, PIECE_EVENTS, piece.event);
        status = comm_exchange(comm_world(comm), &piece, sizeof piece, pieces);
        if (status == STATUS_OK && first && *lacks == STATUS_OK)
            *lacks = store(file, heads, ranks, at, pieces);
    }
    free(pieces);
    return status;
}

static enum status open_all(const struct trace_config *config, const struct head *heads, int ranks,
                            int file, struct trace **out) {
    uint64_t begin = 0;
    for (int r = 1; r < ranks; begin += heads[r++].count) {
        struct trace_config other = *config;
        struct trace_stored stored = {.file = file,
                                      .at = begin * sizeof(struct trace_event),
                                      .count = heads[r].count,
                                      .dropped = heads[r].dropped,
                                      .shift_ns = traces_shift(&heads[0].clock, &heads[r].clock)};
        other.rank = r;
        TRY(trace_open_stored(&other, &stored, &out[r]));
    }
    return STATUS_OK;
}

static enum status open_traces(struct trace *mine, const struct trace_config *config,
                               const struct head *heads, int ranks, int file, struct trace ***out) {
    struct trace **traces = MEM_ARRAY(struct trace *, ranks);
    enum status status = open_all(config, heads, ranks, file, traces);
    traces[0] = mine;
    if (status == STATUS_OK) {
        *out = traces;
        return STATUS_OK;
    }
    for (int r = 1; r < ranks; r++) trace_free(&traces[r]);
    free(traces);
    return status;
}

enum status traces_gather(struct comm *comm, struct trace *mine, const struct trace_config *config,
                          int file, struct trace ***out, enum status *lacks) {
    int ranks = comm_size(comm);
    SCOPED_FREE struct head *heads = MEM_ARRAY(struct head, ranks);
    *out = NULL;
    *lacks = comm_rank(comm) == 0 && file < 0 ? STATUS_DATA : STATUS_OK;
    TRY(comm_barrier(comm_world(comm)));
    struct head head = {.count = trace_kept(mine),
                        .dropped = trace_dropped(mine),
                        .clock = {machine_clock(""), clock_ns()}};
    TRY(comm_exchange(comm_world(comm), &head, sizeof head, heads));
    TRY(exchange(comm, mine, heads, file, lacks));
    if (comm_rank(comm) == 0 && *lacks == STATUS_OK)
        TRY(open_traces(mine, config, heads, ranks, file, out));
    return STATUS_OK;
}
