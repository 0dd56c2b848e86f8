/* The HTML drawing: figures, sentences and a table that need no script, and the timeline, which is
 * drawn by one (draw_page/). Everything is inside the file, and its policy forbids every request.
 */
#include "record/draw.h"

#include <inttypes.h>
#include <stdlib.h>

#include "record/draw_parts.h"
#include "record/html.h"

extern const char draw_page_style[], draw_page_script[];

enum { TABLE_ROWS = 256 };
static const char *const version_names[TIMELINE_VERSIONS] = {"predicted", "measured"};

static bool has_both(const struct timeline *timeline) {
    return timeline_has(timeline, TIMELINE_PREDICTED) && timeline_has(timeline, TIMELINE_MEASURED);
}

static void emit_figure(FILE *stream, const struct draw_figure *figure, bool both) {
    if (!figure->there[0] && !figure->there[1]) return;
    bool second = false;
    fprintf(stream, "<div><dt>%s</dt>", figure->name);
    for (int v = TIMELINE_VERSIONS - 1; v >= 0; v--) {
        if (!figure->there[v]) continue;
        fprintf(stream, "<dd%s>%s", second ? " class=\"second\"" : "", figure->value[v]);
        if (both) fprintf(stream, " <small class=\"tl-tag\">%s</small>", version_names[v]);
        if (figure->note[v][0]) fprintf(stream, " <small>%s</small>", figure->note[v]);
        fputs("</dd>", stream);
        second = true;
    }
    fputs("</div>\n", stream);
}

static void emit_figures(FILE *stream, const struct timeline *timeline) {
    struct draw_figure figure[DRAW_FIGURES];
    draw_figures(timeline, figure);
    fputs("<dl class=\"tl-figures\">\n", stream);
    for (int i = 0; i < DRAW_FIGURES; i++) emit_figure(stream, &figure[i], has_both(timeline));
    fputs("</dl>\n", stream);
}

/* With a measurement the first sentence after the caller's own says how the step compares. */
static void emit_sentences(FILE *stream, const struct timeline *timeline) {
    size_t count;
    SCOPED_FREE char **sentences = draw_sentences(timeline, &count);
    if (count > 0)
        fprintf(stream, "<div class=\"tl-panel tl-said\">\n<h2>%s</h2>\n<ul>\n",
                has_both(timeline) ? "Where the difference came from" : "In words");
    for (size_t i = 0; i < count; i++) {
        fputs("<li>", stream);
        html_text(stream, sentences[i]);
        fputs("</li>\n", stream);
        free(sentences[i]);
    }
    if (count > 0) fputs("</ul>\n</div>\n", stream);
}

static void emit_tools(FILE *stream, bool both) {
    fputs("<div class=\"tl-tools tl-script\" hidden>\n", stream);
    if (both)
        fputs("<fieldset><legend>version shown</legend>"
              "<label><input type=\"radio\" name=\"view\" value=\"predicted\">predicted</label>"
              "<label><input type=\"radio\" name=\"view\" value=\"measured\">measured</label>"
              "<label><input type=\"radio\" name=\"view\" value=\"both\" checked>both</label>"
              "</fieldset>\n",
              stream);
    fputs("<label><input type=\"checkbox\" name=\"critical\">critical path</label>\n"
          "<label><input type=\"checkbox\" name=\"arrows\">messages</label>\n"
          "<label><input type=\"checkbox\" name=\"memory\">memory</label>\n"
          "<div class=\"tl-zoom\"><button type=\"button\" name=\"out\" aria-label=\"zoom out\">"
          "\xE2\x88\x92</button><button type=\"button\" name=\"in\" aria-label=\"zoom in\">+"
          "</button><button type=\"button\" name=\"reset\">Reset</button></div>\n</div>\n",
          stream);
}

static void emit_key(FILE *stream, const struct timeline *timeline, int category) {
    int count = 0;
    for (size_t i = 0; i < timeline->kind_count; i++) {
        if ((int)timeline->kind[i].category != category) continue;
        if (count++ == 0)
            fprintf(stream, "<li><i class=\"%s\" style=\"--key:var(--tl-k%d)\"></i><b>",
                    timeline_categories[category].hatched ? "striped" : "", category);
        else
            fputs(", ", stream);
        html_text(stream, timeline->kind[i].name);
    }
    if (count > 0) fprintf(stream, "</b> %s</li>\n", timeline_categories[category].text);
}

static void emit_legend(FILE *stream, const struct timeline *timeline) {
    int32_t micros = timeline_micros(timeline);
    fputs("<ul class=\"tl-legend\">\n", stream);
    for (int c = 0; c < TIMELINE_CATEGORIES; c++)
        if (draw_has_category(timeline, (enum timeline_category)c)) emit_key(stream, timeline, c);
    if (micros > 1)
        fprintf(stream,
                "<li>micro-batch 0<i class=\"ramp\" style=\"--key:var(--tl-k0)\"></i>%" PRId32
                "</li>\n",
                micros - 1);
    if (draw_has_critical(timeline))
        fputs("<li><i class=\"path\"></i>critical path</li>\n", stream);
    fputs("</ul>\n", stream);
}

static void emit_stage(FILE *stream, const struct timeline *timeline, size_t step) {
    fputs("<div class=\"tl-stage tl-script\" hidden><canvas tabindex=\"0\" role=\"img\" "
          "aria-label=\"Timeline of all ranks. Arrow keys up and down go from rank to rank, comma "
          "and full stop from block to block; the table below has the figures of each rank.\">"
          "</canvas><div class=\"tl-card\" hidden></div></div>\n"
          "<div class=\"tl-live\" aria-live=\"polite\"></div>\n"
          "<noscript><p class=\"tl-note\">The timeline is drawn by a script of this page, which is "
          "switched off. The figures above and the table below need none.</p></noscript>\n",
          stream);
    if (step > 1)
        fprintf(stream,
                "<p class=\"tl-note\">One of %zu rows is on this page: %zu of %zu ranks.</p>\n",
                step, (timeline->row_count + step - 1) / step, timeline->row_count);
    if (timeline->row_count == 0)
        fputs("<p class=\"tl-note\">Nothing to draw: there are no ranks.</p>\n", stream);
    fputs("<p class=\"tl-note tl-script\" hidden>Wheel or <kbd>+</kbd> <kbd>\xE2\x88\x92</kbd> "
          "zooms, drag or arrow keys move, shift and wheel scrolls the ranks, a click follows one "
          "micro-batch, <kbd>,</kbd> <kbd>.</kbd> go from block to block, <kbd>[</kbd> "
          "<kbd>]</kbd> change the height of rows, <kbd>0</kbd> shows all again.</p>\n",
          stream);
}

/* --- the table --- */

static void emit_row(FILE *stream, const struct timeline *timeline, size_t r,
                     const struct timeline_range range[TIMELINE_VERSIONS]) {
    char text[TEXT_BYTES];
    fputs("<tr><td>", stream);
    html_text(stream, timeline->row[r].label);
    fputs("</td>", stream);
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        if (!timeline_has(timeline, v)) continue;
        struct timeline_use use = timeline_use(timeline, &timeline->version[v].lane[r], range[v]);
        fprintf(stream, "<td>%s</td>", timeline_time(timeline, use.work, text));
        fprintf(stream, "<td>%.1f%%</td><td>%.1f%%</td>", use.bubble * 100, use.span_bubble * 100);
        fprintf(stream, "<td>%s</td>", timeline_time(timeline, use.exposed, text));
        fprintf(stream, "<td>%s</td>", use.peak_bytes > 0 ? text_size(use.peak_bytes, text) : "");
    }
    fputs("</tr>\n", stream);
}

static void emit_table(FILE *stream, const struct timeline *timeline) {
    struct timeline_range range[TIMELINE_VERSIONS];
    fputs("<details><summary>Ranks as a table</summary><div class=\"tl-table\"><table>\n<tr>"
          "<th>rank</th>",
          stream);
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        range[v] = timeline_range(timeline, v);
        const char *name = has_both(timeline) ? version_names[v] : "";
        if (timeline_has(timeline, v))
            fprintf(stream,
                    "<th>%s work</th><th>bubble</th><th>span bubble</th><th>exposed</th>"
                    "<th>peak memory</th>",
                    name);
    }
    fputs("</tr>\n", stream);
    for (size_t r = 0; r < timeline->row_count && r < TABLE_ROWS; r++)
        emit_row(stream, timeline, r, range);
    fputs("</table>\n", stream);
    if (timeline->row_count > TABLE_ROWS)
        fprintf(stream, "<p class=\"tl-note\">The first %d of %zu ranks.</p>\n", TABLE_ROWS,
                timeline->row_count);
    fputs("</div></details>\n", stream);
}

/* --- together --- */

static void emit_colours(FILE *stream, bool dark) {
    fputs(".tl{", stream);
    for (int c = 0; c < TIMELINE_CATEGORIES; c++)
        fprintf(stream, "--tl-k%d:#%06x;", c, draw_colour((enum timeline_category)c, 0, dark));
    fputs("}", stream);
}

static void emit_style(FILE *stream) {
    fprintf(stream, "<style>\n%s", draw_page_style);
    emit_colours(stream, false);
    fputs("\n@media(prefers-color-scheme:dark){", stream);
    emit_colours(stream, true);
    fputs("}\n</style>\n", stream);
}

void draw_html_section(FILE *stream, const struct timeline *timeline, const char *nonce) {
    size_t step = (draw_interval_count(timeline) + DRAW_INTERVALS - 1) / DRAW_INTERVALS;
    if (step == 0) step = 1;
    emit_style(stream);
    fputs("<section class=\"tl\" data-state=\"waiting\">\n", stream);
    emit_figures(stream, timeline);
    emit_sentences(stream, timeline);
    fputs("<div class=\"tl-panel\">\n", stream);
    emit_tools(stream, has_both(timeline));
    emit_legend(stream, timeline);
    emit_stage(stream, timeline, step);
    fputs("</div>\n", stream);
    emit_table(stream, timeline);
    fputs("<script type=\"application/json\" class=\"tl-data\">", stream);
    draw_data(stream, timeline, step);
    fprintf(stream, "</script>\n</section>\n<script nonce=\"%s\">\n%s</script>\n", nonce,
            draw_page_script);
}

void draw_html_page(FILE *stream, const struct timeline *timeline) {
    char nonce[HTML_NONCE_BYTES];
    fprintf(stream,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'unsafe-inline'; script-src 'nonce-%s'\">\n",
            html_nonce(nonce));
    fputs("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          stream);
    html_text(stream, timeline->title);
    fputs(" - Stretto</title>\n<style>\n"
          "body{margin:0;background:#f5f6f8;color:#1b2027;font:15px/1.45 system-ui,-apple-system,"
          "\"Segoe UI\",Roboto,\"Liberation Sans\",sans-serif}\n"
          "main{max-width:1500px;margin:0 auto;padding:24px 20px 32px}\n"
          "header{margin-bottom:16px}h1{font-size:26px;line-height:1.2;margin:0 0 4px;"
          "overflow-wrap:anywhere}header p{margin:0;color:#57606e;font-size:13.5px}\n"
          "@media(prefers-color-scheme:dark){body{background:#11141a;color:#e7eaee}"
          "header p{color:#a3adba}}\n</style>\n</head>\n<body>\n<main>\n<header>\n<h1>",
          stream);
    html_text(stream, timeline->title);
    fputs("</h1>\n", stream);
    for (size_t i = 0; i < timeline->subtitle_count; i++) {
        fputs("<p>", stream);
        html_text(stream, timeline->subtitle[i]);
        fputs("</p>\n", stream);
    }
    fputs("</header>\n", stream);
    draw_html_section(stream, timeline, nonce);
    fputs("</main>\n</body>\n</html>\n", stream);
}
