/* What a group needs to know before its first operation: which subtrees of the fixed tree each host
 * holds, who handles which slice, and all buffers, so that nothing is allocated later. Every member
 * computes the plan of all from the same facts; nothing is exchanged.
 *
 * A slice's handler on a host is the member at index (slice mod members there): the work of a host
 * spreads over its members. */

#include "base/log.h"
#include "comm/p2p.h"

/* Floats of a piece: fewer where many members send at once, so that staging stays bounded. */
static int64_t piece_of(int members) {
    int64_t others = members > 1 ? members - 1 : 1;
    int64_t floats = P2P_STAGING_BYTES / (int64_t)sizeof(float) / (2 * P2P_WINDOW * others);
    floats = floats / COMM_SLICE_BLOCK * COMM_SLICE_BLOCK;
    return floats < P2P_PIECE_LEAST ? P2P_PIECE_LEAST
                                    : (floats > P2P_PIECE_MOST ? P2P_PIECE_MOST : floats);
}

/* Staging at its worst (every leaf a subtree of its own, each member handles as many slices as
 * there are members on other hosts), headers, and the library. */
size_t p2p_overhead_bytes(const struct p2p_transport_ops *transport, int members) {
    size_t others = (size_t)members - 1, window = P2P_WINDOW * sizeof(float);
    return 2 * others * window * (size_t)piece_of(members) +
           P2P_IN_FLIGHT * ((size_t)members + 1) * sizeof(struct p2p_header) +
           transport->overhead_bytes;
}

/* --- subtrees -------------------------------------------------------------------------------- */

static bool is_one_host(const struct p2p_group *state, int begin, int end) {
    for (int m = begin + 1; m < end; m++)
        if (state->host[m] != state->host[begin]) return false;
    return true;
}

static int number_on_host(const struct p2p_group *state, int host) {
    int number = 0;
    for (int i = 0; i < state->node_count; i++) number += state->node[i].host == host;
    return number;
}

/* In the order of the tree; the halves are those of tree.c. */
static void find_nodes(struct p2p_group *state, int begin, int end) {
    int half = 1;
    if (is_one_host(state, begin, end)) {
        int host = state->host[begin];
        state->node[state->node_count] =
            (struct p2p_node){begin, end, host, number_on_host(state, host)};
        state->node_count++;
        return;
    }
    while (2 * half < end - begin) half *= 2;
    find_nodes(state, begin, begin + half);
    find_nodes(state, begin + half, end);
}

/* --- who handles what ------------------------------------------------------------------------ */

/* The rank that handles a member's slice on a host. */
static int handler_rank(const struct comm_group *group, int slice, int host) {
    const struct p2p_group *state = p2p_group_of(group);
    int count = 0, wanted;
    for (int m = 0; m < group->count; m++) count += state->host[m] == host;
    wanted = slice % count;
    for (int m = 0; m < group->count; m++)
        if (state->host[m] == host && wanted-- == 0) return group->rank[m];
    return -1;
}

/* Whether member m is the first of its host. */
static bool is_first(const struct p2p_group *state, int m) {
    for (int k = 0; k < m; k++)
        if (state->host[k] == state->host[m]) return false;
    return true;
}

static float *take_spare(struct p2p_group *state, size_t floats) {
    CHECK(floats <= state->spare_count, "staging for %zu floats is missing", floats);
    return state->spare + (state->spare_count -= floats);
}

static void add_staging(struct comm_group *group, struct p2p_end *end) {
    struct p2p *p2p = p2p_of(group->comm);
    struct p2p_group *state = p2p_group_of(group);
    size_t floats = (size_t)end->nodes * (size_t)state->piece;
    for (int w = 0; w < P2P_WINDOW; w++)
        end->staging[w] =
            group->all ? take_spare(state, floats) : p2p_own(p2p, floats, sizeof(float));
}

static void plan_owner(struct comm_group *group) {
    struct p2p_group *state = p2p_group_of(group);
    struct p2p_task *task = &state->owner;
    task->slice = group->member;
    task->end_count = 0;
    for (int m = 0; m < group->count; m++) {
        int host = state->host[m];
        if (!is_first(state, m) || host == state->host[group->member]) continue;
        struct p2p_end *end = &task->end[task->end_count++];
        *end = (struct p2p_end){.rank = handler_rank(group, group->member, host),
                                .host = host,
                                .nodes = number_on_host(state, host)};
        add_staging(group, end);
    }
}

/* A lone leaf of this rank is sent from where it is. */
static void plan_handlers(struct comm_group *group) {
    struct p2p_group *state = p2p_group_of(group);
    int own = state->host[group->member];
    state->handler_count = 0;
    for (int m = 0; m < group->count; m++) {
        if (state->host[m] == own || handler_rank(group, m, own) != group->comm->rank) continue;
        struct p2p_task *task = &state->handler[state->handler_count];
        task->slice = m;
        task->end = &state->handler_end[state->handler_count++];
        task->end_count = 1;
        *task->end = (struct p2p_end){
            .rank = group->rank[m], .host = state->host[m], .nodes = state->own_nodes};
        if (state->local_count > 1) add_staging(group, task->end);
    }
}

static void plan_headers(struct comm_group *group) {
    struct p2p_group *state = p2p_group_of(group);
    struct p2p *p2p = p2p_of(group->comm);
    size_t count = (size_t)group->count;
    for (int e = 0; e < P2P_IN_FLIGHT; e++) {
        state->entry[e].header = p2p_own(p2p, count, sizeof(struct p2p_header));
        state->entry[e].sent = p2p_own(p2p, count, sizeof(struct p2p_transfer));
        state->entry[e].received = p2p_own(p2p, count, sizeof(struct p2p_transfer));
    }
    state->finish_sent = p2p_own(p2p, count, sizeof(struct p2p_transfer));
    state->finish_received = p2p_own(p2p, count, sizeof(struct p2p_transfer));
}

static void make_room(struct comm_group *group) {
    struct p2p_group *state = p2p_group_of(group);
    struct arena *arena = &group->comm->arena;
    size_t count = (size_t)group->most;
    state->host = arena_new(arena, count * sizeof *state->host);
    state->local = arena_new(arena, count * sizeof *state->local);
    state->leaf = arena_new(arena, count * sizeof *state->leaf);
    state->node = arena_new(arena, count * sizeof *state->node);
    state->owner.end = arena_new(arena, count * sizeof *state->owner.end);
    state->handler = arena_new(arena, count * sizeof *state->handler);
    state->handler_end = arena_new(arena, count * sizeof *state->handler_end);
    state->chain.end = arena_new(arena, 2 * sizeof(struct p2p_end));
}

static void plan_hosts(struct comm_group *group) {
    struct p2p *p2p = p2p_of(group->comm);
    struct p2p_group *state = p2p_group_of(group);
    state->local_count = state->node_count = 0;
    for (int m = 0; m < group->count; m++) {
        state->host[m] = p2p->host[group->rank[m]];
        if (state->host[m] == p2p->host[p2p->comm.rank]) state->local[state->local_count++] = m;
    }
    find_nodes(state, 0, group->count);
    state->own_nodes = number_on_host(state, p2p->host[p2p->comm.rank]);
}

/* Floats, at its worst: see p2p_overhead_bytes. */
static size_t most_staging(const struct comm_group *group) {
    size_t others = (size_t)group->most - 1;
    return 2 * others * P2P_WINDOW * (size_t)p2p_group_of(group)->piece + 1;
}

enum status p2p_group_new(struct comm_group *group) {
    struct p2p *p2p = p2p_of(group->comm);
    if (group->member < 0) return STATUS_OK;
    struct p2p_group *state = p2p_own(p2p, 1, sizeof *state);
    group->state = state;
    state->piece = piece_of(group->most);
    make_room(group);
    if (group->most > 1) plan_headers(group);
    if (group->all) state->spare = p2p_own(p2p, most_staging(group), sizeof *state->spare);
    p2p_group_choose(group);
    return STATUS_OK;
}

/* What is under way elsewhere of the members before is theirs; here nothing is. */
void p2p_group_choose(struct comm_group *group) {
    struct p2p_group *state = p2p_group_of(group);
    if (group->all) state->spare_count = most_staging(group);
    plan_hosts(group);
    if (group->count == 1) return;
    plan_owner(group);
    plan_handlers(group);
}
