/* The four displays, into memory, with a clock of our own. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/log.h"
#include "record/progress.h"

static char *text;
static FILE *stream;
static size_t text_bytes;
static int64_t now;

static int64_t test_now(void) {
    return now;
}

static struct progress *open_progress(struct progress_config config) {
    config.stream = stream = open_memstream(&text, &text_bytes);
    config.now_ns = test_now;
    return progress_open(&config);
}

static void close_progress(struct progress **progress) {
    progress_close(progress);
    cr_assert_null(*progress);
    fclose(stream);
}

static struct metrics_row step_row(int64_t step) {
    struct metrics_row row = metrics_row_new(METRICS_TRAIN, step, 1 + (step - 1) / 10);
    row.loss = 1.5;
    row.samples_per_s = 1234.4;
    return row;
}

/* Steps [first, last], each taking `step_ns`. */
static void run_steps(struct progress *progress, int64_t first, int64_t last, int64_t step_ns) {
    for (int64_t step = first; step <= last; step++) {
        struct metrics_row row = step_row(step);
        now += step_ns;
        progress_step(progress, &row);
    }
}

static int count(const char *what) {
    int found = 0;
    for (const char *c = text; (c = strstr(c, what)); c++) found++;
    return found;
}

Test(record_progress, plain_lines) {
    struct progress *progress = open_progress((struct progress_config){
        .total_steps = 40, .steps_per_epoch = 20, .log_every = 15, .columns = -1});
    run_steps(progress, 1, 20, 1000000000);
    struct metrics_row eval = metrics_row_new(METRICS_EVAL, 20, 2);
    eval.loss = 0.25;
    eval.acc1 = 0.9722;
    eval.acc5 = 1;
    progress_eval(progress, &eval);
    run_steps(progress, 21, 40, 1000000000);
    close_progress(&progress);
    cr_assert_str_eq(
        text,
        "step 1/40  loss 1.5000  left 39 s  1,234 samples/s  epoch 1\n"
        "step 15/40  loss 1.5000  left 25 s  1,234 samples/s  epoch 2\n"
        "step 20/40  loss 1.5000  left 20 s  1,234 samples/s  epoch 2\n"
        "epoch 2  step 20  eval loss 0.2500  acc1 97.22%  acc5 100.00%\n"
        "step 30/40  loss 1.5000  left 10 s  1,234 samples/s  last eval acc1 97.22%  epoch 3\n"
        "step 40/40  loss 1.5000  left 0 s  1,234 samples/s  last eval acc1 97.22%  epoch 4\n");
}

/* The bar stays where it is while steps are counted up. */
Test(record_progress, bars_begin_and_end_in_one_place) {
    struct progress *progress =
        open_progress((struct progress_config){.total_steps = 1000, .columns = 100});
    run_steps(progress, 9, 10, 1000000000);
    close_progress(&progress);
    const char *first = strstr(text, "step    9/1000"), *second = strstr(text, "step   10/1000");
    cr_assert(first && second, "%s", text);
    const char *bar = strchr(text, '['), *next = strchr(bar + 1, '\r');
    cr_expect_eq(first - bar, second - strchr(next, '['), "%s", text);
}

Test(record_progress, resumed_run_counts_its_own_steps) {
    struct progress *progress = open_progress((struct progress_config){
        .first_step = 90, .total_steps = 100, .log_every = 95, .columns = -1});
    run_steps(progress, 91, 95, 1000000000);
    close_progress(&progress);
    cr_assert_str_eq(text, "step 91/100  loss 1.5000  left 9 s  1,234 samples/s  epoch 10\n"
                           "step 95/100  loss 1.5000  left 5 s  1,234 samples/s  epoch 10\n");
}

Test(record_progress, json_lines_are_rows) {
    struct progress *progress = open_progress(
        (struct progress_config){.total_steps = 10, .log_every = 5, .json = true, .columns = 80});
    run_steps(progress, 1, 10, 1000000);
    struct metrics_row eval = metrics_row_new(METRICS_EVAL, 10, 1);
    progress_eval(progress, &eval);
    close_progress(&progress);
    int lines = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1, lines++) {
        size_t length = (size_t)(strchr(line, '\n') - line);
        json_t *root = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
        cr_assert(json_is_integer(json_object_get(root, "step")), "%s", line);
        json_decref(root);
    }
    cr_assert_eq(lines, 4); /* steps 1, 5, 10 and the evaluation */
}

Test(record_progress, quiet_is_quiet) {
    struct progress *progress = open_progress((struct progress_config){
        .total_steps = 10, .log_every = 1, .quiet = true, .json = true, .columns = 80});
    run_steps(progress, 1, 10, 1000000000);
    struct metrics_row eval = metrics_row_new(METRICS_EVAL, 10, 1);
    progress_eval(progress, &eval);
    close_progress(&progress);
    cr_assert_eq(text_bytes, 0);
}

Test(record_progress, bar_is_drawn_ten_times_a_second) {
    struct progress *progress =
        open_progress((struct progress_config){.total_steps = 1000, .columns = 100});
    run_steps(progress, 1, 999, 1000000); /* a second of steps */
    cr_assert_eq(count("\r"), 10);
    run_steps(progress, 1000, 1000, 1000000);
    cr_assert_eq(count("\r"), 11, "the last step is always drawn");
    close_progress(&progress);
    cr_assert_eq(text[text_bytes - 1], '\n');
}

Test(record_progress, bar_fits_every_width) {
    for (int columns = 1; columns <= 200; columns++) {
        struct progress *progress =
            open_progress((struct progress_config){.total_steps = 40, .columns = columns});
        struct metrics_row eval = metrics_row_new(METRICS_EVAL, 0, 1);
        eval.acc1 = 0.5;
        progress_eval(progress, &eval);
        size_t skip = text_bytes;
        run_steps(progress, 20, 20, 1000000000);
        char *end = strstr(text + skip, "\033[K");
        cr_assert(end);
        int width = (int)(end - (text + skip) - 1); /* without the \r */
        cr_assert(width < columns, "%d of %d: %s", width, columns, text + skip);
        cr_assert_eq(columns >= 24, strstr(text + skip, "loss 1.5000") != NULL);
        if (columns >= 60) cr_assert(strstr(text + skip, "[#####"));
        if (columns >= 130) cr_assert(strstr(text + skip, "[###############...............]"));
        close_progress(&progress);
        free(text);
    }
}

Test(record_progress, messages_find_the_line_cleared) {
    struct progress *progress =
        open_progress((struct progress_config){.total_steps = 10, .columns = 80});
    run_steps(progress, 1, 1, 1000000000);
    cr_assert_not(!strcmp(text + text_bytes - 4, "\r\033[K"));
    int copy = dup(STDERR_FILENO), sink = open("/dev/null", O_WRONLY);
    dup2(sink, STDERR_FILENO);
    log_note("hello");
    cr_assert_str_eq(text + text_bytes - 4, "\r\033[K");
    size_t before = text_bytes;
    log_note("again"); /* already clear */
    dup2(copy, STDERR_FILENO);
    close(copy);
    close(sink);
    cr_assert_eq(text_bytes, before);
    run_steps(progress, 2, 2, 1000000000);
    cr_assert(text_bytes > before);
    close_progress(&progress);
    before = text_bytes;
    log_note("not a failure: a message after the close");
    cr_assert_eq(text_bytes, before);
}
