/* Ranks for tests of the data plane: a function run by every rank of a small job, as the lone rank
 * of `self`, as threads, or as processes that find one another over a link in a shared mapping.
 *
 * A rank's function must not use Criterion's assertions (it may be in another thread or process):
 * it says NEED(condition), and the first failure of any rank is reported by ranks_run. */
#ifndef TESTS_UNIT_COMM_RANKS_H
#define TESTS_UNIT_COMM_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "comm/comm.h"

enum ranks_mode { RANKS_SELF, RANKS_THREADS, RANKS_PROCESSES, RANKS_MODE_COUNT };
extern const char *const ranks_mode_name[RANKS_MODE_COUNT];

enum { RANKS_MOST = 16, RANKS_KEYS = 256, RANKS_VALUE_BYTES = 256, RANKS_NOTES = 4096 };

/* Seen by all ranks. */
struct ranks_board {
    _Atomic int lost; /* what every rank's link says */
    _Atomic int lock, key_count;
    struct {
        char key[64], value[RANKS_VALUE_BYTES];
        size_t bytes;
    } pair[RANKS_KEYS];
    _Atomic int failures;
    char failure[256];
    _Atomic int64_t note[RANKS_NOTES]; /* for the test's own use */
    _Atomic int
        waited_for[RANKS_MOST]; /* by each rank: whom its link was told it waits for, or -1 */
    pid_t pid[RANKS_MOST];
};

struct ranks {
    struct ranks_board *board;
    enum ranks_mode mode;
    int size;
    size_t heap_bytes;
    void *argument;
    void (*body)(struct ranks *ranks, struct comm *comm);
    int killed; /* a rank that is meant to die by a signal, or -1 */
};

/* Runs body on every rank; returns the text of the first failure, NULL when there was none. */
const char *ranks_run(struct ranks *ranks);
void ranks_fail(struct ranks *ranks, int rank, const char *file, int line, const char *what);
/* A value any rank can make for any other, with full mantissas. */
float ranks_value(int rank, int64_t index);
/* The link of a rank as a process. */
struct comm_link ranks_link(struct ranks_board *board);

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ranks_fail(ranks, comm_rank(comm), __FILE__, __LINE__, #condition);                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
