/* Messages of a thread go where it sends them, and so do those of the threads it starts. */
#include <criterion/criterion.h>
#include <stdio.h>

#include <pthread.h>
#include <stdio.h>

#include "base/log.h"
#include "base/thread.h"

struct taken {
    char text[256];
    enum log_level level;
};

static void take(void *context, enum log_level level, const char *text) {
    struct taken *taken = context;
    snprintf(taken->text, sizeof taken->text, "%s", text);
    taken->level = level;
}

static void *fails(void *argument) {
    fail(STATUS_DATA, "told by %s", (const char *)argument);
    return NULL;
}

Test(base_log, each_thread_has_its_sink) {
    struct taken one = {"", LOG_NOTE}, two = {"", LOG_NOTE};
    struct log_sink first = {&one, take}, second = {&two, take};
    pthread_t thread;
    char common[128];
    log_capture(common, sizeof common);
    cr_assert_null(log_use(&first));
    cr_assert_eq(thread_start(&thread, fails, "a child"), STATUS_OK);
    pthread_join(thread, NULL);
    cr_assert_str_eq(one.text, "told by a child");
    cr_assert_eq(one.level, LOG_ERROR);
    cr_assert_eq(log_use(&second), &first);
    log_warning("line\n  hint");
    cr_assert_str_eq(two.text, "line\n  hint");
    cr_assert_eq(two.level, LOG_WARNING);
    cr_assert_str_eq(one.text, "told by a child");
    cr_assert_str_eq(common, "");
    log_use(NULL);
    fails("nobody's child");
    cr_assert_str_eq(common, "stretto: error: told by nobody's child\n");
    log_capture(NULL, 0);
}

Test(base_log, quiet_is_of_standard_error) {
    struct taken one = {"", LOG_ERROR};
    struct log_sink sink = {&one, take};
    char common[128];
    log_capture(common, sizeof common);
    log_quiet(true);
    log_note("not shown");
    log_use(&sink);
    log_note("taken");
    log_use(NULL);
    log_quiet(false);
    cr_assert_str_eq(common, "");
    cr_assert_str_eq(one.text, "taken");
    cr_assert_eq(one.level, LOG_NOTE);
    log_capture(NULL, 0);
}
