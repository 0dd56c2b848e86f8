/* See api.h. */
#include "base/api.h"
#include "base/shown.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stretto.h"

enum { MOST_BYTES = 4096 }; /* of a struct of the header, however many fields it will have */

static _Thread_local char error[4000];

const char *stretto_error(void) {
    return error;
}

void api_set_error(const char *text) {
    snprintf(error, sizeof error, "%s", text);
}

static void take_error(void *context, enum log_level level, const char *text) {
    (void)context;
    if (level == LOG_ERROR) api_set_error(text);
}

void api_begin(struct api_call *call) {
    call->sink = (struct log_sink){NULL, take_error};
    call->before = log_use(&call->sink);
}

int api_end(struct api_call *call, enum status status) {
    log_use(call->before);
    return status_exit_code(status);
}

enum status api_refuse(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    shown_vformat(text, sizeof text, format, args);
    va_end(args);
    if (log_used()) return fail(STATUS_USAGE, "%-s", text);
    api_set_error(text);
    return STATUS_USAGE;
}

enum status api_check(const void *to, const char *name) {
    size_t known;
    if (!to) return fail(STATUS_USAGE, "there is no struct %s for the result: it is NULL", name);
    memcpy(&known, to, sizeof known);
    if (known > sizeof known && known <= MOST_BYTES) return STATUS_OK;
    return fail(STATUS_USAGE, "struct %s has size %zu: set .size to its sizeof", name, known);
}

enum status api_give(const void *from, size_t bytes, void *to, const char *name) {
    size_t known;
    TRY(api_check(to, name));
    memcpy(&known, to, sizeof known);
    memcpy((char *)to + sizeof known, (const char *)from + sizeof known,
           (known < bytes ? known : bytes) - sizeof known);
    if (known > bytes) memset((char *)to + bytes, 0, known - bytes);
    return STATUS_OK;
}

enum status api_take(const void *from, size_t least, void *to, size_t bytes, const char *name) {
    size_t known = 0;
    if (!from) return fail(STATUS_USAGE, "there is no struct %s: it is NULL", name);
    memcpy(&known, from, sizeof known);
    if (known < least || known > MOST_BYTES)
        return fail(STATUS_USAGE, "struct %s has size %zu: set .size to its sizeof", name, known);
    memset(to, 0, bytes);
    memcpy(to, from, known < bytes ? known : bytes);
    return STATUS_OK;
}
