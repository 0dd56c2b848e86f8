/* One rank of a small job that only talks: every collective, a channel, each checked against its
 * definition; it then prints a hash of all results, which must not depend on the communicator. For
 * communicators that need a launcher of their own (mpirun).
 *
 *     wire-probe COMMUNICATOR BOARD [differ|die|silent|late|leave|vanish]
 *
 * Rank and size come from WIRE_RANK and WIRE_SIZE, or from Open MPI's or MPICH's variables. BOARD
 * is a file all ranks map: it serves as the control plane. With `differ` the last rank asks for
 * another sum than the others; with `die` it kills itself in the middle and the status table says
 * so, as a launcher would; with `silent` it lives on there and says no more; with `late` it comes
 * to its end long after the others; with `leave` the shared memory says that it is lost while the
 * others, in peace, wait for it at the close; with `vanish` it kills itself after the close. Ranks
 * 2i and 2i+1 name the same host. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/comm/trial.h"
#include "base/hash.h"
#include "base/log.h"

enum { COUNT = 400003, ROUNDS = 3 };

static int from_environment(const char *const name[3]) {
    for (int i = 0; i < 3; i++)
        if (getenv(name[i])) return (int)strtol(getenv(name[i]), NULL, 10);
    return -1;
}

static struct trial_shared *map_shared(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    struct trial_shared *shared = MAP_FAILED;
    if (file >= 0 && ftruncate(file, sizeof *shared) == 0)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shared != MAP_FAILED, "no shared memory at %s", path);
    atomic_store(&shared->lost, -1); /* by each at its start; nobody dies before all have met */
    return shared;
}

static float tree_value(int begin, int count, int64_t i) {
    int half = 1;
    if (count == 1) return trial_value(begin, i);
    while (2 * half < count) half *= 2;
    return tree_value(begin, half, i) + tree_value(begin + half, count - half, i);
}

static enum status check(const float *data, int64_t begin, int64_t count, int size) {
    for (int64_t i = begin; i < begin + count; i++) {
        float value = tree_value(0, size, i);
        if (memcmp(&value, &data[i], sizeof value) != 0)
            return fail(STATUS_NUMERIC, "element %lld is %a, not %a", (long long)i, (double)data[i],
                        (double)value);
    }
    return STATUS_OK;
}

static void fill(float *data, int rank) {
    for (int64_t i = 0; i < COUNT; i++) data[i] = trial_value(rank, i);
}

static enum status sums(struct comm *comm, float *data, int64_t count, uint64_t *hash) {
    struct comm_group *world = comm_world(comm);
    struct comm_request *request;
    fill(data, comm_rank(comm));
    TRY(comm_all_reduce(world, data, count, &request));
    TRY(comm_wait(&request));
    TRY(check(data, 0, count, comm_size(comm)));
    *hash = hash64(*hash, data, (size_t)count * sizeof *data);
    fill(data, comm_rank(comm));
    TRY(comm_reduce_scatter(world, data, count, &request));
    TRY(comm_wait(&request));
    TRY(comm_all_gather(world, data, count, &request));
    TRY(comm_wait(&request));
    TRY(check(data, 0, count, comm_size(comm)));
    TRY(comm_broadcast(world, comm_size(comm) - 1, data, (size_t)count, &request));
    TRY(comm_wait(&request));
    *hash = hash64(*hash, data, (size_t)count * sizeof *data);
    return STATUS_OK;
}

static enum status circle(struct comm *comm, struct comm_channel *out, struct comm_channel *in) {
    int before = (comm_rank(comm) + comm_size(comm) - 1) % comm_size(comm);
    for (int i = 0; i < 500; i++) {
        int word[25] = {i, comm_rank(comm)};
        void *data;
        TRY(comm_channel_send(out, word));
        TRY(comm_channel_receive(in, &data));
        memcpy(word, data, sizeof word);
        if (word[0] != i || word[1] != before)
            return fail(STATUS_NUMERIC, "message %d of rank %d, not %d of %d", word[0], word[1], i,
                        before);
        TRY(comm_channel_release(in));
    }
    return STATUS_OK;
}

/* Says no more to the others, and whether they have closed all the same. */
static void leave(struct trial_shared *shared, int size) {
    sleep(1);
    atomic_store(&shared->lost, size - 1);
    for (int i = 0; i < 1200 && atomic_load(&shared->note[0]) < size - 1; i++) usleep(100000);
    if (atomic_load(&shared->note[0]) == size - 1) printf("the others have closed\n");
    fflush(stdout);
    _exit(0);
}

static enum status talk(struct comm *comm, struct trial_shared *shared, const char *what) {
    static const int64_t counts[] = {0, 1, 1025, 50000, COUNT};
    struct comm_channel *channel[TRIAL_MOST];
    struct comm_request *request;
    int size = comm_size(comm), rank = comm_rank(comm);
    bool odd = rank == size - 1;
    uint64_t hash = HASH64_START;
    float *data;
    TRY(comm_alloc(comm, COUNT * sizeof *data, "data", (void **)&data));
    for (int r = 0; r < size; r++)
        TRY(comm_channel_new(comm, r, (r + 1) % size, r, 100, 3, &channel[r]));
    if (strcmp(what, "differ") == 0) {
        TRY(comm_all_reduce(comm_world(comm), data, odd ? 999 : 40000, &request));
        TRY(comm_wait(&request));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            TRY(sums(comm, data, counts[i], &hash));
        TRY(circle(comm, channel[rank], channel[(rank + size - 1) % size]));
        if (strcmp(what, "die") == 0 && odd) {
            atomic_store(&shared->lost, rank);
            raise(SIGKILL);
        }
        if (strcmp(what, "silent") == 0 && odd) leave(shared, size);
    }
    TRY(comm_agree(comm_world(comm), STATUS_OK));
    if (strcmp(what, "late") == 0 && odd) sleep(2);
    if (strcmp(what, "leave") == 0 && odd) leave(shared, size);
    printf("rank %d of %d: %016" PRIx64 "\n", rank, size, hash);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    static const char *const ranks[] = {"WIRE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    static const char *const sizes[] = {"WIRE_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    CHECK(argc >= 3, "wire-probe COMMUNICATOR BOARD [differ|die|silent|late|leave|vanish]");
    struct trial_shared *shared = map_shared(argv[2]);
    struct comm_link link = trial_link(shared);
    struct comm *comm = NULL;
    char host[32];
    struct comm_config config = {.rank = from_environment(ranks),
                                 .size = from_environment(sizes),
                                 .link = &link,
                                 .heap_bytes = COUNT * sizeof(float),
                                 .channel_bytes = 65536,
                                 .host = host};
    snprintf(host, sizeof host, "host-%d", config.rank / 2);
    if (strcmp(argv[1], "shm") == 0) config.host = "one";
    enum status status = comm_open(argv[1], &config, &comm);
    if (status == STATUS_OK) status = talk(comm, shared, argc > 3 ? argv[3] : "");
    comm_close(&comm);
    atomic_fetch_add(&shared->note[0], 1);
    if (argc > 3 && strcmp(argv[3], "vanish") == 0 && config.rank == config.size - 1)
        raise(SIGKILL);
    return status_exit_code(status);
}
