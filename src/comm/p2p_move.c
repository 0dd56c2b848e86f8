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

static struct piece get_piece(const struct comm_request *request, const struct p2p_task *task,
                              int64_t number) {
    int64_t piece = piece_of(request), left = task->count - number * piece;
    return (struct piece){task->begin + number * piece, left < piece ? left : piece};
}

static void set_range(const struct comm_request *request, struct p2p_task *task, int64_t begin,
                      int64_t count) {
    int64_t piece = piece_of(request);
    task->begin = begin;
    task->count = count;
    task->pieces = (count + piece - 1) / piece;
    task->given = task->gone = task->asked = task->ready = task->told = 0;
    for (int e = 0; e < task->end_count; e++)
        for (int w = 0; w < P2P_WINDOW; w++)
            task->end[e].out[w].done = task->end[e].in[w].done = true;
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

static bool all_out(const struct p2p_task *task, int64_t number) {
    for (int e = 0; e < task->end_count; e++)
        if (!task->end[e].out[number % P2P_WINDOW].done) return false;
    return true;
}

static bool all_in(const struct p2p_task *task, int64_t number) {
    for (int e = 0; e < task->end_count; e++)
        if (!task->end[e].in[number % P2P_WINDOW].done) return false;
    return true;
}

static bool all_sent(const struct p2p_task *task) {
    for (int w = 0; w < P2P_WINDOW; w++)
        if (!all_out(task, w)) return false;
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
    const struct p2p_task *task;
    struct piece piece;
    int window;
    int64_t in; /* where in the piece the block begins */
};

static const struct p2p_end *end_of(const struct sum *sum, int host) {
    const struct p2p_end *end = sum->task->end;
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
static void sum_piece(const struct comm_request *request, const struct p2p_task *task,
                      int64_t number) {
    struct comm_group *group = request->group;
    struct piece piece = get_piece(request, task, number);
    for (int64_t in = 0; in < piece.count; in += BLOCK) {
        struct sum sum = {request, task, piece, (int)(number % P2P_WINDOW), in};
        const struct p2p_node *node = p2p_group_of(group)->node;
        int64_t count = piece.count - in < BLOCK ? piece.count - in : BLOCK;
        sum_block(&sum, 0, group->count, count, &node, (float *)request->data + piece.at + in);
    }
    if (request->kind == COMM_ALL_REDUCE) spread(request, piece);
}

/* The sums of this host's subtrees, one after the other; from where it is when that is one leaf. */
static const float *make_parts(const struct comm_request *request, const struct p2p_task *task,
                               struct piece piece, int64_t number) {
    const struct p2p_group *state = p2p_group_of(request->group);
    float *out = task->end->staging[number % P2P_WINDOW];
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

static void ask_parts(const struct comm_request *request, struct p2p_task *task) {
    while (task->asked < task->pieces && task->asked < task->ready + P2P_WINDOW) {
        struct piece piece = get_piece(request, task, task->asked);
        for (int e = 0; e < task->end_count; e++)
            receive(request, &task->end[e], P2P_GIVE,
                    task->end[e].staging[task->asked % P2P_WINDOW],
                    piece.count * task->end[e].nodes, task->asked);
        task->asked++;
    }
}

static void tell_results(const struct comm_request *request, struct p2p_task *task) {
    while (task->told < task->ready && all_out(task, task->told)) {
        struct piece piece = get_piece(request, task, task->told);
        for (int e = 0; e < task->end_count; e++)
            send(request, &task->end[e], P2P_RESULT, (float *)request->data + piece.at, piece.count,
                 task->told);
        task->told++;
    }
}

/* Results leave as soon as they are there; the next part is asked for as soon as it has room. */
static bool work_owner(const struct comm_request *request, struct p2p_task *task) {
    if (reduces(request)) ask_parts(request, task);
    if (gathers(request)) tell_results(request, task);
    while (task->ready < task->asked && all_in(task, task->ready)) {
        sum_piece(request, task, task->ready++);
        ask_parts(request, task);
        if (gathers(request)) tell_results(request, task);
    }
    return task->ready == task->pieces && (!gathers(request) || task->told == task->pieces) &&
           all_sent(task);
}

static void give_parts(const struct comm_request *request, struct p2p_task *task) {
    while (task->gone < task->given && all_out(task, task->gone)) task->gone++;
    while (task->given < task->pieces && task->given < task->gone + P2P_WINDOW) {
        struct piece piece = get_piece(request, task, task->given);
        send(request, task->end, P2P_GIVE, make_parts(request, task, piece, task->given),
             piece.count * task->end->nodes, task->given);
        task->given++;
        while (task->gone < task->given && all_out(task, task->gone)) task->gone++;
    }
}

static bool work_handler(const struct comm_request *request, struct p2p_task *task) {
    if (reduces(request)) give_parts(request, task);
    if (!gathers(request)) return task->gone == task->pieces;
    int64_t limit = reduces(request) ? task->gone : task->pieces;
    do {
        while (task->ready < task->asked && all_in(task, task->ready))
            spread(request, get_piece(request, task, task->ready++));
        if (task->asked == limit || task->asked == task->ready + P2P_WINDOW) break;
        struct piece piece = get_piece(request, task, task->asked);
        receive(request, task->end, P2P_RESULT, (float *)request->data + piece.at, piece.count,
                task->asked++);
    } while (true);
    return task->ready == task->pieces;
}

/* end[0] is where it comes from, end[1] where it goes; a rank of -1: nowhere. */
static bool work_chain(const struct comm_request *request, struct p2p_task *task) {
    struct p2p_end *from = &task->end[0], *to = &task->end[1];
    while (task->ready < task->pieces) {
        while (task->asked < task->pieces && task->asked < task->ready + P2P_WINDOW) {
            struct piece piece = get_piece(request, task, task->asked);
            if (from->rank >= 0)
                receive(request, from, P2P_GIVE, request->data + piece.at, piece.count,
                        task->asked);
            task->asked++;
        }
        if (!from->in[task->ready % P2P_WINDOW].done) break;
        spread(request, get_piece(request, task, task->ready++));
    }
    while (to->rank >= 0 && task->told < task->ready && to->out[task->told % P2P_WINDOW].done) {
        struct piece piece = get_piece(request, task, task->told);
        send(request, to, P2P_GIVE, request->data + piece.at, piece.count, task->told++);
    }
    return task->ready == task->pieces && (to->rank < 0 || task->told == task->pieces) &&
           all_sent(task);
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
static void begin_chain(const struct comm_request *request, struct p2p_task *task) {
    int stop = 0, rank = request->group->comm->rank, at;
    while ((at = chain_rank(request, stop)) >= 0 && at != rank) stop++;
    task->end_count = 2;
    task->end[0].rank = at == rank && stop > 0 ? chain_rank(request, stop - 1) : -1;
    task->end[1].rank = at == rank ? chain_rank(request, stop + 1) : -1;
    set_range(request, task, 0, at == rank ? request->count : 0);
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
           request->group->index == 0 && !p2p->areas;
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

static int task_awaits(const struct p2p_task *task) {
    for (int e = 0; e < task->end_count; e++)
        for (int w = 0; w < P2P_WINDOW; w++)
            if (task->end[e].rank >= 0 && (!task->end[e].in[w].done || !task->end[e].out[w].done))
                return task->end[e].rank;
    return -1;
}

int p2p_move_awaits(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    const struct p2p_group *state = p2p_group_of(group);
    if (is_of_transport(request)) return -1;
    int rank = task_awaits(request->kind == COMM_BROADCAST ? &state->chain : &state->owner);
    for (int i = 0; i < state->handler_count && rank < 0 && request->kind != COMM_BROADCAST; i++)
        rank = task_awaits(&state->handler[i]);
    for (int i = 0; i < state->local_count && rank < 0 && state->finish_told; i++)
        if (state->local[i] != group->member && !state->finish_received[state->local[i]].done)
            rank = group->rank[state->local[i]];
    return rank;
}
