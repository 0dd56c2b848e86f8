/* The limits of the shell (ulimit) and what happens at them: a message that names the limit, and a
 * documented exit code, also where a library would end the process without either.
 *
 * open files (-n), processes and threads (-u), file size (-f) for shared memory: STATUS_USAGE
 * address space (-v): STATUS_MEMORY
 *
 * ZeroMQ aborts, libgomp exits and oneDNN's code generator crashes when the system refuses them a
 * thread, a descriptor or memory, and none of them can be told not to. So what is needed is looked
 * for before they start (limit_room), and because others may take it in between, the ways out of
 * the process are watched (limit_watch). Rejected: our own pthread_create in front of theirs, which
 * the sanitizers need for themselves. */
#ifndef BASE_LIMIT_H
#define BASE_LIMIT_H

#include "base/status.h"

/* Local. Says which limit refused `what` with errno `error` (EMFILE, EAGAIN, ENOMEM, EFBIG), and
 * how to raise it; other causes are said by their text and are STATUS_USAGE. */
enum status limit_fail(const char *what, int error);

/* Local. Whether `what` will get so many descriptors and threads; where the soft limit of open
 * files alone is too low, it is raised. `instead` is how to need fewer files, for the message
 * ("start fewer ranks"); NULL: there is no way. */
enum status limit_room(const char *what, int files, int threads, const char *instead);

/* Local. Between the two an abort on this thread is taken for a refusal of the system, even if what
 * was missing is free again by then. */
void limit_begin(void);
void limit_end(void);

/* Local, once, from main: SIGABRT, SIGSEGV and exit(1) by a library while a limit is reached become
 * a message and that limit's exit code; otherwise they stay what they are. SIGXFSZ is ignored: a
 * write beyond ulimit -f fails with EFBIG. The end is said before main returns. */
void limit_watch(void);
/* Local. Of these the signals alone: for the time before main, where a library's initialisation may
 * run out of memory (oneDNN 3 does). */
void limit_watch_signals(void);
void limit_watch_end(void);

#endif
