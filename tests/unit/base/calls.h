/* System calls of the code under test, which a test can make fail or listen to.
 *
 * The library is linked into the test program, so the definitions in calls.c take the place of
 * libc's for it. Root may read what nobody else may, and no disk here fails on request: EACCES, EIO
 * and a full disk come from here. Unset, calls pass through. */
#ifndef TESTS_BASE_CALLS_H
#define TESTS_BASE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum call { CALL_NONE, CALL_OPEN, CALL_PREAD, CALL_OPENDIR, CALL_READDIR };

extern struct calls {
    enum call failing; /* fails with `code` for paths that end with `path` */
    const char *path;
    int code;
    bool full;                        /* statvfs knows a disk with `free_bytes` */
    uint64_t free_bytes;              /* left */
    void (*making)(const char *path); /* before each mkdir; or NULL */
    void (*synced)(const char *path); /* after each fsync, with the path of the file; or NULL */
} calls;

#endif
