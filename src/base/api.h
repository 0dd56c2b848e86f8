/* The calls of the public header: results as values, with their text (stretto_error), and nothing
 * on standard error. */
#ifndef BASE_API_H
#define BASE_API_H

#include <stddef.h>

#include "base/log.h"
#include "base/status.h"

/* A call that does its work on the caller's own thread. */
struct api_call {
    const struct log_sink *before;
    struct log_sink sink;
};
/* Local. From here to api_end errors of this thread become its stretto_error; other messages are
 * dropped. */
void api_begin(struct api_call *call);
/* Local. The exit code of a status, for the caller. */
int api_end(struct api_call *call, enum status status);

/* Local. Sets stretto_error of this thread; the later of several is the one that stays. */
void api_set_error(const char *text);

/* Local. STATUS_USAGE of a call that has no run and no api_begin. The text is a message of the run
 * that calls the caller's function now, such as one that builds a model; without one it is
 * stretto_error. */
enum status api_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Local. STATUS_USAGE, logged, where there is no place for a result, or its size is not set. */
enum status api_check(const void *to, const char *name);
/* Local. Copies a result to a caller that may know less of it than we do: both begin with their
 * size, and the caller's stays as it is. STATUS_USAGE, logged, where it is not set. */
enum status api_give(const void *from, size_t bytes, void *to, const char *name);
/* Local. The same of what a caller gave: what it does not know is 0. */
enum status api_take(const void *from, size_t least, void *to, size_t bytes, const char *name);

#endif
