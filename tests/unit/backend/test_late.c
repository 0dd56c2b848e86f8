/* The device `late` (tests/late): what a test of the executor on it stands on. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../late/late.h"
#include "backend/copy.h"
#include "backend/registry.h"

enum { LENGTH = 1000, BYTES = LENGTH * sizeof(float) };

static struct device *open_late(void) {
    struct device *device;
    late_add();
    cr_assert_eq(device_open("late", 0, 1, &device), STATUS_OK);
    return device;
}

static struct elements array_of(struct device *device, float value) {
    struct elements array = {DTYPE_F32, NULL, LENGTH};
    cr_assert_eq(device->backend->memory_new(device, BYTES, "a test", &array.data), STATUS_OK);
    cr_assert_eq(device->backend->array_fill(device, &array, value, NULL), STATUS_OK);
    cr_assert_eq(device->backend->stream_wait(device, NULL), STATUS_OK);
    return array;
}

static float value_of(struct device *device, const struct elements *array) {
    float values[LENGTH];
    cr_assert_eq(device_copy_out(device, values, array->data, BYTES), STATUS_OK);
    for (int i = 1; i < LENGTH; i++) cr_assert_eq(values[i], values[0]);
    return values[0];
}

Test(backend_late, is_known_to_those_who_add_it_alone) {
    cr_expect_null(backend_find("late"));
    for (int i = 0; backend_name_at(i); i++) cr_expect_str_neq(backend_name_at(i), "late");
    struct device *device = open_late();
    cr_expect(backend_find("late")->apart);
    device_close(&device);
}

Test(backend_late, the_host_cannot_touch_its_memory) {
    struct device *device = open_late();
    struct elements array = array_of(device, 1);
    for (int writes = 0; writes < 2; writes++) {
        pid_t child = fork();
        if (child == 0) {
            volatile float *first = array.data;
            signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it and exit */
            if (writes)
                *first = 2;
            else
                (void)*first;
            _exit(0);
        }
        int end;
        cr_assert_eq(waitpid(child, &end, 0), child);
        cr_expect(WIFSIGNALED(end) && WTERMSIG(end) == SIGSEGV);
    }
    cr_expect_eq(value_of(device, &array), 1);
    device_close(&device);
}

/* One stream makes what another reads; the second runs as soon as it is asked for, the first when
 * somebody waits for it. */
static float read_behind(struct device *device, bool waits) {
    const struct backend *table = device->backend;
    struct elements a = array_of(device, 1), b = array_of(device, 0);
    struct stream *first, *second;
    struct event *made;
    cr_assert_eq(table->stream_new(device, &first), STATUS_OK);
    cr_assert_eq(table->stream_new(device, &second), STATUS_OK);
    cr_assert_eq(table->event_new(device, false, &made), STATUS_OK);
    cr_assert_eq(table->array_fill(device, &a, 2, first), STATUS_OK);
    table->event_record(made, first);
    if (waits) table->stream_wait_event(second, made);
    cr_assert_eq(table->array_copy(device, b.data, a.data, BYTES, second), STATUS_OK);
    cr_assert_eq(table->stream_wait(device, second), STATUS_OK);
    float value = value_of(device, &b);
    cr_assert_eq(table->event_wait(made), STATUS_OK);
    cr_expect_eq(value_of(device, &a), 2);
    table->event_free(device, made);
    table->stream_free(device, first);
    table->stream_free(device, second);
    return value;
}

Test(backend_late, what_is_not_awaited_is_read_too_early) {
    struct device *device = open_late();
    cr_expect_eq(read_behind(device, true), 2);
    cr_expect_eq(read_behind(device, false), 1);
    device_close(&device);
}

/* Recording again does not move those who wait already. */
Test(backend_late, a_wait_is_for_the_last_record) {
    struct device *device = open_late();
    const struct backend *table = device->backend;
    struct elements a = array_of(device, 1), b = array_of(device, 0);
    struct stream *first, *second;
    struct event *event;
    bool done;
    cr_assert_eq(table->stream_new(device, &first), STATUS_OK);
    cr_assert_eq(table->stream_new(device, &second), STATUS_OK);
    cr_assert_eq(table->event_new(device, false, &event), STATUS_OK);
    cr_assert_eq(table->event_done(event, &done), STATUS_OK);
    cr_expect(done, "never recorded");
    table->array_fill(device, &a, 2, first);
    table->event_record(event, first);
    table->stream_wait_event(second, event);
    table->array_copy(device, b.data, a.data, BYTES, second);
    table->event_record(event, second);
    table->stream_wait_event(first, event);
    table->array_fill(device, &a, 3, first);
    cr_assert_eq(table->stream_wait(device, first), STATUS_OK);
    cr_expect_eq(value_of(device, &b), 2);
    cr_expect_eq(value_of(device, &a), 3);
    table->event_free(device, event);
    table->stream_free(device, first);
    table->stream_free(device, second);
    device_close(&device);
}

Test(backend_late, a_queue_that_is_full_runs) {
    struct device *device = open_late();
    struct elements a = array_of(device, 0), b = array_of(device, 1);
    for (int i = 0; i < 3000; i++)
        cr_assert_eq(device->backend->array_add(device, &a, &b, NULL), STATUS_OK);
    cr_assert_eq(device->backend->stream_wait(device, NULL), STATUS_OK);
    cr_expect_eq(value_of(device, &a), 3000);
    device_close(&device);
}
