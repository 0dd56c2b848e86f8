/* file:// rendezvous. Two files: PATH, the record, and PATH.lock.
 *
 *   - The publisher (the process with the control server) holds an exclusive lock on its record as
 * long as it lives, and touches it each second.
 *   - Publisher and clients hold a shared lock on PATH.lock while they are in the job. A process
 * that can make it exclusive is the only one: a new publisher may write a record, the last to leave
 * removes both files.
 *
 * The kernel drops locks with the process, so a record whose lock is free is a dead job's, known at
 * once on the same machine. For a record of another machine a free lock proves nothing (many shared
 * file systems keep locks to one host): such a publisher is alive when its record is touched while
 * we watch. Only changes of the time stamp count, never its value, so clocks need not agree. Where
 * there are no locks at all, the process number decides on the same machine, and the publisher
 * removes the files. A record appears whole, by rename, and carries a checksum.
 *
 * The server listens on this machine alone until a client on another one comes. That client writes
 * "remote" and the record's nonce into PATH.lock, which is there before the record is. The
 * publisher then makes the server listen on a network too and writes its record once more, with
 * that address.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/thread.h"
#include "control/rendezvous_record.h"
#include "control/secret.h"

enum { POLL_MS = 25, TOUCH_MS = 1000, REQUEST_MS = 100 };
static const double lock_limit_s = 3; /* for members of a job that is just ending */
static const double watch_limit_s =
    5; /* without a touch a publisher on another host counts as dead */

struct control_rendezvous {
    char *path, *lock_path, *new_path;
    struct control_rendezvous_record
        me; /* of a client: its own boot and space, the publisher's nonce */
    bool publisher, no_locks, touching;
    bool asked; /* a client: it has requested a network */
    int record_fd, lock_fd, wake;
    pthread_t thread;
    pthread_mutex_t remote_lock; /* of the rest: see control_rendezvous_remote */
    void *remote_context;
    enum status (*remote_open)(void *context, char address[CONTROL_ADDRESS_BYTES]);
};

static const char local_only[] = "ipc://@";

/* --- small parts --- */

static void nap(void) {
    struct timespec time = {.tv_nsec = POLL_MS * 1000000L};
    nanosleep(&time, NULL);
}

static bool past(int64_t begin_ns, double limit_s) {
    return (double)(clock_ns() - begin_ns) > limit_s * 1e9;
}

enum lock { LOCK_TAKEN, LOCK_BUSY, LOCK_NONE };

static enum lock try_lock(int fd, int kind) {
    while (flock(fd, kind | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        return errno == EWOULDBLOCK ? LOCK_BUSY : LOCK_NONE;
    }
    return LOCK_TAKEN;
}

static enum status cannot(const char *path, const char *what) {
    return fail(STATUS_DATA,
                "%s: cannot %s: %s\n  --init file:// needs a folder all ranks can write", path,
                what, strerror(errno));
}

/* Takes the lock of PATH.lock; BUSY when others keep it past the limit. A lock file removed in
 * between by the last of another job is let go and opened again. */
static enum status lock_membership(struct control_rendezvous *rendezvous, int kind, int create,
                                   double limit_s, enum lock *out) {
    int64_t begin = clock_ns();
    while (true) {
        int fd = open(rendezvous->lock_path, O_RDWR | create | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == ENOENT && !create) {
            *out = LOCK_NONE;
            return STATUS_OK;
        }
        if (fd < 0) return cannot(rendezvous->lock_path, "open it");
        enum lock got = try_lock(fd, kind);
        bool valid = got != LOCK_TAKEN || file_is_at(fd, rendezvous->lock_path);
        if (valid && got != LOCK_BUSY) {
            rendezvous->lock_fd = fd;
            *out = got;
            return STATUS_OK;
        }
        close(fd);
        if (past(begin, limit_s)) {
            *out = LOCK_BUSY;
            return STATUS_OK;
        }
        nap();
    }
}

/* --- looking at a record --- */

struct seen {
    bool there, alive;
    enum control_rendezvous_state state;
    struct control_rendezvous_record record;
    struct timespec touched;
};

/* By what can be known at once; a publisher on another host is found alive by recorder_touch. */
static bool known_alive(const struct control_rendezvous *rendezvous, int fd,
                        const struct control_rendezvous_record *record) {
    enum lock lock = try_lock(fd, LOCK_SH);
    if (lock == LOCK_TAKEN) flock(fd, LOCK_UN);
    if (lock == LOCK_BUSY) return true;
    if (lock == LOCK_TAKEN && control_rendezvous_same_boot(record, &rendezvous->me)) return false;
    return control_rendezvous_same_space(record, &rendezvous->me) &&
           (kill(record->pid, 0) == 0 || errno == EPERM);
}

static enum status look_at(const struct control_rendezvous *rendezvous, int fd, struct seen *seen) {
    char text[CONTROL_RENDEZVOUS_BYTES];
    struct stat info;
    TRY(control_check_private(rendezvous->path, fd));
    ssize_t bytes = control_read_all(fd, text, sizeof text);
    if (bytes < 0 || fstat(fd, &info) != 0) return cannot(rendezvous->path, "read it");
    seen->there = true;
    seen->touched = info.st_mtim;
    seen->state = control_rendezvous_record_parse(text, (size_t)bytes, &seen->record);
    explicit_bzero(text, sizeof text);
    if (seen->state == CONTROL_RENDEZVOUS_ALIEN)
        return fail(STATUS_USAGE,
                    "%s: exists and is not a rendezvous file of stretto\n"
                    "  name another path in --init file://, or remove it",
                    rendezvous->path);
    if (seen->state == CONTROL_RENDEZVOUS_GOOD)
        seen->alive = known_alive(rendezvous, fd, &seen->record);
    return STATUS_OK;
}

static enum status look(const struct control_rendezvous *rendezvous, struct seen *seen) {
    *seen = (struct seen){0};
    int fd = open(rendezvous->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    /* ESTALE: removed on the server of the file system between look-up and open. */
    if (fd < 0 && (errno == ENOENT || errno == ESTALE)) return STATUS_OK;
    if (fd < 0) return cannot(rendezvous->path, "open it");
    enum status status = look_at(rendezvous, fd, seen);
    close(fd);
    return status;
}

static bool touched_since(const struct seen *before, const struct seen *now) {
    return strcmp(before->record.nonce, now->record.nonce) != 0 ||
           before->touched.tv_sec != now->touched.tv_sec ||
           before->touched.tv_nsec != now->touched.tv_nsec;
}

/* Whether a publisher on another machine lives: its record is touched while we look on. */
static enum status recorder_touch(const struct control_rendezvous *rendezvous, struct seen *seen) {
    int64_t begin = clock_ns();
    struct seen now;
    while (!past(begin, watch_limit_s)) {
        TRY(look(rendezvous, &now));
        if (!now.there || now.state != CONTROL_RENDEZVOUS_GOOD) return STATUS_OK;
        if (touched_since(seen, &now)) seen->alive = true;
        if (seen->alive) return STATUS_OK;
        nap();
    }
    return STATUS_OK;
}

/* --- the publisher --- */

static enum status in_use(const struct control_rendezvous *rendezvous, const struct seen *seen) {
    if (!seen->there || seen->state != CONTROL_RENDEZVOUS_GOOD)
        return fail(STATUS_USAGE, "%s: another job is using this path\n  name another one",
                    rendezvous->path);
    return fail(STATUS_USAGE,
                "%s: another job is using this path: host %s, process %d, job %s\n"
                "  name another path in --init file://, or end that job",
                rendezvous->path, seen->record.host, seen->record.pid, seen->record.job);
}

/* A record that is there: refused when its job lives, else removed. */
static enum status clear_old(const struct control_rendezvous *rendezvous) {
    struct seen seen;
    TRY(look(rendezvous, &seen));
    if (!seen.there) return STATUS_OK;
    bool good = seen.state == CONTROL_RENDEZVOUS_GOOD;
    if (good && !seen.alive && !control_rendezvous_same_boot(&seen.record, &rendezvous->me))
        TRY(recorder_touch(rendezvous, &seen));
    if (good && seen.alive) return in_use(rendezvous, &seen);
    explicit_bzero(&seen, sizeof seen);
    log_note("%s: replacing the record of a job that ended without removing it", rendezvous->path);
    if (unlink(rendezvous->path) != 0 && errno != ENOENT)
        return cannot(rendezvous->path, "remove it");
    return STATUS_OK;
}

static enum status write_record(struct control_rendezvous *rendezvous) {
    char text[CONTROL_RENDEZVOUS_BYTES];
    unlink(rendezvous->new_path); /* of a publisher that died here; we hold the lock */
    rendezvous->record_fd =
        open(rendezvous->new_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (rendezvous->record_fd < 0) return cannot(rendezvous->new_path, "create it");
    size_t bytes = control_rendezvous_record_print(&rendezvous->me, text);
    ssize_t written = write(rendezvous->record_fd, text, bytes);
    explicit_bzero(text, sizeof text);
    try_lock(rendezvous->record_fd, LOCK_EX);
    if (written != (ssize_t)bytes || fsync(rendezvous->record_fd) != 0 ||
        rename(rendezvous->new_path, rendezvous->path) != 0) {
        enum status status = cannot(rendezvous->path, "write it");
        unlink(rendezvous->new_path);
        return status;
    }
    return STATUS_OK;
}

/* --- clients on other hosts --- */

static size_t request_text(const char *nonce, char text[CONTROL_RENDEZVOUS_WORD + 16]) {
    return (size_t)snprintf(text, CONTROL_RENDEZVOUS_WORD + 16, "remote%.127s\n", nonce);
}

/* Opened each time: shared file systems fetch the newest bytes then. */
static bool is_requested(const struct control_rendezvous *rendezvous) {
    char want[CONTROL_RENDEZVOUS_WORD + 16], text[CONTROL_RENDEZVOUS_WORD + 16];
    size_t length = request_text(rendezvous->me.nonce, want);
    int fd = open(rendezvous->lock_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    ssize_t bytes = pread(fd, text, length, 0);
    close(fd);
    return bytes == (ssize_t)length && memcmp(text, want, length) == 0;
}

/* The record with another address; its secret is in the file alone. */
static enum status publish_again(struct control_rendezvous *rendezvous,
                                 const char address[CONTROL_ADDRESS_BYTES]) {
    struct seen seen;
    int old = rendezvous->record_fd;
    TRY(look(rendezvous, &seen));
    rendezvous->me.info.secret = seen.record.info.secret;
    snprintf(rendezvous->me.info.address, sizeof rendezvous->me.info.address, "%s", address);
    enum status status = write_record(rendezvous);
    control_secret_wipe(&rendezvous->me.info.secret);
    explicit_bzero(&seen, sizeof seen);
    int unused = status == STATUS_OK ? old : rendezvous->record_fd;
    if (status != STATUS_OK) rendezvous->record_fd = old;
    if (unused >= 0) close(unused);
    return status;
}

static void answer_request(struct control_rendezvous *rendezvous) {
    char address[CONTROL_ADDRESS_BYTES];
    pthread_mutex_lock(&rendezvous->remote_lock);
    if (rendezvous->remote_open && is_requested(rendezvous)) {
        enum status status = rendezvous->remote_open(rendezvous->remote_context, address);
        rendezvous->remote_open = NULL;
        if (status == STATUS_OK) status = publish_again(rendezvous, address);
        if (status == STATUS_OK)
            log_note("a rank on another host asks for it: the control server listens on %s too",
                     address);
    }
    pthread_mutex_unlock(&rendezvous->remote_lock);
}

void control_rendezvous_remote(struct control_rendezvous *rendezvous, void *context,
                               enum status (*open)(void *context,
                                                   char address[CONTROL_ADDRESS_BYTES])) {
    if (!rendezvous) return;
    pthread_mutex_lock(&rendezvous->remote_lock);
    rendezvous->remote_context = context;
    rendezvous->remote_open = open;
    pthread_mutex_unlock(&rendezvous->remote_lock);
}

static void *touch(void *argument) {
    struct control_rendezvous *rendezvous = argument;
    struct pollfd item = {.fd = rendezvous->wake, .events = POLLIN};
    for (int turn = 1; poll(&item, 1, REQUEST_MS) == 0; turn++) {
        if (turn % (TOUCH_MS / REQUEST_MS) == 0) futimens(rendezvous->record_fd, NULL);
        answer_request(rendezvous);
    }
    return NULL;
}

static enum status start_touching(struct control_rendezvous *rendezvous) {
    rendezvous->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rendezvous->wake < 0) return fail(STATUS_DATA, "no event descriptor: %s", strerror(errno));
    TRY(thread_start(&rendezvous->thread, touch, rendezvous));
    rendezvous->touching = true;
    return STATUS_OK;
}

static struct control_rendezvous *new_rendezvous(const char *path) {
    struct control_rendezvous *rendezvous = MEM_NEW(struct control_rendezvous);
    rendezvous->path = mem_text(path);
    rendezvous->lock_path = mem_format("%s.lock", path);
    rendezvous->new_path = mem_format("%s.new", path);
    rendezvous->record_fd = rendezvous->lock_fd = rendezvous->wake = -1;
    pthread_mutex_init(&rendezvous->remote_lock, NULL);
    return rendezvous;
}

/* Whether a file beside the record is another program's; a lock holds nothing, or a request. */
static bool is_foreign(const char *path, bool lock) {
    static const char request[] = "remote";
    char text[CONTROL_RENDEZVOUS_BYTES];
    struct control_rendezvous_record record;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    ssize_t bytes = fd < 0 ? 0 : control_read_all(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    if (bytes <= 0) return false;
    size_t compared = (size_t)bytes < sizeof request - 1 ? (size_t)bytes : sizeof request - 1;
    bool foreign = lock ? memcmp(text, request, compared) != 0
                        : control_rendezvous_record_parse(text, (size_t)bytes, &record) ==
                              CONTROL_RENDEZVOUS_ALIEN;
    explicit_bzero(text, sizeof text);
    return foreign;
}

/* Both would be written to, and removed at the end. */
static enum status check_beside(const struct control_rendezvous *rendezvous) {
    bool lock = is_foreign(rendezvous->lock_path, true);
    if (!lock && !is_foreign(rendezvous->new_path, false)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: exists and is not a file of a rendezvous of stretto\n"
                "  name another path in --init file://, or remove it",
                lock ? rendezvous->lock_path : rendezvous->new_path);
}

static enum status publish(struct control_rendezvous *rendezvous) {
    enum lock lock;
    TRY(check_beside(rendezvous));
    TRY(lock_membership(rendezvous, LOCK_EX, O_CREAT, lock_limit_s, &lock));
    if (lock == LOCK_BUSY) {
        struct seen seen;
        TRY(look(rendezvous, &seen));
        return in_use(rendezvous, &seen);
    }
    rendezvous->no_locks = lock == LOCK_NONE;
    TRY(clear_old(rendezvous));
    rendezvous->publisher = true;
    TRY(write_record(rendezvous));
    if (!rendezvous->no_locks) flock(rendezvous->lock_fd, LOCK_SH);
    return start_touching(rendezvous);
}

enum status control_rendezvous_publish(const char *path, const char *job, int world,
                                       const struct control_rendezvous_info *info,
                                       struct control_rendezvous **out) {
    CHECK(info->address[0], "a rendezvous without an address");
    struct control_rendezvous *rendezvous = new_rendezvous(path);
    enum status status = control_rendezvous_record_new(job, world, info, &rendezvous->me);
    if (status == STATUS_OK) status = publish(rendezvous);
    control_secret_wipe(&rendezvous->me.info.secret);
    if (status == STATUS_OK)
        *out = rendezvous;
    else
        control_rendezvous_leave(&rendezvous);
    return status;
}

/* --- clients --- */

/* A client of another world goes on to the server, which tells all ranks: if it stayed away, the
 * others would wait for it. */
static enum status fits(const struct control_rendezvous *rendezvous, const char *job,
                        const struct control_rendezvous_record *record) {
    if (job && strcmp(job, record->job) != 0)
        return fail(STATUS_USAGE,
                    "%s: is used by job %s (host %s, process %d), this is job %.80s\n"
                    "  name another path in --init file://",
                    rendezvous->path, record->job, record->host, record->pid, job);
    return STATUS_OK;
}

static void unlock_membership(struct control_rendezvous *rendezvous) {
    if (rendezvous->lock_fd >= 0) close(rendezvous->lock_fd);
    rendezvous->lock_fd = -1;
}

/* Once the lock is held, the record must still be the one we saw. */
static enum status enter(struct control_rendezvous *rendezvous, const struct seen *seen,
                         bool *entered) {
    enum lock lock;
    struct seen again;
    *entered = false;
    TRY(lock_membership(rendezvous, LOCK_SH, 0, 0, &lock));
    TRY(look(rendezvous, &again));
    *entered = lock != LOCK_BUSY && again.there && again.state == CONTROL_RENDEZVOUS_GOOD &&
               strcmp(again.record.nonce, seen->record.nonce) == 0;
    rendezvous->no_locks = lock == LOCK_NONE;
    explicit_bzero(&again, sizeof again);
    if (!*entered) unlock_membership(rendezvous);
    return STATUS_OK;
}

/* Whether the server must listen on a network before it can be reached from here. */
static bool is_remote(const struct control_rendezvous *rendezvous,
                      const struct control_rendezvous_record *record) {
    return strncmp(record->info.address, local_only, strlen(local_only)) == 0 &&
           !control_rendezvous_same_host(record, &rendezvous->me);
}

/* All clients write the same. */
static enum status request_remote(const struct control_rendezvous *rendezvous, const char *nonce) {
    char text[CONTROL_RENDEZVOUS_WORD + 16];
    size_t length = request_text(nonce, text);
    if (pwrite(rendezvous->lock_fd, text, length, 0) != (ssize_t)length ||
        fsync(rendezvous->lock_fd) != 0)
        return cannot(rendezvous->lock_path, "write it");
    return STATUS_OK;
}

/* Holds the lock of a live publisher; `ready` when its address can be reached from here. */
static enum status approach(struct control_rendezvous *rendezvous, const struct seen *now,
                            bool *ready) {
    bool same = strcmp(rendezvous->me.nonce, now->record.nonce) == 0;
    bool entered = same && rendezvous->lock_fd >= 0;
    *ready = false;
    if (!same) rendezvous->asked = false;
    if (!entered) {
        unlock_membership(rendezvous);
        TRY(enter(rendezvous, now, &entered));
    }
    if (!entered) return STATUS_OK;
    snprintf(rendezvous->me.nonce, sizeof rendezvous->me.nonce, "%s", now->record.nonce);
    *ready = !is_remote(rendezvous, &now->record);
    if (*ready || rendezvous->asked || rendezvous->lock_fd < 0) return STATUS_OK;
    TRY(request_remote(rendezvous, now->record.nonce));
    rendezvous->asked = true;
    return STATUS_OK;
}

/* Of a file that the user did not name. */
static enum status nobody_opened(const char *name, const char *limit, const struct seen *last) {
    if (last->there && last->state == CONTROL_RENDEZVOUS_GOOD)
        return fail(STATUS_PEER,
                    "%s: no live rank 0 within %s; process %d, which opened it, has ended\n"
                    "  was rank 0 started on this machine?",
                    name, limit, last->record.pid);
    return fail(STATUS_PEER,
                "%s: rank 0 has not opened it within %s\n  was rank 0 started on this machine?",
                name, limit);
}

static enum status no_publisher(const struct control_rendezvous *rendezvous, const char *name,
                                double limit_s, const struct seen *last) {
    char limit[TEXT_BYTES];
    text_duration(limit_s, limit);
    if (name) return nobody_opened(name, limit, last);
    if (last->alive && is_remote(rendezvous, &last->record))
        return fail(STATUS_PEER,
                    "%s: host %s (process %d) listens on that machine alone, and on no network "
                    "within %s of the request\n  see the messages of rank 0",
                    rendezvous->path, last->record.host, last->record.pid, limit);
    if (last->there && last->state == CONTROL_RENDEZVOUS_GOOD)
        return fail(STATUS_PEER,
                    "%s: no live rank 0 within %s; the record there is of a dead job (host %s, "
                    "process %d)\n  was rank 0 started?",
                    rendezvous->path, limit, last->record.host, last->record.pid);
    return fail(STATUS_PEER,
                "%s: no record of rank 0 within %s%s\n"
                "  was rank 0 started, and does it see the same file system?",
                rendezvous->path, limit, last->there ? " (a damaged record is there)" : "");
}

static enum status wait_for_record(struct control_rendezvous *rendezvous, const char *name,
                                   const char *job, double limit_s,
                                   struct control_rendezvous_info *info) {
    int64_t begin = clock_ns();
    struct seen first = {0}, now;
    while (true) {
        TRY(look(rendezvous, &now));
        bool good = now.there && now.state == CONTROL_RENDEZVOUS_GOOD;
        bool elsewhere = good && !control_rendezvous_same_boot(&now.record, &rendezvous->me);
        bool known = good && first.there && strcmp(first.record.nonce, now.record.nonce) == 0;
        if (good && !known) first = now;
        if (elsewhere && known && touched_since(&first, &now)) now.alive = true;
        if (good && now.alive) {
            bool ready;
            TRY(fits(rendezvous, job, &now.record));
            TRY(approach(rendezvous, &now, &ready));
            if (ready) break;
        }
        if (past(begin, limit_s)) return no_publisher(rendezvous, name, limit_s, &now);
        nap();
    }
    *info = now.record.info;
    explicit_bzero(&now, sizeof now);
    explicit_bzero(&first, sizeof first);
    return STATUS_OK;
}

enum status control_rendezvous_wait(const char *path, const char *name, const char *job,
                                    double limit_s, struct control_rendezvous_info *info,
                                    struct control_rendezvous **out) {
    SCOPED(control_rendezvous_leave) struct control_rendezvous *rendezvous = new_rendezvous(path);
    const struct control_rendezvous_info nothing = {0};
    TRY(control_rendezvous_record_new(job, 0, &nothing, &rendezvous->me));
    TRY(wait_for_record(rendezvous, name, job, limit_s, info));
    *out = rendezvous;
    rendezvous = NULL;
    return STATUS_OK;
}

/* --- leaving --- */

static bool is_ours(const struct control_rendezvous *rendezvous) {
    char text[CONTROL_RENDEZVOUS_BYTES];
    struct control_rendezvous_record record;
    int fd = open(rendezvous->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    ssize_t bytes = control_read_all(fd, text, sizeof text);
    close(fd);
    bool ours =
        bytes > 0 &&
        control_rendezvous_record_parse(text, (size_t)bytes, &record) == CONTROL_RENDEZVOUS_GOOD &&
        strcmp(record.nonce, rendezvous->me.nonce) == 0;
    explicit_bzero(text, sizeof text);
    explicit_bzero(&record, sizeof record);
    return ours;
}

static void remove_files(const struct control_rendezvous *rendezvous) {
    if (is_ours(rendezvous)) unlink(rendezvous->path);
    if (file_is_at(rendezvous->lock_fd, rendezvous->lock_path)) unlink(rendezvous->lock_path);
}

void control_rendezvous_leave(struct control_rendezvous **rendezvous) {
    struct control_rendezvous *old = *rendezvous;
    if (!old) return;
    if (old->touching) {
        uint64_t one = 1;
        ssize_t written = write(old->wake, &one, sizeof one);
        (void)written;
        pthread_join(old->thread, NULL);
    }
    /* A flock that changes kind lets go first: of two who leave at once one gets it. */
    bool last = old->lock_fd >= 0 && try_lock(old->lock_fd, LOCK_EX) == LOCK_TAKEN;
    if (last || (old->publisher && old->no_locks && old->record_fd >= 0)) remove_files(old);
    int fds[] = {old->record_fd, old->lock_fd, old->wake};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) close(fds[i]);
    pthread_mutex_destroy(&old->remote_lock);
    free(old->path);
    free(old->lock_path);
    free(old->new_path);
    free(old);
    *rendezvous = NULL;
}
