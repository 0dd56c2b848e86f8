/* See ranking_draw.h. Each timeline is a picture of its own, with its own classes of style, hidden
 * until the page's address names it: so a click needs no script, and the browser's "back" works.
 * Rejected: a page for each plan beside this one, which would be files that nobody named. */
#include "view/ranking_draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "record/draw.h"
#include "record/html.h"
#include "view/drawing.h"
#include "view/ranking_words.h"

enum { WIDTH = 900, HEIGHT = 460, LEFT = 90, RIGHT = 20, TOP = 20, BOTTOM = 50, TIMELINES = 24 };

/* What is drawn of a search. */
struct picture {
    const struct planned_search *search;
    const struct planner_row *row; /* from the first that fits */
    int count;
    double least_ns, most_ns, most_bytes; /* of the axes; time in logarithms */
    bool *front, *drawn; /* per row: no other is faster and smaller; has a timeline */
    FILE *out;
};

static void picture_free(struct picture *picture) {
    free(picture->front);
    free(picture->drawn);
}

/* Rows are sorted by time: one is of the front that needs less than all before it. */
static void find_front(struct picture *picture) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < picture->count; i++) {
        picture->front[i] = picture->row[i].peak_bytes < least;
        if (picture->front[i]) least = picture->row[i].peak_bytes;
    }
}

/* The front, the best of each family, and the fastest, as many as there is room for. */
static void choose_timelines(struct picture *picture) {
    int left = TIMELINES;
    bool seen[PLANNER_KINDS] = {0};
    for (int i = 0; i < picture->count; i++) {
        int kind = planner_kind(&picture->row[i].choice);
        if (left > 0 && (picture->front[i] || !seen[kind])) picture->drawn[i] = true, left--;
        seen[kind] = true;
    }
    for (int i = 0; i < picture->count && left > 0; i++)
        if (!picture->drawn[i]) picture->drawn[i] = true, left--;
}

static struct picture picture_of(const struct planned_search *search) {
    const struct planner_result *result = &search->result;
    struct picture picture = {.search = search,
                              .row = result->row + search->fitting,
                              .count = result->timed - search->fitting};
    picture.front = MEM_ARRAY(bool, picture.count);
    picture.drawn = MEM_ARRAY(bool, picture.count);
    picture.least_ns = log(picture.row[0].step_ns);
    picture.most_ns = log(picture.row[picture.count - 1].step_ns);
    if (picture.most_ns - picture.least_ns < 0.01) picture.most_ns = picture.least_ns + 0.01;
    for (int i = 0; i < picture.count; i++)
        picture.most_bytes = fmax(picture.most_bytes, (double)picture.row[i].peak_bytes);
    find_front(&picture);
    choose_timelines(&picture);
    return picture;
}

/* --- the plot --- */

static double x_of(const struct picture *picture, double log_ns) {
    double part = (log_ns - picture->least_ns) / (picture->most_ns - picture->least_ns);
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct picture *picture, double bytes) {
    return HEIGHT - BOTTOM - bytes / picture->most_bytes * (HEIGHT - TOP - BOTTOM);
}

static void emit_axes(const struct picture *picture) {
    enum { TICKS = 5 };
    char text[TEXT_BYTES];
    for (int i = 0; i <= TICKS; i++) {
        double at = picture->least_ns + (picture->most_ns - picture->least_ns) * i / TICKS,
               bytes = picture->most_bytes * i / TICKS;
        fprintf(picture->out,
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                x_of(picture, at), HEIGHT - BOTTOM + 20, text_duration(exp(at) * 1e-9, text),
                LEFT - 8, y_of(picture, bytes) + 4);
        fprintf(picture->out, "%s</text>\n<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n",
                text_size((int64_t)bytes, text), LEFT, y_of(picture, bytes), WIDTH - RIGHT);
    }
    fprintf(picture->out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">time of a step (each step to the right "
            "is so many times longer)</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
}

static void emit_front(const struct picture *picture) {
    fputs("<path class=\"front\" d=\"", picture->out);
    for (int i = 0, any = 0; i < picture->count; i++) {
        const struct planner_row *row = &picture->row[i];
        if (!picture->front[i]) continue;
        fprintf(picture->out, "%s%.1f %.1f", any ? "L" : "M", x_of(picture, log(row->step_ns)),
                y_of(picture, (double)row->peak_bytes));
        any = 1;
    }
    fputs("\"/>\n", picture->out);
}

static char *words_of(const struct picture *picture, int i) {
    const struct planner_row *row = &picture->row[i];
    const struct planner_choice *choice = &row->choice;
    char step[TEXT_BYTES], peak[TEXT_BYTES], sent[TEXT_BYTES];
    SCOPED_FREE char *name = ranking_name(row), *why = ranking_why(picture->search, row);
    return mem_format("%s, %d x %d, deal %dx%d: %s a step, %s, %s sent; %s", name, choice->stages,
                      choice->replicas, choice->replicas, choice->micro_batches,
                      text_duration(row->step_ns * 1e-9, step), text_size(row->peak_bytes, peak),
                      text_size(row->sent_bytes, sent), why);
}

static void emit_point(const struct picture *picture, int i) {
    const struct planner_row *row = &picture->row[i];
    SCOPED_FREE char *words = words_of(picture, i);
    if (picture->drawn[i]) fprintf(picture->out, "<a href=\"#plan-%d\">", i + 1);
    fprintf(picture->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>",
            picture->front[i]   ? "best"
            : picture->drawn[i] ? "drawn"
                                : "other",
            x_of(picture, log(row->step_ns)), y_of(picture, (double)row->peak_bytes),
            picture->front[i] ? 7 : 5);
    html_text(picture->out, words);
    fprintf(picture->out, "</title></circle>%s\n", picture->drawn[i] ? "</a>" : "");
}

static void emit_plot(const struct picture *picture) {
    fprintf(picture->out,
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time against memory\">\n", WIDTH,
            HEIGHT);
    emit_axes(picture);
    emit_front(picture);
    for (int i = picture->count - 1; i >= 0; i--) emit_point(picture, i);
    fputs("</svg>\n", picture->out);
}

/* --- timelines --- */

/* As the address of an image: its styles are its own there. */
static void emit_image(FILE *out, const unsigned char *data, size_t bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fputs("<img alt=\"timeline\" src=\"data:image/svg+xml;base64,", out);
    for (size_t i = 0; i < bytes; i += 3) {
        unsigned word = (unsigned)data[i] << 16;
        if (i + 1 < bytes) word |= (unsigned)data[i + 1] << 8;
        if (i + 2 < bytes) word |= data[i + 2];
        for (size_t k = 0; k < 4; k++)
            fputc(i + k <= bytes ? digits[word >> (18 - 6 * k) & 63] : '=', out);
    }
    fputs("\">\n", out);
}

static enum status draw_timeline(const struct timeline *timeline, FILE *out) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    enum status status = draw_svg(stream, timeline);
    fclose(stream);
    if (status == STATUS_OK) emit_image(out, (const unsigned char *)text, bytes);
    free(text);
    return status;
}

static enum status draw_row(const struct picture *picture, const struct options *options,
                            int ranks) {
    struct rank_info info = planned_info_to_forecast(options, ranks);
    SCOPED(planned_close) struct planned_run planned = {0};
    SCOPED(view_forecast_close) struct view_forecast view = {0};
    SCOPED(drawing_close) struct drawing drawing = {0};
    info.dataset = picture->search->opened.dataset;
    TRY(planned_open(options, &info, &planned));
    TRY(view_forecast_open(&planned, false, &view));
    if (!view.forecast.input.record) {
        fputs("<p>too many instructions to draw</p>\n", picture->out);
        return STATUS_OK;
    }
    drawing_open(&view, &drawing);
    return draw_timeline(&drawing.timeline, picture->out);
}

static enum status emit_timeline(const struct picture *picture, int i) {
    const struct planner_row *row = &picture->row[i];
    struct options options;
    char *command = NULL;
    SCOPED_FREE char *words = words_of(picture, i);
    fprintf(picture->out, "<section id=\"plan-%d\">\n<h2>", i + 1);
    html_text(picture->out, words);
    fputs("</h2>\n<p><code>", picture->out);
    TRY(ranking_command(picture->search, row, COMMAND_TRAIN, &command));
    html_text(picture->out, command);
    free(command);
    fputs("</code></p>\n", picture->out);
    enum status status = planned_search_options(picture->search, row, &options);
    options.command = COMMAND_SIMULATE;
    if (status == STATUS_OK) status = draw_row(picture, &options, row->choice.ranks);
    arena_free(&options.arena);
    fputs("</section>\n", picture->out);
    return status;
}

/* --- the page --- */

static const char style[] =
    ":root{color-scheme:light dark}body{font:15px system-ui,sans-serif;margin:1.5em auto;"
    "max-width:62em;padding:0 1em}svg,img{width:100%;height:auto}svg text{font-size:12px;fill:"
    "currentColor}.grid{stroke:currentColor;stroke-opacity:.15}.front{fill:none;stroke:#2a78d0;"
    "stroke-width:2}.best{fill:#2a78d0}.drawn{fill:#888}.other{fill:none;stroke:#888}"
    "section{display:none}section:target{display:block}h2{font-size:1.05em}code{font-size:.9em}";

static enum status emit_page(struct picture *picture) {
    const struct options *options = &picture->search->options;
    char count[TEXT_BYTES], all[TEXT_BYTES];
    enum status status = STATUS_OK;
    fprintf(picture->out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
            "name=\"viewport\" content=\"width=device-width\">\n<meta "
            "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'unsafe-inline'; img-src data:\">\n<title>plans of ");
    html_text(picture->out, options->model);
    fprintf(
        picture->out,
        " - Stretto</title>\n<style>%s</style>\n</head>\n<body>\n<main>\n<header>\n<h1>Plans of ",
        style);
    html_text(picture->out, options->model);
    fprintf(
        picture->out,
        "</h1>\n<p>%s of %s plans were simulated; all others are slower by bounds. The line joins "
        "those that no other one beats in time and memory. A filled point opens its timeline "
        "below.</p>\n</header>\n",
        text_count(picture->count, "plan", count),
        text_thousands(picture->search->result.row_count, all));
    emit_plot(picture);
    for (int i = 0; i < picture->count && status == STATUS_OK; i++)
        if (picture->drawn[i]) status = emit_timeline(picture, i);
    fputs("</main>\n</body>\n</html>\n", picture->out);
    return status;
}

enum status ranking_draw(const struct planned_search *search, const char *path) {
    SCOPED(picture_free) struct picture picture = picture_of(search);
    struct file_writer writer;
    TRY(file_begin(path, &writer));
    picture.out = writer.stream;
    enum status status = emit_page(&picture);
    if (status == STATUS_OK) return file_commit(&writer);
    file_abandon(&writer);
    return status;
}
