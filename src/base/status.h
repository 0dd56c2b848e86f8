/* One status type for the whole project.
 *
 * Functions that can fail return `enum status`; outputs come last and are written on success only.
 * Whoever first knows the cause logs it once, through fail() in base/log.h; callers pass it on with
 * TRY(). */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

enum status {
#define STATUS(name, code, text) STATUS_##name,
#include "base/status.def"
#undef STATUS
};

/* Local. The documented process exit code of a status. STATUS_STOPPED has none of its own: the
 * command turns it into 128 + signal. */
int status_exit_code(enum status status);

/* Local. A short static text, never NULL. */
const char *status_text(enum status status);

/* Passes a failure on to the caller. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (call);                                                          \
        if (try_status_ != STATUS_OK) return try_status_;                                          \
    } while (0)

/* Leaves through a cleanup label. The function must have `enum status status` in scope. */
#define TRY_GOTO(call, label)                                                                      \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != STATUS_OK) goto label;                                                       \
    } while (0)

#endif
