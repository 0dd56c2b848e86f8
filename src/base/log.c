/* Messages go out in one write each, so that lines of several threads or ranks do not mix. */
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/display.h"

static struct {
    char *text;
    size_t size;
    bool quiet;
    void (*before)(void);
} sink;

static void emit(const char *prefix, const char *format, va_list args) {
    char line[4096];
    int used = snprintf(line, sizeof line, "%s", prefix);
    int body = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    size_t length = strlen(line);
    if (body < 0 || length == 0) return;
    if (line[length - 1] != '\n') line[length++] = '\n';
    if (sink.text) {
        size_t have = strlen(sink.text);
        snprintf(sink.text + have, sink.size - have, "%.*s", (int)length, line);
        return;
    }
    if (sink.before) sink.before();
    display_write(STDERR_FILENO, line, length);
}

enum status fail(enum status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit("stretto: error: ", format, args);
    va_end(args);
    return status;
}

void log_warning(const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit("stretto: warning: ", format, args);
    va_end(args);
}

void log_note(const char *format, ...) {
    if (sink.quiet) return;
    va_list args;
    va_start(args, format);
    emit("stretto: ", format, args);
    va_end(args);
}

void log_answer(const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit("stretto: ", format, args);
    va_end(args);
}

void log_quiet(bool quiet) {
    sink.quiet = quiet;
}

void log_capture(char *text, size_t size) {
    sink.text = text;
    sink.size = size;
    if (text && size) text[0] = 0;
}

void log_before(void (*callback)(void)) {
    sink.before = callback;
}

void check_failed(const char *file, int line, const char *condition, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sink.text = NULL;
    fail(STATUS_BUG,
         "bug at %s:%d: %s does not hold: %s\n  please report this with the command line", file,
         line, condition, text);
    fflush(NULL);
    _exit(status_exit_code(STATUS_BUG));
}
