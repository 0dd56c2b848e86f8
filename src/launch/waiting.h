/* How OpenMP's workers wait between parallel regions: they spin while each has a core, and sleep
 * while others use the cores.
 *
 * To wake a sleeping worker takes tens of microseconds, which a step of a thousand regions on 16
 * cores pays with a fifth of its time. But a worker that spins on a core which others want uses up
 * its share of that core by waiting: beside one busy process steps take several times as long. So a
 * thread looks how long the threads of this process stood in line for a core (schedstat of each, by
 * the kernel). Above a quarter of the time, workers sleep at once for a second; then spinning is
 * tried again, after twice as long each time it fails.
 *
 * libgomp has no call for that, but a rule: workers spin for 10 ms or so unless it has more threads
 * than there are cores; then for microseconds. An idle team of the watching thread, just as large
 * as that takes, makes it so, and is given back (omp_pause_resource) to end it. Rejected: a number
 * of spins between, fixed at the start (3000): a fifth slower alone on 16 cores, and three times
 * slower beside others on 2.
 *
 * Whoever sets OMP_WAIT_POLICY or GOMP_SPINCOUNT, the launcher of more ranks x threads than cores
 * for one, has decided: nothing is watched. */
#ifndef LAUNCH_WAITING_H
#define LAUNCH_WAITING_H

#include <stdbool.h>
#include <stdint.h>

/* Local; once for a process. Begins to watch over the teams of `ranks` threads of this process, of
 * `threads` each; NULL where there is nothing to watch or it cannot be done. waiting_free ends it,
 * and accepts NULL. */
struct waiting;
struct waiting *waiting_new(int ranks, int threads);
void waiting_free(struct waiting **waiting);

/* Local, does not block. The kernel says how long threads stand in line for a core, and OpenMP is
 * libgomp. */
bool waiting_is_watched(void);

/* --- its parts, for tests --- */

/* What was decided last. */
struct waiting_rule {
    bool sleeps;      /* workers sleep at once */
    int64_t pause_ns; /* for so long, before spinning is tried again */
};
/* Of a window in which all threads together stood in line for `delayed_ns`. */
void waiting_judge(struct waiting_rule *rule, int64_t window_ns, int64_t delayed_ns);
/* Threads of the idle team, the one that watches included, that give libgomp one more thread than
 * `cores`. It counts the initial thread and all workers, not the other threads that have some. */
int waiting_team(int cores, int ranks, int threads);
/* From the thread that watches: begins an idle team of so many threads; 0 or 1 ends it. False where
 * the system does not give them: libgomp would end the process over that, so it is tried before. */
bool waiting_set_team(int threads);

#endif
