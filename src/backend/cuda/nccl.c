/* The plane `nccl`: NCCL moves the data; its order of sums is its own. Members find one another
 * through the communicator below. Groups of the same ranks have one of NCCL's communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"
#include "backend/plane_table.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/turn.h"

struct nccl {
    struct plane plane;
    size_t taken;
};

struct members {
    ncclComm_t comm;
    bool own; /* not that of an earlier group of the same ranks */
};

static enum status nccl_fail(ncclResult_t result, const char *what) {
    return fail(STATUS_BUG,
                "NCCL: %s at %s\n  NCCL_DEBUG=WARN makes it say more; --comm peer or shm does "
                "without it",
                cuda_call.ncclGetErrorString(result), what);
}
#define TRY_NCCL(call)                                                                             \
    do {                                                                                           \
        ncclResult_t nccl_result_ = cuda_call.call;                                                \
        if (nccl_result_ != ncclSuccess) return nccl_fail(nccl_result_, #call);                    \
    } while (0)

static bool nccl_exists(void) {
    char said[512];
    log_capture(said, sizeof said);
    bool opened = cuda_library_open(CUDA_LIBRARY_NCCL) == STATUS_OK;
    log_capture(NULL, 0);
    return opened;
}

/* --- opening --- */

/* NCCL takes two ranks for a mistake where GPU and host are the same. */
struct place {
    CUuuid uuid;
    uint64_t host;
};

static uint64_t host_hash(void) {
    char name[256] = "";
    const char *given = getenv("NCCL_HOSTID");
    gethostname(name, sizeof name - 1);
    if (!given) given = name;
    return hash64(HASH64_START, given, strlen(given));
}

/* All ranks find the same; the first one says it. */
static enum status refuse_twins(const struct place *places, int count, bool says) {
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++) {
            if (memcmp(&places[a], &places[b], sizeof *places) != 0) continue;
            if (!says) return STATUS_USAGE;
            return fail(STATUS_USAGE,
                        "--comm nccl: ranks %d and %d have the same GPU\n"
                        "  --comm peer takes several ranks a GPU; --device cuda:0,1 gives each "
                        "its own",
                        b, a);
        }
    return STATUS_OK;
}

static enum status check_places(const struct plane_config *config) {
    struct place own = {.host = host_hash()};
    int count = comm_size(config->comm);
    SCOPED_FREE struct place *places = MEM_ARRAY(struct place, count);
    TRY_CUDA(cuDeviceGetUuid(&own.uuid, cuda_device_of(config->device)->device));
    TRY(comm_exchange(comm_world(config->comm), &own, sizeof own, places));
    return refuse_twins(places, count, comm_rank(config->comm) == 0);
}

static enum status begin(const struct plane_config *config, struct nccl *nccl) {
    void *memory;
    if (config->interface) setenv("NCCL_SOCKET_IFNAME", config->interface, 0);
    TRY(config->device->backend->memory_new(config->device, config->bytes,
                                            "data that other ranks reach", &memory));
    nccl->taken = config->bytes;
    nccl->plane.memory = memory;
    nccl->plane.bytes = config->bytes;
    return STATUS_OK;
}

static void nccl_close(struct plane *plane) {
    struct nccl *nccl = (struct nccl *)plane;
    plane->device->backend->memory_free(plane->device, plane->memory, nccl->taken);
    free(nccl);
}

static enum status nccl_open(const struct plane_config *config, struct plane **out) {
    struct comm_group *world = comm_world(config->comm);
    bool first = comm_rank(config->comm) == 0; /* what it lacks others may lack too: said once */
    TRY(comm_agree(world, first ? cuda_library_open(CUDA_LIBRARY_NCCL) : STATUS_OK));
    TRY(comm_agree(world, cuda_library_open(CUDA_LIBRARY_NCCL)));
    TRY(check_places(config));
    struct nccl *nccl = MEM_NEW(struct nccl);
    nccl->plane.device = config->device;
    enum status status = comm_agree(world, begin(config, nccl));
    if (status != STATUS_OK) {
        nccl_close(&nccl->plane);
        return status;
    }
    *out = &nccl->plane;
    return STATUS_OK;
}

/* --- groups --- */

static struct members *members_of(const struct plane_group *group) {
    return group->state;
}

static ncclComm_t find_same(const struct plane_group *group) {
    for (const struct plane_group *at = group->plane->groups; at; at = at->next)
        if (at != group && at->state && at->count == group->count &&
            memcmp(at->rank, group->rank, (size_t)group->count * sizeof(int)) == 0)
            return members_of(at)->comm;
    return NULL;
}

static enum status join(struct plane_group *group, struct members *members) {
    ncclUniqueId own = {0};
    SCOPED_FREE ncclUniqueId *ids = MEM_ARRAY(ncclUniqueId, group->count);
    TRY(cuda_enter(cuda_device_of(group->plane->device)));
    if (group->member == 0) TRY_NCCL(ncclGetUniqueId(&own));
    TRY(comm_exchange(group->telling, &own, sizeof own, ids));
    TRY_NCCL(ncclCommInitRank(&members->comm, group->count, ids[0], group->member));
    return STATUS_OK;
}

static enum status nccl_group_new(struct plane_group *group) {
    struct members *members = MEM_NEW(struct members);
    members->comm = find_same(group);
    members->own = !members->comm;
    enum status status = members->own ? join(group, members) : STATUS_OK;
    group->state = members;
    return status;
}

static void nccl_group_free(struct plane_group *group) {
    struct members *members = members_of(group);
    if (members && members->own && members->comm) {
        if (group->plane->failed)
            cuda_call.ncclCommAbort(members->comm);
        else
            cuda_call.ncclCommDestroy(members->comm);
    }
    free(members);
}

static void nccl_abort(struct plane *plane) {
    for (struct plane_group *at = plane->groups; at; at = at->next) {
        struct members *members = members_of(at);
        if (members && members->own && members->comm) cuda_call.ncclCommAbort(members->comm);
        if (members) members->comm = NULL;
    }
}

/* --- operations --- */

/* NCCL hears of a peer that is gone before the link does, at times. */
static enum status fail_launch(const struct plane *plane, ncclResult_t result, const char *what) {
    enum { LOOKS = 30, NAP_NS = 100 * 1000 * 1000 };
    int64_t since_ns = clock_ns();
    for (int i = 0; i < LOOKS; i++) {
        TRY(comm_look(plane->comm, what, since_ns));
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return nccl_fail(result, what);
}
#define TRY_LAUNCH(plane, call)                                                                    \
    do {                                                                                           \
        ncclResult_t nccl_result_ = cuda_call.call;                                                \
        if (nccl_result_ != ncclSuccess) return fail_launch(plane, nccl_result_, #call);           \
    } while (0)

static ncclDataType_t type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? ncclFloat32 : dtype == DTYPE_BF16 ? ncclBfloat16 : ncclFloat16;
}

/* One member's slice: of the sum to that member, or of it to all. */
static enum status move_slice(const struct plane_request *request, int member, CUstream stream) {
    const struct plane_group *group = request->group;
    const struct elements *data = &request->op.data;
    ncclDataType_t type = type_of(data->dtype);
    int64_t begin, count;
    comm_slice_of(group->count, data->count, member, &begin, &count);
    char *at = (char *)data->data + (size_t)begin * dtype_bytes(data->dtype);
    ncclComm_t comm = members_of(group)->comm;
    if (count == 0) return STATUS_OK;
    if (request->op.kind == PLANE_REDUCE_SCATTER)
        TRY_LAUNCH(group->plane,
                   ncclReduce(at, at, (size_t)count, type, ncclSum, member, comm, stream));
    else
        TRY_LAUNCH(group->plane, ncclBroadcast(at, at, (size_t)count, type, member, comm, stream));
    return STATUS_OK;
}

/* Slices are whole blocks, so not all are as long. */
static enum status move_slices(const struct plane_request *request, CUstream stream) {
    enum status status = STATUS_OK;
    TRY_LAUNCH(request->group->plane, ncclGroupStart());
    for (int m = 0; m < request->group->count && status == STATUS_OK; m++)
        status = move_slice(request, m, stream);
    ncclResult_t ended = cuda_call.ncclGroupEnd();
    if (status == STATUS_OK && ended != ncclSuccess)
        return fail_launch(request->group->plane, ended, "ncclGroupEnd");
    return status;
}

static enum status nccl_launch(struct plane_request *request) {
    const struct plane_group *group = request->group;
    const struct elements *data = &request->op.data;
    CUstream stream = cuda_stream_of(group->plane->stream);
    ncclComm_t comm = members_of(group)->comm;
    size_t count = (size_t)data->count;
    TRY(cuda_enter(cuda_device_of(group->plane->device)));
    if (count == 0) return STATUS_OK;
    if (request->op.kind == PLANE_ALL_REDUCE)
        TRY_LAUNCH(group->plane, ncclAllReduce(data->data, data->data, count, type_of(data->dtype),
                                               ncclSum, comm, stream));
    else if (request->op.kind == PLANE_BROADCAST)
        TRY_LAUNCH(group->plane, ncclBroadcast(data->data, data->data, elements_bytes(data),
                                               ncclUint8, request->op.root, comm, stream));
    else
        return move_slices(request, stream);
    return STATUS_OK;
}

const struct plane_ops plane_nccl = {
    .name = "nccl",
    .one_order = true,
    .exists = nccl_exists,
    .open = nccl_open,
    .close = nccl_close,
    .group_new = nccl_group_new,
    .group_free = nccl_group_free,
    .launch = nccl_launch,
    .abort = nccl_abort,
};
