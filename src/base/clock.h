/* Time. Durations use the monotonic clock only, so that setting the wall clock disturbs nothing. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Local. Nanoseconds of the monotonic clock. */
static inline int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Local. Nanoseconds that this thread has run. */
static inline int64_t clock_thread_ns(void) {
    struct timespec ran;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return (int64_t)ran.tv_sec * 1000000000 + ran.tv_nsec;
}

/* Local. Seconds since 1970, for time stamps in files only. */
static inline double clock_wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
