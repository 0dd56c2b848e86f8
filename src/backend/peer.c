/* The plane `peer`: devices of one machine that reach one another's memory.
 *
 * A rank's memory for others is one window. The data of an operation is ready when a member's event
 * says so; each member then makes its part with its own device, out of the memory of all: of a sum
 * its slice, which it writes to every member (or keeps), of what is gathered or given, a copy. When
 * all have enqueued their parts, the stream of each waits for those of all: so nobody goes on while
 * somebody reads its memory. A message needs no such end: the sender hears of it by the channel. An
 * event that was recorded again since says at least as much, and what a stream waits for is always
 * enqueued already, so no two devices wait for one another. */
#include <stdlib.h>

#include "backend/plane_table.h"
#include "backend/reach.h"
#include "base/log.h"
#include "base/mem.h"

struct peer {
    struct plane plane;
    struct device_window own, *window; /* of each rank; one's own at its place */
    int reached;
};

static struct peer *peer_of(const struct plane *plane) {
    return (struct peer *)plane;
}

static const struct backend_reach *reach_of(const struct device *device) {
    return device->backend->reach;
}

static bool peer_exists(void) {
    return true;
}

/* --- opening --- */

static void peer_close(struct plane *plane) {
    struct peer *peer = peer_of(plane);
    int own = comm_rank(plane->comm);
    for (int r = 0; r < peer->reached; r++)
        if (r != own) reach_of(plane->device)->window_leave(plane->device, &peer->window[r]);
    if (peer->own.memory) reach_of(plane->device)->window_free(plane->device, &peer->own);
    free(peer->window);
    free(peer);
}

static enum status reach_all(struct peer *peer, const struct device_card *cards) {
    struct plane *plane = &peer->plane;
    char why[256] = "";
    for (; peer->reached < comm_size(plane->comm); peer->reached++) {
        int r = peer->reached;
        if (r == comm_rank(plane->comm)) {
            peer->window[r] = peer->own;
            continue;
        }
        enum status status =
            reach_of(plane->device)
                ->window_reach(plane->device, &cards[r], &peer->window[r], why, sizeof why);
        if (status == STATUS_NO)
            log_note("rank %d does not reach the device of rank %d (%s): data goes through memory "
                     "of the host",
                     comm_rank(plane->comm), r, why);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status meet(struct peer *peer, size_t bytes) {
    struct plane *plane = &peer->plane;
    struct comm_group *world = comm_world(plane->comm);
    struct device_card own = {0};
    SCOPED_FREE struct device_card *cards = MEM_ARRAY(struct device_card, comm_size(plane->comm));
    TRY(comm_agree(world,
                   reach_of(plane->device)->window_new(plane->device, bytes, &peer->own, &own)));
    TRY(comm_exchange(world, &own, sizeof own, cards));
    return comm_agree(world, reach_all(peer, cards));
}

static enum status peer_open(const struct plane_config *config, struct plane **out) {
    struct peer *peer = MEM_NEW(struct peer);
    peer->plane = (struct plane){.device = config->device, .comm = config->comm};
    peer->window = MEM_ARRAY(struct device_window, comm_size(config->comm));
    enum status status = meet(peer, config->bytes);
    if (status != STATUS_OK) {
        peer_close(&peer->plane);
        return status;
    }
    peer->plane.memory = peer->own.memory;
    peer->plane.bytes = config->bytes;
    *out = &peer->plane;
    return STATUS_OK;
}

static enum status peer_group_new(struct plane_group *group) {
    if (group->count <= TREE_MOST) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--comm peer adds over at most %d ranks, a group has %d\n  --comm shm", TREE_MOST,
                group->count);
}

/* --- operations --- */

static const struct device_window *window_of(const struct plane_request *request, int member) {
    return &peer_of(request->group->plane)->window[request->group->rank[member]];
}

/* Element `at` of a member's data. */
static char *place_of(const struct plane_request *request, int member, int64_t at) {
    return window_of(request, member)->memory + request->all[member].offset +
           (size_t)at * dtype_bytes(request->op.data.dtype);
}

/* This member's slice of the sum, to all members or to itself. */
static enum status add_slice(const struct plane_request *request, bool to_all) {
    const struct plane_group *group = request->group;
    struct device *device = group->plane->device;
    struct tree_terms terms = {.terms = group->count, .dtype = request->op.data.dtype};
    int64_t begin;
    comm_slice_of(group->count, request->op.data.count, group->member, &begin, &terms.count);
    if (terms.count == 0) return STATUS_OK;
    for (int m = 0; m < group->count; m++) terms.term[m] = place_of(request, m, begin);
    for (int m = 0; m < group->count; m++)
        if (to_all || m == group->member) terms.out[terms.outs++] = place_of(request, m, begin);
    return reach_of(device)->array_tree(device, &terms, group->plane->stream);
}

static enum status fetch(const struct plane_request *request, int from, int64_t begin,
                         int64_t count) {
    const struct plane_group *group = request->group;
    struct device *device = group->plane->device;
    if (from == group->member || count == 0) return STATUS_OK;
    return device->backend->array_copy(
        device, place_of(request, group->member, begin), place_of(request, from, begin),
        (size_t)count * dtype_bytes(request->op.data.dtype), group->plane->stream);
}

static enum status fetch_slices(const struct plane_request *request) {
    const struct plane_group *group = request->group;
    for (int m = 0; m < group->count; m++) {
        int64_t begin, count;
        comm_slice_of(group->count, request->op.data.count, m, &begin, &count);
        TRY(fetch(request, m, begin, count));
    }
    return STATUS_OK;
}

static enum status do_part(const struct plane_request *request) {
    switch (request->op.kind) {
    case PLANE_ALL_REDUCE: return add_slice(request, true);
    case PLANE_REDUCE_SCATTER: return add_slice(request, false);
    case PLANE_ALL_GATHER: return fetch_slices(request);
    default: return fetch(request, request->op.root, 0, request->op.data.count);
    }
}

static void await_events(const struct plane_request *request, bool done) {
    const struct plane_group *group = request->group;
    const struct backend *backend = group->plane->device->backend;
    for (int m = 0; m < group->count; m++) {
        if (m == group->member) continue;
        const struct device_window *window = window_of(request, m);
        backend->stream_wait_event(group->plane->stream, done ? window->done : window->ready);
    }
}

static enum status peer_tell(struct plane *plane) {
    plane->device->backend->event_record(peer_of(plane)->own.ready, plane->stream);
    return STATUS_OK;
}

static enum status peer_launch(struct plane_request *request) {
    struct plane *plane = request->group->plane;
    await_events(request, false);
    TRY(do_part(request));
    plane->device->backend->event_record(peer_of(plane)->own.done, plane->stream);
    return STATUS_OK;
}

static enum status peer_end(struct plane_request *request) {
    await_events(request, true);
    return STATUS_OK;
}

/* --- messages --- */

static enum status peer_follow(struct plane *plane, int rank) {
    if (rank != comm_rank(plane->comm))
        plane->device->backend->stream_wait_event(plane->stream,
                                                  peer_of(plane)->window[rank].ready);
    return STATUS_OK;
}

static enum status peer_fetch(struct plane *plane, int rank, uint64_t offset, void *to,
                              size_t bytes) {
    const struct device_window *window = &peer_of(plane)->window[rank];
    if (offset > window->bytes || bytes > window->bytes - offset)
        return fail(STATUS_BUG, "a message of %zu bytes at %llu: rank %d has %zu", bytes,
                    (unsigned long long)offset, rank, window->bytes);
    return plane->device->backend->array_copy(plane->device, to, window->memory + offset, bytes,
                                              plane->stream);
}

const struct plane_ops plane_peer = {
    .name = "peer",
    .exists = peer_exists,
    .open = peer_open,
    .close = peer_close,
    .group_new = peer_group_new,
    .tell = peer_tell,
    .launch = peer_launch,
    .end = peer_end,
    .follow = peer_follow,
    .fetch = peer_fetch,
};
