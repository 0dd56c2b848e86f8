/* report.html: the page around its parts. */
#include "record/report.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/chart.h"
#include "record/curves.h"
#include "record/draw.h"
#include "record/html.h"
#include "record/range_test.h"
#include "record/report_parts.h"

static const char *or_unknown(const char *text, const char *unknown) {
    return text && *text ? text : unknown;
}

static void emit_title(FILE *stream, const struct summary *summary, const char *before,
                       const char *after) {
    html_text(stream, or_unknown(summary->model, "unknown model"));
    fputs(before, stream);
    fputs(" on ", stream);
    html_text(stream, or_unknown(summary->data, "unknown data"));
    fputs(", ", stream);
    html_text(stream, or_unknown(summary->strategy, "unknown strategy"));
    fputs(after, stream);
}

static const char *meaning_of_exit(int64_t code) {
#define STATUS(name, exit, text)                                                                   \
    if (code == exit && STATUS_##name != STATUS_STOPPED) return text;
#include "base/status.def"
#undef STATUS
    return "failed";
}

/* How the run ended: in words and colour. */
static void emit_state(FILE *stream, int64_t code) {
    const char *name = code > 128 && code < 128 + 65 ? sigabbrev_np((int)(code - 128)) : NULL;
    if (code == SUMMARY_NO_INT)
        fputs("<span class=\"state warn\">how it ended was not recorded</span>", stream);
    else if (code == 0)
        fputs("<span class=\"state good\">done</span>", stream);
    else if (code > 128)
        fprintf(stream,
                "<span class=\"state warn\">saved and stopped by signal %lld%s%s "
                "(exit code %lld)</span>",
                (long long)code - 128, name ? " SIG" : "", name ? name : "", (long long)code);
    else
        fprintf(stream, "<span class=\"state bad\">%s (exit code %lld)</span>",
                meaning_of_exit(code), (long long)code);
}

static void fact_text(FILE *stream, const char *name, const char *text) {
    if (!text || !*text) return;
    fprintf(stream, "<div><dt>%s</dt><dd>", name);
    html_text(stream, text);
    fputs("</dd></div>\n", stream);
}

static void fact_int(FILE *stream, const char *name, int64_t value) {
    char text[TEXT_BYTES];
    if (value != SUMMARY_NO_INT) fact_text(stream, name, html_integer(value, text));
}

static void fact_several(FILE *stream, const char *name, int64_t value) {
    if (value > 1) fact_int(stream, name, value);
}

static void fact_real(FILE *stream, const char *name, double value) {
    char text[TEXT_BYTES];
    if (!isnan(value)) fact_text(stream, name, html_number(value, text));
}

static void fact_time(FILE *stream, const char *name, double wall_s) {
    char text[TEXT_BYTES];
    if (!(wall_s > 0 && wall_s < 1e11)) return;
    time_t seconds = (time_t)wall_s;
    struct tm utc;
    if (gmtime_r(&seconds, &utc) && strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc))
        fact_text(stream, name, text);
}

static void emit_facts(FILE *stream, const struct summary *summary, const struct curves *curves) {
    fputs("<dl class=\"facts\">\n", stream);
    fact_time(stream, "began", curves->begin_s);
    fact_int(stream, "steps", summary->steps);
    fact_real(stream, "epochs", summary->epochs);
    fact_int(stream, "parameters", summary->params);
    fact_int(stream, "batch", summary->batch);
    fact_int(stream, "ranks", summary->ranks);
    fact_several(stream, "stages", summary->stages);
    fact_several(stream, "replicas", summary->replicas);
    fact_several(stream, "stages a rank", summary->virtual);
    fact_several(stream, "micro-batches", summary->micro_batches);
    fact_text(stream, "device", summary->device);
    fact_text(stream, "dtype", summary->dtype);
    fact_text(stream, "instruction set", summary->isa);
    fact_int(stream, "threads", summary->threads);
    fact_text(stream, "comm", summary->comm);
    if (summary->deterministic != SUMMARY_NO_FLAG)
        fact_text(stream, "deterministic", summary->deterministic == SUMMARY_ON ? "yes" : "no");
    fact_int(stream, "seed", summary->seed);
    fputs("</dl>\n", stream);
}

/* The policy forbids every request, and every script but the one with the nonce, should an escape
 * ever be missed. */
static void emit_head(FILE *stream, const struct summary *summary, const char *nonce) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'",
          stream);
    if (nonce) fprintf(stream, "; script-src 'nonce-%s'", nonce);
    fputs("\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          stream);
    emit_title(stream, summary, "", " - Stretto");
    fprintf(stream, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", report_style);
}

static void emit_header(FILE *stream, const struct summary *summary, const struct curves *curves) {
    fputs("<header>\n<div class=\"who\">Stretto ", stream);
    html_text(stream, summary->version);
    fputs(" training run</div>\n<h1>", stream);
    emit_title(stream, summary, "<small>", "</small>");
    fputs("</h1>\n", stream);
    emit_state(stream, summary->exit);
    emit_facts(stream, summary, curves);
    fputs("</header>\n", stream);
}

static void emit_notice(FILE *stream, const char *text) {
    if (!text) return;
    fputs("<p class=\"notice\">", stream);
    html_text(stream, text);
    fputs(".</p>\n", stream);
}

static void emit_notices(FILE *stream, const struct curves *curves) {
    char text[TEXT_BYTES];
    emit_notice(stream, curves->trouble);
    if (curves->damaged > 0)
        fprintf(stream, "<p class=\"notice\">%s damaged %s of metrics.jsonl left out.</p>\n",
                html_integer(curves->damaged, text), curves->damaged == 1 ? "line" : "lines");
}

/* A row of charts; those without values leave their place to the others. */
static void emit_row(FILE *stream, const char *style, const struct chart *charts, int count) {
    bool any = false;
    for (int i = 0; i < count; i++) any |= chart_has_values(&charts[i]);
    if (!any) return;
    fprintf(stream, "<div class=\"row %s\">\n", style);
    for (int i = 0; i < count; i++) chart_emit(stream, &charts[i]);
    fputs("</div>\n", stream);
}

static void emit_absent(FILE *stream, const struct chart *charts, int count) {
    int told = 0;
    for (int i = 0; i < count; i++) {
        if (chart_has_values(&charts[i])) continue;
        fputs(told++ ? ", " : "<p class=\"note\">Not recorded in this run: ", stream);
        fputs(charts[i].title, stream);
    }
    if (told) fputs(".</p>\n", stream);
}

static void emit_charts(FILE *stream, const struct curves *curves) {
    const struct chart charts[] = {
        {.title = "Loss",
         .unit = AXIS_NUMBER,
         .scale = CHART_FITTING,
         .tall = true,
         .line_count = 3,
         .line = {{"each step", &curves->loss, CHART_RAW, 0},
                  {"training, smoothed", &curves->loss, CHART_SMOOTH, 0},
                  {"evaluation", &curves->eval_loss, CHART_MARKED, 1}}},
        {.title = "Evaluation accuracy",
         .unit = AXIS_PERCENT,
         .scale = CHART_LINEAR,
         .tall = false,
         .line_count = 2,
         .line = {{"best guess", &curves->acc1, CHART_MARKED, 2},
                  {"among the best five", &curves->acc5, CHART_MARKED, 3}}},
        {.title = "Evaluation loss",
         .unit = AXIS_NUMBER,
         .scale = CHART_FITTING,
         .tall = false,
         .line_count = 1,
         .line = {{"evaluation loss", &curves->eval_loss, CHART_MARKED, 1}}},
        {.title = "Learning rate",
         .unit = AXIS_NUMBER,
         .scale = CHART_LINEAR,
         .tall = false,
         .line_count = 1,
         .line = {{"learning rate", &curves->lr, CHART_PLAIN, 0}}},
        {.title = "Gradient norm",
         .unit = AXIS_NUMBER,
         .scale = CHART_FITTING,
         .tall = false,
         .line_count = 2,
         .line = {{"each step", &curves->grad_norm, CHART_RAW, 0},
                  {"smoothed", &curves->grad_norm, CHART_SMOOTH, 0}}},
        {.title = "Samples a second",
         .unit = AXIS_NUMBER,
         .scale = CHART_LINEAR,
         .tall = false,
         .line_count = 2,
         .line = {{"each row", &curves->samples_per_s, CHART_RAW, 0},
                  {"smoothed", &curves->samples_per_s, CHART_SMOOTH, 0}}},
    };
    emit_row(stream, "one", charts, 1);
    emit_row(stream, "two", charts + 1, 2);
    emit_row(stream, "three", charts + 3, 3);
    emit_absent(stream, charts, sizeof charts / sizeof charts[0]);
}

/* What a strategy comes to in the time of the devices that were described. */
static void emit_virtual(FILE *stream, const struct curves *curves) {
    const struct chart charts[] = {
        {.title = "Evaluation accuracy over virtual time",
         .unit = AXIS_PERCENT,
         .scale = CHART_LINEAR,
         .line_count = 1,
         .line = {{"best guess", &curves->timed_acc1, CHART_MARKED, 2}},
         .unit_name = "ms"},
        {.title = "Loss over virtual time",
         .unit = AXIS_NUMBER,
         .scale = CHART_FITTING,
         .line_count = 2,
         .line = {{"training, smoothed", &curves->timed_loss, CHART_SMOOTH, 0},
                  {"evaluation", &curves->timed_eval_loss, CHART_MARKED, 1}},
         .unit_name = "ms"},
    };
    emit_row(stream, "two", charts, 2);
}

static void emit_range_test(FILE *stream, const struct curves *curves) {
    const struct chart chart = {.title = "Loss against the learning rate",
                                .unit = AXIS_NUMBER,
                                .scale = CHART_FITTING,
                                .tall = true,
                                .line_count = 2,
                                .line = {{"each step", &curves->loss, CHART_RAW, 0},
                                         {"smoothed", &curves->loss, CHART_SMOOTH, 0}},
                                .over = &curves->lr,
                                .over_name = "learning rate"};
    struct range_test test = range_test_read(curves);
    char *words = range_test_words(&test);
    fputs("<p class=\"notice\">", stream);
    html_text(stream, words);
    fputs("</p>\n", stream);
    free(words);
    emit_row(stream, "one", &chart, 1);
}

/* A text behind a fold; of more lines than `most`, the first ones. */
static void emit_fold(FILE *stream, const char *name, const char *style, const char *text,
                      int most) {
    if (!text) return;
    size_t shown = 0, lines = 0, length = strlen(text);
    for (size_t at = 0; at < length; lines++) {
        const char *end = memchr(text + at, '\n', length - at);
        at = end ? (size_t)(end - text) + 1 : length;
        if (lines < (size_t)most) shown = at;
    }
    fprintf(stream, "<details%s><summary>%s", style[0] ? " open" : "", name);
    if (lines > (size_t)most) fprintf(stream, " <small>first %d of %zu lines</small>", most, lines);
    fprintf(stream, "</summary>\n<pre class=\"%s\">", style);
    char *part = mem_format("%.*s", (int)shown, text);
    html_text(stream, part);
    free(part);
    fputs("</pre></details>\n", stream);
}

static void emit_commands(FILE *stream, const char *lines) {
    bool several = lines && strchr(lines, '\n');
    emit_fold(stream, several ? "Command lines, in order" : "Command line", "command", lines, 100);
}

static enum status emit_summary_fold(FILE *stream, const struct summary *summary) {
    SCOPED_FREE char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return fail(STATUS_MEMORY, "report.html: out of memory");
    summary_emit(memory, summary);
    if (fclose(memory) != 0)
        return fail(STATUS_MEMORY, "report.html: out of memory for the summary");
    emit_fold(stream, "Summary (summary.json)", "", text, 100000);
    return STATUS_OK;
}

static void emit_timeline(FILE *stream, const struct timeline *timeline, const char *nonce) {
    if (!timeline) return;
    fputs("<section class=\"panel timeline\">\n<h2>", stream);
    html_text(stream, timeline->title);
    fputs("</h2>\n", stream);
    for (size_t i = 0; i < timeline->subtitle_count; i++) {
        fputs("<p class=\"note\">", stream);
        html_text(stream, timeline->subtitle[i]);
        fputs("</p>\n", stream);
    }
    draw_html_section(stream, timeline, nonce);
    fputs("</section>\n", stream);
}

static enum status emit_page(FILE *stream, const struct report_input *input,
                             const struct curves *curves) {
    char nonce[HTML_NONCE_BYTES];
    emit_head(stream, input->summary, input->timeline ? html_nonce(nonce) : NULL);
    emit_header(stream, input->summary, curves);
    emit_notice(stream, input->notice);
    report_cards(stream, input->summary);
    emit_notices(stream, curves);
    if (input->range_test) emit_range_test(stream, curves);
    emit_charts(stream, curves);
    emit_virtual(stream, curves);
    fputs("<div class=\"row two\">\n", stream);
    report_time(stream, input->summary);
    report_memory(stream, input->summary);
    fputs("</div>\n", stream);
    report_ranks(stream, input->summary, curves);
    report_staleness(stream, input->summary);
    report_course(stream, &input->course, curves);
    emit_timeline(stream, input->timeline, nonce);
    emit_commands(stream, input->command_lines);
    emit_fold(stream, "Resolved configuration (config.yml)", "", input->config_yaml, 5000);
    emit_fold(stream, "Program (program.txt)", "", input->program_text, REPORT_PROGRAM_LINES);
    TRY(emit_summary_fold(stream, input->summary));
    fputs("</main>\n</body>\n</html>\n", stream);
    return STATUS_OK;
}

enum status report_write(const char *folder, const struct report_input *input) {
    struct file_writer writer;
    SCOPED(curves_free) struct curves curves = {0};
    SCOPED_FREE char *path = mem_format("%s/report.html", folder);
    TRY(file_begin(path, &writer));
    curves_read(folder, &curves);
    enum status status = emit_page(writer.stream, input, &curves);
    if (status == STATUS_OK) return file_commit(&writer);
    file_abandon(&writer);
    return status;
}
