/* Operations of a group over messages: who says what, agreement, order.
 *
 * When an operation is launched every member sends every other its fingerprint, with the data
 * behind it where that is small (an exchange, a few floats): then the headers are the operation,
 * one message time. Otherwise the pieces of p2p_move.c begin once all fingerprints are there and
 * equal; so no buffer is ever offered to a message of another length, and every member sees every
 * difference. Letters of a few operations travel ahead; their data moves one operation after the
 * other.
 *
 * A header that holds data is written when it is launched: an operation on memory that an earlier
 * one still changes is launched after that one. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "comm/p2p.h"
#include "comm/tree_sum.h"

static struct p2p_entry *entry_of(const struct comm_request *request) {
    return &p2p_group_of(request->group)->entry[request->sequence % P2P_IN_FLIGHT];
}

/* Bytes of the data in memory. */
static size_t data_bytes(const struct comm_request *request) {
    bool bytes = request->kind == COMM_BROADCAST || request->kind == COMM_EXCHANGE;
    return (size_t)request->count * (bytes ? 1 : sizeof(float));
}

/* Decided by what all members agree on. */
static bool is_small(const struct comm_request *request) {
    return data_bytes(request) <= COMM_EXCHANGE_BYTES;
}

/* --- launching ------------------------------------------------------------------------------- */

static bool overlap(const struct comm_request *a, const struct comm_request *b) {
    if (a->kind == COMM_EXCHANGE || b->kind == COMM_EXCHANGE) return false;
    return a->offset < b->offset + data_bytes(b) && b->offset < a->offset + data_bytes(a);
}

static bool is_held_up(const struct comm_request *request) {
    for (const struct comm_request *e = request->group->first; e != request; e = e->next)
        if (!e->done && (overlap(e, request) || e->sequence + P2P_IN_FLIGHT <= request->sequence))
            return true;
    return false;
}

/* What this member has to say: bytes of its header. */
static size_t write_header(const struct comm_request *request, struct p2p_header *header) {
    const struct comm_group *group = request->group;
    size_t bytes = data_bytes(request);
    header->fingerprint = (struct p2p_fingerprint){
        request->sequence, request->offset,         request->count,
        group->hash,       (uint16_t)request->kind, (uint16_t)request->root};
    if (!is_small(request) || bytes == 0 ||
        (request->kind == COMM_BROADCAST && request->root != group->member))
        return offsetof(struct p2p_header, data);
    memcpy(header->data, request->kind == COMM_EXCHANGE ? request->give : request->data, bytes);
    return offsetof(struct p2p_header, data) + bytes;
}

static void launch(struct comm_request *request) {
    struct comm_group *group = request->group;
    struct p2p_transport *transport = p2p_of(group->comm)->transport;
    struct p2p_entry *entry = entry_of(request);
    uint32_t stream = p2p_group_stream(group, P2P_HEADER);
    size_t bytes = write_header(request, &entry->mine);
    for (int i = 1; i < group->count; i++) {
        int m = (group->member + i) % group->count; /* not all to the first at once */
        transport->ops->receive(transport, group->rank[m], stream, &entry->header[m],
                                sizeof entry->header[m], &entry->received[m]);
        transport->ops->send(transport, group->rank[m], stream, &entry->mine, bytes,
                             &entry->sent[m]);
    }
}

enum status p2p_post(struct comm_group *group) {
    struct p2p_group *state = p2p_group_of(group);
    if (!state->unseen && group->last && !group->last->launched) state->unseen = group->last;
    while (state->unseen && !is_held_up(state->unseen)) {
        if (group->count > 1) launch(state->unseen);
        state->unseen->launched = true;
        state->unseen = state->unseen->next;
    }
    return STATUS_OK;
}

/* --- agreement ------------------------------------------------------------------------------- */

static const struct p2p_header *header_of(const struct comm_request *request, int member) {
    struct p2p_entry *entry = entry_of(request);
    return member == request->group->member ? &entry->mine : &entry->header[member];
}

size_t p2p_offset(const struct comm_request *request, int member) {
    return header_of(request, member)->fingerprint.offset;
}

/* Also that this rank's own headers have left: their memory is used again. */
static bool all_arrived(struct comm_request *request) {
    const struct p2p_entry *entry = entry_of(request);
    const struct comm_group *group = request->group;
    while (request->arrived < group->count &&
           (request->arrived == group->member ||
            (entry->received[request->arrived].done && entry->sent[request->arrived].done)))
        request->arrived++;
    return request->arrived == group->count;
}

static bool same(const struct p2p_fingerprint *a, const struct p2p_fingerprint *b) {
    return a->sequence == b->sequence && a->count == b->count && a->group_hash == b->group_hash &&
           a->kind == b->kind && a->root == b->root;
}

static const char *describe(const struct p2p_fingerprint *fingerprint, char text[COMM_TEXT_BYTES]) {
    bool bytes = fingerprint->kind == COMM_BROADCAST || fingerprint->kind == COMM_EXCHANGE;
    snprintf(text, COMM_TEXT_BYTES, "%s of %lld %s, root %d, members %08x",
             fingerprint->kind < COMM_KIND_COUNT ? comm_kind_name(fingerprint->kind)
                                                 : "nothing known",
             (long long)fingerprint->count, bytes ? "bytes" : "f32", fingerprint->root,
             fingerprint->group_hash);
    return text;
}

/* Every member compares all with member 0, so all come to the same verdict. */
static enum status check_fingerprints(struct comm_request *request) {
    const struct comm_group *group = request->group;
    const struct p2p_fingerprint *first = &header_of(request, 0)->fingerprint;
    char one[COMM_TEXT_BYTES], other[COMM_TEXT_BYTES];
    for (int m = 1; m < group->count && !request->checked; m++)
        if (!same(first, &header_of(request, m)->fingerprint))
            return fail(STATUS_BUG,
                        "ranks disagree about operation %llu of group %d\nrank %d: %s\nrank %d: %s",
                        (unsigned long long)request->sequence, group->index, group->rank[0],
                        describe(first, one), group->rank[m],
                        describe(&header_of(request, m)->fingerprint, other));
    request->checked = true;
    return STATUS_OK;
}

/* --- small operations: the headers are all there is ------------------------------------------ */

static void sum_headers(const struct comm_request *request, int64_t begin, int64_t count) {
    float *term[request->group->count];
    for (int m = 0; m < request->group->count; m++)
        term[m] = (float *)(uintptr_t)header_of(request, m)->data;
    comm_tree_sum(term, request->group->count, begin, count, (float *)request->data + begin);
}

static void gather_headers(const struct comm_request *request) {
    for (int m = 0; m < request->group->count; m++) {
        int64_t begin, count;
        comm_slice(request->group, request->count, m, &begin, &count);
        memcpy((float *)request->data + begin, (const float *)header_of(request, m)->data + begin,
               (size_t)count * sizeof(float));
    }
}

static void read_headers(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    size_t bytes = (size_t)request->count;
    int64_t begin, count;
    if (bytes == 0) return;
    switch (request->kind) {
    case COMM_ALL_REDUCE: sum_headers(request, 0, request->count); break;
    case COMM_REDUCE_SCATTER:
        comm_slice(group, request->count, group->member, &begin, &count);
        sum_headers(request, begin, count);
        break;
    case COMM_ALL_GATHER: gather_headers(request); break;
    case COMM_BROADCAST:
        memcpy(request->data, header_of(request, request->root)->data, bytes);
        break;
    case COMM_EXCHANGE:
        for (int m = 0; m < group->count; m++)
            memcpy((char *)request->take + (size_t)m * bytes, header_of(request, m)->data, bytes);
        break;
    default: break;
    }
}

/* --- progress -------------------------------------------------------------------------------- */

/* One member: every sum is the data itself. */
static void do_alone(struct comm_request *request) {
    if (request->kind == COMM_EXCHANGE && request->count > 0)
        memmove(request->take, request->give, (size_t)request->count);
    request->done = true;
}

static enum status move_on(struct comm_request *request) {
    if (request->group->count == 1) {
        do_alone(request);
        return STATUS_OK;
    }
    if (!all_arrived(request)) return STATUS_OK;
    TRY(check_fingerprints(request));
    if (is_small(request)) {
        read_headers(request);
        request->done = true;
        return STATUS_OK;
    }
    if (!request->worked) p2p_move_begin(request);
    request->worked = true;
    request->done = p2p_move_work(request);
    return STATUS_OK;
}

/* Whom an operation that is not done waits for. */
static int awaited(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    if (!request->launched || group->count == 1) return -1;
    if (request->worked) return p2p_move_awaits(request);
    for (int m = 0; m < group->count; m++)
        if (m != group->member &&
            !(entry_of(request)->received[m].done && entry_of(request)->sent[m].done))
            return group->rank[m];
    return -1;
}

enum status p2p_progress(struct comm_group *group) {
    struct p2p *p2p = p2p_of(group->comm);
    p2p->transport->ops->progress(p2p->transport);
    TRY(p2p_post(group));
    for (struct comm_request *r = group->first; r && r->launched; r = r->next) {
        if (!r->done) TRY(move_on(r));
        if (!r->done) return p2p_check_gone(p2p, awaited(r));
        TRY(p2p_post(group));
    }
    return STATUS_OK;
}

/* Operations are done in order: all wait for what the first one waits for. */
int p2p_awaits(const struct comm_request *request) {
    const struct comm_request *first = request->group->first;
    while (first && first != request && first->done) first = first->next;
    return awaited(first ? first : request);
}
