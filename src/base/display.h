/* Text for people, on standard output and standard error, without ever waiting for a reader: a pipe
 * that nobody empties, or a terminal stopped with Ctrl-S, must not stop training or signals.
 *
 * What cannot be written at once is kept, up to DISPLAY_BYTES a stream, and written by later calls.
 * Beyond that whole lines are dropped and counted. What matters is in files: metrics.jsonl, the
 * ranks' logs. Before display_open, and for other descriptors, writing blocks as write(2) does.
 *
 * Rejected: O_NONBLOCK on the inherited descriptor, which whoever shares it (a shell) would get
 * too; a thread that writes, whose exit would have to wait for the reader again. */
#ifndef BASE_DISPLAY_H
#define BASE_DISPLAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { DISPLAY_BYTES = 1 << 20, DISPLAY_STREAMS = 2 };

/* Local, once, while there is one thread: for what descriptors 1 and 2 are now. SIGPIPE is ignored
 * by then. */
void display_open(void);

/* Local, any thread, not blocking. `fd` is STDOUT_FILENO or STDERR_FILENO. */
void display_write(int fd, const char *data, size_t bytes);

/* Local. A stream whose flushed contents go to display_write(STDOUT_FILENO); stdout where the
 * display is not open. Never closed. */
FILE *display_out(void);
/* Local. The descriptor behind a stream, display_out() included; -1: none. */
int display_fd(FILE *stream);

/* Local, not blocking. What to wait for before the next display_pump, at most DISPLAY_STREAMS
 * entries; returns their number, 0 while all is written. */
int display_poll(struct pollfd *entries);
/* Local, any thread, not blocking. Writes what can be written now. */
void display_pump(void);
/* Local, blocking until all is written, at most idle_s after a reader last took something. */
void display_drain(double idle_s);

struct display_loss {
    long lines; /* that were dropped, or are still kept */
    int error;  /* errno of a write that failed: nobody is there; 0: none */
};
/* Local. What of a stream was not shown; false: nothing, or it was closed from the start. */
bool display_lost(int fd, struct display_loss *out);

#endif
