/* Requests from outside: signals that ask a run to save, or to save and stop. */
#ifndef EXEC_STOP_H
#define EXEC_STOP_H

#include <stdbool.h>

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

#endif
