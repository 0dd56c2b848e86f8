/* Ranks as processes: each makes its area, a sealed memfd, and exchanges descriptors with every
 * peer over a Unix socket. Nothing has a name in a file system, so nothing is left after kill -9,
 * and the size of /dev/shm does not matter.
 *
 * A rank listens on an abstract name with a random part, then publishes a card through the link:
 * layout, host, name and a token. All read all cards, so that all refuse the same misfits. Of each
 * pair the higher rank connects and sends its descriptor at once; the lower one answers with its
 * own. Connecting never waits (the backlog holds all), so a rank first connects to all below it,
 * then accepts all above it, then reads the answers: no order of arrival can block. Others who
 * connect are turned away: another user by SO_PEERCRED, anyone else by the token. */
#include "comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/link_share.h"

enum { NAME_BYTES = 48, HOST_BYTES = 256, LOOK_MS = 100, HELLO_LIMIT_S = 2, SPARE_BACKLOG = 16 };
enum { SPARE_FILES = 8 }; /* memory, listener, who connects and what it brings */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct card {
    struct comm_sizes sizes;
    uint64_t layout, token;
    char name[NAME_BYTES], host[HOST_BYTES];
};

struct hello {
    uint64_t token;
    int32_t rank;
};

struct join {
    const struct comm_config *config;
    struct shm_areas *areas;
    struct card mine, *card; /* of each rank */
    int memory, listener;
    int *socket; /* to each lower rank, -1: none */
    int64_t since_ns;
};

/* --- cards --------------------------------------------------------------------------------- */

static bool card_parse(const char *text, struct card *out) {
    unsigned long long layout, token;
    struct comm_sizes *sizes = &out->sizes;
    int used = 0;
    if (sscanf(text, "%zu %zu %llu %llx %47s %n", &sizes->heap, &sizes->channels, &layout, &token,
               out->name, &used) != 5 ||
        !used || strlen(text + used) >= HOST_BYTES || !shm_sizes_fit(sizes))
        return false;
    out->layout = layout;
    out->token = token;
    memcpy(out->host, text + used, strlen(text + used) + 1);
    return true;
}

static enum status card_read(int rank, const struct bytes *value, struct card *out) {
    char quoted[TEXT_QUOTED_BYTES];
    const char *text = (const char *)value->data;
    bool ends = value->count && !text[value->count - 1];
    if (ends && card_parse(text, out)) return STATUS_OK;
    return fail(STATUS_BUG, "rank %d published %s, which is no card", rank,
                text_quoted(ends ? text : "", quoted));
}

static enum status card_check(const struct join *join, int rank) {
    const struct card *first = &join->card[0], *other = &join->card[rank];
    if (strcmp(first->host, other->host) != 0)
        return fail(STATUS_USAGE,
                    "rank 0 is on host %s, rank %d on host %s: shm is for ranks on one host\n"
                    "use --comm auto",
                    first->host, rank, other->host);
    if (first->layout != other->layout)
        return fail(STATUS_USAGE,
                    "rank 0 and rank %d share memory in different ways (%llu and %llu)\n"
                    "they must be of one build",
                    rank, (unsigned long long)first->layout, (unsigned long long)other->layout);
    return STATUS_OK;
}

static enum status read_cards(struct join *join, const struct bytes *values) {
    for (int rank = 0; rank < join->config->size; rank++) {
        if (rank == join->config->rank)
            join->card[rank] = join->mine;
        else
            TRY(card_read(rank, &values[rank], &join->card[rank]));
        join->areas->sizes[rank] = join->card[rank].sizes;
    }
    for (int rank = 1; rank < join->config->size; rank++) TRY(card_check(join, rank));
    return STATUS_OK;
}

static enum status share_cards(struct join *join) {
    const struct comm_config *config = join->config;
    SCOPED_FREE struct bytes *values = MEM_ARRAY(struct bytes, config->size);
    char key[64];
    snprintf(key, sizeof key, "comm/shm/%d", config->epoch);
    SCOPED_FREE char *text =
        mem_format("%zu %zu %llu %016llx %s %s", join->mine.sizes.heap, join->mine.sizes.channels,
                   (unsigned long long)join->mine.layout, (unsigned long long)join->mine.token,
                   join->mine.name, join->mine.host);
    struct bytes own = {(unsigned char *)text, strlen(text) + 1};
    enum status status =
        comm_link_share(config->link, key, config->rank, config->size, &own, values);
    if (status == STATUS_OK) status = read_cards(join, values);
    comm_link_share_free(values, config->size);
    return status;
}

/* --- the area ------------------------------------------------------------------------------ */

static enum status map_area(struct join *join, int memory, int rank) {
    char text[TEXT_BYTES];
    size_t bytes = shm_area_bytes(join->areas, rank);
    void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (area == MAP_FAILED)
        return fail(STATUS_MEMORY,
                    "out of memory: %s for the shared heap of rank %d were refused: %s",
                    text_size((int64_t)bytes, text), rank, strerror(errno));
    join->areas->area[rank] = area;
    madvise(join->areas->area[rank]->heap, bytes - sizeof(struct shm_area),
            MADV_HUGEPAGE); /* may not be */
    return STATUS_OK;
}

static enum status fail_area(size_t bytes, int error) {
    char size[TEXT_BYTES], what[TEXT_BYTES + 64];
    snprintf(what, sizeof what, "a shared heap of %s", text_size((int64_t)bytes, size));
    return limit_fail(what, error);
}

/* Sealed, so that no peer can shrink it under another one's feet. */
static enum status make_area(struct join *join) {
    size_t bytes = shm_area_bytes(join->areas, join->config->rank);
    join->memory = memfd_create("stretto-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (join->memory < 0 || ftruncate(join->memory, (off_t)bytes) != 0 ||
        fcntl(join->memory, F_ADD_SEALS, SEALS) != 0)
        return fail_area(bytes, errno);
    return map_area(join, join->memory, join->config->rank);
}

/* A peer's descriptor must be what a peer would send. Takes it. */
static enum status map_peer(struct join *join, int memory, int rank) {
    struct stat is;
    enum status status;
    size_t bytes = shm_area_bytes(join->areas, rank);
    if (fstat(memory, &is) != 0 || (uint64_t)is.st_size != bytes ||
        (fcntl(memory, F_GET_SEALS) & SEALS) != SEALS)
        status = fail(STATUS_BUG, "rank %d sent a descriptor that is no shared heap of %zu bytes",
                      rank, bytes);
    else
        status = map_area(join, memory, rank);
    close(memory);
    return status;
}

/* --- sockets ------------------------------------------------------------------------------- */

static socklen_t abstract_address(const char *name, struct sockaddr_un *out) {
    size_t length = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, length); /* sun_path[0] = 0: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static enum status fail_socket(const char *what, int rank) {
    return fail(STATUS_PEER, "sharing memory with rank %d: %s: %s", rank, what, strerror(errno));
}

static enum status listen_here(struct join *join) {
    struct sockaddr_un address;
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return fail(STATUS_BUG, "the system gives no random numbers: %s", strerror(errno));
    join->mine.token = random[0];
    snprintf(join->mine.name, NAME_BYTES, "stretto-%016llx", (unsigned long long)random[1]);
    socklen_t length = abstract_address(join->mine.name, &address);
    join->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (join->listener < 0 || bind(join->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(join->listener, join->config->size + SPARE_BACKLOG) != 0)
        return fail_socket("listening", join->config->rank);
    return STATUS_OK;
}

static bool is_same_user(int socket) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
}

static bool send_hello(int socket, const struct hello *hello, int memory) {
    struct iovec part = {(void *)hello, sizeof *hello};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(head), &memory, sizeof memory);
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == sizeof *hello;
}

/* The caller closes *memory. */
static bool receive_hello(int socket, struct hello *hello, int *memory) {
    struct iovec part = {hello, sizeof *hello};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t bytes;
    do bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (bytes < 0 && errno == EINTR);
    if (bytes == 0) errno = ECONNRESET; /* it closed: no error to recvmsg */
    struct cmsghdr *head = bytes >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof *memory))
        return false;
    memcpy(memory, CMSG_DATA(head), sizeof *memory);
    if (bytes == sizeof *hello) return true;
    close(*memory);
    return false;
}

/* Until there is something to read; looks for lost ranks meanwhile, also when signals keep ending
 * the poll, and tells for whom it waits. */
static enum status await_socket(const struct join *join, int socket, int rank) {
    const struct comm_link *link = join->config->link;
    struct pollfd poll_for = {.fd = socket, .events = POLLIN};
    int found;
    while ((found = poll(&poll_for, 1, LOOK_MS)) <= 0) {
        if (found < 0 && errno != EINTR) return fail_socket("poll", rank);
        int lost = link->lost ? link->lost(link->context) : -1;
        if (lost != -1) return comm_fail_lost(join->config->rank, lost, "sharing memory");
        if (link->waiting) link->waiting(link->context, rank, "sharing memory", join->since_ns);
    }
    return STATUS_OK;
}

static enum status connect_to(struct join *join, int rank) {
    struct hello hello = {join->card[rank].token, join->config->rank};
    struct sockaddr_un address;
    socklen_t length = abstract_address(join->card[rank].name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail_socket("socket", rank);
    join->socket[rank] = fd;
    while (connect(fd, (struct sockaddr *)&address, length) != 0)
        if (errno != EINTR) return fail_socket("connect", rank);
    if (!is_same_user(fd))
        return fail(STATUS_PEER, "the process that answers for rank %d is of another user", rank);
    if (!send_hello(fd, &hello, join->memory)) return fail_socket("send", rank);
    return STATUS_OK;
}

/* Someone connected. A peer is answered and its area mapped; anyone else is turned away. */
static enum status handshake(struct join *join, int fd, bool *welcome) {
    struct timeval limit = {.tv_sec = HELLO_LIMIT_S};
    struct hello hello;
    int memory;
    *welcome = false;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!is_same_user(fd) || !receive_hello(fd, &hello, &memory)) return STATUS_OK;
    if (hello.token != join->mine.token || hello.rank <= join->config->rank ||
        hello.rank >= join->config->size || join->areas->area[hello.rank]) {
        close(memory);
        return STATUS_OK;
    }
    *welcome = true;
    TRY(map_peer(join, memory, hello.rank));
    struct hello answer = {join->card[hello.rank].token, join->config->rank};
    if (!send_hello(fd, &answer, join->memory)) return fail_socket("send", hello.rank);
    return STATUS_OK;
}

static int first_missing(const struct join *join) {
    int rank = join->config->rank + 1;
    while (rank < join->config->size && join->areas->area[rank]) rank++;
    return rank;
}

static enum status accept_higher(struct join *join) {
    while (first_missing(join) < join->config->size) {
        bool welcome;
        TRY(await_socket(join, join->listener, first_missing(join)));
        int fd = accept4(join->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)) continue;
        if (fd < 0) return fail_socket("accept", first_missing(join));
        enum status status = handshake(join, fd, &welcome);
        close(fd);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status read_answer(struct join *join, int rank) {
    struct hello hello;
    int memory;
    TRY(await_socket(join, join->socket[rank], rank));
    if (!receive_hello(join->socket[rank], &hello, &memory)) return fail_socket("receive", rank);
    if (hello.token == join->mine.token && hello.rank == rank) return map_peer(join, memory, rank);
    close(memory);
    return fail(STATUS_PEER, "rank %d answered as rank %d, or for another job", rank, hello.rank);
}

/* --- all together -------------------------------------------------------------------------- */

static enum status join_steps(struct join *join) {
    TRY(limit_room("sharing memory", join->config->size + SPARE_FILES, 0, "start fewer ranks"));
    TRY(make_area(join));
    if (join->config->size == 1) return STATUS_OK;
    TRY(listen_here(join));
    TRY(share_cards(join));
    for (int rank = 0; rank < join->config->rank; rank++) TRY(connect_to(join, rank));
    TRY(accept_higher(join));
    for (int rank = 0; rank < join->config->rank; rank++) TRY(read_answer(join, rank));
    return STATUS_OK;
}

enum status shm_join(const struct comm_config *config, struct shm_areas *areas) {
    struct join join = {.config = config, .areas = areas, .memory = -1, .listener = -1};
    CHECK(config->link || config->size == 1, "shm for processes needs a link");
    join.since_ns = clock_ns();
    join.mine =
        (struct card){.sizes = areas->sizes[config->rank], .layout = sizeof(struct shm_area)};
    snprintf(join.mine.host, HOST_BYTES, "%s", config->host ? config->host : "localhost");
    join.card = MEM_ARRAY(struct card, config->size);
    join.socket = MEM_ARRAY(int, config->size);
    for (int rank = 0; rank < config->size; rank++) join.socket[rank] = -1;
    enum status status = join_steps(&join);
    for (int rank = 0; rank < config->size; rank++)
        if (join.socket[rank] >= 0) close(join.socket[rank]);
    if (join.listener >= 0) close(join.listener);
    if (join.memory >= 0) close(join.memory);
    free(join.card);
    free(join.socket);
    return status;
}
