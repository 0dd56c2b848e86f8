/* How the data of one operation moves: three small state machines over counters that only grow.
 *
 *   owner    of its own slice: takes parts from a handler of every other host, adds, tells.
 *   handler  of another host's slice: gives its host's parts, takes the result, writes it to its
 *            neighbours. A result is asked for only after the part has left, since both live in the
 *            same memory.
 *   chain    of a broadcast: from host to host, each piece passed on as soon as it is here.
 *
 * Every byte of a host's heaps is touched by one of its ranks alone, so ranks that share memory
 * need no locks; they only wait for one another at the end (finish). A piece is small enough to
 * stay in the cache between arriving and being added. */
#include <string.h>

#include "comm/p2p.h"
#include "comm/tree_sum.h"

static bool reduces(const struct comm_request *request) {
    return request->kind == COMM_ALL_REDUCE || request->kind == COMM_REDUCE_SCATTER;
}

static bool gathers(const struct comm_request *request) {
    return request->kind == COMM_ALL_REDUCE || request->kind == COMM_ALL_GATHER;
}

/* Elements are bytes in a broadcast, else floats. */
static size_t element(const struct comm_request *request) {
    return request->kind == COMM_BROADCAST ? 1 : sizeof(float);
}

static int64_t piece_of(const struct comm_request *request) {
    return p2p_group_of(request->group)->piece * (int64_t)(sizeof(float) / element(request));
}

struct piece {
    int64_t at, count; /* in elements of the data */
};

static struct piece get_piece(const struct comm_request *request, const struct p2p_job *job,
                              int64_t number) {
    int64_t piece = piece_of(request), left = job->count - number * piece;
    return (struct piece){job->begin + number * piece, left < piece ? left : piece};
}

static void set_range(const struct comm_request *request, struct p2p_job *job, int64_t begin,
                      int64_t count) {
    int64_t piece = piece_of(request);
    job->begin = begin;
    job->count = count;
    job->pieces = (count + piece - 1) / piece;
    job->given = job->gone = job->asked = job->ready = job->told = 0;
    for (int e = 0; e < job->end_count; e++)
        for (int w = 0; w < P2P_WINDOW; w++)
            job->end[e].out[w].done = job->end[e].in[w].done = true;
}

static void send(const struct comm_request *request, struct p2p_end *end, enum p2p_phase phase,
                 const void *data, int64_t count, int64_t number) {
    struct p2p_transport *transport = p2p_of(request->group->comm)->transport;
    transport->ops->send(transport, end->rank, p2p_group_stream(request->group, phase), data,
                         (size_t)count * element(request), &end->out[number % P2P_WINDOW]);
}

static void receive(const struct comm_request *request, struct p2p_end *end, enum p2p_phase phase,
                    void *data, int64_t count, int64_t number) {
    struct p2p_transport *transport = p2p_of(request->group->comm)->transport;
    transport->ops->receive(transport, end->rank, p2p_group_stream(request->group, phase), data,
                            (size_t)count * element(request), &end->in[number % P2P_WINDOW]);
}

static bool all_out(const struct p2p_job *job, int64_t number) {
    for (int e = 0; e < job->end_count; e++)
        if (!job->end[e].out[number % P2P_WINDOW].done) return false;
    return true;
}

static bool all_in(const struct p2p_job *job, int64_t number) {
    for (int e = 0; e < job->end_count; e++)
        if (!job->end[e].in[number % P2P_WINDOW].done) return false;
    return true;
}

static bool all_sent(const struct p2p_job *job) {
    for (int w = 0; w < P2P_WINDOW; w++)
        if (!all_out(job, w)) return false;
    return true;
}

/* Copies a piece of this rank to its neighbours. */
static void spread(const struct comm_request *request, struct piece piece) {
    const struct p2p_group *state = p2p_group_of(request->group);
    size_t size = element(request), at = (size_t)piece.at * size;
    const char *from = (const char *)state->leaf[request->group->member] + at;
    for (int i = 0; i < state->local_count; i++)
        if (state->local[i] != request->group->member)
            memcpy((char *)state->leaf[state->local[i]] + at, from, (size_t)piece.count * size);
}

/* --- sums ------------------------------------------------------------------------------------ */

enum { BLOCK = 1024 };

struct sum {
    const struct comm_request *request;
    const struct p2p_job *job;
    struct piece piece;
    int window;
    int64_t in; /* where in the piece the block begins */
};

static const struct p2p_end *end_of(const struct sum *sum, int host) {
    const struct p2p_end *end = sum->job->end;
    while (end->host != host) end++;
    return end;
}

/* A block of the tree's sum over members [begin, end); `node` goes through the subtrees in order.
 */
static void sum_block(const struct sum *sum, int begin, int end, int64_t count,
                      const struct p2p_node **node, float *out) {
    const struct p2p_group *state = p2p_group_of(sum->request->group);
    float left[BLOCK], right[BLOCK], *both[] = {left, right};
    int half = 1;
    if ((*node)->begin == begin && (*node)->end == end) {
        const struct p2p_node *own = (*node)++;
        int64_t at = sum->piece.at + sum->in;
        if (state->leaf[begin]) {
            comm_tree_sum(state->leaf + begin, end - begin, at, count, out);
        } else {
            const float *part = end_of(sum, own->host)->staging[sum->window];
            memcpy(out, part + own->number * sum->piece.count + sum->in,
                   (size_t)count * sizeof *out);
        }
        return;
    }
    while (2 * half < end - begin) half *= 2;
    sum_block(sum, begin, begin + half, count, node, left);
    sum_block(sum, begin + half, end, count, node, right);
    comm_tree_sum(both, 2, 0, count, out);
}

/* Leaves are read at `at` alone before it is written. */
static void sum_piece(const struct comm_request *request, const struct p2p_job *job,
                      int64_t number) {
    struct comm_group *group = request->group;
    struct piece piece = get_piece(request, job, number);
    for (int64_t in = 0; in < piece.count; in += BLOCK) {
        struct sum sum = {request, job, piece, (int)(number % P2P_WINDOW), in};
        const struct p2p_node *node = p2p_group_of(group)->node;
        int64_t count = piece.count - in < BLOCK ? piece.count - in : BLOCK;
        sum_block(&sum, 0, group->count, count, &node, (float *)request->data + piece.at + in);
    }
    if (request->kind == COMM_ALL_REDUCE) spread(request, piece);
}

/* The sums of this host's subtrees, one after the other; from where it is when that is one leaf. */
static const float *make_parts(const struct comm_request *request, const struct p2p_job *job,
                               struct piece piece, int64_t number) {
    const struct p2p_group *state = p2p_group_of(request->group);
    float *out = job->end->staging[number % P2P_WINDOW];
    if (state->local_count == 1) return (const float *)request->data + piece.at;
    for (int i = 0; i < state->node_count; i++) {
        const struct p2p_node *node = &state->node[i];
        if (node->host != state->host[request->group->member]) continue;
        comm_tree_sum(state->leaf + node->begin, node->end - node->begin, piece.at, piece.count,
                      out + node->number * piece.count);
    }
    return out;
}

/* --- the three machines: each goes as far as it can; true when it is at its end -------------- */

static void ask_parts(const struct comm_request *request, struct p2p_job *job) {
    while (job->asked < job->pieces && job->asked < job->ready + P2P_WINDOW) {
        struct piece piece = get_piece(request, job, job->asked);
        for (int e = 0; e < job->end_count; e++)
            receive(request, &job->end[e], P2P_GIVE, job->end[e].staging[job->asked % P2P_WINDOW],
                    piece.count * job->end[e].nodes, job->asked);
        job->asked++;
    }
}

static void tell_results(const struct comm_request *request, struct p2p_job *job) {
    while (job->told < job->ready && all_out(job, job->told)) {
        struct piece piece = get_piece(request, job, job->told);
        for (int e = 0; e < job->end_count; e++)
            send(request, &job->end[e], P2P_RESULT, (float *)request->data + piece.at, piece.count,
                 job->told);
        job->told++;
    }
}

/* Results leave as soon as they are there; the next part is asked for as soon as it has room. */
static bool work_owner(const struct comm_request *request, struct p2p_job *job) {
    if (reduces(request)) ask_parts(request, job);
    if (gathers(request)) tell_results(request, job);
    while (job->ready < job->asked && all_in(job, job->ready)) {
        sum_piece(request, job, job->ready++);
        ask_parts(request, job);
        if (gathers(request)) tell_results(request, job);
    }
    return job->ready == job->pieces && (!gathers(request) || job->told == job->pieces) &&
           all_sent(job);
}

static void give_parts(const struct comm_request *request, struct p2p_job *job) {
    while (job->gone < job->given && all_out(job, job->gone)) job->gone++;
    while (job->given < job->pieces && job->given < job->gone + P2P_WINDOW) {
        struct piece piece = get_piece(request, job, job->given);
        send(request, job->end, P2P_GIVE, make_parts(request, job, piece, job->given),
             piece.count * job->end->nodes, job->given);
        job->given++;
        while (job->gone < job->given && all_out(job, job->gone)) job->gone++;
    }
}

static bool work_handler(const struct comm_request *request, struct p2p_job *job) {
    if (reduces(request)) give_parts(request, job);
    if (!gathers(request)) return job->gone == job->pieces;
    int64_t limit = reduces(request) ? job->gone : job->pieces;
    do {
        while (job->ready < job->asked && all_in(job, job->ready))
            spread(request, get_piece(request, job, job->ready++));
        if (job->asked == limit || job->asked == job->ready + P2P_WINDOW) break;
        struct piece piece = get_piece(request, job, job->asked);
        receive(request, job->end, P2P_RESULT, (float *)request->data + piece.at, piece.count,
                job->asked++);
    } while (true);
    return job->ready == job->pieces;
}

/* end[0] is where it comes from, end[1] where it goes; a rank of -1: nowhere. */
static bool work_chain(const struct comm_request *request, struct p2p_job *job) {
    struct p2p_end *from = &job->end[0], *to = &job->end[1];
    while (job->ready < job->pieces) {
        while (job->asked < job->pieces && job->asked < job->ready + P2P_WINDOW) {
            struct piece piece = get_piece(request, job, job->asked);
            if (from->rank >= 0)
                receive(request, from, P2P_GIVE, request->data + piece.at, piece.count, job->asked);
            job->asked++;
        }
        if (!from->in[job->ready % P2P_WINDOW].done) break;
        spread(request, get_piece(request, job, job->ready++));
    }
    while (to->rank >= 0 && job->told < job->ready && to->out[job->told % P2P_WINDOW].done) {
        struct piece piece = get_piece(request, job, job->told);
        send(request, to, P2P_GIVE, request->data + piece.at, piece.count, job->told++);
    }
    return job->ready == job->pieces && (to->rank < 0 || job->told == job->pieces) && all_sent(job);
}

/* --- broadcast: the order of hosts ----------------------------------------------------------- */

/* The k-th stop of the chain: the root, then the first member of every other host, in order. */
static int chain_rank(const struct comm_request *request, int stop) {
    const struct comm_group *group = request->group;
    const struct p2p_group *state = p2p_group_of(group);
    if (stop == 0) return group->rank[request->root];
    for (int m = 0; m < group->count; m++) {
        bool first = state->host[m] != state->host[request->root];
        for (int k = 0; k < m && first; k++) first = state->host[k] != state->host[m];
        if (first && --stop == 0) return group->rank[m];
    }
    return -1;
}

/* Members that are no stop have nothing to move. */
static void begin_chain(const struct comm_request *request, struct p2p_job *job) {
    int stop = 0, rank = request->group->comm->rank, at;
    while ((at = chain_rank(request, stop)) >= 0 && at != rank) stop++;
    job->end_count = 2;
    job->end[0].rank = at == rank && stop > 0 ? chain_rank(request, stop - 1) : -1;
    job->end[1].rank = at == rank ? chain_rank(request, stop + 1) : -1;
    set_range(request, job, 0, at == rank ? request->count : 0);
}

/* --- all together ---------------------------------------------------------------------------- */

static void begin_slices(const struct comm_request *request) {
    struct p2p_group *state = p2p_group_of(request->group);
    int64_t begin, count;
    comm_slice(request->group, request->count, request->group->member, &begin, &count);
    set_range(request, &state->owner, begin, count);
    if (!reduces(request)) { /* what is gathered is final already */
        spread(request, (struct piece){begin, count});
        state->owner.asked = state->owner.ready = state->owner.pieces;
    }
    for (int i = 0; i < state->handler_count; i++) {
        comm_slice(request->group, request->count, state->handler[i].slice, &begin, &count);
        set_range(request, &state->handler[i], begin, count);
    }
}

/* In any order, all ranks, and none shares memory with another: then the transport may add itself.
 */
static bool is_of_transport(const struct comm_request *request) {
    const struct p2p *p2p = p2p_of(request->group->comm);
    return request->kind == COMM_ALL_REDUCE && p2p->any_order && p2p->transport->ops->sum &&
           request->group->index == 0 && !p2p->team;
}

/* Members told where their data lies. */
static void find_leaves(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    struct p2p_group *state = p2p_group_of(group);
    for (int m = 0; m < group->count; m++) {
        char *heap = p2p_of(group->comm)->heap[group->rank[m]];
        state->leaf[m] = heap ? (float *)(heap + p2p_offset(request, m)) : NULL;
    }
}

void p2p_move_begin(struct comm_request *request) {
    struct p2p_group *state = p2p_group_of(request->group);
    struct p2p_transport *transport = p2p_of(request->group->comm)->transport;
    state->finish_told = false;
    find_leaves(request);
    if (is_of_transport(request))
        transport->ops->sum(transport, (float *)request->data, request->count, &state->sum);
    else if (request->kind == COMM_BROADCAST)
        begin_chain(request, &state->chain);
    else
        begin_slices(request);
}

/* Neighbours read and write one another's memory: nobody leaves before all are at their end. */
static bool finish(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    struct p2p_group *state = p2p_group_of(group);
    struct p2p_transport *transport = p2p_of(group->comm)->transport;
    uint32_t stream = p2p_group_stream(group, P2P_FINISH);
    bool all = true;
    for (int i = 0; i < state->local_count; i++) {
        int m = state->local[i];
        if (m == group->member) continue;
        if (!state->finish_told) {
            transport->ops->receive(transport, group->rank[m], stream, NULL, 0,
                                    &state->finish_received[m]);
            transport->ops->send(transport, group->rank[m], stream, NULL, 0,
                                 &state->finish_sent[m]);
        }
        all = all && state->finish_received[m].done && state->finish_sent[m].done;
    }
    state->finish_told = true;
    return all;
}

bool p2p_move_work(struct comm_request *request) {
    struct p2p_group *state = p2p_group_of(request->group);
    bool all = true;
    if (is_of_transport(request)) return state->sum.done;
    if (request->kind == COMM_BROADCAST) {
        all = work_chain(request, &state->chain);
    } else {
        for (int i = 0; i < state->handler_count; i++)
            all = work_handler(request, &state->handler[i]) && all;
        all = work_owner(request, &state->owner) && all;
    }
    return all && finish(request);
}

static int job_awaits(const struct p2p_job *job) {
    for (int e = 0; e < job->end_count; e++)
        for (int w = 0; w < P2P_WINDOW; w++)
            if (job->end[e].rank >= 0 && (!job->end[e].in[w].done || !job->end[e].out[w].done))
                return job->end[e].rank;
    return -1;
}

int p2p_move_awaits(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    const struct p2p_group *state = p2p_group_of(group);
    if (is_of_transport(request)) return -1;
    int rank = job_awaits(request->kind == COMM_BROADCAST ? &state->chain : &state->owner);
    for (int i = 0; i < state->handler_count && rank < 0 && request->kind != COMM_BROADCAST; i++)
        rank = job_awaits(&state->handler[i]);
    for (int i = 0; i < state->local_count && rank < 0 && state->finish_told; i++)
        if (state->local[i] != group->member && !state->finish_received[state->local[i]].done)
            rank = group->rank[state->local[i]];
    return rank;
}
