/* The SVG drawing: title, figures, legend, time axis, rows, memory and sentences, from top to
 * bottom.
 *
 * The body is written to memory first: only then are its height and the colours in use known. Text
 * widths are estimates, since no font is at hand; nothing depends on them by more than a few
 * pixels. Colours are classes, so that one media query makes the picture dark. */
#include "record/draw_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/draw.h"
#include "record/html.h"

static const double WIDTH = 1200, MARGIN = 28, CHAR = 6.5;
enum { SENTENCE_CHARS = 168 };

void svg_text(FILE *stream, const char *text, int most) {
    if (!text) return;
    const char *end = text;
    uint32_t code;
    for (int i = 0; *end && i < most; i++) {
        int length = text_utf8(end, &code);
        end += length > 0 ? length : 1;
    }
    char *part = mem_format("%.*s", (int)(end - text), text);
    html_text(stream, part);
    free(part);
    if (*end) fputs("…", stream);
}

/* --- geometry --- */

static int longest_label(const struct timeline *timeline) {
    int most = 4;
    for (size_t i = 0; i < timeline->row_count; i++) {
        int width = timeline->row[i].label ? text_width(timeline->row[i].label) : 0;
        if (width > most) most = width;
    }
    return most < 30 ? most : 30;
}

static bool has_peaks(const struct timeline *timeline) {
    for (int v = 0; v < TIMELINE_VERSIONS; v++)
        for (size_t r = 0; timeline_has(timeline, v) && r < timeline->row_count; r++)
            if (timeline->version[v].lane[r].point_count > 0) return true;
    return false;
}

static void place_rows(struct svg *svg) {
    size_t all = svg->timeline->row_count;
    svg->step = (all + DRAW_SVG_ROWS - 1) / DRAW_SVG_ROWS;
    if (svg->step == 0) svg->step = 1;
    svg->rows = (all + svg->step - 1) / svg->step;
    double rows = svg->rows > 0 ? (double)svg->rows : 1;
    svg->pitch = svg->lanes == 2 ? fmin(fmax(1200 / rows, 6), 62) : fmin(fmax(760 / rows, 3), 42);
    svg->row_height = svg->pitch - (svg->pitch >= 20 ? 8 : svg->pitch >= 8 ? 2 : 0.5);
}

static void place_columns(struct svg *svg) {
    bool named = svg->lanes == 2 && svg_lane_height(svg) >= 11;
    svg->plot_x = MARGIN + longest_label(svg->timeline) * CHAR + 14 + (named ? 62 : 0);
    double right = WIDTH - MARGIN;
    if (has_peaks(svg->timeline)) svg->peak_x = right -= 76;
    svg->bubble_x = right -= 92;
    svg->plot_width = floor(right - 16 - svg->plot_x);
}

static struct svg svg_for(FILE *stream, const struct timeline *timeline) {
    struct svg svg = {.stream = stream, .timeline = timeline, .width = WIDTH};
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        svg.range[v] = timeline_range(timeline, v);
        svg.length = fmax(svg.length, (double)svg.range[v].length);
        svg.lanes += timeline_has(timeline, v);
    }
    if (svg.length <= 0) svg.length = 1;
    if (svg.lanes == 0) svg.lanes = 1;
    svg.sides = draw_has_side(timeline);
    svg.micros = timeline_micros(timeline);
    place_rows(&svg);
    place_columns(&svg);
    return svg;
}

/* --- above the rows --- */

static double emit_heading(const struct svg *svg) {
    double y = MARGIN + 16;
    fprintf(svg->stream, "<text class=\"title\" x=\"%.0f\" y=\"%.0f\">", MARGIN, y);
    svg_text(svg->stream, svg->timeline->title, 100);
    fputs("</text>\n", svg->stream);
    y += 6;
    for (size_t i = 0; i < svg->timeline->subtitle_count; i++) {
        fprintf(svg->stream, "<text class=\"sub\" x=\"%.0f\" y=\"%.0f\">", MARGIN, y += 19);
        svg_text(svg->stream, svg->timeline->subtitle[i], SENTENCE_CHARS);
        fputs("</text>\n", svg->stream);
    }
    return y + 14;
}

static void emit_value(const struct svg *svg, const struct draw_figure *figure, int v, double x,
                       double y) {
    fprintf(svg->stream, "<text x=\"%.0f\" y=\"%.0f\"><tspan class=\"value\">%s</tspan>", x, y,
            figure->value[v]);
    const char *name = v == TIMELINE_PREDICTED ? "predicted" : "measured";
    if (svg->lanes == 2) fprintf(svg->stream, "<tspan class=\"sub\" dx=\"4\">%s</tspan>", name);
    fputs("</text>\n", svg->stream);
}

static double emit_figures(const struct svg *svg, double y) {
    struct draw_figure figure[DRAW_FIGURES];
    draw_figures(svg->timeline, figure);
    double x = MARGIN, line = y, lowest = y;
    for (int i = 0; i < DRAW_FIGURES; i++, line = y) {
        if (!figure[i].there[0] && !figure[i].there[1]) continue;
        fprintf(svg->stream, "<text class=\"sub\" x=\"%.0f\" y=\"%.0f\">%s</text>\n", x, line += 14,
                figure[i].name);
        line += 3;
        for (int v = 0; v < TIMELINE_VERSIONS; v++)
            if (figure[i].there[v]) emit_value(svg, &figure[i], v, x, line += 22);
        for (int v = 0; v < TIMELINE_VERSIONS; v++)
            if (figure[i].note[v][0])
                fprintf(svg->stream, "<text class=\"sub\" x=\"%.0f\" y=\"%.0f\">%s%s</text>\n", x,
                        line += 17, svg->lanes == 2 && v == 0 ? "predicted " : "",
                        figure[i].note[v]);
        lowest = fmax(lowest, line);
        x += (WIDTH - 2 * MARGIN) / DRAW_FIGURES;
    }
    return lowest + 16;
}

/* Names of the kinds of a category: "F", "REDUCE, GATHER", "F, B, I, ..."; the caller frees them.
 */
static char *kinds_text(const struct svg *svg, int category) {
    enum { NAMED = 3 };
    int count = 0;
    char *text = mem_text("");
    for (size_t i = 0; i < svg->timeline->kind_count; i++) {
        if ((int)svg->timeline->kind[i].category != category || ++count > NAMED + 1) continue;
        const char *name = count > NAMED ? "..." : svg->timeline->kind[i].name;
        char *longer = mem_format("%s%s%.16s", text, count > 1 ? ", " : "", name);
        free(text);
        text = longer;
    }
    return text;
}

/* Pixels of bold text, in which capitals are wide. */
static double bold_width(const char *text) {
    double width = 0;
    for (; *text; text++) width += *text >= 'A' && *text <= 'Z' ? 9.2 : CHAR;
    return width;
}

static double swatch_width(const char *kinds, int category) {
    return 18 + bold_width(kinds) +
           ((double)strlen(timeline_categories[category].text) + 1) * CHAR + 18;
}

static void emit_swatch(const struct svg *svg, int category, const char *kinds, double x,
                        double y) {
    fprintf(svg->stream,
            "<rect class=\"k%d_0\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\"/>\n",
            category, x, y - 10);
    if (timeline_categories[category].hatched)
        fprintf(svg->stream,
                "<rect fill=\"url(#hatch)\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\"/>\n",
                x, y - 10);
    fprintf(svg->stream, "<text x=\"%.1f\" y=\"%.1f\"><tspan class=\"t\" font-weight=\"600\">",
            x + 18, y);
    svg_text(svg->stream, kinds, 64);
    fprintf(svg->stream, "</tspan><tspan class=\"s\" dx=\"4\">%s</tspan></text>\n",
            timeline_categories[category].text);
}

/* What lightness means: the shades of forward from the first to the last micro-batch. */
static double emit_ramp(struct svg *svg, double x, double y) {
    fprintf(svg->stream, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">micro-batch 0</text>\n", x, y);
    x += 94;
    for (int shade = 0; shade < DRAW_SHADES; shade++) {
        svg->used[TIMELINE_FORWARD][shade] = true;
        fprintf(svg->stream,
                "<rect class=\"k%d_%d\" x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"12\"/>\n",
                TIMELINE_FORWARD, shade, x + 8 * shade, y - 10);
    }
    x += 8 * DRAW_SHADES + 6;
    fprintf(svg->stream, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">%d</text>\n", x, y,
            svg->micros - 1);
    return x + 44;
}

static double emit_legend(struct svg *svg, double y) {
    double x = MARGIN, right = WIDTH - MARGIN;
    y += 12;
    for (int c = 0; c < TIMELINE_CATEGORIES; c++) {
        if (!draw_has_category(svg->timeline, (enum timeline_category)c)) continue;
        svg->used[c][0] = true;
        SCOPED_FREE char *kinds = kinds_text(svg, c);
        double width = swatch_width(kinds, c);
        if (x > MARGIN && x + width > right) x = MARGIN, y += 20;
        emit_swatch(svg, c, kinds, x, y);
        x += width;
    }
    if (svg->micros > 1) {
        if (x + 210 > right) x = MARGIN, y += 20;
        x = emit_ramp(svg, x, y);
    }
    if (draw_has_critical(svg->timeline)) {
        if (x + 110 > right) x = MARGIN, y += 20;
        fprintf(svg->stream,
                "<path class=\"crit\" stroke-width=\"2.6\" d=\"M%.1f %.1fh18\"/><text class=\"s\" "
                "x=\"%.1f\" y=\"%.1f\">critical path</text>\n",
                x, y - 4, x + 24, y);
    }
    return y + 16;
}

/* --- axis --- */

static void emit_axis(const struct svg *svg, double y, double bottom) {
    struct draw_time_axis time = draw_time_axis(svg->timeline, svg->length, 9);
    char label[TEXT_BYTES];
    for (int i = 0; i < time.axis.ticks; i++) {
        double at = time.axis.tick[i] * time.scale;
        if (at > svg->length * 1.0001) break;
        double x = svg->plot_x + at / svg->length * svg->plot_width;
        bool edge = x > svg->plot_x + svg->plot_width - 26;
        const char *unit = i == 0 || !time.unit[0] ? "" : time.unit;
        fprintf(svg->stream,
                "<path class=\"grid\" d=\"M%.2f %.1fV%.1f\"/><text class=\"s %s\" x=\"%.2f\" "
                "y=\"%.1f\">%s%s%s</text>\n",
                x, y + 5, bottom, edge ? "e" : "m", edge ? svg->plot_x + svg->plot_width : x, y,
                axis_label(&time.axis, time.axis.tick[i], label), *unit ? " " : "", unit);
    }
    fprintf(svg->stream, "<text class=\"h\" x=\"%.1f\" y=\"%.1f\">bubble</text>\n", svg->bubble_x,
            y);
    if (svg->peak_x > 0 && svg_lane_height(svg) >= 9.5)
        fprintf(svg->stream, "<text class=\"h e\" x=\"%.1f\" y=\"%.1f\">peak</text>\n",
                svg->peak_x + 76, y);
}

/* --- below --- */

static double emit_note(const struct svg *svg, double y) {
    if (svg->timeline->row_count == 0 || svg->step > 1)
        fprintf(svg->stream, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">", svg->plot_x, y += 18);
    if (svg->timeline->row_count == 0)
        fputs("Nothing to draw: there are no ranks.</text>\n", svg->stream);
    else if (svg->step > 1)
        fprintf(svg->stream, "One of %zu rows is drawn: %zu of %zu ranks.</text>\n", svg->step,
                svg->rows, svg->timeline->row_count);
    return y;
}

/* A sentence, broken at blanks. */
static double emit_sentence(const struct svg *svg, const char *text, double y) {
    while (*text) {
        size_t length = strlen(text), take = length;
        if (length > SENTENCE_CHARS) {
            take = SENTENCE_CHARS;
            while (take > SENTENCE_CHARS / 2 && text[take] != ' ') take--;
            while (take > 1 && (text[take] & 0xC0) == 0x80) take--;
        }
        char *part = mem_format("%.*s", (int)take, text);
        fprintf(svg->stream, "<text class=\"said\" x=\"%.1f\" y=\"%.1f\">", MARGIN, y += 19);
        svg_text(svg->stream, part, SENTENCE_CHARS);
        fputs("</text>\n", svg->stream);
        free(part);
        text += take;
        text += *text == ' ';
    }
    return y;
}

static double emit_sentences(const struct svg *svg, double y) {
    size_t count;
    SCOPED_FREE char **sentences = draw_sentences(svg->timeline, &count);
    if (count > 0) y += 8;
    for (size_t i = 0; i < count; i++) {
        y = emit_sentence(svg, sentences[i], y);
        free(sentences[i]);
    }
    return y;
}

/* The whole body; returns the height of the picture. */
static double emit_body(struct svg *svg) {
    double y = emit_heading(svg);
    y = emit_figures(svg, y);
    y = emit_legend(svg, y);
    svg->rows_y = y + 30;
    double bottom = svg->rows_y + (double)svg->rows * svg->pitch;
    emit_axis(svg, y + 18, bottom);
    svg_rows(svg);
    svg_arrows(svg);
    svg_critical(svg);
    y = emit_note(svg, bottom);
    y += svg_memory(svg, y);
    return emit_sentences(svg, y) + MARGIN;
}

/* --- around it --- */

static void emit_colours(const struct svg *svg, FILE *stream, bool dark) {
    for (int c = 0; c < TIMELINE_CATEGORIES; c++)
        for (int s = 0; s < DRAW_SHADES; s++) {
            if (!svg->used[c][s]) continue;
            uint32_t colour = draw_colour((enum timeline_category)c, s, dark);
            fprintf(stream, ".k%d_%d{fill:#%06x}.n%d_%d{fill:#%06x}", c, s, colour, c, s,
                    draw_ink_on(colour));
        }
    fputs("\n", stream);
}

static void emit_style(const struct svg *svg, FILE *stream) {
    fputs("<style>\n"
          "svg{color-scheme:light dark;font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,"
          "\"Liberation Sans\",Arial,sans-serif;font-variant-numeric:tabular-nums}\n"
          "[class^=n]{text-anchor:middle}.e{text-anchor:end}.m{text-anchor:middle}\n"
          ".page{fill:#fff}.t,.title,.value,.said{fill:#1b2027}.s,.sub,.h{fill:#5a6472}"
          ".title{font-size:20px;font-weight:650}.value{font-size:17px;font-weight:600}"
          ".sub{font-size:12.5px}.said{font-size:13px}.bad{fill:#b3261e}\n"
          ".idle{fill:#eef0f4}.track{fill:#e3e6ec}.bubble{fill:#7a8494}"
          ".grid{stroke:#d5dae2;fill:none}.crit,.hop{stroke:#0b0d10;fill:none}"
          ".hop{stroke-width:1;opacity:.65}.arrow{stroke:#5a6472;fill:none;stroke-width:.7;"
          "opacity:.55}\n"
          ".others{fill:#2468b0;opacity:.13}.area{fill:#2468b0;opacity:.3}"
          ".line{fill:none;stroke:#2468b0;stroke-width:1.4}.second{stroke:#b04a00}"
          ".limit{fill:none;stroke:#b3261e;stroke-width:1.4;stroke-dasharray:6 4}\n",
          stream);
    emit_colours(svg, stream, false);
    fputs("@media(prefers-color-scheme:dark){.page{fill:#14171d}.t,.title,.value,.said"
          "{fill:#e7eaee}.s,.sub,.h{fill:#9aa5b3}.bad{fill:#ff8a80}.idle{fill:#1f242d}"
          ".track{fill:#2a313c}.bubble{fill:#8f99a8}.grid{stroke:#333b47}.crit,.hop{stroke:#fff}"
          ".arrow{stroke:#9aa5b3}.others,.area{fill:#6ea4f5}.line{stroke:#6ea4f5}"
          ".second{stroke:#f0a060}.limit{stroke:#ff8a80}\n",
          stream);
    emit_colours(svg, stream, true);
    fputs("}\n</style>\n", stream);
}

static void emit_picture(const struct svg *svg, FILE *stream, double height, const char *body) {
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    html_text(stream, svg->timeline->title);
    fputs("</title>\n", stream);
    emit_style(svg, stream);
    fputs("<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><path d=\"M0 0V5\" stroke=\"#fff\" stroke-width=\"2.4\" "
          "opacity=\".45\"/></pattern></defs>\n<rect class=\"page\" width=\"100%\" "
          "height=\"100%\"/>\n",
          stream);
    fputs(body, stream);
    fputs("</svg>\n", stream);
}

enum status draw_svg(FILE *stream, const struct timeline *timeline) {
    SCOPED_FREE char *body = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&body, &bytes);
    if (!memory) return fail(STATUS_MEMORY, "drawing: out of memory");
    struct svg svg = svg_for(memory, timeline);
    double height = emit_body(&svg);
    if (fclose(memory) != 0)
        return fail(STATUS_MEMORY, "drawing: out of memory for %zu blocks", svg.blocks);
    emit_picture(&svg, stream, height, body);
    return STATUS_OK;
}
