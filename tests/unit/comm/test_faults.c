/* What goes wrong between ranks: calls that do not match, ranks that die in the middle of every
 * kind of operation, unauthenticated peers at the socket, hosts and heaps that differ; and that
 * nothing is left open. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "trial.h"

enum { COUNT = 50000 };

static void run(struct trial trial) {
    const char *failure = trial_run(&trial);
    cr_assert(!failure, "%s", failure);
}

/* The same on every communicator whose ranks are processes. */
static void run_processes(struct trial trial) {
    for (int mode = TRIAL_PROCESSES; mode < TRIAL_MODE_COUNT; mode++) {
        trial.mode = (enum trial_mode)mode;
        if (trial_mode_there(trial.mode)) run(trial);
    }
}

/* --- calls that do not match --------------------------------------------------------------- */

/* Rank 2 differs from the others as the row says; every rank must fail and name both sides. */
static const struct {
    const char *what, *says_0, *says_2;
} misfits[] = {
    {"count", "rank 0: all_reduce of 10 f32", "rank 2: all_reduce of 11 f32"},
    {"kind", "rank 0: all_reduce of 10 f32", "rank 2: broadcast of 40 bytes"},
    {"root", "root 0", "root 1"},
    {"group", "members ", "members "},
    {"barrier", "rank 0: all_reduce of 10 f32", "rank 2: barrier"},
};
enum { MISFITS = sizeof misfits / sizeof *misfits };

static enum status misfit_call(struct comm *comm, int row, float *data, struct comm_request **out) {
    struct comm_group *world = comm_world(comm);
    bool odd = comm_rank(comm) == 2;
    switch (row) {
    case 0: return comm_all_reduce(world, data, odd ? 11 : 10, out);
    case 1:
        return odd ? comm_broadcast(world, 0, data, 40, out)
                   : comm_all_reduce(world, data, 10, out);
    case 2: return comm_broadcast(world, odd, data, 40, out);
    case 4:
        if (odd) return comm_barrier(world);
        return comm_all_reduce(world, data, 10, out);
    }
    int forwards[] = {0, 1, 2}, backwards[] = {0, 2, 1};
    struct comm_group *group;
    TRY(comm_group_new(comm, odd ? backwards : forwards, 3, &group));
    return comm_all_reduce(group, data, 10, out);
}

static void misfit_body(struct trial *trial, struct comm *comm) {
    int row = *(int *)trial->argument;
    struct comm_request *request = NULL;
    float *data;
    NEED(comm_alloc(comm, COUNT * sizeof *data, "data", (void **)&data) == STATUS_OK);
    enum status status = misfit_call(comm, row, data, &request);
    if (status == STATUS_OK) status = comm_wait(&request);
    NEED(status == STATUS_BUG && !request);
    NEED(comm_barrier(comm_world(comm)) == STATUS_BUG);
}

static void misfit_after(struct trial *trial) {
    int row = *(int *)trial->argument;
    for (int rank = 0; rank < trial->size; rank++) {
        const char *text = trial->shared->log[rank];
        cr_expect(strstr(text, "disagree about operation 1") && strstr(text, misfits[row].says_0) &&
                      strstr(text, misfits[row].says_2),
                  "%s: rank %d said: %s", misfits[row].what, rank, text);
    }
}

Test(comm_faults, calls_that_differ_fail_on_all_ranks) {
    for (int row = 0; row < MISFITS; row++)
        run_processes((struct trial){.size = 3,
                                     .heap_bytes = COUNT * sizeof(float),
                                     .argument = &row,
                                     .body = misfit_body,
                                     .after = misfit_after,
                                     .killed = -1});
}

static void channel_misfit_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel;
    int bytes = comm_rank(comm) == 0 ? 100 : 104;
    void *data;
    NEED(comm_channel_new(comm, 0, 1, 3, (size_t)bytes, 4, &channel) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    if (comm_rank(comm) == 0)
        NEED(comm_channel_send(channel, trial) == STATUS_BUG);
    else
        NEED(comm_channel_receive(channel, &data) == STATUS_BUG);
}

Test(comm_faults, a_channel_declared_differently_fails_at_both_ends) {
    run_processes(
        (struct trial){.size = 2, .heap_bytes = 4096, .body = channel_misfit_body, .killed = -1});
}

static void outside_body(struct trial *trial, struct comm *comm) {
    float outside[4] = {0}, *inside;
    struct comm_request *request = NULL;
    NEED(comm_alloc(comm, 64, "data", (void **)&inside) == STATUS_OK);
    NEED(comm_all_reduce(comm_world(comm), outside, 4, &request) == STATUS_BUG && !request);
    NEED(comm_all_reduce(comm_world(comm), inside, 17, &request) == STATUS_BUG && !request);
    NEED(comm_all_reduce(comm_world(comm), inside, 16, &request) == STATUS_OK);
    NEED(comm_wait(&request) == STATUS_OK);
}

Test(comm_faults, data_outside_the_heap_is_refused) {
    char text[1024];
    log_capture(text, sizeof text);
    run((struct trial){
        .mode = TRIAL_SELF, .size = 1, .heap_bytes = 4096, .body = outside_body, .killed = -1});
    log_capture(NULL, 0);
}

/* --- ranks that die ------------------------------------------------------------------------ */

enum { DEATH_KINDS = 8, VICTIM = 1, DEATH_RANKS = 4 };

static enum status take_part(struct comm *comm, int kind, float *data,
                             struct comm_channel *channel[2]) {
    struct comm_group *world = comm_world(comm);
    struct comm_request *request = NULL;
    char all[DEATH_RANKS];
    void *got;
    switch (kind) {
    case 0: TRY(comm_all_reduce(world, data, COUNT, &request)); break;
    case 1: TRY(comm_reduce_scatter(world, data, COUNT, &request)); break;
    case 2: TRY(comm_all_gather(world, data, COUNT, &request)); break;
    case 3: TRY(comm_broadcast(world, VICTIM, data, COUNT, &request)); break;
    case 4: return comm_barrier(world);
    case 5: return comm_exchange(world, "x", 1, all);
    case 6: /* all but the victim receive from it or its victims */
        if (comm_rank(comm) == VICTIM) return comm_channel_send(channel[0], data);
        if (comm_rank(comm) != 0) return comm_barrier(world);
        TRY(comm_channel_receive(channel[0], &got));
        return comm_channel_release(channel[0]);
    case 7: /* nobody receives but the victim */
        if (comm_rank(comm) == 0) return comm_channel_send(channel[1], data);
        if (comm_rank(comm) != VICTIM) return comm_barrier(world);
        TRY(comm_channel_receive(channel[1], &got));
        return comm_channel_release(channel[1]);
    }
    return comm_wait(&request);
}

/* Dies on the spot, or somewhere in the middle of the operations. */
static void *die_later(void *argument) {
    usleep((useconds_t)(intptr_t)argument);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void death_body(struct trial *trial, struct comm *comm) {
    int kind = ((int *)trial->argument)[0], delay_us = ((int *)trial->argument)[1];
    struct comm_channel *channel[2];
    pthread_t thread;
    float *data;
    NEED(comm_alloc(comm, COUNT * sizeof *data, "data", (void **)&data) == STATUS_OK);
    NEED(comm_channel_new(comm, VICTIM, 0, 0, 64, 2, &channel[0]) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, VICTIM, 1, 64, 2, &channel[1]) == STATUS_OK);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    /* Who has left a barrier may still owe another its message: the victim dies later than that. */
    atomic_fetch_add(&trial->shared->note[0], 1);
    while (comm_rank(comm) == VICTIM && atomic_load(&trial->shared->note[0]) < trial->size)
        NEED(comm_progress(comm) == STATUS_OK && usleep(100) == 0);
    if (comm_rank(comm) == VICTIM && delay_us == 0) kill(getpid(), SIGKILL);
    if (comm_rank(comm) == VICTIM)
        NEED(pthread_create(&thread, NULL, die_later, (void *)(intptr_t)delay_us) == 0);
    enum status status = STATUS_OK;
    while (status == STATUS_OK) status = take_part(comm, kind, data, channel);
    NEED(status == STATUS_PEER);
    /* And stays so. Where the progress thread has the lock, progress says nothing for once. */
    for (int i = 0; i < 1000 && comm_progress(comm) == STATUS_OK; i++) usleep(1000);
    NEED(comm_progress(comm) == STATUS_PEER || comm_barrier(comm_world(comm)) == STATUS_PEER);
}

static void death_after(struct trial *trial) {
    for (int rank = 0; rank < trial->size; rank++)
        if (rank != VICTIM)
            cr_expect(strstr(trial->shared->log[rank], "rank 1 is lost"), "rank %d said: %s", rank,
                      trial->shared->log[rank]);
}

Test(comm_faults, a_rank_that_dies_ends_every_kind_of_wait) {
    static const int delays_us[] = {0, 300, 2000, 7000};
    for (int kind = 0; kind < DEATH_KINDS; kind++)
        for (int d = 0; d < 4; d++) {
            int argument[] = {kind, delays_us[d]};
            run_processes((struct trial){.size = DEATH_RANKS,
                                         .heap_bytes = COUNT * sizeof(float) + 4096,
                                         .argument = argument,
                                         .body = death_body,
                                         .after = death_after,
                                         .killed = VICTIM});
        }
}

/* As threads: a rank that gives up tells the others. */
static void abort_body(struct trial *trial, struct comm *comm) {
    struct comm_channel *channel[2];
    int kind = *(int *)trial->argument;
    float *data;
    NEED(comm_alloc(comm, COUNT * sizeof *data, "data", (void **)&data) == STATUS_OK);
    NEED(comm_channel_new(comm, VICTIM, 0, 0, 64, 2, &channel[0]) == STATUS_OK);
    NEED(comm_channel_new(comm, 0, VICTIM, 1, 64, 2, &channel[1]) == STATUS_OK);
    for (int i = 0; i < 10; i++)
        if (kind < 6) NEED(take_part(comm, kind, data, channel) == STATUS_OK);
    atomic_fetch_add(&trial->shared->note[0], 1);
    if (comm_rank(comm) == VICTIM) {
        while (atomic_load(&trial->shared->note[0]) < trial->size) usleep(100);
        usleep(3000); /* let the others fall asleep */
        comm_abort(comm, VICTIM);
        NEED(comm_barrier(comm_world(comm)) == STATUS_PEER);
        return;
    }
    enum status status = STATUS_OK;
    while (status == STATUS_OK) status = take_part(comm, kind, data, channel);
    NEED(status == STATUS_PEER);
}

Test(comm_faults, an_abort_ends_the_waits_of_all_threads) {
    for (int kind = 0; kind < DEATH_KINDS; kind++)
        run((struct trial){.mode = TRIAL_THREADS,
                           .size = DEATH_RANKS,
                           .heap_bytes = COUNT * sizeof(float) + 4096,
                           .argument = &kind,
                           .body = abort_body,
                           .killed = -1});
}

/* --- who is waited for --------------------------------------------------------------------- */

static void culprit_body(struct trial *trial, struct comm *comm) {
    struct comm_group *world = comm_world(comm);
    NEED(comm_barrier(world) == STATUS_OK);
    /* The last rank comes only when all others have said that they wait for it. */
    for (int rank = 0; comm_rank(comm) == 3 && rank < 3; rank++)
        while (atomic_load(&trial->shared->waited_for[rank]) != 3) usleep(1000);
    NEED(comm_barrier(world) == STATUS_OK);
}

Test(comm_faults, a_wait_that_lasts_names_the_rank) {
    run((struct trial){
        .mode = TRIAL_PROCESSES, .size = 4, .heap_bytes = 0, .body = culprit_body, .killed = -1});
}

/* --- hooks --------------------------------------------------------------------------------- */

struct seen {
    int before, after;
    size_t bytes;
};

static enum status see_before(void *context, const struct comm_event *event) {
    struct seen *seen = context;
    seen->before++;
    return strcmp(event->kind, "broadcast") == 0 ? STATUS_NUMERIC : STATUS_OK;
}

static void see_after(void *context, const struct comm_event *event) {
    struct seen *seen = context;
    seen->after++;
    seen->bytes += event->bytes;
    if (event->end_ns < event->begin_ns || !event->begin_ns || event->members != 2)
        seen->after = -1000;
}

static void hooks_body(struct trial *trial, struct comm *comm) {
    struct seen seen = {0};
    struct comm_request *request = NULL;
    float *data;
    NEED(comm_alloc(comm, 400, "data", (void **)&data) == STATUS_OK);
    comm_set_hooks(comm, &(struct comm_hooks){&seen, see_before, see_after, NULL});
    NEED(comm_all_reduce(comm_world(comm), data, 100, &request) == STATUS_OK);
    NEED(comm_wait(&request) == STATUS_OK);
    NEED(comm_broadcast(comm_world(comm), 0, data, 400, &request) == STATUS_NUMERIC && !request);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
    NEED(seen.before == 3 && seen.after == 2 && seen.bytes == 400);
    comm_set_hooks(comm, NULL);
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK && seen.before == 3);
}

Test(comm_faults, hooks_see_and_disturb) {
    run((struct trial){
        .mode = TRIAL_THREADS, .size = 2, .heap_bytes = 4096, .body = hooks_body, .killed = -1});
}

/* --- opening ------------------------------------------------------------------------------- */

static int count_maps(void) {
    int count = 0;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, file)) count += strstr(line, "stretto-heap") != NULL;
    fclose(file);
    return count;
}

static void reopen_body(struct trial *trial, struct comm *comm) {
    struct comm_link link = trial_link(trial->shared);
    int files = trial_open_files();
    NEED(count_maps() >= trial->size);
    int maps = count_maps();
    for (int epoch = 1; epoch <= 3; epoch++) {
        struct comm_config config = {.rank = comm_rank(comm),
                                     .size = trial->size,
                                     .link = &link,
                                     .epoch = epoch,
                                     .heap_bytes = 1 << 20,
                                     .host = "here"};
        struct comm *second = NULL;
        NEED(comm_open("shm", &config, &second) == STATUS_OK);
        NEED(trial_open_files() == files);
        NEED(comm_barrier(comm_world(second)) == STATUS_OK);
        comm_close(&second);
        NEED(!second && trial_open_files() == files && count_maps() == maps);
    }
    NEED(comm_barrier(comm_world(comm)) == STATUS_OK);
}

Test(comm_faults, nothing_is_left_open) {
    int files = trial_open_files();
    run((struct trial){.mode = TRIAL_PROCESSES,
                       .size = 4,
                       .heap_bytes = 1 << 20,
                       .body = reopen_body,
                       .killed = -1});
    cr_expect(trial_open_files() == files);
}

enum { SHARED_BYTES = 4 << 20 };

/* Whoever copies the data touches all of it in a peer's memory: the sum over the ranks is at least
 * its size, and no rank has more of its peers' than they have. */
static void foreign_body(struct trial *trial, struct comm *comm) {
    void *data;
    struct comm_request *request;
    uint64_t mine, all[2];
    NEED(comm_alloc(comm, SHARED_BYTES, "data", &data) == STATUS_OK);
    memset(data, comm_rank(comm) + 1, SHARED_BYTES);
    NEED(comm_broadcast(comm_world(comm), 0, data, SHARED_BYTES, &request) == STATUS_OK);
    NEED(comm_wait(&request) == STATUS_OK);
    mine = comm_foreign_bytes(comm);
    NEED(comm_exchange(comm_world(comm), &mine, sizeof mine, all) == STATUS_OK);
    if (trial->mode == TRIAL_THREADS || trial->mode == TRIAL_UCX) {
        NEED(mine == 0);
    } else {
        NEED(all[0] + all[1] >= SHARED_BYTES);
        NEED(mine <= SHARED_BYTES + (1 << 20));
    }
}

Test(comm_faults, memory_of_others_is_told_apart) {
    const enum trial_mode modes[] = {TRIAL_THREADS, TRIAL_PROCESSES, TRIAL_UCX, TRIAL_HOSTS};
    for (int m = 0; m < 4; m++)
        if (trial_mode_there(modes[m]))
            run((struct trial){.mode = modes[m],
                               .size = 2,
                               .heap_bytes = SHARED_BYTES,
                               .body = foreign_body,
                               .killed = -1});
}

/* The shared memory serves as link for communicators opened a second time, with one rank that
 * differs. */
static void differ_body(struct trial *trial, struct comm *comm) {
    bool odd = comm_rank(comm) == 1;
    struct comm_link link = trial_link(trial->shared);
    struct comm_config config = {.rank = comm_rank(comm),
                                 .size = trial->size,
                                 .link = &link,
                                 .epoch = 1,
                                 .heap_bytes = odd ? 8192 : 4096,
                                 .host = odd ? "there" : "here"};
    struct comm *second = NULL;
    int files = trial_open_files();
    enum status status = comm_open("shm", &config, &second);
    NEED(status == STATUS_USAGE && !second);
    NEED(trial_open_files() == files);
}

static void differ_after(struct trial *trial) {
    for (int rank = 0; rank < trial->size; rank++)
        cr_expect(strstr(trial->shared->log[rank], "host here") &&
                      strstr(trial->shared->log[rank], "host there"),
                  "rank %d said: %s", rank, trial->shared->log[rank]);
}

Test(comm_faults, hosts_that_differ_are_refused_by_all) {
    run((struct trial){.mode = TRIAL_PROCESSES,
                       .size = 3,
                       .heap_bytes = 4096,
                       .body = differ_body,
                       .after = differ_after,
                       .killed = -1});
}

/* What a rank would say, but for the token: with a descriptor that is no heap. */
static bool say_hello(int socket) {
    struct {
        uint64_t token;
        int32_t rank;
    } hello = {0, 3};
    int memory = open("/dev/null", O_RDWR | O_CLOEXEC);
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof memory)] = {0};
    struct iovec part = {&hello, sizeof hello};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof memory), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &memory, sizeof memory);
    bool sent = sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof hello;
    close(memory);
    return sent;
}

/* An unauthenticated peer that connects to every name it sees, and says nothing, rubbish, or nearly
 * the right thing. */
static void *bother(void *argument) {
    struct trial_shared *shared = argument;
    for (int turn = 0; atomic_load(&shared->note[0]) == 0; turn++) {
        char line[512];
        FILE *names = fopen("/proc/net/unix", "r");
        while (names && fgets(line, sizeof line, names)) {
            const char *name = strstr(line, "@stretto-");
            struct sockaddr_un address = {.sun_family = AF_UNIX};
            if (!name) continue;
            size_t length = strcspn(name + 1, "\n");
            memcpy(address.sun_path + 1, name + 1, length);
            int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
            if (connect(fd, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
                atomic_fetch_add(&shared->note[1], turn % 3 == 0 ? say_hello(fd)
                                                   : turn % 3 == 1
                                                       ? send(fd, "rubbish", 7, MSG_NOSIGNAL) == 7
                                                       : 0);
            close(fd);
        }
        if (names) fclose(names);
    }
    return NULL;
}

static void unauthenticated_body(struct trial *trial, struct comm *comm) {
    struct comm_link link = trial_link(trial->shared);
    pthread_t thread;
    if (comm_rank(comm) == 0) NEED(pthread_create(&thread, NULL, bother, trial->shared) == 0);
    for (int epoch = 1; epoch <= 20; epoch++) {
        struct comm_config config = {.rank = comm_rank(comm),
                                     .size = trial->size,
                                     .link = &link,
                                     .epoch = epoch,
                                     .heap_bytes = 4096,
                                     .host = "here"};
        struct comm *second = NULL;
        if (comm_rank(comm) == 3) usleep(2000); /* the others stand open a while */
        NEED(comm_open("shm", &config, &second) == STATUS_OK);
        NEED(comm_barrier(comm_world(second)) == STATUS_OK);
        comm_close(&second);
    }
    atomic_store(&trial->shared->note[0], 1);
    if (comm_rank(comm) == 0) {
        pthread_join(thread, NULL);
        NEED(atomic_load(&trial->shared->note[1]) > 0); /* it did bother someone */
    }
}

Test(comm_faults, unauthenticated_peers_at_the_socket_change_nothing) {
    run((struct trial){.mode = TRIAL_PROCESSES,
                       .size = 4,
                       .heap_bytes = 4096,
                       .body = unauthenticated_body,
                       .killed = -1});
}

/* --- signals while joining --- */

/* Rank 0 of a job of two, which listens and never answers; lost after some looks. */
struct deaf_peer {
    char card[256];
    int looks;
    pthread_t joining;
    _Atomic int done;
};

static enum status deaf_put(void *context, const char *key, const void *value, size_t bytes) {
    (void)key, (void)bytes;
    unsigned long long heap, channels, layout;
    /* As our own card, with another name and token. */
    if (sscanf(value, "%llu %llu %llu", &heap, &channels, &layout) != 3) return STATUS_BUG;
    snprintf(((struct deaf_peer *)context)->card, 256, "%llu %llu %llu 1 stretto-deaf-%d here",
             heap, channels, layout, (int)getpid());
    return STATUS_OK;
}

static enum status deaf_get(void *context, const char *key, void **value, size_t *bytes) {
    (void)key;
    /* As comm_link_share publishes: rank 0's card, and one of ours that nobody reads. */
    const char *card = ((struct deaf_peer *)context)->card;
    uint64_t word[3] = {3 * sizeof(uint64_t) + strlen(card) + 1, strlen(card) + 1, 0};
    char *all = *value = mem_new(*bytes = word[0]);
    memcpy(all, word, 2 * sizeof *word);
    memcpy(all + 2 * sizeof *word, card, word[1]);
    memcpy(all + 2 * sizeof *word + word[1], &word[2], sizeof *word);
    return STATUS_OK;
}

static int deaf_lost(void *context) {
    return ++((struct deaf_peer *)context)->looks > 5 ? 0 : -1;
}

static void nothing(int signal) {
    (void)signal;
}

static void *send_signals(void *argument) {
    struct deaf_peer *peer = argument;
    while (!atomic_load(&peer->done)) {
        pthread_kill(peer->joining, SIGUSR1);
        usleep(1000);
    }
    return NULL;
}

static int listen_deaf(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, 64, "stretto-deaf-%d", (int)getpid());
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
                 0);
    cr_assert_eq(listen(fd, 4), 0);
    return fd;
}

/* Each ends the poll of the rank that waits for an answer: it goes on waiting and looking, and does
 * not read what is not there. */
Test(comm_faults, signals_while_joining_do_not_end_the_wait, .timeout = 60) {
    struct deaf_peer peer = {.joining = pthread_self()};
    struct comm_link link = {&peer, deaf_put, deaf_get, deaf_lost, NULL};
    struct comm_config config = {
        .rank = 1, .size = 2, .link = &link, .heap_bytes = 4096, .host = "here"};
    struct sigaction action = {.sa_handler = nothing}; /* without SA_RESTART */
    struct comm *comm = NULL;
    pthread_t sender;
    char text[512] = "";
    int fd = listen_deaf();
    sigaction(SIGUSR1, &action, NULL);
    cr_assert_eq(pthread_create(&sender, NULL, send_signals, &peer), 0);
    log_capture(text, sizeof text);
    enum status status = comm_open("shm", &config, &comm);
    log_capture(NULL, 0);
    atomic_store(&peer.done, 1);
    pthread_join(sender, NULL);
    close(fd);
    cr_assert_eq(status, STATUS_PEER);
    cr_assert(strstr(text, "rank 0 is lost"), "%s", text);
}

Test(comm_faults, a_communicator_that_is_not_there) {
    char text[512] = "";
    struct comm *comm = NULL;
    struct comm_config config = {.rank = 0, .size = 2};
    log_capture(text, sizeof text);
    cr_expect(comm_open("pigeon", &config, &comm) == STATUS_USAGE && !comm);
    cr_expect(strstr(text, "pigeon") && strstr(text, "self"), "%s", text);
    cr_expect(comm_open("self", &config, &comm) == STATUS_USAGE && !comm);
    config.rank = 2;
    cr_expect(comm_open("shm", &config, &comm) == STATUS_USAGE && !comm);
    log_capture(NULL, 0);
    comm_close(&comm);
}
