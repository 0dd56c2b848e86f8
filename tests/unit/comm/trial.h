/* Ranks for tests of the data plane: a function run by every rank of a small job, as the lone rank
 * of `self`, as threads, or as processes that find one another over a link in a shared mapping.
 * Ranks have heaps of different sizes, and rank r has taken r pages of its own before it begins:
 * nothing lies at the same place on two ranks.
 *
 * A rank's function must not use Criterion's assertions (it may be in another thread or process):
 * it says NEED(condition), and the first failure of any rank is reported by trial_run. */
#ifndef TESTS_UNIT_COMM_TRIAL_H
#define TESTS_UNIT_COMM_TRIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "comm/comm.h"

enum trial_mode {
#define TRIAL(ID, ...) TRIAL_##ID,
#include "trial.def"
    TRIAL_MODE_COUNT
};
extern const char *const trial_mode_name[TRIAL_MODE_COUNT];
/* Whether this build has what the mode needs. */
bool trial_mode_there(enum trial_mode mode);

enum {
    TRIAL_MOST = 16,
    TRIAL_KEYS = 256,
    TRIAL_VALUE_BYTES = 1 << 14,
    TRIAL_NOTES = 4096,
    TRIAL_LOG_BYTES = 1024
};

/* Seen by all ranks. */
struct trial_shared {
    _Atomic int lost; /* what every rank's link says */
    _Atomic int lock, key_count;
    struct {
        char key[64], value[TRIAL_VALUE_BYTES];
        size_t bytes;
    } pair[TRIAL_KEYS];
    _Atomic int failures;
    char failure[256];
    _Atomic int64_t note[TRIAL_NOTES]; /* for the test's own use */
    _Atomic int
        waited_for[TRIAL_MOST]; /* by each rank: whom its link was told it waits for, or -1 */
    pid_t pid[TRIAL_MOST];
    char log[TRIAL_MOST][TRIAL_LOG_BYTES]; /* what each rank said, as a process */
};

struct trial {
    struct trial_shared *shared;
    enum trial_mode mode;
    int size;
    int threads;       /* of a rank; 0: one */
    size_t heap_bytes; /* that the body finds, at least; and for channels */
    bool alike;        /* heaps are equal, and empty */
    void *argument;
    void (*body)(struct trial *trial, struct comm *comm);
    void (*after)(
        struct trial *trial); /* in the test's process, while the shared memory is there; or NULL */
    int killed;               /* a rank that is meant to die by a signal, or -1 */
};

/* Runs body on every rank; returns the text of the first failure, NULL when there was none. */
const char *trial_run(struct trial *trial);
void trial_fail(struct trial *trial, int rank, const char *file, int line, const char *what);
/* How many files this process has open. */
int trial_open_files(void);
/* A value any rank can make for any other, with full mantissas. */
float trial_value(int rank, int64_t index);
/* The link of a rank as a process. */
struct comm_link trial_link(struct trial_shared *shared);

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            trial_fail(trial, comm_rank(comm), __FILE__, __LINE__, #condition);                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
