/* Messages for people, on standard error or wherever a thread sends its own, and the always-on
 * CHECK.
 *
 * An error is at most three lines: what is wrong with which file, field or value; then a hint.
 * Lines of a message are separated by '\n' in the format; no trailing newline is needed. Messages
 * are lower case and carry the values themselves. What %s brings from outside shows its control
 * characters; a text of our own with lines of its own is %-s (base/shown.h). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Local. Logs "stretto: error: ..." and returns `status`, so that callers write `return fail(...)`.
 */
enum status fail(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Local. "stretto: warning: ..." and "stretto: ..."; log_note is silent after log_quiet(true). */
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_quiet(bool quiet);
/* Local. "stretto: ...", what somebody asked for while the program runs: also said when quiet. */
void log_answer(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum log_level { LOG_ERROR, LOG_WARNING, LOG_NOTE, LOG_ANSWER };

/* Whoever takes the messages of some threads, such as those of one run of the library. `text` is
 * the message alone, without a newline at its end; called from any of these threads, several at a
 * time. Notes come whether log_quiet was called or not. */
struct log_sink {
    void *context;
    void (*write)(void *context, enum log_level level, const char *text);
};
/* Local. Later messages of this thread, and of threads that it starts (base/thread.h), go to
 * `sink`; NULL: to standard error. Returns the one before. The caller keeps it alive. */
const struct log_sink *log_use(const struct log_sink *sink);
/* Local. Where the messages of this thread go; NULL: to standard error. */
const struct log_sink *log_used(void);

/* Local. Sends every later message that has no sink into `text` (cut at `size`, always terminated)
 * instead of standard error; NULL goes back. For tests, fuzzers and forked processes that
 * nobody listens to. Threads may log meanwhile, but not during this call. The caller keeps
 * `text` alive. */
void log_capture(char *text, size_t size);

/* Local. Called before each message is written: the progress display uses it to clear its line. */
void log_before(void (*callback)(void));

/* A broken invariant is a bug in Stretto: says where, and ends the process with exit code 7. */
void log_check_failed(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) log_check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__);           \
    } while (0)

#endif
