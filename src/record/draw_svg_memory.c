/* The memory panel of the SVG drawing: the rank with the highest peak as a curve, all others as a
 * band around it. A curve for each rank would be a tangle from eight on. */
#include "record/draw_svg.h"

#include <math.h>
#include <stdlib.h>

static const double PANEL = 92, ABOVE = 34;

struct curve {
    double *peak; /* per pixel column, NAN outside the version's length */
    int columns;
};

/* The largest value of a curve within each column. */
static struct curve curve_of(const struct svg *svg, enum timeline_version version,
                             const struct timeline_lane *lane) {
    struct curve curve = {MEM_ARRAY(double, (size_t)svg->plot_width + 1), (int)svg->plot_width};
    double now = 0, end = (double)svg->range[version].length / svg->length * curve.columns;
    size_t i = 0;
    for (int c = 0; c < curve.columns; c++) {
        double peak = now;
        for (; i < lane->point_count; i++) {
            if (svg_x(svg, version, lane->point[i].at) - svg->plot_x >= c + 1) break;
            now = (double)lane->point[i].bytes;
            peak = fmax(peak, now);
        }
        curve.peak[c] = c < end ? peak : NAN;
    }
    return curve;
}

static int64_t peak_of(const struct timeline_lane *lane) {
    int64_t peak = 0;
    for (size_t i = 0; i < lane->point_count; i++)
        if (lane->point[i].bytes > peak) peak = lane->point[i].bytes;
    return peak;
}

/* The row of the highest peak, predicted where there is a prediction. */
static size_t top_row(const struct timeline *timeline, int64_t *peak) {
    size_t top = 0;
    *peak = 0;
    for (int v = TIMELINE_VERSIONS - 1; v >= 0; v--) {
        int64_t most = 0;
        for (size_t r = 0; timeline_has(timeline, v) && r < timeline->row_count; r++) {
            int64_t here = peak_of(&timeline->version[v].lane[r]);
            if (here <= most) continue;
            most = here;
            top = r;
        }
        if (most > *peak) *peak = most;
    }
    return top;
}

static void emit_steps(const struct svg *svg, const double *peak, int columns, double base,
                       double scale, const char *class, bool filled) {
    bool drawing = false;
    fprintf(svg->stream, "<path class=\"%s\" d=\"", class);
    for (int c = 0; c < columns; c++) {
        if (!isfinite(peak[c])) break;
        double y = base - peak[c] * scale;
        if (!drawing) fprintf(svg->stream, "M%.1f %.1f", svg->plot_x, filled ? base : y);
        if (!drawing || peak[c] != peak[c - 1]) fprintf(svg->stream, "V%.1f", y);
        drawing = true;
        int last = c;
        while (last + 1 < columns && peak[last + 1] == peak[c]) last++;
        fprintf(svg->stream, "H%.1f", svg->plot_x + last + 1);
        c = last;
    }
    if (drawing && filled) fprintf(svg->stream, "V%.1fZ", base);
    fputs("\"/>\n", svg->stream);
}

/* The largest of all rows in each column: what lies between it and the curve is other ranks'. */
static void emit_others(const struct svg *svg, enum timeline_version version, double base,
                        double scale) {
    SCOPED_FREE double *high = MEM_ARRAY(double, (size_t)svg->plot_width + 1);
    for (size_t r = 0; r < svg->timeline->row_count; r++) {
        struct curve curve = curve_of(svg, version, &svg->timeline->version[version].lane[r]);
        for (int c = 0; c < curve.columns; c++)
            high[c] = isfinite(curve.peak[c]) ? fmax(high[c], curve.peak[c]) : NAN;
        free(curve.peak);
    }
    emit_steps(svg, high, (int)svg->plot_width, base, scale, "others", true);
}

static void emit_scale(const struct svg *svg, double base, double scale, double top) {
    char text[TEXT_BYTES];
    double step = 1;
    while (step * 4 < top) step *= 2;
    for (double value = 0; value <= top * 1.001; value += step)
        fprintf(svg->stream,
                "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text class=\"s e\" x=\"%.1f\" "
                "y=\"%.1f\">%s</text>\n",
                svg->plot_x, base - value * scale, svg->plot_x + svg->plot_width, svg->plot_x - 12,
                base - value * scale + 4, value > 0 ? text_size((int64_t)value, text) : "0");
}

static void emit_caption(const struct svg *svg, double y, size_t row, int64_t limit, bool drawn) {
    char text[TEXT_BYTES];
    fprintf(svg->stream, "<text class=\"h\" x=\"%.1f\" y=\"%.1f\">Memory of ", svg->plot_x, y);
    svg_text(svg->stream, svg->timeline->row[row].label, 40);
    fputs(", the rank with the highest peak", svg->stream);
    if (svg->lanes == 2) fputs(": area predicted, line measured", svg->stream);
    if (svg->timeline->row_count > 1) fputs("; pale: the largest of all ranks", svg->stream);
    if (limit > 0 && !drawn) fprintf(svg->stream, "; limit %s", text_size(limit, text));
    fputs("</text>\n", svg->stream);
}

static void emit_limit(const struct svg *svg, double y, int64_t limit) {
    char text[TEXT_BYTES];
    fprintf(svg->stream,
            "<path class=\"limit\" d=\"M%.1f %.1fH%.1f\"/><text class=\"bad\" x=\"%.1f\" "
            "y=\"%.1f\">limit %s</text>\n",
            svg->plot_x, y, svg->plot_x + svg->plot_width, svg->plot_x + svg->plot_width + 8, y + 4,
            text_size(limit, text));
}

double svg_memory(const struct svg *svg, double y) {
    int64_t peak;
    size_t row = top_row(svg->timeline, &peak);
    if (peak <= 0 || svg->timeline->row_count == 0) return 0;
    int64_t limit = svg->timeline->row[row].limit_bytes;
    bool with_limit = limit > 0 && (double)limit < 2.0 * (double)peak;
    double top = with_limit ? fmax((double)limit, (double)peak) : (double)peak;
    double base = y + ABOVE + PANEL, scale = PANEL / top / 1.04;
    bool area = true;
    emit_caption(svg, y + ABOVE - 14, row, limit, with_limit);
    emit_scale(svg, base, scale, top);
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        if (!timeline_has(svg->timeline, v)) continue;
        struct curve curve = curve_of(svg, v, &svg->timeline->version[v].lane[row]);
        if (area) emit_others(svg, v, base, scale);
        if (area) emit_steps(svg, curve.peak, curve.columns, base, scale, "area", true);
        emit_steps(svg, curve.peak, curve.columns, base, scale, area ? "line" : "line second",
                   false);
        area = false;
        free(curve.peak);
    }
    if (with_limit) emit_limit(svg, base - (double)limit * scale, limit);
    return ABOVE + PANEL + 12;
}
