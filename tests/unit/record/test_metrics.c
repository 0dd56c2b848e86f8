/* metrics.jsonl: exact numbers, null where nothing was measured, and resuming. */
#include "folder.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/metrics.h"
#include "record/put_json.h"

TestSuite(record_metrics, .init = make_folder, .fini = remove_folder);

static const char *number(double value) {
    static char text[64];
    FILE *stream = fmemopen(text, sizeof text, "w");
    put_json_number(stream, value);
    fclose(stream);
    return text;
}

Test(record_metrics, numbers_are_short_and_exact) {
    cr_assert_str_eq(number(0.1), "0.1");
    cr_assert_str_eq(number(3), "3");
    cr_assert_str_eq(number(NAN), "null");
    cr_assert_str_eq(number(-INFINITY), "null");
    static const double hard[] = {1.0 / 3,
                                  DBL_MAX,
                                  DBL_MIN,
                                  DBL_TRUE_MIN,
                                  0x1.fffffffffffffp-1,
                                  (double)0.1f,
                                  1e23,
                                  -2.2250738585072011e-308};
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++)
        cr_assert_eq(strtod(number(hard[i]), NULL), hard[i], "%a", hard[i]);
}

Test(record_metrics, texts_are_escaped) {
    char text[64] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    put_json_text(stream, "a\"\\\n\x01é");
    fclose(stream);
    cr_assert_str_eq(text, "\"a\\\"\\\\\\u000a\\u0001é\"");
}

static struct metrics_row train_row(int64_t step) {
    struct metrics_row row = metrics_row_new(METRICS_TRAIN, step, 1);
    row.unix_s = 100 + (double)step;
    row.loss = 1.0 / (double)step;
    row.lr = 0.1;
    return row;
}

static char *text_of_file(void) {
    char *path = mem_format("%s/metrics.jsonl", folder);
    struct bytes file;
    cr_assert_eq(file_read(path, 1 << 20, &file), STATUS_OK);
    free(path);
    return (char *)file.data;
}

Test(record_metrics, keys_in_order) {
    struct metrics *metrics;
    cr_assert_eq(metrics_open(folder, METRICS_FRESH, &metrics), STATUS_OK);
    struct metrics_row train = train_row(2), eval = metrics_row_new(METRICS_EVAL, 2, 1);
    train.grad_norm = INFINITY;
    eval.unix_s = 103.5;
    eval.loss = 0.25;
    eval.acc1 = 0.975;
    cr_assert_eq(metrics_write(metrics, &train), STATUS_OK);
    cr_assert_eq(metrics_write(metrics, &eval), STATUS_OK);
    cr_assert_eq(metrics_sync(metrics), STATUS_OK);
    char *text = text_of_file();
    cr_assert_str_eq(text,
                     "{\"kind\":\"train\",\"step\":2,\"epoch\":1,\"unix_s\":102,\"loss\":0.5,"
                     "\"lr\":0.1,\"grad_norm\":null,\"loss_scale\":null,"
                     "\"steps_skipped\":null,\"samples_per_s\":null,\"step_ms\":null,\"data_ms\":"
                     "null,\"numbers\":null,\"least\":null,\"most\":null,\"group_size\":null,"
                     "\"group_spread\":null,\"virtual_s\":null}\n"
                     "{\"kind\":\"eval\",\"step\":2,\"epoch\":1,\"unix_s\":103.5,\"loss\":0.25,"
                     "\"acc1\":0.975,\"acc5\":null,\"virtual_s\":null,\"eval_ms\":null}\n");
    free(text);
    cr_assert_eq(metrics_close(&metrics), STATUS_OK);
    cr_assert_null(metrics);
    cr_assert_eq(metrics_close(&metrics), STATUS_OK);
}

static void write_steps(int64_t resumed, int64_t first, int64_t last) {
    struct metrics *metrics;
    cr_assert_eq(metrics_open(folder, resumed, &metrics), STATUS_OK);
    for (int64_t step = first; step <= last; step++) {
        struct metrics_row row = train_row(step);
        cr_assert_eq(metrics_write(metrics, &row), STATUS_OK);
    }
    cr_assert_eq(metrics_close(&metrics), STATUS_OK);
}

Test(record_metrics, resumed_file_is_as_if_never_stopped) {
    write_steps(METRICS_FRESH, 1, 9);
    char *whole = text_of_file();
    write_steps(METRICS_FRESH, 1, 7);
    write_steps(5, 6, 9);
    char *resumed = text_of_file();
    cr_assert_str_eq(resumed, whole);
    free(whole);
    free(resumed);
}

static struct metrics_past past_of(int64_t resumed) {
    struct metrics *metrics;
    cr_assert_eq(metrics_open(folder, resumed, &metrics), STATUS_OK);
    struct metrics_past past = *metrics_past(metrics);
    cr_assert_eq(metrics_close(&metrics), STATUS_OK);
    return past;
}

/* Rows of later steps than the one resumed from tell nothing: the run has not been there. */
Test(record_metrics, rows_tell_of_the_past) {
    struct metrics *metrics;
    cr_assert_eq(metrics_open(folder, METRICS_FRESH, &metrics), STATUS_OK);
    for (int64_t step = 1; step <= 6; step++) {
        struct metrics_row train = train_row(step), eval = metrics_row_new(METRICS_EVAL, step, 1);
        train.loss = 10 - (double)step;
        eval.loss = 20 - (double)step, eval.acc1 = 0.1 * (double)step;
        cr_assert_eq(metrics_write(metrics, &train), STATUS_OK);
        if (step % 2 == 0) cr_assert_eq(metrics_write(metrics, &eval), STATUS_OK);
    }
    cr_assert(isnan(metrics_past(metrics)->loss_first));
    cr_assert_eq(metrics_close(&metrics), STATUS_OK);
    struct metrics_past past = past_of(5);
    cr_assert(past.loss_first == 9 && past.loss_last == 5);
    cr_assert(past.eval_loss == 16 && past.acc1 == 0.1 * 4 && isnan(past.acc5));
    past = past_of(0);
    cr_assert(isnan(past.loss_first) && isnan(past.loss_last) && isnan(past.eval_loss));
}

Test(record_metrics, fresh_replaces) {
    write_steps(METRICS_FRESH, 1, 9);
    write_steps(METRICS_FRESH, 1, 1);
    char *text = text_of_file();
    cr_assert_eq(strchr(text, '\n')[1], 0);
    free(text);
}

Test(record_metrics, resume_without_a_file_starts_one) {
    write_steps(5, 6, 6);
    char *text = text_of_file();
    cr_assert(strstr(text, "\"step\":6"));
    free(text);
}

/* To open a pipe waits for a writer: an alarm ends the test where that happens. */
Test(record_metrics, a_pipe_is_no_file_to_resume) {
    char *path = mem_format("%s/metrics.jsonl", folder), said[512];
    struct metrics *metrics = NULL;
    cr_assert_eq(mkfifo(path, 0600), 0);
    alarm(10);
    log_capture(said, sizeof said);
    cr_expect_eq(metrics_open(folder, 3, &metrics), STATUS_DATA);
    log_capture(NULL, 0);
    alarm(0);
    cr_expect(strstr(said, "metrics.jsonl: not a regular file"), "%s", said);
    cr_expect_null(metrics);
    free(path);
}

Test(record_metrics, line_cut_by_a_crash_is_left_out) {
    write_steps(METRICS_FRESH, 1, 3);
    char *whole = text_of_file(), *path = mem_format("%s/metrics.jsonl", folder), said[512];
    char *cut = mem_format("%.*s", (int)strlen(whole) - 9, whole);
    cr_assert_eq(file_write_text(path, cut), STATUS_OK);
    log_capture(said, sizeof said);
    write_steps(3, 4, 3);
    cr_assert(strstr(said, "1 damaged line"), "%s", said);
    char *text = text_of_file();
    cr_assert_eq(strncmp(whole, text, strlen(text)), 0);
    cr_assert(strstr(text, "\"step\":2"));
    cr_assert_null(strstr(text, "\"step\":3"));
    free(whole), free(cut), free(text), free(path);
}

Test(record_metrics, full_disk_is_an_error) {
    char *path = mem_format("%s/metrics.jsonl", folder), said[512];
    cr_assert_eq(symlink("/dev/full", path), 0);
    struct metrics *metrics;
    cr_assert_eq(metrics_open(folder, METRICS_FRESH, &metrics), STATUS_OK);
    struct metrics_row row = train_row(1);
    log_capture(said, sizeof said);
    cr_assert_eq(metrics_write(metrics, &row), STATUS_DATA);
    cr_assert(strstr(said, "metrics.jsonl: write failed"), "%s", said);
    metrics_close(&metrics);
    free(path);
}
