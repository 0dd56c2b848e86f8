/* See calls.h. */
#include "calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct calls calls;

/* The next definition of the call of this name: libc's, or a sanitizer's. */
#define NEXT(type, name) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

static bool fails(enum call call, const char *path) {
    if (calls.failing != call) return false;
    size_t length = strlen(path), end = strlen(calls.path);
    if (length < end || strcmp(path + length - end, calls.path) != 0) return false;
    errno = calls.code;
    return true;
}

static const char *path_of(int fd, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    path[length > 0 ? length : 0] = 0;
    return path;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (fails(CALL_OPEN, path)) return -1;
    return NEXT(int (*)(const char *, int, ...), "open")(path, flags, mode);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t offset) {
    char path[4096];
    if (calls.failing == CALL_PREAD && fails(CALL_PREAD, path_of(fd, path))) return -1;
    return NEXT(ssize_t(*)(int, void *, size_t, off_t), "pread")(fd, data, bytes, offset);
}

DIR *opendir(const char *path) {
    if (fails(CALL_OPENDIR, path)) return NULL;
    return NEXT(DIR * (*)(const char *), "opendir")(path);
}

struct dirent *readdir(DIR *folder) {
    char path[4096];
    if (calls.failing == CALL_READDIR && fails(CALL_READDIR, path_of(dirfd(folder), path)))
        return NULL;
    return NEXT(struct dirent * (*)(DIR *), "readdir")(folder);
}

int mkdir(const char *path, mode_t mode) {
    if (calls.making) calls.making(path);
    return NEXT(int (*)(const char *, mode_t), "mkdir")(path, mode);
}

int fsync(int fd) {
    char path[4096];
    int code = NEXT(int (*)(int), "fsync")(fd);
    if (code == 0 && calls.synced) calls.synced(path_of(fd, path));
    return code;
}

int statvfs(const char *path, struct statvfs *out) {
    int code = NEXT(int (*)(const char *, struct statvfs *), "statvfs")(path, out);
    if (code != 0 || !calls.full) return code;
    out->f_blocks = 1 << 20;
    out->f_frsize = 1;
    out->f_bfree = out->f_bavail = calls.free_bytes;
    return 0;
}
