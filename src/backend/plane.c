/* See plane.h. */
#include "backend/plane.h"

#include <stdlib.h>
#include <string.h>

#include "backend/plane_table.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/turn.h"

enum { ALIGN = 64 };

static const struct plane_ops *const planes[] = {
#define PLANE(name) &plane_##name,
#include "comm/comm.def"
};

static const struct plane_ops *find(const char *name) {
    for (size_t i = 0; i < sizeof planes / sizeof *planes; i++)
        if (strcmp(planes[i]->name, name) == 0) return planes[i];
    return NULL;
}

bool plane_exists(const char *name) {
    const struct plane_ops *ops = find(name);
    return ops && ops->exists();
}

const char *plane_name(const struct plane *plane) {
    return plane->ops->name;
}

/* --- opening --- */

static enum status turn(void *context) {
    return plane_progress(context);
}

enum status plane_open(const char *name, const struct plane_config *config, struct plane **out) {
    const struct plane_ops *ops = find(name);
    struct plane *plane = NULL;
    CHECK(ops, "no plane %s", name);
    TRY(ops->open(config, &plane));
    plane->ops = ops;
    plane->device = config->device;
    plane->comm = config->comm;
    plane->stream = config->stream;
    comm_set_turn(plane->comm, turn, plane);
    *out = plane;
    return STATUS_OK;
}

static void free_requests(struct plane_request *request) {
    while (request) {
        struct plane_request *next = request->next;
        free(request->all);
        free(request);
        request = next;
    }
}

void plane_close(struct plane **pointer) {
    struct plane *plane = *pointer;
    if (!plane) return;
    comm_set_turn(plane->comm, NULL, NULL);
    while (plane->groups) {
        struct plane_group *group = plane->groups;
        plane->groups = group->next;
        if (plane->ops->group_free) plane->ops->group_free(group);
        free(group->rank);
        free(group);
    }
    free_requests(plane->first);
    free_requests(plane->spare);
    plane->ops->close(plane);
    *pointer = NULL;
}

enum status plane_alloc(struct plane *plane, size_t bytes, const char *what, void **out) {
    size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (rounded > plane->bytes - plane->used)
        return fail(STATUS_MEMORY,
                    "out of memory: %zu bytes for %s do not fit into what ranks share", bytes,
                    what);
    *out = plane->memory + plane->used;
    plane->used += rounded;
    return STATUS_OK;
}

enum status plane_group_new(struct plane *plane, const int *ranks, int count,
                            struct plane_group **out) {
    struct comm_group *telling, *ending;
    TRY(comm_group_new(plane->comm, ranks, count, &telling));
    TRY(comm_group_new(plane->comm, ranks, count, &ending));
    *out = NULL;
    if (comm_group_member(telling) < 0) return STATUS_OK;
    struct plane_group *group = MEM_NEW(struct plane_group);
    *group = (struct plane_group){.plane = plane,
                                  .next = plane->groups,
                                  .telling = telling,
                                  .ending = ending,
                                  .count = count,
                                  .member = comm_group_member(telling),
                                  .rank = MEM_ARRAY(int, count)};
    memcpy(group->rank, ranks, (size_t)count * sizeof *ranks);
    plane->groups = group;
    *out = group;
    return plane->ops->group_new ? plane->ops->group_new(group) : STATUS_OK;
}

/* --- posting --- */

static struct plane_request *take_request(struct plane_group *group) {
    struct plane *plane = group->plane;
    struct plane_request *request = plane->spare;
    if (request)
        plane->spare = request->next;
    else
        request = MEM_NEW(struct plane_request);
    if (request->room < group->count) {
        free(request->all);
        request->all = MEM_ARRAY(struct plane_told, group->count);
        request->room = group->count;
    }
    return request;
}

static void give_back(struct plane_request *request) {
    struct plane *plane = request->group->plane;
    request->next = plane->spare;
    plane->spare = request;
}

/* A member without elements has no memory either. */
static enum status find_offset(const struct plane *plane, const void *memory, size_t bytes,
                               uint64_t *out) {
    uintptr_t begin = (uintptr_t)plane->memory, data = (uintptr_t)memory;
    *out = 0;
    if (bytes == 0) return STATUS_OK;
    if (data < begin || data - begin > plane->used || bytes > plane->used - (data - begin))
        return fail(STATUS_BUG, "%zu bytes to move: not all of them lie in memory of plane_alloc",
                    bytes);
    *out = data - begin;
    return STATUS_OK;
}

enum status plane_post(struct plane_group *group, const struct plane_op *op,
                       struct plane_request **out) {
    struct plane *plane = group->plane;
    uint64_t offset;
    TRY(find_offset(plane, op->data.data, elements_bytes(&op->data), &offset));
    if (plane->ops->tell) TRY(plane->ops->tell(plane));
    struct plane_request *request = take_request(group);
    struct plane_told *all = request->all;
    int room = request->room;
    *request = (struct plane_request){
        .group = group, .op = *op, .all = all, .room = room, .stage = PLANE_QUEUED, .kept = true};
    request->own = (struct plane_told){.sequence = ++group->sequence,
                                       .offset = offset,
                                       .count = op->data.count,
                                       .kind = op->kind,
                                       .dtype = op->data.dtype,
                                       .root = op->root};
    if (plane->last)
        plane->last->next = request;
    else
        plane->first = request;
    plane->last = request;
    *out = request;
    return plane_progress(plane);
}

/* --- from stage to stage --- */

static const char *kind_name(int kind) {
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
    return kind >= 0 && kind < PLANE_KINDS ? names[kind] : "an unknown operation";
}

static enum status compare(const struct plane_request *request) {
    const struct plane_told *own = &request->own;
    for (int m = 0; m < request->group->count; m++) {
        const struct plane_told *other = &request->all[m];
        if (other->sequence == own->sequence && other->kind == own->kind &&
            other->count == own->count && other->dtype == own->dtype && other->root == own->root)
            continue;
        return fail(STATUS_BUG,
                    "ranks disagree: operation %llu is %s of %lld elements here, operation %llu is "
                    "%s of %lld on rank %d",
                    (unsigned long long)own->sequence, kind_name(own->kind), (long long)own->count,
                    (unsigned long long)other->sequence, kind_name(other->kind),
                    (long long)other->count, request->group->rank[m]);
    }
    return STATUS_OK;
}

static enum status begin_telling(struct plane_request *request) {
    request->stage = PLANE_TELLING;
    return comm_exchange_post(request->group->telling, &request->own, sizeof request->own,
                              request->all, &request->request);
}

static enum status launch(struct plane_request *request) {
    const struct plane_ops *ops = request->group->plane->ops;
    TRY(compare(request));
    TRY(ops->launch(request));
    request->stage = PLANE_DONE;
    if (!ops->end) return STATUS_OK;
    request->stage = PLANE_ENDING;
    return comm_barrier_post(request->group->ending, &request->request);
}

/* As far as it goes. */
static enum status move(struct plane_request *request) {
    bool done = true;
    if (request->stage == PLANE_QUEUED) TRY(begin_telling(request));
    if (request == request->group->plane->awaited) done = false;
    if (done && request->stage == PLANE_TELLING) {
        TRY(comm_test(&request->request, &done));
        if (done) TRY(launch(request));
    }
    if (done && request->stage == PLANE_ENDING) {
        TRY(comm_test(&request->request, &done));
        if (done) TRY(request->group->plane->ops->end(request));
        if (done) request->stage = PLANE_DONE;
    }
    return STATUS_OK;
}

/* Those at the front that are done leave; who asks for one still finds it. */
static void retire(struct plane *plane) {
    while (plane->first && plane->first->stage == PLANE_DONE) {
        struct plane_request *request = plane->first;
        plane->first = request->next;
        if (!plane->first) plane->last = NULL;
        if (!request->kept) give_back(request);
    }
}

/* One operation of a group is told at a time; where a device must have them all in one order, one
 * in all. */
static enum status move_all(struct plane *plane) {
    bool told = true; /* all before */
    for (struct plane_group *group = plane->groups; group; group = group->next) group->busy = false;
    for (struct plane_request *r = plane->first; r; r = r->next) {
        bool held_up = plane->ops->one_order ? !told : r->group->busy;
        if (r->stage != PLANE_DONE && !(held_up && r->stage == PLANE_QUEUED)) TRY(move(r));
        if (r->stage > PLANE_TELLING) continue;
        told = false;
        r->group->busy = true;
    }
    retire(plane);
    return STATUS_OK;
}

enum status plane_progress(struct plane *plane) {
    if (plane->failed || !plane->first) return STATUS_OK;
    enum status status = move_all(plane);
    plane->failed = status != STATUS_OK;
    return status;
}

/* --- asking --- */

static bool is_queued(const struct plane_request *request) {
    const struct plane_request *at = request->group->plane->first;
    while (at && at != request) at = at->next;
    return at;
}

static void drop(struct plane_request **request) {
    (*request)->kept = false;
    if (!is_queued(*request)) give_back(*request);
    *request = NULL;
}

enum status plane_test(struct plane_request **request, bool *done) {
    *done = true;
    if (!*request) return STATUS_OK;
    TRY(plane_progress((*request)->group->plane));
    *done = (*request)->stage == PLANE_DONE;
    if (*done) drop(request);
    return STATUS_OK;
}

/* The one whose stage is to end next for this one to go on. */
static struct plane_request *next_to_end(struct plane_request *request) {
    struct plane_request *at = request->group->plane->first;
    if (request->request) return request;
    while (at && !at->request) at = at->next;
    return at;
}

enum status plane_wait(struct plane_request **request) {
    enum status status = STATUS_OK;
    bool done = false;
    if (!*request) return STATUS_OK;
    struct plane *plane = (*request)->group->plane;
    while (status == STATUS_OK && !done) {
        status = plane_test(request, &done);
        if (status != STATUS_OK || done) break;
        struct plane_request *next = next_to_end(*request);
        CHECK(next, "nothing moves an operation on");
        plane->awaited = next;
        status = comm_wait(&next->request);
        plane->awaited = NULL;
    }
    return status;
}

/* --- messages --- */

bool plane_carries(const struct plane *plane) {
    return plane->ops->fetch;
}

enum status plane_offer(struct plane *plane, const void *memory, uint64_t *offset) {
    TRY(find_offset(plane, memory, 1, offset));
    return plane->ops->tell(plane);
}

enum status plane_follow(struct plane *plane, int rank) {
    return plane->ops->follow(plane, rank);
}

enum status plane_fetch(struct plane *plane, int rank, uint64_t offset, void *to, size_t bytes) {
    return bytes ? plane->ops->fetch(plane, rank, offset, to, bytes) : STATUS_OK;
}

/* --- lost ranks --- */

bool plane_waits(const struct plane *plane) {
    return plane && plane->ops->abort;
}

void plane_abort(struct plane *plane) {
    plane->failed = true;
    if (plane->ops->abort) plane->ops->abort(plane);
}
