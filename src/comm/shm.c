/* Ranks on one machine, as threads or processes: opening, sleeping, channels.
 *
 * A rank sleeps on one word of its own area, whatever it waits for. It sets the word, looks once
 * more at all it waits for, and sleeps while the word is set; whoever changes something looks at
 * the word after the change. All of these are sequentially consistent, so one of the two sees the
 * other. A peer that does not sleep costs the other side one read. */
#include "comm/shm.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "comm/ring.h"

enum { SPINS = 1000 };

/* --- areas --------------------------------------------------------------------------------- */

size_t shm_area_bytes(const struct shm_areas *areas, int rank) {
    return sizeof(struct shm_area) + areas->sizes[rank].heap + areas->sizes[rank].channels;
}

bool shm_sizes_fit(const struct comm_sizes *sizes) {
    size_t area_bytes;
    return !__builtin_add_overflow(sizes->heap, sizes->channels, &area_bytes) &&
           !__builtin_add_overflow(area_bytes, sizeof(struct shm_area), &area_bytes) &&
           area_bytes <= PTRDIFF_MAX;
}

enum status shm_areas_new(int size, const struct comm_sizes *sizes, struct shm_areas **out) {
    char text[TEXT_BYTES];
    if (!shm_sizes_fit(sizes))
        return fail(STATUS_MEMORY, "out of memory: a shared heap of %s is too large",
                    text_size((int64_t)(sizes->heap / 2 + sizes->channels / 2), text));
    size_t bytes = sizeof(struct shm_areas) + (size_t)size * sizeof(struct shm_area *);
    struct shm_areas *areas = mem_new(bytes);
    atomic_init(&areas->users, size);
    atomic_init(&areas->aborted, -1);
    areas->size = size;
    areas->shared_before = mem_shared_bytes();
    areas->sizes = MEM_ARRAY(struct comm_sizes, size);
    for (int rank = 0; rank < size; rank++) areas->sizes[rank] = *sizes;
    *out = areas;
    return STATUS_OK;
}

void shm_areas_leave(struct shm_areas *areas) {
    if (atomic_fetch_sub(&areas->users, 1) > 1) return;
    for (int rank = 0; rank < areas->size; rank++)
        if (areas->area[rank]) munmap(areas->area[rank], shm_area_bytes(areas, rank));
    free(areas->sizes);
    free(areas);
}

size_t shm_areas_foreign(const struct shm_areas *areas, const char *own) {
    size_t mine = areas->shared_before, all = mem_shared_bytes();
    if (areas->threads) return 0;
    for (int rank = 0; rank < areas->size; rank++)
        if (areas->area[rank]->heap == own)
            mine += mem_resident_in(areas->area[rank], shm_area_bytes(areas, rank));
    return all > mine ? all - mine : 0;
}

static struct comm *handle_new(struct shm_areas *areas, int rank) {
    struct shm *shm = MEM_NEW(struct shm);
    shm->comm.ops = &comm_shm;
    shm->comm.heap = areas->area[rank]->heap;
    shm->comm.sizes = areas->sizes;
    shm->comm.spins = areas->size <= machine_cores("").usable ? SPINS : 0;
    shm->areas = areas;
    return &shm->comm;
}

static enum status shm_open_processes(const struct comm_config *config, struct comm **out) {
    struct comm_sizes sizes = {config->heap_bytes, config->channel_bytes};
    struct shm_areas *areas;
    TRY(shm_areas_new(config->size, &sizes, &areas));
    atomic_store(&areas->users, 1);
    enum status status = shm_join(config, areas);
    if (status == STATUS_OK)
        *out = handle_new(areas, config->rank);
    else
        shm_areas_leave(areas);
    return status;
}

static size_t shm_foreign(const struct comm *comm) {
    return shm_areas_foreign(shm_of(comm)->areas, comm->heap);
}

static void shm_close(struct comm *comm) {
    shm_areas_leave(shm_of(comm)->areas);
    free(comm);
}

/* --- ranks as threads ---------------------------------------------------------------------- */

/* Not reserved: an area is mostly holes. Huge pages where the system grants them. */
static enum status map_plain_areas(struct shm_areas *areas) {
    char text[TEXT_BYTES];
    for (int rank = 0; rank < areas->size; rank++) {
        size_t bytes = shm_area_bytes(areas, rank);
        struct shm_area *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (area == MAP_FAILED)
            return fail(STATUS_MEMORY,
                        "out of memory: %s for the shared heap of rank %d were refused by the "
                        "system",
                        text_size((int64_t)bytes, text), rank);
        areas->area[rank] = area;
        madvise(area->heap, bytes - sizeof *area, MADV_HUGEPAGE); /* may not be */
    }
    return STATUS_OK;
}

static enum status open_handles(struct shm_areas *areas, struct comm **handle) {
    enum status status = STATUS_OK;
    for (int rank = 0; rank < areas->size; rank++) {
        struct comm_config config = {.rank = rank, .size = areas->size};
        handle[rank] = handle_new(areas, rank);
        if (status == STATUS_OK) status = comm_begin(handle[rank], &config);
    }
    return status;
}

enum status comm_open_threads(int size, size_t heap_bytes, size_t channel_bytes,
                              struct comm **out) {
    struct comm_sizes sizes = {comm_heap_bytes(heap_bytes), comm_heap_bytes(channel_bytes)};
    struct shm_areas *areas;
    CHECK(size >= 1, "%d ranks", size);
    TRY(shm_areas_new(size, &sizes, &areas));
    areas->threads = true;
    enum status status = map_plain_areas(areas);
    if (status != STATUS_OK) {
        atomic_store(&areas->users, 1);
        shm_areas_leave(areas);
        return status;
    }
    SCOPED_FREE struct comm **handle = MEM_ARRAY(struct comm *, size);
    status = open_handles(areas, handle);
    for (int rank = 0; rank < size && status != STATUS_OK; rank++) comm_close(&handle[rank]);
    if (status == STATUS_OK) memcpy(out, handle, (size_t)size * sizeof(struct comm *));
    return status;
}

/* --- sleeping ------------------------------------------------------------------------------ */

/* Not FUTEX_PRIVATE: sleeper and waker may be processes. */
static void futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *limit) {
    syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

void shm_wake(struct shm_areas *areas, int rank) {
    _Atomic uint32_t *asleep = &areas->area[rank]->asleep;
    if (atomic_load(asleep) && atomic_exchange(asleep, 0)) futex(asleep, FUTEX_WAKE, 1, NULL);
}

static void shm_arm(struct comm *comm, bool on) {
    atomic_store(&shm_of(comm)->areas->area[comm->rank]->asleep, on);
}

static void shm_rest(struct comm *comm, int64_t limit_ns) {
    struct timespec limit = {limit_ns / 1000000000, limit_ns % 1000000000};
    futex(&shm_of(comm)->areas->area[comm->rank]->asleep, FUTEX_WAIT, 1, &limit);
    shm_arm(comm, false);
}

/* Ranks of other processes hear of a loss through their own link; waking them does no harm. */
static void shm_abort(struct comm *comm, int rank) {
    struct shm_areas *areas = shm_of(comm)->areas;
    int none = -1;
    atomic_compare_exchange_strong(&areas->aborted, &none, rank);
    for (int i = 0; i < areas->size; i++) shm_wake(areas, i);
}

static int shm_aborted(const struct comm *comm) {
    return atomic_load(&shm_of(comm)->areas->aborted);
}

/* --- channels ------------------------------------------------------------------------------ */

static struct ring *ring_of(const struct comm_channel *channel) {
    return channel->state;
}

/* Each end writes down what it declared, for the other to compare. */
static enum status shm_channel_new(struct comm_channel *channel) {
    struct comm *comm = channel->comm;
    channel->state = shm_of(comm)->areas->area[channel->to]->heap + channel->offset;
    if (comm->rank == channel->from) atomic_store(&ring_of(channel)->hash[0], channel->hash);
    if (comm->rank == channel->to) atomic_store(&ring_of(channel)->hash[1], channel->hash);
    return STATUS_OK;
}

static enum status check_ends(struct comm_channel *channel) {
    bool sender = channel->comm->rank == channel->from;
    uint32_t other = atomic_load(&ring_of(channel)->hash[sender]);
    if (other && other != channel->hash) return comm_channel_misfit(channel);
    channel->agreed = other != 0;
    return STATUS_OK;
}

static enum status shm_try_send(struct comm_channel *channel, const struct comm_request *message,
                                bool *sent) {
    if (!channel->agreed) TRY(check_ends(channel));
    void *slot = ring_reserve(ring_of(channel), channel->bytes, channel->slots);
    if (slot) {
        comm_copy_pieces(message, slot);
        struct ring_head head = {(uint64_t)message->count, message->start_ns};
        ring_publish(ring_of(channel), &head, channel->slots);
        shm_wake(shm_of(channel->comm)->areas, channel->to);
    }
    *sent = slot != NULL;
    return STATUS_OK;
}

static enum status shm_try_receive(struct comm_channel *channel, uint64_t number, bool *come) {
    if (!channel->agreed) TRY(check_ends(channel));
    *come = ring_has(ring_of(channel), number);
    return STATUS_OK;
}

static void *shm_message(struct comm_channel *channel, uint64_t number, struct ring_head *head) {
    return ring_message(ring_of(channel), number, channel->bytes, channel->slots, head);
}

static void shm_release(struct comm_channel *channel) {
    ring_release(ring_of(channel));
    shm_wake(shm_of(channel->comm)->areas, channel->from);
}

const struct comm_ops comm_shm = {
    .name = "shm",
    .open = shm_open_processes,
    .close = shm_close,
    .foreign = shm_foreign,
    .group_new = shm_group_new,
    .group_choose = shm_group_choose,
    .channel_new = shm_channel_new,
    .post = shm_group_post,
    .progress = shm_group_progress,
    .awaits = shm_group_awaits,
    .arm = shm_arm,
    .rest = shm_rest,
    .abort = shm_abort,
    .aborted = shm_aborted,
    .try_send = shm_try_send,
    .try_receive = shm_try_receive,
    .message = shm_message,
    .release = shm_release,
};
