/* See lock.h. The kernel's lock on a file decides: it goes with its process, so the file of a run
 * that was killed is nobody's, and hosts that share the folder see it where their file system
 * passes locks on, as NFS does. What the file says is for people; and for file systems without
 * locks, where an owner on this machine that lives counts. Rejected: a file that is there or not
 * (O_EXCL), which a killed run leaves behind. */
#include "run/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/identity.h"

struct lock {
    int fd;
    char *path;
};

struct owner {
    char host[LAUNCH_HOST_BYTES], machine[LAUNCH_MACHINE_BYTES];
    int pid;
};

/* "host h process 123 on MACHINE": false when it is not written yet, or not by us. */
static bool read_owner(int fd, struct owner *out) {
    char text[512];
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    if (got <= 0) return false;
    text[got] = 0;
    return sscanf(text, "host %255s process %d on %95[^\n]", out->host, &out->pid, out->machine) ==
           3;
}

static void write_owner(int fd) {
    struct launch_identity here;
    launch_identity_here(&here);
    SCOPED_FREE char *text =
        mem_format("host %s process %d on %s\n", here.host, (int)getpid(), here.machine);
    ssize_t bytes = (ssize_t)strlen(text);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)bytes, 0) != bytes)
        log_note("the owner of the run's folder cannot be noted: %s", strerror(errno));
}

static enum status refuse(const char *folder, int fd) {
    struct owner owner;
    char who[400] = "";
    if (read_owner(fd, &owner))
        snprintf(who, sizeof who, ": process %d on host %s", owner.pid, owner.host);
    return fail(STATUS_USAGE,
                "--out %s is being written by another run%s\n"
                "  wait for its end, or name another folder",
                folder, who);
}

/* Without locks: is the owner a process of this machine that lives? */
static bool owner_lives(int fd) {
    struct launch_identity here;
    struct owner owner;
    launch_identity_here(&here);
    return read_owner(fd, &owner) && strcmp(owner.machine, here.machine) == 0 &&
           owner.pid != (int)getpid() && (kill(owner.pid, 0) == 0 || errno == EPERM);
}

static bool is_taken(int fd, int kind) {
    int got;
    do got = flock(fd, kind | LOCK_NB);
    while (got != 0 && errno == EINTR);
    return got != 0 && (errno == EWOULDBLOCK || owner_lives(fd));
}

enum status lock_take(const char *folder, struct lock **out) {
    char *path = mem_format("%s/.stretto-lock", folder);
    while (true) {
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
        enum status status = fd >= 0 && is_taken(fd, LOCK_EX) ? refuse(folder, fd) : STATUS_OK;
        bool stale = fd >= 0 && status == STATUS_OK && !file_is_at(fd, path);
        if (fd >= 0 && status == STATUS_OK && !stale) {
            write_owner(fd);
            *out = MEM_NEW(struct lock);
            **out = (struct lock){fd, path};
            return STATUS_OK;
        }
        if (fd >= 0) close(fd);
        if (stale) continue;
        free(path);
        if (status == STATUS_OK) *out = NULL;
        return status;
    }
}

/* A lock of its own kind, for an instant: it meets only that of a writer. */
enum status lock_check(const char *folder) {
    SCOPED_FREE char *path = mem_format("%s/.stretto-lock", folder);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    enum status status = fd >= 0 && is_taken(fd, LOCK_SH) ? refuse(folder, fd) : STATUS_OK;
    if (fd >= 0) close(fd);
    return status;
}

void lock_give_back(struct lock **lock) {
    if (!*lock) return;
    unlink((*lock)->path); /* while we hold it: who has it open already finds that it is gone */
    close((*lock)->fd);
    free((*lock)->path);
    free(*lock);
    *lock = NULL;
}
