/* Ranks on one machine: how the memory they share is laid out. Private to comm/shm*.c.
 *
 * Every rank has one area: a memfd that its peers map, or, for ranks as threads, plain memory.
 * Areas begin alike, but heaps and channels behind them may differ in size: a member of an
 * operation tells the others at which offset of its heap its data lies. The area is sparse: what is
 * not touched costs nothing. */
#ifndef COMM_SHM_H
#define COMM_SHM_H

#include "comm/table.h"

enum { SHM_GROUPS = 4096, SHM_IN_FLIGHT = 32, SHM_LINE = 64, SHM_PAGE = 4096 };

/* What a member says an operation is: all must say the same, but for the offset of its data. */
struct shm_fingerprint {
    uint64_t sequence, offset;
    int64_t count;
    uint32_t group_hash;
    uint16_t kind, root;
};

/* Who does an operation's chunks: whoever claims them first. Each member has a range of them and
 * counts the claims on it; member 0 counts what is finished of all. The words hold the low half of
 * the operation's sequence above the count, so an entry is as good as zero when its turn comes. */
struct shm_work {
    _Alignas(SHM_LINE) _Atomic uint64_t claimed;
    _Atomic uint64_t finished;
};

/* One member's part of a group. */
struct shm_block {
    _Alignas(SHM_LINE) _Atomic uint64_t posted;  /* sequence of the last operation shown */
    _Alignas(SHM_LINE) _Atomic uint64_t retired; /* of the last one this member has seen done */
    _Atomic uint64_t working;                    /* of the one it holds a chunk of, 0: none */
    _Alignas(SHM_LINE) struct shm_fingerprint fingerprint[SHM_IN_FLIGHT];
    struct shm_work work[SHM_IN_FLIGHT];
    _Alignas(SHM_PAGE) char exchange[2][COMM_EXCHANGE_BYTES];
};

struct shm_area {
    _Alignas(SHM_LINE) _Atomic uint32_t asleep; /* the futex of a rank */
    _Alignas(SHM_PAGE) struct shm_block block[SHM_GROUPS];
    char heap[]; /* channels behind it */
};

/* The areas as one process sees them; shared by the handles of all ranks of the process. */
struct shm_areas {
    _Atomic int users, aborted;
    int size;
    bool threads;             /* all ranks are of this process */
    size_t shared_before;     /* shared memory resident in this process before the areas */
    struct comm_sizes *sizes; /* of each rank */
    struct shm_area *area[];
};

struct shm {
    struct comm comm;
    struct shm_areas *areas;
};

static inline struct shm *shm_of(const struct comm *comm) {
    return (struct shm *)comm;
}

/* Local. For so many areas, none of which is mapped yet, of one size until it is known better; they
 * are unmapped with their last user. STATUS_MEMORY when such an area cannot be. */
enum status shm_areas_new(int size, const struct comm_sizes *sizes, struct shm_areas **out);
void shm_areas_leave(struct shm_areas *areas);
/* Local, reads a file. Resident bytes of all areas but one's own (whose heap is `own`); 0 where all
 * are of one process. */
size_t shm_areas_foreign(const struct shm_areas *areas, const char *own);
/* Local. Bytes of a rank's area; whether such sizes can be at all. */
bool shm_sizes_fit(const struct comm_sizes *sizes);
size_t shm_area_bytes(const struct shm_areas *areas, int rank);

/* Collective over the job, blocking: makes this rank's area and maps those of its peers. */
enum status shm_join(const struct comm_config *config, struct shm_areas *areas);

/* Local. Wakes a rank if it sleeps; to be called after the change it may wait for. */
void shm_wake(struct shm_areas *areas, int rank);

/* The collectives, in shm_group.c. */
enum status shm_group_new(struct comm_group *group);
void shm_group_choose(struct comm_group *group);
enum status shm_group_post(struct comm_group *group);
enum status shm_group_progress(struct comm_group *group);
int shm_group_awaits(const struct comm_request *request);

#endif
