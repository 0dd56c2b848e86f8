/* report.html: whole and harmless whatever the run, and it says what it does not have. */
#include "folder.h"
#include "markup.h"
#include "sample.h"

#include <dirent.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/metrics.h"
#include "record/report.h"

static struct summary summary;
static struct report_input input;
static struct metrics *metrics;

static void set_up(void) {
    make_folder();
    summary_init(&summary);
    summary.model = "resnet8";
    summary.data = "digits";
    summary.strategy = "single";
    input = (struct report_input){.summary = &summary};
}

static void tear_down(void) {
    summary_free(&summary);
    remove_folder();
}

TestSuite(record_report, .init = set_up, .fini = tear_down);

/* The page; the caller frees it. */
static char *page_unchecked(void) {
    cr_assert_eq(report_write(folder, &input), STATUS_OK);
    char *path = mem_format("%s/report.html", folder);
    struct bytes file;
    cr_assert_eq(file_read(path, 64 << 20, &file), STATUS_OK);
    free(path);
    cr_assert_eq(strlen((char *)file.data), file.count);
    return (char *)file.data;
}

/* The page of a run without a timeline, checked. */
static char *page(void) {
    char *text = page_unchecked();
    struct markup markup;
    cr_assert_str_eq(markup_check(&markup, text), "");
    return text;
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

static void expect(const char *text, const char *part) {
    cr_assert(strstr(text, part), "not on the page: %s", part);
}

static void write_train(int64_t step, double loss) {
    struct metrics_row row = metrics_row_new(METRICS_TRAIN, step, 1);
    row.unix_s = 1700000000;
    row.loss = loss;
    row.lr = 0.1;
    row.grad_norm = 2 * loss;
    row.samples_per_s = 1000;
    cr_assert_eq(metrics_write(metrics, &row), STATUS_OK);
}

static void write_eval(int64_t step, double loss, double acc1) {
    struct metrics_row row = metrics_row_new(METRICS_EVAL, step, 1);
    row.loss = loss;
    row.acc1 = acc1;
    row.acc5 = 1;
    cr_assert_eq(metrics_write(metrics, &row), STATUS_OK);
}

static void open_metrics(void) {
    cr_assert_eq(metrics_open(folder, METRICS_FRESH, &metrics), STATUS_OK);
}

static void close_metrics(void) {
    cr_assert_eq(metrics_close(&metrics), STATUS_OK);
}

Test(record_report, the_checker_can_fail) {
    static const char *const bad[] = {"<html>",
                                      "<html></body></html>",
                                      "<script></script>",
                                      "<p>a > b</p>",
                                      "<p>a & b</p>",
                                      "<p class=x></p>",
                                      "<p onclick=\"x\"></p>",
                                      "<p",
                                      "<p class=\"x></p>",
                                      "<p style=\"left:nan%\"></p>",
                                      "</p>"};
    struct markup markup;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "<!DOCTYPE html>\n%s", bad[i]);
        cr_assert_str_neq(markup_check(&markup, text), "", "%s", bad[i]);
    }
    cr_assert_str_eq(markup_check(&markup, "<!DOCTYPE html>\n<p>a &amp; b<br></p>"), "");
}

/* The first row, the slowest, is left out of the means; what is no number, too. */
Test(record_report, ranks_by_their_own_time) {
    static const double times[][2] = {{900, 900}, {2, 4}, {4, NAN}};
    open_metrics();
    for (int i = 0; i < 3; i++) {
        struct metrics_row row = metrics_row_new(METRICS_TRAIN, i + 1, 1);
        row.ranks = 2;
        row.rank_loss = row.rank_ms = times[i];
        cr_assert_eq(metrics_write(metrics, &row), STATUS_OK);
    }
    close_metrics();
    struct summary summary;
    summary_init(&summary);
    summary.sent_bytes_per_step = summary_ints_new(&summary, 2);
    summary.sent_bytes_per_step.item[0] = 2048;
    summary.sent_bytes_per_step.item[1] = 2048;
    input.summary = &summary;
    char *text = page();
    expect(text, "Own time of each rank in a step");
    expect(text,
           "<span>rank 0</span><i><i class=\"real\" style=\"width:75.00%\"></i></i><b>3 ms</b>");
    expect(text,
           "<span>rank 1</span><i><i class=\"real\" style=\"width:100.00%\"></i></i><b>4 ms</b>");
    expect(text, "Each sends 2.0 KiB a step");
    summary_free(&summary);
    free(text);
}

/* Only of strategies that keep versions of the parameters. */
Test(record_report, staleness_of_updates) {
    struct summary summary;
    summary_init(&summary);
    open_metrics();
    close_metrics();
    input.summary = &summary;
    char *without = page();
    cr_expect_eq(count_of(without, "Staleness of updates"), 0);
    summary.staleness = summary_ints_new(&summary, 3);
    for (int i = 0; i < 3; i++) summary.staleness.item[i] = 10 * (i + 1);
    char *text = page();
    expect(text, "Staleness of updates");
    expect(text, "<span>2</span><i><i class=\"real\" style=\"width:100.00%\"></i></i><b>30</b>");
    expect(text, "<span>0</span><i><i class=\"real\" style=\"width:33.33%\"></i></i><b>10</b>");
    summary_free(&summary);
    free(text);
    free(without);
}

/* Of a run whose plan changed: what is frozen, on which grid, how fast each part was. */
Test(record_report, parts_of_a_course) {
    static const struct report_course_part parts[] = {{0, 0, 4, 1, 4}, {2, 3, 2, 2, 1}};
    struct summary summary;
    summary_init(&summary);
    open_metrics();
    for (int s = 1; s <= 8; s++) write_train(s, 1);
    close_metrics();
    input.summary = &summary;
    char *without = page();
    cr_expect_eq(count_of(without, "<h2>Course</h2>"), 0);
    input.course = (struct report_course){parts, 2, 4, 8};
    char *text = page();
    expect(text, "<h2>Course</h2>");
    expect(text, "style=\"width:25.000%\" title=\"4 x 1\"");
    expect(text, "style=\"width:75.000%\" title=\"2 x 2\"");
    expect(text, "d=\"M0,20V20.000H25.000V5.000H100.000V20Z\"");
    expect(text, "from step 3</td><td>3 of 4 frozen</td><td>2 x 2, 1 micro-batch</td><td>1,000<");
    summary_free(&summary);
    free(text);
    free(without);
}

Test(record_report, a_run_of_nothing) {
    input.summary = &(struct summary){0};
    summary_init((struct summary *)input.summary);
    char *text = page();
    expect(text, "metrics.jsonl is not there");
    expect(text, "Not recorded in this run: Loss,");
    expect(text, "unknown model");
    expect(text, "how it ended was not recorded");
    cr_assert_not(strstr(text, "<svg"));
    cr_assert_not(strstr(text, "nan"));
    free(text);
}

Test(record_report, an_empty_metrics_file) {
    open_metrics();
    close_metrics();
    char *text = page();
    expect(text, "metrics.jsonl holds no rows");
    free(text);
}

Test(record_report, one_point) {
    open_metrics();
    write_train(1, 2.3);
    write_eval(1, 2.2, 0.1);
    close_metrics();
    char *text = page();
    cr_assert_eq(count_of(text, "<figure"), 6);
    cr_assert_geq(count_of(text, "class=\"dots"), 5);
    expect(text, "10.00%");
    expect(text, "began</dt><dd>2023-11-14 22:13 UTC");
    free(text);
}

Test(record_report, values_that_are_not_finite) {
    open_metrics();
    for (int i = 1; i <= 9; i++)
        write_train(i, i == 5 ? NAN : i == 6 ? INFINITY : i == 9 ? 1e308 : i);
    write_eval(9, NAN, NAN);
    close_metrics();
    summary.loss_last = NAN;
    summary.acc1 = INFINITY;
    summary.step_ms.p50 = summary.step_ms.p90 = INFINITY;
    summary.time_ms.forward = NAN;
    summary.time_ms.backward = INFINITY;
    char *text = page();
    expect(text, "Loss, each step: no finite value in 2 rows, first at step 5.");
    const char *raw = strstr(text, "<path class=\"raw c0\" d=\"");
    cr_assert(raw);
    size_t end = strcspn(raw, ">");
    int begins = 0;
    for (size_t i = 0; i < end; i++) begins += raw[i] == 'M';
    cr_assert_eq(begins, 2, "a gap interrupts the curve");
    free(text);
}

/* Rows of 250 virtual milliseconds each, and one evaluation; on the wall clock there is no chart.
 */
Test(record_report, virtual_time) {
    for (int virtual = 0; virtual < 2; virtual ++) {
        open_metrics();
        for (int i = 1; i <= 4; i++) {
            struct metrics_row row = metrics_row_new(i < 4 ? METRICS_TRAIN : METRICS_EVAL, i, 1);
            row.loss = 1.0 / i;
            row.acc1 = 0.5;
            if (virtual) row.virtual_s = 0.25 * i;
            cr_assert_eq(metrics_write(metrics, &row), STATUS_OK);
        }
        close_metrics();
        char *text = page();
        cr_expect_eq(strstr(text, "Evaluation accuracy over virtual time") != NULL, virtual);
        cr_expect_eq(strstr(text, "Loss over virtual time") != NULL, virtual);
        cr_expect_eq(strstr(text, "ms 1,000") != NULL, virtual, "when it was evaluated");
        free(text);
    }
}

Test(record_report, every_loss_not_finite) {
    open_metrics();
    for (int i = 1; i <= 3; i++) write_train(i, NAN);
    close_metrics();
    char *text = page();
    expect(text, "Not recorded in this run: Loss, Evaluation accuracy");
    expect(text, "Learning rate</h2>");
    free(text);
}

Test(record_report, damaged_lines_are_counted) {
    char *path = mem_format("%s/metrics.jsonl", folder);
    cr_assert_eq(file_write_text(path,
                                 "{\"kind\":\"train\",\"step\":1,\"loss\":2}\n"
                                 "garbage <b>\n[1]\n{\"kind\":7,\"step\":2}\n"
                                 "{\"kind\":\"train\",\"step\":9223372036854775807,\"loss\":1}\n"
                                 "{\"kind\":\"train\",\"step\":-9223372036854775807,\"loss\":1}\n"
                                 "{\"kind\":\"train\",\"st"),
                 STATUS_OK);
    free(path);
    char *text = page();
    expect(text, "4 damaged lines of metrics.jsonl left out");
    expect(text, "<svg");
    free(text);
}

Test(record_report, metrics_that_cannot_be_read) {
    char *path = mem_format("%s/metrics.jsonl", folder);
    cr_assert_eq(folder_make(path), STATUS_OK);
    free(path);
    char *text = page();
    expect(text, "could not be read to its end");
    free(text);
}

Test(record_report, command_lines_of_all_starts) {
    input.command_lines = "stretto train --out a";
    char *text = page();
    expect(text, "<summary>Command line</summary>");
    free(text);
    input.command_lines = "stretto train --out a\nstretto train --resume --out a";
    text = page();
    expect(text, "<summary>Command lines, in order</summary>\n<pre class=\"command\">stretto train "
                 "--out a\nstretto train --resume --out a</pre>");
    free(text);
}

Test(record_report, every_text_is_escaped) {
    static const char evil[] = "</title></style></pre><script>alert(1)</script>"
                               "<img src=x onerror=\"a('&')\">\xff\x01\x1b[0m\xc0\xbc";
    summary.version = summary.model = summary.data = summary.strategy = summary.device =
        summary.dtype = summary.isa = summary.comm = evil;
    input.command_lines = input.config_yaml = input.program_text = evil;
    char *text = page();
    cr_assert_eq(count_of(text, "<script"), 0);
    cr_assert_eq(count_of(text, "<img"), 0);
    cr_assert_eq(count_of(text, "</style>"), 1);
    cr_assert_eq(count_of(text, "\x1b") + count_of(text, "\x01") + count_of(text, "\xff"), 0);
    cr_assert_geq(count_of(text,
                           "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x "
                           "onerror=&quot;a(&#39;&amp;&#39;)&quot;&gt;\xEF\xBF\xBD\xEF\xBF\xBD"),
                  10);
    free(text);
}

/* The one script of the page is the timeline's, by a nonce that no text of the run can know. */
Test(record_report, a_timeline_brings_the_only_script) {
    static const char evil[] = "</title></section><script>alert(1)</script>";
    struct sample sample;
    char nonce[64];
    sample_make(&sample, 4, 8);
    sample_version(&sample, TIMELINE_PREDICTED, &sample_predicted);
    sample_version(&sample, TIMELINE_MEASURED, &sample_measured);
    struct timeline timeline = sample.timeline;
    const char *lines[] = {evil};
    timeline.title = evil;
    timeline.subtitle = lines;
    timeline.subtitle_count = 1;
    input.timeline = &timeline;
    summary.model = evil;
    char *text = page_unchecked(), *again = page_unchecked();
    cr_assert_eq(count_of(text, "<script"), 2, "one script element has the data, one draws them");
    cr_assert_eq(count_of(text, "<script type=\"application/json\""), 1);
    cr_assert_eq(count_of(text, "<script nonce=\""), 1);
    cr_assert_eq(count_of(text, "unsafe-inline"), 1, "the policy allows it for styles only");
    cr_assert_eq(
        sscanf(strstr(text, "script-src 'nonce-"), "script-src 'nonce-%32[0-9a-f]'", nonce), 1);
    cr_assert_eq(strlen(nonce), 32);
    cr_assert_eq(count_of(text, nonce), 2);
    cr_assert_eq(count_of(again, nonce), 0, "two pages have the same nonce");
    expect(text, "Where the difference came from");
    expect(text, "longer than the predicted");
    free(text);
    free(again);
    sample_free(&sample);
}

Test(record_report, nothing_from_outside) {
    open_metrics();
    write_train(1, 2.3);
    close_metrics();
    char *text = page();
    static const char *const outside[] = {"http:", "https:", "url(", "@import", "src=", "href="};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        cr_assert_not(strstr(text, outside[i]), "%s", outside[i]);
    expect(text, "default-src 'none'");
    free(text);
}

Test(record_report, a_long_run_is_thinned) {
    char *path = mem_format("%s/metrics.jsonl", folder);
    FILE *stream = fopen(path, "w");
    for (int i = 1; i <= 100000; i++) {
        struct metrics_row row = metrics_row_new(METRICS_TRAIN, i, 1);
        row.loss = i == 54321 ? 40 : 2 + sin(i);
        metrics_emit(stream, &row);
    }
    cr_assert_eq(fclose(stream), 0);
    free(path);
    char *text = page();
    cr_assert_lt(strlen(text), 200000);
    const char *raw = strstr(text, "<path class=\"raw c0\" d=\"");
    cr_assert(raw);
    int places = 0;
    for (; *raw != '>'; raw++) places += *raw == 'L' || *raw == 'M';
    cr_assert(places > 1000 && places <= 2000, "%d places", places);
    expect(text, "<b>40</b></i>"); /* the axis reaches the spike */
    free(text);
}

Test(record_report, figures_and_bars) {
    summary.acc1 = 0.98436;
    summary.eval_loss = 0.0512;
    summary.samples_per_s = 12345.6;
    summary.step_ms.p50 = 12.5;
    summary.step_ms.p90 = 15;
    summary.time_ms.forward = 3;
    summary.time_ms.backward = 9;
    summary.peak_bytes = summary_ints_new(&summary, 12);
    summary.predicted_peak_bytes = summary_ints_new(&summary, 12);
    summary.peak_bytes.item[2] = 200 << 20;
    summary.predicted_peak_bytes.item[2] = 190 << 20;
    char *text = page();
    expect(text, "<strong>98.44%</strong>");
    expect(text, "<strong>0.0512</strong>");
    expect(text, "<strong>12,346</strong>");
    expect(text, "<strong>12.5 ms</strong>");
    expect(text, "<strong>200 MiB</strong><span>rank 2; predicted 190 MiB (&minus;5.0%)</span>");
    expect(text, "class=\"t1\" style=\"width:25.000%\"");
    expect(text, "class=\"t2\" style=\"width:75.000%\"");
    expect(text, "class=\"planned\" style=\"width:95.00%\"");
    expect(text, "The first 8 of 12 ranks; rank 2 measured most.");
    expect(text, "&quot;acc1&quot;: 0.98436");
    free(text);
}

Test(record_report, how_it_ended) {
    static const struct {
        int64_t code;
        const char *text;
    } cases[] = {{0, "<span class=\"state good\">done</span>"},
                 {130, "saved and stopped by signal 2 SIGINT (exit code 130)"},
                 {6, "<span class=\"state bad\">numeric failure (exit code 6)</span>"},
                 {8, "<span class=\"state bad\">failed (exit code 8)</span>"},
                 {-5, "<span class=\"state bad\">failed (exit code -5)</span>"},
                 {250, "stopped by signal 122 (exit code 250)"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        summary.exit = cases[i].code;
        char *text = page();
        expect(text, cases[i].text);
        free(text);
    }
}

Test(record_report, the_program_is_cut) {
    char program[300 * 8] = "";
    for (int i = 0, at = 0; i < 300; i++)
        at += snprintf(program + at, sizeof program - (size_t)at, "#%d F\n", i);
    input.program_text = program;
    input.config_yaml = "model: resnet8\n";
    char *text = page();
    expect(text, "first 200 of 300 lines");
    expect(text, "#199 F\n</pre>");
    cr_assert_not(strstr(text, "#200 F"));
    expect(text, "model: resnet8\n</pre>");
    cr_assert_not(strstr(text, "Command line"));
    free(text);
}

Test(record_report, replaces_the_old_one_and_leaves_nothing_else) {
    free(page());
    free(page());
    DIR *entries = opendir(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(entries));) count += entry->d_name[0] != '.';
    closedir(entries);
    cr_assert_eq(count, 1);
}

Test(record_report, a_folder_that_is_not_there) {
    char message[400] = "";
    log_capture(message, sizeof message);
    cr_assert_eq(report_write("/nowhere/at/all", &input), STATUS_DATA);
    log_capture(NULL, 0);
    expect(message, "/nowhere/at/all/report.html: cannot write");
}
