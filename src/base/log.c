/* Messages go out in one write each, so that lines of several threads or ranks do not mix. */
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/display.h"
#include "base/shown.h"

enum { TEXT_BYTES = 4000 };

static struct {
    char *_Atomic text; /* may be set while other threads log */
    size_t size;
    bool quiet;
    void (*before)(void);
} common;

static _Thread_local const struct log_sink *own;

static pthread_mutex_t capturing = PTHREAD_MUTEX_INITIALIZER;

/* False where nothing is captured: the common case takes no lock. */
static bool append_captured(const char *line, size_t length) {
    if (!common.text) return false;
    pthread_mutex_lock(&capturing);
    char *text = common.text;
    if (text) {
        size_t have = strlen(text);
        snprintf(text + have, common.size - have, "%.*s", (int)length, line);
    }
    pthread_mutex_unlock(&capturing);
    return text != NULL;
}

static void show(const char *prefix, const char *text) {
    char line[TEXT_BYTES + 32];
    snprintf(line, sizeof line - 1, "%s%s", prefix, text);
    size_t length = strlen(line);
    if (line[length - 1] != '\n') line[length++] = '\n';
    if (append_captured(line, length)) return;
    if (common.before) common.before();
    display_write(STDERR_FILENO, line, length);
}

static void emit(enum log_level level, const char *format, va_list args) {
    static const char *const prefix[] = {[LOG_ERROR] = "stretto: error: ",
                                         [LOG_WARNING] = "stretto: warning: ",
                                         [LOG_NOTE] = "stretto: ",
                                         [LOG_ANSWER] = "stretto: "};
    char text[TEXT_BYTES];
    shown_vformat(text, sizeof text, format, args);
    if (own)
        own->write(own->context, level, text);
    else if (level != LOG_NOTE || !common.quiet)
        show(prefix[level], text);
}

const struct log_sink *log_use(const struct log_sink *sink) {
    const struct log_sink *before = own;
    own = sink;
    return before;
}

const struct log_sink *log_used(void) {
    return own;
}

enum status fail(enum status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(LOG_ERROR, format, args);
    va_end(args);
    return status;
}

void log_warning(const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(LOG_WARNING, format, args);
    va_end(args);
}

void log_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(LOG_NOTE, format, args);
    va_end(args);
}

void log_answer(const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(LOG_ANSWER, format, args);
    va_end(args);
}

void log_quiet(bool quiet) {
    common.quiet = quiet;
}

void log_capture(char *text, size_t size) {
    pthread_mutex_lock(&capturing);
    if (text && size) text[0] = 0;
    common.size = size;
    common.text = text;
    pthread_mutex_unlock(&capturing);
}

void log_before(void (*callback)(void)) {
    common.before = callback;
}

void log_check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    shown_vformat(text, sizeof text, format, args);
    va_end(args);
    common.text = NULL; /* the process ends: whoever reads standard error must learn why */
    own = NULL;
    fail(STATUS_BUG,
         "bug at %s:%d: %s does not hold: %-s\n  please report this with the command line", file,
         line, condition, text);
    fflush(NULL);
    _exit(status_exit_code(STATUS_BUG));
}
