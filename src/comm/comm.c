/* The communicator's front: the registry, and the wrappers that check every call before a table
 * sees it. Groups, the bookkeeping of heap and channels and requests live here, so that a table
 * only moves bytes; waits are in wait.c.
 *
 * A rank's heap is handed out to that rank alone. The buffers of channels lie behind it; every rank
 * keeps the books of all ranks' channels, so one that does not fit is refused on all of them by the
 * same call. */
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/ring.h"
#include "comm/table.h"
#include "tensor/tensor.h"

enum { HEAP_ALIGN = 64, HEAP_PAGE = 4096 };

static const struct comm_ops *const tables[] = {
#define COMMUNICATOR(name) &comm_##name,
#include "comm/comm.def"
};
enum { TABLE_COUNT = sizeof tables / sizeof *tables };

static const char *const names[] = {
#define COMMUNICATOR(name) #name,
#define MISSING(name) #name,
#define PLANE(name) #name,
#include "comm/comm.def"
    NULL};

const char *comm_name_at(int index) {
    return names[index];
}

static const struct {
    const char *name;
    enum dtype dtype;
} kinds[] = {
#define KIND(NAME, name, dtype) {#name, DTYPE_##dtype},
#include "comm/kind.def"
#undef KIND
};

const char *comm_kind_name(enum comm_kind kind) {
    return kinds[kind].name;
}

const char *comm_request_text(const struct comm_request *request, char text[COMM_TEXT_BYTES]) {
    if (request->channel) return comm_channel_request_text(request, text);
    snprintf(text, COMM_TEXT_BYTES, "%s of %lld %s (operation %llu of group %d)",
             kinds[request->kind].name, (long long)request->count,
             request->kind == COMM_BROADCAST || request->kind == COMM_EXCHANGE
                 ? "bytes"
                 : dtype_name(kinds[request->kind].dtype),
             (unsigned long long)request->sequence, request->group->index);
    return text;
}

/* --- opening ------------------------------------------------------------------------------- */

static enum status fail_unknown(const char *name) {
    char known[256] = "";
    for (int i = 0, used = 0; i < TABLE_COUNT && used < (int)sizeof known; i++)
        used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "",
                         tables[i]->name);
    return fail(STATUS_USAGE, "communicator \"%s\" is not known\nthis build has: %s", name, known);
}

static const struct comm_ops *find(const char *name) {
    for (int i = 0; i < TABLE_COUNT; i++)
        if (strcmp(tables[i]->name, name) == 0) return tables[i];
    return NULL;
}

bool comm_exists(const char *name) {
    return find(name) != NULL;
}

enum status comm_begin(struct comm *comm, const struct comm_config *config) {
    struct comm_group *world;
    comm->rank = config->rank;
    comm->size = config->size;
    comm->link = config->link;
    comm->spins_now = comm->spins;
    comm->blamed = COMM_NOBODY;
    comm->channel_used = arena_new(&comm->arena, (size_t)comm->size * sizeof(size_t));
    int *all = arena_new(&comm->arena, (size_t)comm->size * sizeof(int));
    for (int rank = 0; rank < comm->size; rank++) all[rank] = rank;
    return comm_group_new(comm, all, comm->size, &world);
}

void comm_set_link(struct comm *comm, const struct comm_link *link) {
    comm->link = link;
}

/* Whole pages, so that both ends are aligned. */
size_t comm_heap_bytes(size_t wanted) {
    size_t most = SIZE_MAX / 4; /* refused by the system, without overflow on the way */
    return wanted > most ? most / HEAP_PAGE * HEAP_PAGE
                         : (wanted + HEAP_PAGE - 1) / HEAP_PAGE * HEAP_PAGE;
}

enum status comm_open(const char *name, const struct comm_config *config, struct comm **out) {
    const struct comm_ops *table = find(name);
    struct comm *comm;
    if (!table) return fail_unknown(name);
    if (config->size < 1 || config->rank < 0 || config->rank >= config->size)
        return fail(STATUS_USAGE, "rank %d of %d ranks: a rank is from 0 to the number less one",
                    config->rank, config->size);
    struct comm_config rounded = *config;
    rounded.heap_bytes = comm_heap_bytes(config->heap_bytes);
    rounded.channel_bytes = comm_heap_bytes(config->channel_bytes);
    TRY(table->open(&rounded, &comm));
    enum status status = comm_begin(comm, &rounded);
    if (status == STATUS_OK && table->moves && comm->size > 1 && comm->threads)
        status = comm_thread_start(comm);
    if (status != STATUS_OK)
        comm_close(&comm);
    else
        *out = comm;
    return status;
}

size_t comm_overhead_bytes(const char *name, int size) {
    const struct comm_ops *table = find(name);
    return table && table->overhead ? table->overhead(size) : 0;
}

size_t comm_channel_overhead(const char *name, enum comm_side side, bool same_host, size_t bytes,
                             int slots) {
    const struct comm_ops *table = find(name);
    return table && table->channel_overhead ? table->channel_overhead(side, same_host, bytes, slots)
                                            : 0;
}

size_t comm_foreign_bytes(const struct comm *comm) {
    return comm->ops->foreign ? comm->ops->foreign(comm) : 0;
}

void comm_close(struct comm **comm) {
    struct comm *old = *comm;
    *comm = NULL;
    if (!old) return;
    comm_thread_stop(old);
    struct arena arena = old->arena;
    free(old->group);
    free(old->active);
    free(old->active_channel);
    old->ops->close(old);
    arena_free(&arena);
}

void comm_abort(struct comm *comm, int rank) {
    comm->ops->abort(comm, rank);
}

void comm_set_hooks(struct comm *comm, const struct comm_hooks *hooks) {
    PROGRESS_THREAD_GUARD(comm);
    comm->hooks = hooks ? *hooks : (struct comm_hooks){0};
}

int comm_rank(const struct comm *comm) {
    return comm->rank;
}

int comm_size(const struct comm *comm) {
    return comm->size;
}

const char *comm_name(const struct comm *comm) {
    return comm->ops->name;
}

uint64_t comm_sent_bytes(const struct comm *comm) {
    return comm->sent_bytes;
}

int64_t comm_hidden_ns(struct comm *comm) {
    return comm_thread_busy_ns(comm);
}

/* --- groups -------------------------------------------------------------------------------- */

static enum status check_members(const struct comm *comm, const int *ranks, int count) {
    CHECK(count >= 1, "a group of %d", count);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            return fail(STATUS_BUG, "group %zu has member %d, the ranks are 0 to %d",
                        comm->group_count, ranks[i], comm->size - 1);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return fail(STATUS_BUG, "group %zu has rank %d twice", comm->group_count, ranks[i]);
    }
    return STATUS_OK;
}

/* Of group->rank. */
static void find_member(struct comm_group *group) {
    group->hash = crc32c(0, group->rank, (size_t)group->count * sizeof *group->rank);
    group->member = -1;
    for (int i = 0; i < group->count; i++)
        if (group->rank[i] == group->comm->rank) group->member = i;
}

static enum status group_new(struct comm *comm, const int *ranks, int count, bool chosen,
                             struct comm_group **out) {
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    TRY(check_members(comm, ranks, count));
    struct comm_group *group = arena_new(&comm->arena, sizeof *group);
    size_t bytes = (size_t)count * sizeof *ranks;
    *group = (struct comm_group){
        .comm = comm, .index = (int)comm->group_count, .count = count, .most = count};
    group->rank = memcpy(arena_new(&comm->arena, bytes), ranks, bytes);
    if (chosen) group->all = memcpy(arena_new(&comm->arena, bytes), ranks, bytes);
    find_member(group);
    TRY(comm->ops->group_new(group));
    comm->group =
        mem_grow(comm->group, &comm->group_capacity, comm->group_count + 1, sizeof *comm->group);
    comm->group[comm->group_count++] = group;
    *out = group;
    return STATUS_OK;
}

enum status comm_group_new(struct comm *comm, const int *ranks, int count,
                           struct comm_group **out) {
    return group_new(comm, ranks, count, false, out);
}

enum status comm_group_new_chosen(struct comm *comm, const int *ranks, int count,
                                  struct comm_group **out) {
    return group_new(comm, ranks, count, true, out);
}

/* Sequences follow from the number, so they grow on every rank, whichever choices it is in. */
void comm_group_choose(struct comm_group *group, const int *places, int count, uint64_t number) {
    PROGRESS_THREAD_GUARD(group->comm);
    uint64_t before = number * COMM_CHOSEN_OPERATIONS;
    CHECK(group->all && !group->first, "group %d cannot get other members now", group->index);
    CHECK(before >= group->sequence && count >= 1 && count <= group->most,
          "choice %llu of %d members follows operation %llu", (unsigned long long)number, count,
          (unsigned long long)group->sequence);
    for (int i = 0; i < count; i++) {
        CHECK(places[i] >= 0 && places[i] < group->most && (i == 0 || places[i - 1] < places[i]),
              "member %d of group %d is its rank %d", i, group->index, places[i]);
        group->rank[i] = group->all[places[i]];
    }
    group->count = count;
    group->sequence = before;
    find_member(group);
    CHECK(group->member >= 0, "rank %d is not chosen", group->comm->rank);
    if (group->comm->ops->group_choose) group->comm->ops->group_choose(group);
}

struct comm_group *comm_world(struct comm *comm) {
    return comm->group[0];
}

int comm_group_count(const struct comm_group *group) {
    return group->count;
}

int comm_group_member(const struct comm_group *group) {
    return group->member;
}

int comm_group_rank(const struct comm_group *group, int member) {
    return group->rank[member];
}

void comm_slice_of(int members, int64_t count, int member, int64_t *begin, int64_t *slice_count) {
    int64_t blocks = (count + COMM_SLICE_BLOCK - 1) / COMM_SLICE_BLOCK;
    int64_t each = blocks / members, extra = blocks % members;
    int64_t first = each * member + (member < extra ? member : extra);
    int64_t from = first * COMM_SLICE_BLOCK;
    int64_t to = (first + each + (member < extra)) * COMM_SLICE_BLOCK;
    if (to > count) to = count;
    *begin = from < count ? from : count;
    *slice_count = to - *begin;
}

void comm_slice(const struct comm_group *group, int64_t count, int member, int64_t *begin,
                int64_t *slice_count) {
    comm_slice_of(group->count, count, member, begin, slice_count);
}

/* --- the heap ------------------------------------------------------------------------------ */

static size_t heap_bytes(const struct comm *comm) {
    return comm->sizes[comm->rank].heap;
}

static enum status fail_full(const struct comm *comm, size_t bytes, const char *what) {
    char wanted[TEXT_BYTES], have[TEXT_BYTES], all[TEXT_BYTES];
    return fail(STATUS_MEMORY,
                "out of memory: %s for %s do not fit into the shared heap of rank %d\n"
                "%s of its %s are in use",
                text_size((int64_t)bytes, wanted), what, comm->rank,
                text_size((int64_t)comm->heap_used, have),
                text_size((int64_t)heap_bytes(comm), all));
}

/* The size, rounded up, when it fits beside what is used. */
static bool fits(const struct comm *comm, size_t bytes, size_t *rounded) {
    if (bytes > heap_bytes(comm)) return false;
    *rounded = (bytes + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
    return comm->heap_used + *rounded <= heap_bytes(comm);
}

enum status comm_alloc(struct comm *comm, size_t bytes, const char *what, void **out) {
    size_t rounded;
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    if (!fits(comm, bytes, &rounded)) return fail_full(comm, bytes, what);
    *out = comm->heap + comm->heap_used;
    comm->heap_used += rounded;
    return STATUS_OK;
}

/* --- posting ------------------------------------------------------------------------------- */

static size_t request_bytes(const struct comm_request *request) {
    return (size_t)request->count * dtype_bytes(kinds[request->kind].dtype);
}

/* Data of collectives is in the heap; where, is told to the others. */
static enum status find_offset(struct comm_request *request) {
    const struct comm *comm = request->group->comm;
    uintptr_t heap = (uintptr_t)comm->heap, data = (uintptr_t)request->data;
    if (request->count == 0 || request->kind == COMM_EXCHANGE) return STATUS_OK;
    if (data < heap || data - heap > comm->heap_used ||
        request_bytes(request) > comm->heap_used - (data - heap))
        return fail(STATUS_BUG, "%s of %lld elements: not all of it lies in memory of comm_alloc",
                    kinds[request->kind].name, (long long)request->count);
    request->offset = data - heap;
    return STATUS_OK;
}

/* What this rank's even share of an operation sends, counted the same for every communicator. */
static uint64_t share_bytes(const struct comm_request *request) {
    const struct comm_group *group = request->group;
    uint64_t others = (uint64_t)group->count - 1;
    int64_t begin, count;
    comm_slice(group, request->count, group->member, &begin, &count);
    switch (request->kind) {
    case COMM_ALL_REDUCE: return 2 * others * (uint64_t)count * sizeof(float);
    case COMM_REDUCE_SCATTER: /* what is not its own, once */
        return ((uint64_t)request->count - (uint64_t)count) * sizeof(float);
    case COMM_ALL_GATHER: return others * (uint64_t)count * sizeof(float);
    case COMM_BROADCAST:
        return group->member == request->root ? others * request_bytes(request) : 0;
    default: return others * request_bytes(request);
    }
}

/* Both ends of a channel have a number, below those of groups. */
static struct comm_event event_of_channel(const struct comm_request *request) {
    const struct comm_channel *channel = request->channel;
    return (struct comm_event){.group = -1 - 2 * channel->index - (request->kind == COMM_RECEIVE),
                               .members = channel->from == channel->to ? 1 : 2,
                               .channel = channel->kind,
                               .peer = comm_channel_peer(request)};
}

static struct comm_event event_of(const struct comm_request *request) {
    struct comm_event event = {.peer = -1, .channel = -1};
    if (request->channel) {
        event = event_of_channel(request);
    } else {
        event.group = request->group->index;
        event.members = request->group->count;
    }
    event.kind = kinds[request->kind].name;
    event.sequence = request->sequence;
    event.bytes = request_bytes(request);
    event.begin_ns = request->begin_ns;
    event.start_ns = request->start_ns;
    return event;
}

void comm_finished(struct comm_request *request) {
    const struct comm_hooks *hooks = &request->comm->hooks;
    if (!hooks->after) return;
    struct comm_event event = event_of(request);
    event.end_ns = clock_ns();
    hooks->after(hooks->context, &event);
}

enum status comm_starts(struct comm_request *request) {
    const struct comm_hooks *hooks = &request->comm->hooks;
    if (hooks->before || hooks->after) request->begin_ns = clock_ns();
    if (!hooks->before) return STATUS_OK;
    struct comm_event event = event_of(request);
    return hooks->before(hooks->context, &event);
}

/* It keeps its room for pieces. */
struct comm_request *comm_request_new(const struct comm_request *wanted) {
    struct comm *comm = wanted->comm;
    struct comm_request *request = comm->spare;
    if (request)
        comm->spare = request->next;
    else
        request = arena_new(&comm->arena, sizeof *request);
    struct comm_piece *piece = request->piece;
    int capacity = request->piece_capacity;
    *request = *wanted;
    request->piece = piece;
    request->piece_capacity = capacity;
    return request;
}

uint64_t comm_request_sequence(const struct comm_request *request) {
    return request->sequence;
}

static struct comm_request *enqueue(const struct comm_request *wanted) {
    struct comm_group *group = wanted->group;
    struct comm *comm = group->comm;
    struct comm_request *request = comm_request_new(wanted);
    if (group->last) {
        group->last->next = request;
    } else {
        group->first = request;
        comm->active = mem_grow(comm->active, &comm->active_capacity, comm->active_count + 1,
                                sizeof *comm->active);
        comm->active[comm->active_count++] = group;
    }
    return group->last = request;
}

static enum status start(struct comm_request wanted, struct comm_request **out) {
    struct comm_group *group = wanted.group;
    struct comm *comm = group->comm;
    PROGRESS_THREAD_GUARD(comm);
    TRY(comm_check(comm));
    CHECK(group->member >= 0, "rank %d is no member of group %d", comm->rank, group->index);
    CHECK(!group->all || wanted.kind == COMM_ALL_REDUCE || wanted.kind == COMM_BARRIER,
          "%s of chosen members", kinds[wanted.kind].name);
    CHECK(wanted.count >= 0, "%s of %lld", kinds[wanted.kind].name, (long long)wanted.count);
    TRY(find_offset(&wanted));
    wanted.comm = comm;
    wanted.sequence = group->sequence + 1;
    TRY(comm_starts(&wanted));
    if (wanted.kind == COMM_EXCHANGE) wanted.turn = group->exchanges++;
    group->sequence++;
    comm->sent_bytes += share_bytes(&wanted);
    struct comm_request *request = enqueue(&wanted);
    TRY(comm->failed = comm->ops->post(group));
    comm_thread_wake(comm);
    *out = request;
    return STATUS_OK;
}

enum status comm_all_reduce(struct comm_group *group, float *data, int64_t count,
                            struct comm_request **out) {
    return start(
        (struct comm_request){
            .group = group, .kind = COMM_ALL_REDUCE, .data = (char *)data, .count = count},
        out);
}

enum status comm_reduce_scatter(struct comm_group *group, float *data, int64_t count,
                                struct comm_request **out) {
    return start(
        (struct comm_request){
            .group = group, .kind = COMM_REDUCE_SCATTER, .data = (char *)data, .count = count},
        out);
}

enum status comm_all_gather(struct comm_group *group, float *data, int64_t count,
                            struct comm_request **out) {
    return start(
        (struct comm_request){
            .group = group, .kind = COMM_ALL_GATHER, .data = (char *)data, .count = count},
        out);
}

enum status comm_broadcast(struct comm_group *group, int root, void *data, size_t bytes,
                           struct comm_request **out) {
    CHECK(root >= 0 && root < group->count, "root %d of %d members", root, group->count);
    return start((struct comm_request){.group = group,
                                       .kind = COMM_BROADCAST,
                                       .root = root,
                                       .data = data,
                                       .count = (int64_t)bytes},
                 out);
}

/* --- small things -------------------------------------------------------------------------- */

enum status comm_barrier_post(struct comm_group *group, struct comm_request **out) {
    return start((struct comm_request){.group = group, .kind = COMM_BARRIER}, out);
}

enum status comm_barrier(struct comm_group *group) {
    struct comm_request *request;
    TRY(comm_barrier_post(group, &request));
    return comm_wait(&request);
}

static bool exchanges_now(struct comm_group *group) {
    PROGRESS_THREAD_GUARD(group->comm);
    const struct comm_request *request = group->first;
    while (request && (request->kind != COMM_EXCHANGE || request->done)) request = request->next;
    return request;
}

enum status comm_exchange_post(struct comm_group *group, const void *mine, size_t bytes, void *all,
                               struct comm_request **out) {
    CHECK(!exchanges_now(group), "an exchange of group %d before the last one was done",
          group->index);
    CHECK(bytes <= COMM_EXCHANGE_BYTES, "an exchange of %zu bytes, the limit is %d", bytes,
          COMM_EXCHANGE_BYTES);
    return start((struct comm_request){.group = group,
                                       .kind = COMM_EXCHANGE,
                                       .give = mine,
                                       .take = all,
                                       .count = (int64_t)bytes},
                 out);
}

enum status comm_exchange(struct comm_group *group, const void *mine, size_t bytes, void *all) {
    struct comm_request *request;
    TRY(comm_exchange_post(group, mine, bytes, all, &request));
    return comm_wait(&request);
}

enum status comm_agree(struct comm_group *group, enum status mine) {
    int32_t *all = mem_array((size_t)group->count, sizeof *all), own = (int32_t)mine;
    enum status status = comm_exchange(group, &own, sizeof own, all);
    for (int i = 0; i < group->count && status == STATUS_OK; i++) {
        status = (enum status)all[i];
        if (status != STATUS_OK) comm_blame(group->comm, group->rank[i]);
    }
    free(all);
    return status;
}

void comm_blame(struct comm *comm, int rank) {
    if (comm->blamed == COMM_NOBODY) comm->blamed = rank;
}

int comm_blamed(const struct comm *comm) {
    return comm->blamed;
}
