/* Collectives over shared memory, without helper threads.
 *
 * A rank posts an operation by writing down what it is and raising its counter. Once all members
 * have, the operation is cut into chunks, and whichever members have time claim chunks and do them:
 * read the chunk from all members, add in the order of the tree, write the result to all members at
 * once, so no second phase follows. A member that still computes is not waited for once it has
 * posted, and of 8 ranks on 2 cores only those that run do work. Who does a chunk changes no bit.
 * (Rejected: a fixed slice for each rank. It is as fast when all ranks wait, and as slow as the
 * slowest when one computes.)
 *
 * Operations of a group are checked and finished in order; work on a later one may begin before an
 * earlier one is finished, unless they touch the same memory. */
#include "comm/shm.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "comm/tree_sum.h"

/* A chunk is large enough that claiming it costs nothing, and small enough to spread well. */
enum { CHUNK_LEAST = 4096, CHUNK_MOST = 32768, CHUNKS_PER_MEMBER = 4 };
/* Chunks that are worth waking the threads of a rank for. */
enum { TEAM_CHUNKS = 8 };

/* An operation of chosen members that had an entry before; its members may still look at it. */
struct former {
    uint64_t sequence; /* 0: none */
    int count, *rank;
};

struct state {
    uint64_t everyone;           /* sequence up to which all members have retired, at least */
    struct former *former;       /* of each entry, where members are chosen; else NULL */
    struct comm_request *unseen; /* the first one not shown to the others yet */
    char **heap;                 /* of each member */
    float **data;                /* of each member: its data of the operation being worked on */
    struct shm_block *block[];   /* of each member */
};

static struct state *state_of(const struct comm_group *group) {
    return group->state;
}

enum status shm_group_new(struct comm_group *group) {
    size_t count = (size_t)group->count;
    if (group->index >= SHM_GROUPS)
        return fail(STATUS_USAGE, "more than %d groups of ranks\nshm has room for so many",
                    SHM_GROUPS);
    struct state *state =
        arena_new(&group->comm->arena, sizeof *state + count * sizeof(struct shm_block *));
    state->heap = arena_new(&group->comm->arena, count * sizeof(char *));
    state->data = arena_new(&group->comm->arena, count * sizeof(float *));
    if (group->all) {
        state->former = arena_new(&group->comm->arena, SHM_IN_FLIGHT * sizeof *state->former);
        for (int e = 0; e < SHM_IN_FLIGHT; e++)
            state->former[e].rank = arena_new(&group->comm->arena, count * sizeof(int));
    }
    group->state = state;
    shm_group_choose(group);
    return STATUS_OK;
}

void shm_group_choose(struct comm_group *group) {
    struct shm_areas *areas = shm_of(group->comm)->areas;
    struct state *state = state_of(group);
    for (int m = 0; m < group->count; m++) {
        struct shm_area *area = areas->area[group->rank[m]];
        state->block[m] = &area->block[group->index];
        state->heap[m] = area->heap;
    }
}

static void wake_members(const struct comm_group *group) {
    for (int m = 0; m < group->count; m++)
        if (m != group->member) shm_wake(shm_of(group->comm)->areas, group->rank[m]);
}

/* --- posting ------------------------------------------------------------------------------- */

/* Of chosen members each looks after its own entries: those who took part in the operation that had
 * one before were others. */
static bool has_own_room(const struct comm_group *group, uint64_t sequence) {
    const struct former *former = &state_of(group)->former[sequence % SHM_IN_FLIGHT];
    for (int i = 0; i < former->count; i++) {
        struct shm_area *area = shm_of(group->comm)->areas->area[former->rank[i]];
        if (atomic_load(&area->block[group->index].retired) < former->sequence) return false;
    }
    return true;
}

static void note_members(const struct comm_group *group, uint64_t sequence) {
    struct former *former = &state_of(group)->former[sequence % SHM_IN_FLIGHT];
    former->sequence = sequence;
    former->count = group->count;
    memcpy(former->rank, group->rank, (size_t)group->count * sizeof *former->rank);
}

/* Entries are used again after SHM_IN_FLIGHT operations: only once nobody needs the old ones. */
static bool has_room(const struct comm_group *group, uint64_t sequence) {
    struct state *state = state_of(group);
    if (state->former) return has_own_room(group, sequence);
    if (sequence <= state->everyone + SHM_IN_FLIGHT) return true;
    uint64_t least = UINT64_MAX;
    for (int m = 0; m < group->count; m++) {
        uint64_t retired = atomic_load(&state->block[m]->retired);
        if (retired < least) least = retired;
    }
    state->everyone = least;
    return sequence <= least + SHM_IN_FLIGHT;
}

static bool all_posted(struct comm_request *request) {
    const struct comm_group *group = request->group;
    while (request->arrived < group->count &&
           atomic_load(&state_of(group)->block[request->arrived]->posted) >= request->sequence)
        request->arrived++;
    return request->arrived == group->count;
}

/* The last to post sees that it is the last, and wakes those who wait for it. */
static void show(struct comm_request *request) {
    struct comm_group *group = request->group;
    struct shm_block *mine = state_of(group)->block[group->member];
    if (request->kind == COMM_EXCHANGE && request->count > 0)
        memcpy(mine->exchange[request->turn % 2], request->give, (size_t)request->count);
    mine->fingerprint[request->sequence % SHM_IN_FLIGHT] = (struct shm_fingerprint){
        request->sequence, request->offset,         request->count,
        group->hash,       (uint16_t)request->kind, (uint16_t)request->root};
    if (state_of(group)->former) note_members(group, request->sequence);
    atomic_store(&mine->posted, request->sequence);
    if (all_posted(request)) wake_members(group);
}

enum status shm_group_post(struct comm_group *group) {
    struct state *state = state_of(group);
    if (!state->unseen) state->unseen = group->last;
    while (state->unseen && has_room(group, state->unseen->sequence)) {
        show(state->unseen);
        state->unseen = state->unseen->next;
    }
    return STATUS_OK;
}

/* --- agreement ----------------------------------------------------------------------------- */

static bool same(const struct shm_fingerprint *a, const struct shm_fingerprint *b) {
    return a->sequence == b->sequence && a->count == b->count && a->group_hash == b->group_hash &&
           a->kind == b->kind && a->root == b->root;
}

static void describe(const struct shm_fingerprint *fingerprint, char text[COMM_TEXT_BYTES]) {
    bool bytes = fingerprint->kind == COMM_BROADCAST || fingerprint->kind == COMM_EXCHANGE;
    snprintf(text, COMM_TEXT_BYTES, "%s of %lld %s, root %d, members %08x",
             comm_kind_name(fingerprint->kind), (long long)fingerprint->count,
             bytes ? "bytes" : "f32", fingerprint->root, fingerprint->group_hash);
}

static enum status fail_mismatch(const struct comm_request *request, int member) {
    const struct comm_group *group = request->group;
    uint64_t entry = request->sequence % SHM_IN_FLIGHT;
    char first[COMM_TEXT_BYTES], other[COMM_TEXT_BYTES];
    describe(&state_of(group)->block[0]->fingerprint[entry], first);
    describe(&state_of(group)->block[member]->fingerprint[entry], other);
    return fail(STATUS_BUG,
                "ranks disagree about operation %llu of group %d\nrank %d: %s\nrank %d: %s",
                (unsigned long long)request->sequence, group->index, group->rank[0], first,
                group->rank[member], other);
}

/* Every member compares all with member 0, so all come to the same verdict. */
static enum status check_fingerprints(struct comm_request *request) {
    const struct state *state = state_of(request->group);
    uint64_t entry = request->sequence % SHM_IN_FLIGHT;
    if (request->checked) return STATUS_OK;
    for (int m = 1; m < request->group->count; m++)
        if (!same(&state->block[0]->fingerprint[entry], &state->block[m]->fingerprint[entry]))
            return fail_mismatch(request, m);
    request->checked = true;
    return STATUS_OK;
}

/* --- work ---------------------------------------------------------------------------------- */

/* How an operation is cut: `chunk` elements each, `each` chunks to a slice, `total` in all. */
struct cut {
    int64_t chunk, each, total;
};

static int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t chunk_of(const struct comm_group *group, int64_t floats) {
    int64_t chunk = divide_up(floats, (int64_t)group->count * CHUNKS_PER_MEMBER);
    chunk = divide_up(chunk, COMM_SLICE_BLOCK) * COMM_SLICE_BLOCK;
    return chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk > CHUNK_MOST ? CHUNK_MOST : chunk;
}

static struct cut cut_of(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    struct cut cut = {0};
    int64_t begin, largest;
    if (group->count == 1 || request->count == 0) return cut;
    switch (request->kind) {
    case COMM_ALL_REDUCE:
        cut.chunk = chunk_of(group, request->count);
        cut.total = divide_up(request->count, cut.chunk);
        break;
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_GATHER:
        cut.chunk = chunk_of(group, request->count);
        comm_slice(group, request->count, 0, &begin, &largest);
        cut.each = divide_up(largest, cut.chunk);
        cut.total = cut.each * group->count;
        break;
    case COMM_BROADCAST:
        cut.chunk = chunk_of(group, divide_up(request->count, sizeof(float))) * sizeof(float);
        cut.total = divide_up(request->count, cut.chunk);
        break;
    default: break;
    }
    return cut;
}

/* Copies bytes of the data of member `from` to all others. */
static void spread(const struct comm_group *group, int from, size_t at, size_t bytes) {
    const struct state *state = state_of(group);
    for (int m = 0; m < group->count; m++)
        if (m != from)
            memcpy((char *)state->data[m] + at, (const char *)state->data[from] + at, bytes);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Chunk `number` of an operation that goes by slices. */
static void do_slice_chunk(const struct comm_request *request, const struct cut *cut,
                           int64_t number) {
    const struct comm_group *group = request->group;
    struct state *state = state_of(group);
    int member = (int)(number / cut->each);
    int64_t begin, count, at = number % cut->each * cut->chunk;
    comm_slice(group, request->count, member, &begin, &count);
    count = smaller(cut->chunk, count - at);
    if (count <= 0) return;
    at += begin;
    if (request->kind == COMM_REDUCE_SCATTER)
        comm_tree_sum(state->data, group->count, at, count, state->data[member] + at);
    else
        spread(group, member, (size_t)at * sizeof(float), (size_t)count * sizeof(float));
}

static void do_chunk(const struct comm_request *request, const struct cut *cut, int64_t number) {
    const struct comm_group *group = request->group;
    int64_t at = number * cut->chunk, count = smaller(cut->chunk, request->count - at);
    if (request->kind == COMM_ALL_REDUCE)
        comm_tree_sum_all(state_of(group)->data, group->count, at, count);
    else if (request->kind == COMM_BROADCAST)
        spread(group, request->root, (size_t)at, (size_t)count);
    else
        do_slice_chunk(request, cut, number);
}

static struct shm_work *work_of(const struct comm_request *request, int member) {
    return &state_of(request->group)->block[member]->work[request->sequence % SHM_IN_FLIGHT];
}

/* The count in a word that holds the low half of a sequence above it; 0 when it is of an older
 * operation. */
static int64_t count_in(uint64_t word, uint64_t sequence) {
    return word >> 32 == (uint32_t)sequence ? (uint32_t)word : 0;
}

/* Adds to the count unless it has reached `limit`; returns the count before. */
static int64_t raise_count(_Atomic uint64_t *word, uint64_t sequence, int64_t more, int64_t limit) {
    uint64_t old = atomic_load(word);
    int64_t count;
    do {
        count = count_in(old, sequence);
        if (count >= limit) break;
    } while (!atomic_compare_exchange_weak(word, &old, sequence << 32 | (uint64_t)(count + more)));
    return count;
}

/* All that is left of one range of the chunks; returns how many that were. */
static int64_t claim_range(const struct comm_request *request, const struct cut *cut, int range,
                           int ranges) {
    int64_t begin = cut->total * range / ranges, end = cut->total * (range + 1) / ranges;
    _Atomic uint64_t *claimed = &work_of(request, range)->claimed;
    int64_t number, done = 0;
    while ((number = raise_count(claimed, request->sequence, 1, end - begin)) < end - begin) {
        do_chunk(request, cut, begin + number);
        done++;
    }
    return done;
}

/* One's own range first, so that in peace everyone works on the same slice each time, out of its
 * own cache and without a word that others write; then what others have left. */
static void claim_chunks(const struct comm_request *request, const struct cut *cut) {
    const struct comm_group *group = request->group;
    int ranges = (int)smaller(cut->total, group->count),
        own = group->member * ranges / group->count;
    int64_t done = 0;
    for (int i = 0; i < ranges; i++) done += claim_range(request, cut, (own + i) % ranges, ranges);
    if (done &&
        raise_count(&work_of(request, 0)->finished, request->sequence, done, cut->total) + done ==
            cut->total)
        wake_members(group);
}

/* Where a member said that its data lies. */
static size_t offset_of(const struct comm_request *request, int member) {
    const struct shm_block *block = state_of(request->group)->block[member];
    return block->fingerprint[request->sequence % SHM_IN_FLIGHT].offset;
}

static void do_work(struct comm_request *request) {
    struct comm_group *group = request->group;
    struct shm_block *mine = state_of(group)->block[group->member];
    struct cut cut = cut_of(request);
    request->worked = true;
    request->pieces = cut.total;
    if (cut.total == 0) return;
    for (int m = 0; m < group->count; m++)
        state_of(group)->data[m] = (float *)(state_of(group)->heap[m] + offset_of(request, m));
    atomic_store_explicit(&mine->working, request->sequence, memory_order_relaxed);
    if (cut.total >= TEAM_CHUNKS && omp_get_max_threads() > 1 && !omp_in_parallel()) {
#pragma omp parallel
        claim_chunks(request, &cut);
    } else {
        claim_chunks(request, &cut);
    }
    atomic_store_explicit(&mine->working, 0, memory_order_relaxed);
}

/* --- progress ------------------------------------------------------------------------------ */

/* Whoever works reads and writes the data of all members: those of any of them may overlap. All
 * have posted both. */
static bool overlap(const struct comm_request *a, const struct comm_request *b) {
    size_t size_a = (size_t)a->count * (a->kind == COMM_BROADCAST ? 1 : sizeof(float));
    size_t size_b = (size_t)b->count * (b->kind == COMM_BROADCAST ? 1 : sizeof(float));
    if (a->kind == COMM_EXCHANGE || b->kind == COMM_EXCHANGE) return false;
    for (int m = 0; m < a->group->count; m++) {
        size_t at_a = offset_of(a, m), at_b = offset_of(b, m);
        if (at_a < at_b + size_b && at_b < at_a + size_a) return true;
    }
    return false;
}

/* Whether an earlier operation of the group that is not finished has to do with the same memory. */
static bool is_held_up(const struct comm_request *request) {
    for (const struct comm_request *e = request->group->first; e != request; e = e->next)
        if (!e->done && overlap(e, request)) return true;
    return false;
}

static bool is_finished(const struct comm_request *request) {
    return request->pieces == 0 || count_in(atomic_load(&work_of(request, 0)->finished),
                                            request->sequence) == request->pieces;
}

static void take_exchange(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    size_t bytes = (size_t)request->count;
    for (int m = 0; m < group->count && bytes > 0; m++)
        memcpy((char *)request->take + (size_t)m * bytes,
               state_of(group)->block[m]->exchange[request->turn % 2], bytes);
}

/* Wakes those who have run so far ahead that they wait for this rank to let an entry go. */
static void finish(struct comm_request *request) {
    struct comm_group *group = request->group;
    if (request->kind == COMM_EXCHANGE) take_exchange(request);
    atomic_store(&state_of(group)->block[group->member]->retired, request->sequence);
    if (group->all || request->sequence % (SHM_IN_FLIGHT / 2) == 0) wake_members(group);
    request->done = true;
}

enum status shm_group_progress(struct comm_group *group) {
    bool in_order = true;
    if (state_of(group)->unseen) shm_group_post(group);
    for (struct comm_request *r = group->first; r != state_of(group)->unseen; r = r->next) {
        if (!all_posted(r)) break;
        TRY(check_fingerprints(r));
        if (!r->worked && is_held_up(r)) break;
        if (!r->worked) do_work(r);
        in_order = in_order && is_finished(r);
        if (in_order) finish(r);
    }
    return STATUS_OK;
}

int shm_group_awaits(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    const struct state *state = state_of(group);
    for (int m = 0; m < group->count; m++)
        if (atomic_load(&state->block[m]->posted) < request->sequence) return group->rank[m];
    for (int m = 0; m < group->count; m++)
        if (m != group->member && atomic_load(&state->block[m]->working) == request->sequence)
            return group->rank[m];
    return -1;
}
