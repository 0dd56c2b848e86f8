/* The status table: what ranks are doing, seen by their launcher. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/status_table.h"

static char said[1024];

Test(control_status_table, outlives_the_rank) {
    struct control_status_table status_table, theirs;
    struct control_doing doing;
    char text[200];
    cr_assert_eq(control_status_table_new(2, &status_table), STATUS_OK);
    control_row_get(&status_table.row[1], &doing);
    cr_assert_str_empty(control_doing_text(&doing, text, sizeof text), "never written");
    int64_t before = clock_ns();
    pid_t pid = fork();
    if (pid == 0) {
        if (control_status_table_open(dup(status_table.fd), 1, &theirs) != STATUS_OK) _exit(1);
        control_row_set(&theirs.row[1], 12, "#17 r1 B s0 m5");
        raise(SIGKILL);
    }
    waitpid(pid, NULL, 0);
    control_row_get(&status_table.row[1], &doing);
    cr_assert_str_eq(control_doing_text(&doing, text, sizeof text), "step 12 #17 r1 B s0 m5");
    cr_assert(doing.since_ns >= before && doing.since_ns <= clock_ns());
    control_row_get(&status_table.row[0], &doing);
    cr_assert_str_empty(doing.text, "another's row");
    control_status_table_close(&status_table);
    cr_assert_null(status_table.row);
}

Test(control_status_table, texts_are_cut_and_clean) {
    struct control_row row = {0};
    struct control_doing doing;
    char text[300];
    memset(text, 'x', sizeof text);
    text[0] = '\n';
    text[299] = 0;
    control_row_set(&row, -1, text);
    control_row_get(&row, &doing);
    cr_assert_eq(strlen(doing.text), CONTROL_DOING_BYTES - 1);
    cr_assert_eq(doing.text[0], '?');
    control_row_set(&row, 3, "short");
    control_row_get(&row, &doing);
    cr_assert_str_eq(doing.text, "short");
}

struct record {
    int32_t kind, number;
};

static void describe(const void *bytes, char text[CONTROL_DOING_BYTES]) {
    const struct record *record = bytes;
    snprintf(text, CONTROL_DOING_BYTES, "%c%d", record->kind, record->number);
}

/* A record is turned into a text by who reads it; texts and records follow one another. */
Test(control_status_table, records_are_described_when_read) {
    struct control_row row = {0};
    struct control_doing doing;
    struct record record = {'F', 17};
    control_row_set(&row, 1, "a text that is longer than the record behind it");
    control_row_set_record(&row, 2, 3000, &record, sizeof record);
    record.number = 18; /* the row has its own */
    control_row_get(&row, &doing);
    cr_assert_str_eq(doing.text, "?", "a record without a function that describes it");
    control_describe_records(describe);
    control_row_get(&row, &doing);
    cr_assert_str_eq(doing.text, "F17");
    cr_assert(doing.step == 2 && doing.since_ns == 3000);
    record.kind = '\n';
    control_row_set_record(&row, 2, 3000, &record, sizeof record);
    control_row_get(&row, &doing);
    cr_assert_str_eq(doing.text, "?18", "control characters of a record are not shown");
    control_row_set(&row, 3, "EVAL");
    control_row_get(&row, &doing);
    cr_assert_str_eq(doing.text, "EVAL");
}

/* Killed while it wrote: what is there is read, and the next writer mends it. */
Test(control_status_table, a_torn_row_is_read) {
    struct control_row row = {0};
    struct control_doing doing;
    control_row_set(&row, 7, "F");
    atomic_fetch_add(&row.version, 1);
    control_row_get(&row, &doing);
    cr_assert(doing.step == 7 && strcmp(doing.text, "F") == 0);
    control_row_set(&row, 8, "B");
    cr_assert_eq(atomic_load(&row.version) % 2, 0);
    control_row_get(&row, &doing);
    cr_assert_eq(doing.step, 8);
}

static void *write_on(void *argument) {
    struct control_row *row = argument;
    char text[CONTROL_DOING_BYTES];
    for (int i = 0; i < 20000; i++) {
        memset(text, 'a' + i % 26, sizeof text - 1);
        text[sizeof text - 1] = 0;
        control_row_set(row, i, text);
    }
    control_row_set(row, -1, "end");
    return NULL;
}

Test(control_status_table, no_row_is_half_old) {
    struct control_row row = {0};
    struct control_doing doing = {0};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, write_on, &row), 0);
    while (strcmp(doing.text, "end") != 0) {
        if (!control_row_get(&row, &doing)) continue; /* the writer sleeps in the middle */
        if (doing.step < 0 || !doing.text[0]) continue;
        for (int i = 0; i < CONTROL_DOING_BYTES - 1; i++)
            cr_assert_eq(doing.text[i], 'a' + doing.step % 26, "step %lld", (long long)doing.step);
    }
    pthread_join(thread, NULL);
}

/* A descriptor that is no status table, or one too small, and a rank that would cut the
 * table. */
Test(control_status_table, foreign_descriptors_are_refused) {
    struct control_status_table status_table, other;
    int pipes[2];
    cr_assert_eq(control_status_table_new(1, &status_table), STATUS_OK);
    cr_assert_neq(ftruncate(status_table.fd, 0), 0, "sealed");
    log_capture(said, sizeof said);
    cr_assert_eq(control_status_table_open(dup(status_table.fd), 1, &other), STATUS_USAGE);
    cr_assert(strstr(said, "no row 1"), "%s", said);
    cr_assert_eq(pipe(pipes), 0);
    cr_assert_eq(control_status_table_open(pipes[0], 0, &other), STATUS_USAGE);
    cr_assert_eq(control_status_table_open(999, 0, &other), STATUS_USAGE);
    log_capture(NULL, 0);
    control_status_table_close(&status_table);
}
