/* The device `late`, for tests alone: reference kernels that run as late as they may.
 *
 * Each stream is a queue and a thread. Work waits there until somebody asks for it, the host or
 * another stream that waits for an event, or until it is some milliseconds old. A copy from the
 * host comes behind all that other streams can do without it. So what is not awaited is read too
 * early. Its memory has two mappings. The addresses that it hands out are of the one that nobody
 * may touch: who reaches past the table ends with SIGSEGV. The threads of the streams know the
 * other one. */
#ifndef TESTS_LATE_LATE_H
#define TESTS_LATE_LATE_H

#include "backend/backend.h"

extern const struct backend backend_late;

/* Local. Makes the name known: --device late. Once a process, before anything looks for it. */
void late_add(void);

/* Streams of a device are numbered as they are made, the default one apart. What was done on one of
 * them last before an event was recorded: */
enum late_kind {
    LATE_KERNEL,
    LATE_COPY_IN,
    LATE_COPY_OUT,
    LATE_ARRAY,
    LATE_WAIT,
    LATE_MARK /* not counted */
};
/* Local. From now on no stream waits for the events of stream `stream` that were recorded behind
 * something of this kind; stream -1: all wait again. */
void late_drop_waits(int stream, enum late_kind kind);
/* Local. How many waits were dropped so far. */
int late_dropped(void);
/* Local. The n-th kernel from now on, of any device, fails; its device does nothing after it. */
void late_fail_kernel(int64_t n);

#endif
