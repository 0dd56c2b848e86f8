/* What a process settles about itself before anything else, and what it can see of another one.
 * All calls are local and do not block; the first two use system calls only, so that they may run
 * before any library is initialised. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>

/* Opens /dev/null in place of each standard stream that is closed: no file of ours may take its
 * number, where a message would be written into it. Reads and writes there still fail. */
void process_fill_streams(void);
/* Where standard error is a file, what is written there goes behind what others wrote: processes
 * that were started each with `2>` that file do not overwrite one another's messages. */
void process_append_messages(void);

/* SIGUSR1 and SIGUSR2 end a process that has no handler for them. Held (blocked), they wait until
 * they are released: by whoever has installed the handlers. A program that is started inherits
 * the block. From the main thread, before others are started. */
void process_hold_signals(void);
void process_release_signals(void);

/* Whether a signal is ignored. Nobody here changes that for a signal that was ignored at the start:
 * nohup ignores SIGHUP, and a script SIGINT for its background jobs. */
bool process_ignores(int signal);

/* "SIGINT", "SIGTERM" or "SIGHUP", what asks a run to stop; else "a signal". Static text; safe in a
 * handler. */
const char *process_stop_name(int signal);

/* Whether a process of this machine is stopped (SIGSTOP, Ctrl-Z, a debugger); false where it is
 * gone. */
bool process_is_stopped(int pid);

#endif
