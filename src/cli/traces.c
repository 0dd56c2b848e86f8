/* See traces.h. In pieces of what comm_exchange carries: every rank gets everything, but it is some
 * hundred kilobytes, once a run. */
#include "cli/traces.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/* Clocks nearer than this are one: ranks of one host leave a barrier as the scheduler lets them. */
static const int64_t same_clock_ns = 100000000;

struct head {
    uint64_t bytes;
    int64_t now_ns;
};

static uint64_t longest(const struct head *heads, int ranks) {
    uint64_t most = 0;
    for (int r = 0; r < ranks; r++) most = heads[r].bytes > most ? heads[r].bytes : most;
    return most;
}

static size_t piece_of(const struct head *head, uint64_t at) {
    uint64_t left = head->bytes > at ? head->bytes - at : 0;
    return left < COMM_EXCHANGE_BYTES ? (size_t)left : COMM_EXCHANGE_BYTES;
}

/* all[r] gets the bytes of rank r. */
static enum status exchange(struct comm *comm, const struct bytes *mine, const struct head *heads,
                            unsigned char **all) {
    int own = comm_rank(comm), ranks = comm_size(comm);
    unsigned char piece[COMM_EXCHANGE_BYTES] = {0};
    unsigned char *pieces = mem_array((size_t)ranks, COMM_EXCHANGE_BYTES);
    enum status status = STATUS_OK;
    uint64_t most = longest(heads, ranks);
    for (uint64_t at = 0; at < most && status == STATUS_OK; at += COMM_EXCHANGE_BYTES) {
        size_t count = piece_of(&heads[own], at);
        if (count) memcpy(piece, mine->data + at, count);
        status = comm_exchange(comm_world(comm), piece, sizeof piece, pieces);
        for (int r = 0; all && r < ranks && status == STATUS_OK; r++) {
            count = piece_of(&heads[r], at);
            if (count) memcpy(all[r] + at, pieces + (size_t)r * sizeof piece, count);
        }
    }
    free(pieces);
    return status;
}

static enum status open_all(const struct trace_config *config, const struct head *heads, int ranks,
                            unsigned char *const *all, struct trace **out) {
    for (int r = 1; r < ranks; r++) {
        struct trace_config other = *config;
        int64_t shift_ns = heads[0].now_ns - heads[r].now_ns;
        if (llabs(shift_ns) < same_clock_ns) shift_ns = 0;
        other.rank = r;
        TRY(trace_open_packed(&other, all[r], heads[r].bytes, shift_ns, &out[r]));
    }
    return STATUS_OK;
}

static void free_all(struct trace **traces, int ranks) {
    for (int r = 1; r < ranks; r++) trace_free(&traces[r]);
    free(traces);
}

static enum status gather(struct comm *comm, const struct bytes *packed,
                          const struct trace_config *config, const struct head *heads,
                          struct trace **out) {
    int ranks = comm_size(comm);
    unsigned char **all = out ? MEM_ARRAY(unsigned char *, ranks) : NULL;
    for (int r = 0; out && r < ranks; r++) all[r] = mem_new(heads[r].bytes + 1);
    enum status status = exchange(comm, packed, heads, all);
    if (status == STATUS_OK && out) status = open_all(config, heads, ranks, all, out);
    for (int r = 0; out && r < ranks; r++) free(all[r]);
    free(all);
    return status;
}

enum status traces_gather(struct comm *comm, struct trace *mine, const struct trace_config *config,
                          struct trace ***out) {
    int ranks = comm_size(comm);
    struct head *heads = MEM_ARRAY(struct head, ranks);
    struct trace **traces = comm_rank(comm) == 0 ? MEM_ARRAY(struct trace *, ranks) : NULL;
    struct bytes packed = trace_pack(mine);
    enum status status = comm_barrier(comm_world(comm));
    struct head head = {.bytes = packed.count, .now_ns = clock_ns()};
    if (status == STATUS_OK) status = comm_exchange(comm_world(comm), &head, sizeof head, heads);
    if (status == STATUS_OK) status = gather(comm, &packed, config, heads, traces);
    bytes_free(&packed);
    free(heads);
    if (traces && status != STATUS_OK) {
        free_all(traces, ranks);
        return status;
    }
    if (traces) traces[0] = mine;
    *out = traces;
    return status;
}
