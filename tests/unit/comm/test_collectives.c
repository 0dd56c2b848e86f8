/* Every collective on every communicator, for sizes around the block of a slice and counts of ranks
 * that are no power of two: sums must equal the definition of the fixed tree to the bit. The
 * definition is computed here level by level, unlike the recursion of the product. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "trial.h"

static const int64_t sizes[] = {0, 1, 1023, 1024, 1025, 100000};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes, MOST = 100000 };
static const int rank_counts[] = {1, 2, 3, 4, 5, 8};

/* The fixed tree of some values, which it uses up. */
static float tree(float *level, int count) {
    while (count > 1) {
        int next = 0;
        for (int i = 0; i < count; i += 2)
            level[next++] = i + 1 < count ? level[i] + level[i + 1] : level[i];
        count = next;
    }
    return level[0];
}

/* That of the values of the given ranks at an index. */
static float tree_value(const int *rank, int count, int64_t index) {
    float level[TRIAL_MOST];
    for (int i = 0; i < count; i++) level[i] = trial_value(rank[i], index);
    return tree(level, count);
}

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static void fill(float *data, int rank, int64_t count) {
    for (int64_t i = 0; i < count; i++) data[i] = trial_value(rank, i);
}

static const int everyone[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void run_everywhere(void (*body)(struct trial *, struct comm *), size_t heap_bytes) {
    for (int mode = 0; mode < TRIAL_MODE_COUNT; mode++)
        for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++) {
            if (mode == TRIAL_SELF && rank_counts[i] > 1) continue;
            if (!trial_mode_there((enum trial_mode)mode)) continue;
            struct trial trial = {.mode = (enum trial_mode)mode,
                                  .size = rank_counts[i],
                                  .heap_bytes = heap_bytes,
                                  .body = body,
                                  .killed = -1};
            const char *failure = trial_run(&trial);
            cr_assert(!failure, "%s", failure);
        }
}

static void all_reduce_body(struct trial *trial, struct comm *comm) {
    float *data;
    NEED(comm_alloc(comm, MOST * sizeof *data, "data", (void **)&data) == STATUS_OK);
    NEED((uintptr_t)data % 64 == 0);
    for (int s = 0; s < SIZE_COUNT; s++) {
        struct comm_request *request = NULL;
        fill(data, comm_rank(comm), sizes[s]);
        NEED(comm_all_reduce(comm_world(comm), data, sizes[s], &request) == STATUS_OK);
        NEED(comm_wait(&request) == STATUS_OK && !request);
        for (int64_t i = 0; i < sizes[s]; i++)
            NEED(same_bits(data[i], tree_value(everyone, trial->size, i)));
    }
}

Test(comm_collectives, all_reduce_is_the_fixed_tree) {
    run_everywhere(all_reduce_body, MOST * sizeof(float));
}

static void reduce_scatter_body(struct trial *trial, struct comm *comm) {
    struct comm_group *world = comm_world(comm);
    float *data;
    NEED(comm_alloc(comm, MOST * sizeof *data, "data", (void **)&data) == STATUS_OK);
    for (int s = 0; s < SIZE_COUNT; s++) {
        struct comm_request *request = NULL;
        int64_t begin, count;
        fill(data, comm_rank(comm), sizes[s]);
        NEED(comm_reduce_scatter(world, data, sizes[s], &request) == STATUS_OK);
        NEED(comm_wait(&request) == STATUS_OK);
        comm_slice(world, sizes[s], comm_group_member(world), &begin, &count);
        for (int64_t i = begin; i < begin + count; i++)
            NEED(same_bits(data[i], tree_value(everyone, trial->size, i)));
        /* What was scattered and is then gathered is the all-reduce. */
        NEED(comm_all_gather(world, data, sizes[s], &request) == STATUS_OK);
        NEED(comm_wait(&request) == STATUS_OK);
        for (int64_t i = 0; i < sizes[s]; i++)
            NEED(same_bits(data[i], tree_value(everyone, trial->size, i)));
    }
}

Test(comm_collectives, scatter_then_gather_is_all_reduce) {
    run_everywhere(reduce_scatter_body, MOST * sizeof(float));
}

static void broadcast_body(struct trial *trial, struct comm *comm) {
    unsigned char *data;
    NEED(comm_alloc(comm, MOST, "data", (void **)&data) == STATUS_OK);
    for (int s = 0; s < SIZE_COUNT; s++)
        for (int root = 0; root < trial->size; root++) {
            struct comm_request *request = NULL;
            for (int64_t i = 0; i < sizes[s]; i++)
                data[i] = (unsigned char)(i * 7 + comm_rank(comm) * 31);
            NEED(comm_broadcast(comm_world(comm), root, data, (size_t)sizes[s], &request) ==
                 STATUS_OK);
            NEED(comm_wait(&request) == STATUS_OK);
            for (int64_t i = 0; i < sizes[s]; i++)
                NEED(data[i] == (unsigned char)(i * 7 + root * 31));
        }
}

Test(comm_collectives, broadcast_from_every_root) {
    run_everywhere(broadcast_body, MOST);
}

static void exchange_body(struct trial *trial, struct comm *comm) {
    struct comm_group *world = comm_world(comm);
    unsigned char mine[COMM_EXCHANGE_BYTES], all[TRIAL_MOST * COMM_EXCHANGE_BYTES];
    static const size_t bytes[] = {0, 1, 8, 100, COMM_EXCHANGE_BYTES};
    for (int turn = 0; turn < 200; turn++) {
        size_t size = bytes[turn % 5];
        memset(mine, comm_rank(comm) * 16 + turn % 16, sizeof mine);
        NEED(comm_exchange(world, mine, size, all) == STATUS_OK);
        for (int r = 0; r < trial->size; r++)
            for (size_t i = 0; i < size; i++)
                NEED(all[(size_t)r * size + i] == (unsigned char)(r * 16 + turn % 16));
        /* Nobody passes a barrier before all have come to it. */
        atomic_fetch_add(&trial->shared->note[turn], 1);
        NEED(comm_barrier(world) == STATUS_OK);
        NEED(atomic_load(&trial->shared->note[turn]) == trial->size);
    }
    NEED(comm_agree(world, STATUS_OK) == STATUS_OK);
    enum status mine_status = comm_rank(comm) == trial->size / 2  ? STATUS_NUMERIC
                              : comm_rank(comm) > trial->size / 2 ? STATUS_DATA
                                                                  : STATUS_OK;
    NEED(comm_blamed(comm) == COMM_NOBODY);
    NEED(comm_agree(world, mine_status) == STATUS_NUMERIC);
    NEED(comm_blamed(comm) == trial->size / 2);
    NEED(comm_agree(world, STATUS_OK) == STATUS_OK);
}

Test(comm_collectives, exchange_barrier_agree) {
    run_everywhere(exchange_body, 0);
}

/* --- several in flight, in overlapping groups ---------------------------------------------- */

enum { FLIGHTS = 100, FLIGHT_COUNT = 3000 };

/* Groups of a job of 5: the even ones backwards, all but the first, a pair, one alone. */
static const int members[][5] = {{4, 2, 0}, {1, 2, 3, 4}, {3, 1}, {2}};
static const int member_counts[] = {3, 4, 2, 1};
enum { GROUPS = 4 };

static void flights_body(struct trial *trial, struct comm *comm) {
    struct comm_group *group[GROUPS];
    struct comm_request *request[FLIGHTS][GROUPS] = {{NULL}};
    float *data;
    NEED(comm_alloc(comm, FLIGHTS * GROUPS * FLIGHT_COUNT * sizeof *data, "data", (void **)&data) ==
         STATUS_OK);
    for (int g = 0; g < GROUPS; g++)
        NEED(comm_group_new(comm, members[g], member_counts[g], &group[g]) == STATUS_OK);
    /* More than fit into the shared ring, posted in an order that differs between ranks. */
    for (int f = 0; f < FLIGHTS; f++)
        for (int k = 0; k < GROUPS; k++) {
            int g = (k + comm_rank(comm)) % GROUPS;
            float *piece = data + (f * GROUPS + g) * FLIGHT_COUNT;
            fill(piece, comm_rank(comm), FLIGHT_COUNT);
            if (comm_group_member(group[g]) < 0) continue;
            NEED(comm_all_reduce(group[g], piece, FLIGHT_COUNT, &request[f][g]) == STATUS_OK);
            if (f % 7 == comm_rank(comm)) NEED(comm_progress(comm) == STATUS_OK);
        }
    for (int f = FLIGHTS - 1; f >= 0; f--)
        for (int g = 0; g < GROUPS; g++) NEED(comm_wait(&request[f][g]) == STATUS_OK);
    for (int f = 0; f < FLIGHTS; f += 9)
        for (int g = 0; g < GROUPS; g++)
            for (int i = 0; i < FLIGHT_COUNT && comm_group_member(group[g]) >= 0; i++)
                NEED(same_bits(data[(f * GROUPS + g) * FLIGHT_COUNT + i],
                               tree_value(members[g], member_counts[g], i)));
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK); /* the data of others is still read above */
}

Test(comm_collectives, many_in_flight_in_overlapping_groups) {
    for (int mode = TRIAL_THREADS; mode < TRIAL_MODE_COUNT; mode++) {
        if (!trial_mode_there((enum trial_mode)mode)) continue;
        struct trial trial = {.mode = (enum trial_mode)mode,
                              .size = 5,
                              .heap_bytes = FLIGHTS * GROUPS * FLIGHT_COUNT * sizeof(float),
                              .body = flights_body,
                              .killed = -1};
        const char *failure = trial_run(&trial);
        cr_assert(!failure, "%s", failure);
    }
}

/* Operations on the same data follow one another without a wait: scatter, gather, broadcast. */
static void chain_body(struct trial *trial, struct comm *comm) {
    struct comm_group *world = comm_world(comm);
    struct comm_request *request[3] = {NULL};
    float *data;
    bool done;
    NEED(comm_alloc(comm, MOST * sizeof *data, "data", (void **)&data) == STATUS_OK);
    for (int turn = 0; turn < 20; turn++) {
        fill(data, comm_rank(comm), MOST);
        NEED(comm_reduce_scatter(world, data, MOST, &request[0]) == STATUS_OK);
        NEED(comm_all_gather(world, data, MOST, &request[1]) == STATUS_OK);
        NEED(comm_broadcast(world, turn % trial->size, data, MOST * sizeof *data, &request[2]) ==
             STATUS_OK);
        NEED(comm_wait(&request[2]) == STATUS_OK);
        NEED(comm_test(&request[0], &done) == STATUS_OK && done && !request[0]);
        NEED(comm_wait(&request[1]) == STATUS_OK);
        for (int64_t i = 0; i < MOST; i += 997)
            NEED(same_bits(data[i], tree_value(everyone, trial->size, i)));
        NEED(comm_barrier(world) == STATUS_OK);
    }
}

Test(comm_collectives, operations_on_the_same_data_keep_their_order) {
    run_everywhere(chain_body, MOST * sizeof(float));
}

#ifndef STRETTO_SANITIZE
Test(comm_collectives, a_team_of_threads_gives_the_same_bits) {
    for (int mode = TRIAL_THREADS; mode < TRIAL_MODE_COUNT; mode++) {
        if (!trial_mode_there((enum trial_mode)mode)) continue;
        struct trial trial = {.mode = (enum trial_mode)mode,
                              .size = 3,
                              .threads = 2,
                              .heap_bytes = MOST * sizeof(float),
                              .body = reduce_scatter_body,
                              .killed = -1};
        const char *failure = trial_run(&trial);
        cr_assert(!failure, "%s", failure);
    }
}
#endif

static void slices_body(struct trial *trial, struct comm *comm) {
    struct comm_group *world = comm_world(comm);
    for (int64_t count = 0; count < 20000; count += 511) {
        int64_t next = 0, begin, slice, least = count, most = 0;
        for (int place = 0; place < trial->size; place++) {
            comm_slice(world, count, place, &begin, &slice);
            NEED(begin == next && (begin % COMM_SLICE_BLOCK == 0 || begin == count));
            next = begin + slice;
            if (slice < least) least = slice;
            if (slice > most) most = slice;
        }
        NEED(next == count && most - least <= 2 * COMM_SLICE_BLOCK);
    }
}

Test(comm_collectives, slices_are_whole_blocks_and_cover_all) {
    run_everywhere(slices_body, 0);
}

/* --- data that lies differently on each rank ----------------------------------------------- */

enum { APART = 400000, APART_ROUNDS = 40, APART_STRIDE = 4099 };

/* On the last rank both operations are on the same memory: the second adds to what the first made,
 * also where all others could begin with it before. */
static void apart_body(struct trial *trial, struct comm *comm) {
    int rank = comm_rank(comm), last = trial->size - 1;
    float *data[2], first[TRIAL_MOST], second[TRIAL_MOST];
    NEED(comm_alloc(comm, APART * sizeof(float), "data", (void **)&data[0]) == STATUS_OK);
    NEED(comm_alloc(comm, APART * sizeof(float), "data", (void **)&data[1]) == STATUS_OK);
    if (rank == last) data[1] = data[0];
    for (int round = 0; round < APART_ROUNDS; round++) {
        struct comm_request *request[2];
        for (int i = 0; i < 2; i++) fill(data[i], rank + i * (rank != last), APART);
        NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
        for (int i = 0; i < 2; i++)
            NEED(comm_all_reduce(comm_world(comm), data[i], APART, &request[i]) == STATUS_OK);
        for (int i = 0; i < 2; i++) NEED(comm_wait(&request[i]) == STATUS_OK);
        for (int64_t k = 0; k < APART; k += APART_STRIDE) {
            for (int r = 0; r < trial->size; r++) first[r] = trial_value(r, k);
            float sum = tree(first, trial->size);
            for (int r = 0; r < trial->size; r++)
                second[r] = r == last ? sum : trial_value(r + 1, k);
            NEED(same_bits(data[1][k], tree(second, trial->size)));
            if (rank != last) NEED(same_bits(data[0][k], sum));
        }
        NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    }
}

Test(comm_collectives, data_may_lie_anywhere_on_each_rank) {
    for (int mode = TRIAL_THREADS; mode < TRIAL_MODE_COUNT; mode++) {
        struct trial trial = {.mode = (enum trial_mode)mode,
                              .size = mode < TRIAL_UCX ? 8 : 4,
                              .heap_bytes = 2 * APART * sizeof(float),
                              .body = apart_body,
                              .killed = -1};
        if (!trial_mode_there(trial.mode)) continue;
        const char *failure = trial_run(&trial);
        cr_assert(!failure, "%s", failure);
    }
}

/* --- members that are chosen ---------------------------------------------------------------- */

enum { CHOICES = 400, CHOICE_RANKS = 5 };

/* Of the ranks 4 to 1 backwards: some set of two or more, by the number of the choice. */
static int choose_places(int number, int place[CHOICE_RANKS]) {
    unsigned set = (unsigned)number * 2654435761u >> 28;
    int count = 0;
    for (int i = 0; i < CHOICE_RANKS - 1; i++)
        if (set >> i & 1) place[count++] = i;
    return count;
}

static bool is_chosen(const int *place, int count, int rank) {
    for (int i = 0; i < count; i++)
        if (CHOICE_RANKS - 1 - place[i] == rank) return true;
    return false;
}

static void choices_body(struct trial *trial, struct comm *comm) {
    static const int64_t counts[] = {1, 3000, 9000, 40000};
    int all[] = {4, 3, 2, 1}, place[CHOICE_RANKS], rank[CHOICE_RANKS];
    struct comm_group *group;
    float *data;
    NEED(comm_alloc(comm, MOST * sizeof *data, "data", (void **)&data) == STATUS_OK);
    NEED(comm_group_new_chosen(comm, all, CHOICE_RANKS - 1, &group) == STATUS_OK);
    for (int n = 0; n < CHOICES; n++) {
        int count = choose_places(n, place);
        struct comm_request *request;
        if (count == 0 || !is_chosen(place, count, comm_rank(comm))) continue;
        comm_group_choose(group, place, count, (uint64_t)n);
        NEED(comm_group_count(group) == count);
        for (int i = 0; i < count; i++) rank[i] = comm_group_rank(group, i);
        for (int k = 0; k < n % 3 + 1; k++) {
            int64_t floats = counts[(n + k) % 4];
            fill(data, comm_rank(comm), floats);
            NEED(comm_all_reduce(group, data, floats, &request) == STATUS_OK);
            NEED(comm_wait(&request) == STATUS_OK);
            for (int64_t i = 0; i < floats; i += 37)
                NEED(same_bits(data[i], tree_value(rank, count, i)));
        }
        NEED(comm_barrier_post(group, &request) == STATUS_OK && comm_wait(&request) == STATUS_OK);
    }
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_collectives, members_are_chosen_again_and_again) {
    for (int mode = TRIAL_THREADS; mode < TRIAL_MODE_COUNT; mode++) {
        if (!trial_mode_there((enum trial_mode)mode)) continue;
        struct trial trial = {.mode = (enum trial_mode)mode,
                              .size = CHOICE_RANKS,
                              .heap_bytes = MOST * sizeof(float),
                              .body = choices_body,
                              .killed = -1};
        const char *failure = trial_run(&trial);
        cr_assert(!failure, "%s", failure);
    }
}
