/* file:// meetings. Two files: PATH, the record, and PATH.lock.
 *
 *   - The host holds an exclusive lock on its record as long as it lives, and touches it each
 * second.
 *   - Host and guests hold a shared lock on PATH.lock while they are in the job. Whoever can make
 * it exclusive is alone: a new host may write a record, the last to leave removes both files.
 *
 * The kernel drops locks with the process, so a record whose lock is free is a dead job's, known at
 * once on the same machine. For a record of another machine a free lock proves nothing (many shared
 * file systems keep locks to one host): such a host is alive when its record is touched while we
 * watch. Only changes of the time stamp count, never its value, so clocks need not agree. Where
 * there are no locks at all, the process number decides on the same machine, and the host removes.
 * A record appears whole, by rename, and carries a checksum.
 *
 * A host listens on this machine alone until somebody elsewhere comes: such a guest writes "far"
 * and the record's nonce into PATH.lock, which is there before the record is. The host then
 * listens on a network too and writes its record once more, with that address. */
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
#include "control/record.h"
#include "control/secret.h"
#include "control/socket.h"

enum { POLL_MS = 25, TOUCH_MS = 1000, KNOCK_MS = 100 };
static const double lock_limit_s = 3;  /* for members of a job that is just ending */
static const double watch_limit_s = 5; /* without a touch a host elsewhere counts as dead */

struct control_meeting {
    char *path, *lock_path, *new_path;
    struct control_record me; /* of a guest: its own boot and space, the host's nonce */
    bool host, no_locks, touching;
    bool asked; /* a guest: it has knocked */
    int record_fd, lock_fd, wake;
    pthread_t thread;
    pthread_mutex_t far_lock; /* of the rest: see control_meet_far */
    void *far_context;
    enum status (*far_open)(void *context, char address[CONTROL_ADDRESS_BYTES]);
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
static enum status join_party(struct control_meeting *meeting, int kind, int create, double limit_s,
                              enum lock *out) {
    int64_t begin = clock_ns();
    while (true) {
        int fd = open(meeting->lock_path, O_RDWR | create | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == ENOENT && !create) {
            *out = LOCK_NONE;
            return STATUS_OK;
        }
        if (fd < 0) return cannot(meeting->lock_path, "open it");
        enum lock got = try_lock(fd, kind);
        bool valid = got != LOCK_TAKEN || file_is_at(fd, meeting->lock_path);
        if (valid && got != LOCK_BUSY) {
            meeting->lock_fd = fd;
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
    enum control_record_state state;
    struct control_record record;
    struct timespec touched;
};

/* By what can be known at once; a host elsewhere is found alive by watch_touch. */
static bool known_alive(const struct control_meeting *meeting, int fd,
                        const struct control_record *record) {
    enum lock lock = try_lock(fd, LOCK_SH);
    if (lock == LOCK_TAKEN) flock(fd, LOCK_UN);
    if (lock == LOCK_BUSY) return true;
    if (lock == LOCK_TAKEN && control_record_same_boot(record, &meeting->me)) return false;
    return control_record_same_space(record, &meeting->me) &&
           (kill(record->pid, 0) == 0 || errno == EPERM);
}

static enum status look_at(const struct control_meeting *meeting, int fd, struct seen *seen) {
    char text[CONTROL_RECORD_BYTES];
    struct stat info;
    TRY(control_check_private(meeting->path, fd));
    ssize_t bytes = control_read_all(fd, text, sizeof text);
    if (bytes < 0 || fstat(fd, &info) != 0) return cannot(meeting->path, "read it");
    seen->there = true;
    seen->touched = info.st_mtim;
    seen->state = control_record_parse(text, (size_t)bytes, &seen->record);
    explicit_bzero(text, sizeof text);
    if (seen->state == CONTROL_RECORD_ALIEN)
        return fail(STATUS_USAGE,
                    "%s: exists and is no meeting file of stretto\n"
                    "  name another path in --init file://, or remove it",
                    meeting->path);
    if (seen->state == CONTROL_RECORD_GOOD) seen->alive = known_alive(meeting, fd, &seen->record);
    return STATUS_OK;
}

static enum status look(const struct control_meeting *meeting, struct seen *seen) {
    *seen = (struct seen){0};
    int fd = open(meeting->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    /* ESTALE: removed on the server of the file system between look-up and open. */
    if (fd < 0 && (errno == ENOENT || errno == ESTALE)) return STATUS_OK;
    if (fd < 0) return cannot(meeting->path, "open it");
    enum status status = look_at(meeting, fd, seen);
    close(fd);
    return status;
}

static bool touched_since(const struct seen *before, const struct seen *now) {
    return strcmp(before->record.nonce, now->record.nonce) != 0 ||
           before->touched.tv_sec != now->touched.tv_sec ||
           before->touched.tv_nsec != now->touched.tv_nsec;
}

/* Whether a host of another machine lives: its record is touched while we look on. */
static enum status watch_touch(const struct control_meeting *meeting, struct seen *seen) {
    int64_t begin = clock_ns();
    struct seen now;
    while (!past(begin, watch_limit_s)) {
        TRY(look(meeting, &now));
        if (!now.there || now.state != CONTROL_RECORD_GOOD) return STATUS_OK;
        if (touched_since(seen, &now)) seen->alive = true;
        if (seen->alive) return STATUS_OK;
        nap();
    }
    return STATUS_OK;
}

/* --- the host --- */

static enum status in_use(const struct control_meeting *meeting, const struct seen *seen) {
    if (!seen->there || seen->state != CONTROL_RECORD_GOOD)
        return fail(STATUS_USAGE, "%s: another job is using this path\n  name another one",
                    meeting->path);
    return fail(STATUS_USAGE,
                "%s: another job is using this path: host %s, process %d, job %s\n"
                "  name another path in --init file://, or end that job",
                meeting->path, seen->record.host, seen->record.pid, seen->record.job);
}

/* A record that is there: refused when its job lives, else removed. */
static enum status clear_old(const struct control_meeting *meeting) {
    struct seen seen;
    TRY(look(meeting, &seen));
    if (!seen.there) return STATUS_OK;
    bool good = seen.state == CONTROL_RECORD_GOOD;
    if (good && !seen.alive && !control_record_same_boot(&seen.record, &meeting->me))
        TRY(watch_touch(meeting, &seen));
    if (good && seen.alive) return in_use(meeting, &seen);
    explicit_bzero(&seen, sizeof seen);
    log_note("%s: replacing the record of a job that ended without removing it", meeting->path);
    if (unlink(meeting->path) != 0 && errno != ENOENT) return cannot(meeting->path, "remove it");
    return STATUS_OK;
}

static enum status write_record(struct control_meeting *meeting) {
    char text[CONTROL_RECORD_BYTES];
    unlink(meeting->new_path); /* of a host that died here; we hold the lock */
    meeting->record_fd =
        open(meeting->new_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (meeting->record_fd < 0) return cannot(meeting->new_path, "create it");
    size_t bytes = control_record_print(&meeting->me, text);
    ssize_t written = write(meeting->record_fd, text, bytes);
    explicit_bzero(text, sizeof text);
    try_lock(meeting->record_fd, LOCK_EX);
    if (written != (ssize_t)bytes || fsync(meeting->record_fd) != 0 ||
        rename(meeting->new_path, meeting->path) != 0) {
        enum status status = cannot(meeting->path, "write it");
        unlink(meeting->new_path);
        return status;
    }
    return STATUS_OK;
}

/* --- guests of other hosts --- */

static size_t knock_text(const char *nonce, char text[CONTROL_RECORD_WORD + 8]) {
    return (size_t)snprintf(text, CONTROL_RECORD_WORD + 8, "far %.127s\n", nonce);
}

/* Opened each time: on shared file systems that is when the newest bytes are fetched. */
static bool knocked(const struct control_meeting *meeting) {
    char want[CONTROL_RECORD_WORD + 8], text[CONTROL_RECORD_WORD + 8];
    size_t length = knock_text(meeting->me.nonce, want);
    int fd = open(meeting->lock_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    ssize_t bytes = pread(fd, text, length, 0);
    close(fd);
    return bytes == (ssize_t)length && memcmp(text, want, length) == 0;
}

/* The record with another address; its secret is in the file alone. */
static enum status publish_again(struct control_meeting *meeting,
                                 const char address[CONTROL_ADDRESS_BYTES]) {
    struct seen seen;
    int old = meeting->record_fd;
    TRY(look(meeting, &seen));
    meeting->me.info.secret = seen.record.info.secret;
    snprintf(meeting->me.info.address, sizeof meeting->me.info.address, "%s", address);
    enum status status = write_record(meeting);
    control_secret_wipe(&meeting->me.info.secret);
    explicit_bzero(&seen, sizeof seen);
    int unused = status == STATUS_OK ? old : meeting->record_fd;
    if (status != STATUS_OK) meeting->record_fd = old;
    if (unused >= 0) close(unused);
    return status;
}

static void answer_knock(struct control_meeting *meeting) {
    char address[CONTROL_ADDRESS_BYTES];
    pthread_mutex_lock(&meeting->far_lock);
    if (meeting->far_open && knocked(meeting)) {
        enum status status = meeting->far_open(meeting->far_context, address);
        meeting->far_open = NULL;
        if (status == STATUS_OK) status = publish_again(meeting, address);
        if (status == STATUS_OK)
            log_note("ranks of other hosts come: the control server listens on %s too", address);
    }
    pthread_mutex_unlock(&meeting->far_lock);
}

void control_meet_far(struct control_meeting *meeting, void *context,
                      enum status (*open)(void *context, char address[CONTROL_ADDRESS_BYTES])) {
    if (!meeting) return;
    pthread_mutex_lock(&meeting->far_lock);
    meeting->far_context = context;
    meeting->far_open = open;
    pthread_mutex_unlock(&meeting->far_lock);
}

static void *touch(void *argument) {
    struct control_meeting *meeting = argument;
    struct pollfd item = {.fd = meeting->wake, .events = POLLIN};
    for (int turn = 1; poll(&item, 1, KNOCK_MS) == 0; turn++) {
        if (turn % (TOUCH_MS / KNOCK_MS) == 0) futimens(meeting->record_fd, NULL);
        answer_knock(meeting);
    }
    return NULL;
}

static enum status start_touching(struct control_meeting *meeting) {
    meeting->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (meeting->wake < 0) return fail(STATUS_DATA, "no event descriptor: %s", strerror(errno));
    TRY(thread_start(&meeting->thread, touch, meeting));
    meeting->touching = true;
    return STATUS_OK;
}

static struct control_meeting *new_meeting(const char *path) {
    struct control_meeting *meeting = MEM_NEW(struct control_meeting);
    meeting->path = mem_text(path);
    meeting->lock_path = mem_format("%s.lock", path);
    meeting->new_path = mem_format("%s.new", path);
    meeting->record_fd = meeting->lock_fd = meeting->wake = -1;
    pthread_mutex_init(&meeting->far_lock, NULL);
    return meeting;
}

static enum status host(struct control_meeting *meeting) {
    enum lock lock;
    TRY(join_party(meeting, LOCK_EX, O_CREAT, lock_limit_s, &lock));
    if (lock == LOCK_BUSY) {
        struct seen seen;
        TRY(look(meeting, &seen));
        return in_use(meeting, &seen);
    }
    meeting->no_locks = lock == LOCK_NONE;
    TRY(clear_old(meeting));
    meeting->host = true;
    TRY(write_record(meeting));
    if (!meeting->no_locks) flock(meeting->lock_fd, LOCK_SH);
    return start_touching(meeting);
}

enum status control_meet_host(const char *path, const char *job, int world,
                              const struct control_meeting_info *info,
                              struct control_meeting **out) {
    CHECK(info->address[0], "a meeting without an address");
    struct control_meeting *meeting = new_meeting(path);
    enum status status = control_record_new(job, world, info, &meeting->me);
    if (status == STATUS_OK) status = host(meeting);
    control_secret_wipe(&meeting->me.info.secret);
    if (status == STATUS_OK)
        *out = meeting;
    else
        control_meet_leave(&meeting);
    return status;
}

/* --- guests --- */

/* A guest of another world goes on to the server, which tells everybody: if it stayed away, the
 * others would wait for it. */
static enum status fits(const struct control_meeting *meeting, const char *job,
                        const struct control_record *record) {
    if (job && strcmp(job, record->job) != 0)
        return fail(STATUS_USAGE,
                    "%s: is used by job %s (host %s, process %d), this is job %.80s\n"
                    "  name another path in --init file://",
                    meeting->path, record->job, record->host, record->pid, job);
    return STATUS_OK;
}

static void leave_party(struct control_meeting *meeting) {
    if (meeting->lock_fd >= 0) close(meeting->lock_fd);
    meeting->lock_fd = -1;
}

/* Once in the party, the record must still be the one we saw. */
static enum status enter(struct control_meeting *meeting, const struct seen *seen, bool *entered) {
    enum lock lock;
    struct seen again;
    *entered = false;
    TRY(join_party(meeting, LOCK_SH, 0, 0, &lock));
    TRY(look(meeting, &again));
    *entered = lock != LOCK_BUSY && again.there && again.state == CONTROL_RECORD_GOOD &&
               strcmp(again.record.nonce, seen->record.nonce) == 0;
    meeting->no_locks = lock == LOCK_NONE;
    explicit_bzero(&again, sizeof again);
    if (!*entered) leave_party(meeting);
    return STATUS_OK;
}

/* Whether the host must listen elsewhere before it can be reached from here. */
static bool is_far(const struct control_meeting *meeting, const struct control_record *record) {
    return strncmp(record->info.address, local_only, strlen(local_only)) == 0 &&
           !control_record_same_host(record, &meeting->me);
}

/* All who knock write the same. */
static enum status knock(const struct control_meeting *meeting, const char *nonce) {
    char text[CONTROL_RECORD_WORD + 8];
    size_t length = knock_text(nonce, text);
    if (pwrite(meeting->lock_fd, text, length, 0) != (ssize_t)length ||
        fsync(meeting->lock_fd) != 0)
        return cannot(meeting->lock_path, "write it");
    return STATUS_OK;
}

/* In the party of a live host; `ready` when its address can be reached from here. */
static enum status approach(struct control_meeting *meeting, const struct seen *now, bool *ready) {
    bool same = strcmp(meeting->me.nonce, now->record.nonce) == 0;
    bool entered = same && meeting->lock_fd >= 0;
    *ready = false;
    if (!same) meeting->asked = false;
    if (!entered) {
        leave_party(meeting);
        TRY(enter(meeting, now, &entered));
    }
    if (!entered) return STATUS_OK;
    snprintf(meeting->me.nonce, sizeof meeting->me.nonce, "%s", now->record.nonce);
    *ready = !is_far(meeting, &now->record);
    if (*ready || meeting->asked || meeting->lock_fd < 0) return STATUS_OK;
    TRY(knock(meeting, now->record.nonce));
    meeting->asked = true;
    return STATUS_OK;
}

static enum status nobody_came(const struct control_meeting *meeting, double limit_s,
                               const struct seen *last) {
    char limit[TEXT_BYTES];
    text_duration(limit_s, limit);
    if (last->alive && is_far(meeting, &last->record))
        return fail(STATUS_PEER,
                    "%s: host %s (process %d) listens on that machine alone, and on no network "
                    "within %s of being asked\n  look at what rank 0 says",
                    meeting->path, last->record.host, last->record.pid, limit);
    if (last->there && last->state == CONTROL_RECORD_GOOD)
        return fail(STATUS_PEER,
                    "%s: no live host within %s; the record there is of a dead job (host %s, "
                    "process %d)\n  was rank 0 started?",
                    meeting->path, limit, last->record.host, last->record.pid);
    return fail(STATUS_PEER,
                "%s: no host came within %s%s\n"
                "  was rank 0 started, and does it see the same file system?",
                meeting->path, limit, last->there ? " (a damaged record is there)" : "");
}

static enum status guest(struct control_meeting *meeting, const char *job, double limit_s,
                         struct control_meeting_info *info) {
    int64_t begin = clock_ns();
    struct seen first = {0}, now;
    while (true) {
        TRY(look(meeting, &now));
        bool good = now.there && now.state == CONTROL_RECORD_GOOD;
        bool elsewhere = good && !control_record_same_boot(&now.record, &meeting->me);
        bool known = good && first.there && strcmp(first.record.nonce, now.record.nonce) == 0;
        if (good && !known) first = now;
        if (elsewhere && known && touched_since(&first, &now)) now.alive = true;
        if (good && now.alive) {
            bool ready;
            TRY(fits(meeting, job, &now.record));
            TRY(approach(meeting, &now, &ready));
            if (ready) break;
        }
        if (past(begin, limit_s)) return nobody_came(meeting, limit_s, &now);
        nap();
    }
    *info = now.record.info;
    explicit_bzero(&now, sizeof now);
    explicit_bzero(&first, sizeof first);
    return STATUS_OK;
}

enum status control_meet_guest(const char *path, const char *job, double limit_s,
                               struct control_meeting_info *info, struct control_meeting **out) {
    struct control_meeting *meeting = new_meeting(path);
    const struct control_meeting_info nothing = {0};
    enum status status = control_record_new(job, 0, &nothing, &meeting->me);
    if (status == STATUS_OK) status = guest(meeting, job, limit_s, info);
    if (status == STATUS_OK)
        *out = meeting;
    else
        control_meet_leave(&meeting);
    return status;
}

/* --- leaving --- */

static bool is_ours(const struct control_meeting *meeting) {
    char text[CONTROL_RECORD_BYTES];
    struct control_record record;
    int fd = open(meeting->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    ssize_t bytes = control_read_all(fd, text, sizeof text);
    close(fd);
    bool ours = bytes > 0 &&
                control_record_parse(text, (size_t)bytes, &record) == CONTROL_RECORD_GOOD &&
                strcmp(record.nonce, meeting->me.nonce) == 0;
    explicit_bzero(text, sizeof text);
    explicit_bzero(&record, sizeof record);
    return ours;
}

static void remove_files(const struct control_meeting *meeting) {
    if (is_ours(meeting)) unlink(meeting->path);
    if (file_is_at(meeting->lock_fd, meeting->lock_path)) unlink(meeting->lock_path);
}

void control_meet_leave(struct control_meeting **meeting) {
    struct control_meeting *old = *meeting;
    if (!old) return;
    if (old->touching) {
        uint64_t one = 1;
        ssize_t written = write(old->wake, &one, sizeof one);
        (void)written;
        pthread_join(old->thread, NULL);
    }
    /* A flock that changes kind lets go first: of two who leave at once one gets it. */
    bool last = old->lock_fd >= 0 && try_lock(old->lock_fd, LOCK_EX) == LOCK_TAKEN;
    if (last || (old->host && old->no_locks && old->record_fd >= 0)) remove_files(old);
    int fds[] = {old->record_fd, old->lock_fd, old->wake};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0) close(fds[i]);
    pthread_mutex_destroy(&old->far_lock);
    free(old->path);
    free(old->lock_path);
    free(old->new_path);
    free(old);
    *meeting = NULL;
}
