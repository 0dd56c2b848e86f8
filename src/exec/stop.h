/* Requests from outside: signals that ask a run to save, or to save and stop. */
#ifndef EXEC_STOP_H
#define EXEC_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* Local; from the main thread, which gets a signal stack of its own. SIGINT, SIGTERM and SIGHUP ask
 * for a stop after the step under way (the second one ends the process at once with 128 + signal);
 * SIGUSR2 asks for a save, SIGUSR1 where every rank is; both may have come before and been held
 * (base/process.h). A signal that is ignored stays ignored. `says`: the first that asks for a stop
 * is acknowledged at once, on standard error, unless that would block. */
void stop_install(bool says);

/* Local. The signal that asked for a stop, 0 for none; whether a save was asked for since the last
 * call. */
int stop_signal(void);
bool stop_take_save(void);
/* Local. Whether SIGUSR1 asked where every rank is, since the last call. */
bool stop_take_report(void);
/* Local; in a wait that began at `since_ns` (clock_ns) and has made no progress. Where a stop was
 * asked for and the wait is longer than `limit_s`, the step will not end: says so, and ends the
 * process as one whose peer is lost, without saving: 128 + signal means that a run was saved. A
 * rank that is a thread cannot leave alone, since nothing ends the thread it waits for. */
void stop_end_stalled(int rank, int64_t since_ns, double limit_s);

#endif
