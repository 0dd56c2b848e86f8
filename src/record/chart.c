/* Charts: first the axes from all lines, then grid, curves and hover boxes. */
#include "record/chart.h"

#include <math.h>

#include "record/html.h"

enum {
    CANVAS = 1000,        /* units of the stretched SVG, both ways */
    DOTS_MOST = 60,       /* more marked values than this are a line without dots */
    BOXES_MOST = 80,      /* hover boxes of a chart */
    LOG_FROM_RATIO = 15,  /* smoothed highest to lowest, from which a log axis fits better */
    LOG_BELOW_SMOOTH = 20 /* how far raw values may pull a log axis below the smoothed curve */
};

struct view {
    const struct chart *chart;
    struct axis x, y;
};

struct range {
    double low, high;
};

static void range_add(struct range *range, double value) {
    if (!isfinite(value)) return;
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

static double value_of(const struct chart_line *line, const struct series_point *point) {
    return line->style == CHART_SMOOTH ? point->smooth : point->mean;
}

static void measure(const struct chart *chart, struct range *x, struct range *all,
                    struct range *smooth) {
    *x = *all = *smooth = (struct range){INFINITY, -INFINITY};
    for (int i = 0; i < chart->line_count; i++) {
        const struct series *series = chart->line[i].series;
        if (series->finite == 0) continue;
        for (int p = 0; p < series->count; p++) {
            const struct series_point *point = &series->point[p];
            range_add(x, (double)point->first);
            range_add(x, (double)point->last);
            range_add(smooth, point->smooth);
            range_add(all, chart->line[i].style == CHART_SMOOTH ? point->smooth : point->low);
            range_add(all, chart->line[i].style == CHART_SMOOTH ? point->smooth : point->high);
        }
    }
}

/* Where a step lies on the axis below: itself, or the value of `over` there. */
static double x_of(const struct chart *chart, double step) {
    if (!chart->over || chart->over->count < 2) return step;
    const struct series_point *first = chart->over->point,
                              *last = &chart->over->point[chart->over->count - 1];
    double begin = ((double)first->first + (double)first->last) / 2,
           end = ((double)last->first + (double)last->last) / 2;
    return first->mean * pow(last->mean / first->mean, (step - begin) / (end - begin));
}

static struct axis x_axis(const struct chart *chart, const struct range *steps) {
    bool log = x_of(chart, steps->low) != steps->low;
    return axis_fit(log ? AXIS_NUMBER : AXIS_STEPS, log, x_of(chart, steps->low),
                    x_of(chart, steps->high), log ? 8 : 6);
}

static double place_of(const struct view *view, double step) {
    return axis_place(&view->x, x_of(view->chart, step));
}

static struct view view_of(const struct chart *chart) {
    struct range x, all, smooth;
    measure(chart, &x, &all, &smooth);
    bool log = chart->scale == CHART_FITTING && smooth.low > 0 &&
               smooth.high / smooth.low >= LOG_FROM_RATIO;
    double low = log ? fmax(all.low, smooth.low / LOG_BELOW_SMOOTH) : all.low;
    return (struct view){chart, x_axis(chart, &x),
                         axis_fit(chart->unit, log, low, all.high, chart->tall ? 6 : 4)};
}

static void emit_axes(FILE *stream, const struct view *view) {
    char text[TEXT_BYTES];
    for (int i = 0; i < view->y.ticks; i++)
        fprintf(stream, "<i class=\"gy\" style=\"bottom:%.2f%%\"><b>%s</b></i>\n",
                axis_place(&view->y, view->y.tick[i]) * 100,
                axis_label(&view->y, view->y.tick[i], text));
    for (int i = 0; i < view->x.ticks; i++)
        fprintf(stream, "<i class=\"gx\" style=\"left:%.2f%%\"><b>%s</b></i>\n",
                axis_place(&view->x, view->x.tick[i]) * 100,
                axis_label(&view->x, view->x.tick[i], text));
}

/* Draws on from the last place, or begins anew after a gap. */
static void emit_place(FILE *stream, const struct view *view, double step, double value,
                       bool *drawing) {
    fprintf(stream, "%c%.1f %.1f", *drawing ? 'L' : 'M', place_of(view, step) * CANVAS,
            CANVAS - axis_place(&view->y, value) * CANVAS);
    if (!*drawing) fputs("h0", stream); /* a value between two gaps shows as a dot */
    *drawing = true;
}

static void emit_curve(FILE *stream, const struct view *view, const struct chart_line *line) {
    static const char *const styles[] = {"raw", "smooth", "plain", "marked"};
    bool drawing = false;
    fprintf(stream, "<path class=\"%s c%d\" d=\"", styles[line->style], line->color);
    for (int i = 0; i < line->series->count; i++) {
        const struct series_point *point = &line->series->point[i];
        double middle = ((double)point->first + (double)point->last) / 2;
        if (point->finite == 0)
            drawing = false;
        else if (line->style == CHART_SMOOTH || point->finite == 1)
            emit_place(stream, view, middle, value_of(line, point), &drawing);
        else {
            emit_place(stream, view, (double)point->first,
                       point->low_first ? point->low : point->high, &drawing);
            emit_place(stream, view, (double)point->last,
                       point->low_first ? point->high : point->low, &drawing);
        }
    }
    fputs("\"/>\n", stream);
}

/* Dots are strokes of no length with round ends: circles would be stretched with the canvas. */
static void emit_dots(FILE *stream, const struct view *view, const struct chart_line *line) {
    int most = line->style == CHART_MARKED ? DOTS_MOST : 1;
    if (line->series->finite > most) return;
    fprintf(stream, "<path class=\"dots c%d\" d=\"", line->color);
    for (int i = 0; i < line->series->count; i++) {
        const struct series_point *point = &line->series->point[i];
        bool drawing = false;
        if (point->finite > 0)
            emit_place(stream, view, (double)point->first, point->mean, &drawing);
    }
    fputs("\"/>\n", stream);
}

static const char *unit_of(const struct chart *chart) {
    return chart->unit_name ? chart->unit_name : "step";
}

static const char *plural_of(const struct chart *chart) {
    return chart->unit_name ? chart->unit_name : "steps";
}

static void emit_curves(FILE *stream, const struct view *view) {
    fprintf(stream,
            "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "
            "aria-label=\"%s over %s\">\n",
            CANVAS, CANVAS, view->chart->title,
            view->chart->over ? view->chart->over_name : plural_of(view->chart));
    for (int i = 0; i < view->chart->line_count; i++) {
        if (view->chart->line[i].series->finite == 0) continue;
        emit_curve(stream, view, &view->chart->line[i]);
        emit_dots(stream, view, &view->chart->line[i]);
    }
    fputs("</svg>\n", stream);
}

static const struct series_point *nearest_point(const struct series *series, double step) {
    int low = 0, high = series->count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if ((double)series->point[middle].first <= step)
            low = middle;
        else
            high = middle - 1;
    }
    const struct series_point *point = &series->point[low];
    bool later =
        low + 1 < series->count && (double)point[1].first - step < step - (double)point->last;
    return later ? point + 1 : point;
}

/* A line's value in a hover box, if it has one within the box's steps. */
static void emit_value(FILE *stream, const struct view *view, const struct chart_line *line,
                       double step, double from, double to) {
    if (line->series->finite == 0) return;
    const struct series_point *point = nearest_point(line->series, step);
    if (point->finite == 0 || (double)point->last < from || (double)point->first > to) return;
    char text[TEXT_BYTES];
    double value = value_of(line, point);
    fprintf(stream, "<br><u class=\"k c%d\"></u>%s <b>%s</b>", line->color, line->name,
            view->chart->unit == AXIS_PERCENT ? html_percent(value, text)
                                              : html_number(value, text));
}

static double middle_of(const struct series *series, int i) {
    return ((double)series->point[i].first + (double)series->point[i].last) / 2;
}

static double last_of(const struct series *series) {
    return middle_of(series, series->count - 1);
}

/* The box of point i, from half way to the one before to half way to the one after. */
static void emit_box(FILE *stream, const struct view *view, const struct series *series, int i,
                     int apart) {
    double here = middle_of(series, i);
    double from = i >= apart ? (middle_of(series, i - apart) + here) / 2 : middle_of(series, 0);
    double to =
        i + apart < series->count ? (middle_of(series, i + apart) + here) / 2 : last_of(series);
    double left = i >= apart ? place_of(view, from) : 0,
           right = i + apart < series->count ? place_of(view, to) : 1;
    const struct series_point *point = &series->point[i];
    char first[TEXT_BYTES], last[TEXT_BYTES];
    fprintf(stream, "<i class=\"box%s\" style=\"left:%.2f%%;width:%.2f%%\"><span>",
            left + right > 1 ? " end" : "", left * 100, (right - left) * 100);
    html_integer(point->first, first);
    if (point->first == point->last)
        fprintf(stream, "%s %s", unit_of(view->chart), first);
    else
        fprintf(stream, "mean of %s %s to %s", plural_of(view->chart), first,
                html_integer(point->last, last));
    if (view->chart->over)
        fprintf(stream, "<br>%s <b>%s</b>", view->chart->over_name,
                html_number(x_of(view->chart, here), first));
    for (int l = 0; l < view->chart->line_count; l++)
        emit_value(stream, view, &view->chart->line[l], here, from, to);
    fputs("</span></i>\n", stream);
}

static void emit_boxes(FILE *stream, const struct view *view) {
    const struct series *series = NULL;
    for (int i = 0; !series && i < view->chart->line_count; i++)
        if (view->chart->line[i].series->finite > 0) series = view->chart->line[i].series;
    int apart = (series->count + BOXES_MOST - 1) / BOXES_MOST;
    for (int i = 0; i < series->count; i += apart) emit_box(stream, view, series, i, apart);
}

/* What each line is: left out where all show the same series, which needs no telling. */
static void emit_key(FILE *stream, const struct chart *chart) {
    const struct series *first = NULL;
    bool several = false;
    for (int i = 0; i < chart->line_count; i++) {
        if (chart->line[i].series->finite == 0) continue;
        several |= first && chart->line[i].series != first;
        first = chart->line[i].series;
    }
    for (int i = 0; several && i < chart->line_count; i++) {
        const struct chart_line *line = &chart->line[i];
        if (line->series->finite > 0)
            fprintf(stream, " <span class=\"key\"><u class=\"k %s c%d\"></u>%s</span>",
                    line->style == CHART_RAW ? "pale" : "", line->color, line->name);
    }
}

static void emit_absent(FILE *stream, const struct chart *chart) {
    const struct series *told = NULL;
    for (int i = 0; i < chart->line_count; i++) {
        const struct chart_line *line = &chart->line[i];
        if (line->series == told || line->series->finite == 0 || line->series->absent == 0)
            continue;
        char rows[TEXT_BYTES], step[TEXT_BYTES];
        told = line->series;
        fprintf(stream,
                "<p class=\"note\">%s, %s: no finite value in %s %s, first at step %s.</p>\n",
                chart->title, line->name, html_integer(told->absent, rows),
                told->absent == 1 ? "row" : "rows", html_integer(told->first_absent, step));
    }
}

bool chart_has_values(const struct chart *chart) {
    bool any = false;
    for (int i = 0; i < chart->line_count; i++) any |= chart->line[i].series->finite > 0;
    return any;
}

void chart_emit(FILE *stream, const struct chart *chart) {
    if (!chart_has_values(chart)) return;
    struct view view = view_of(chart);
    fprintf(stream, "<figure class=\"panel\">\n<figcaption><h2>%s</h2>", chart->title);
    emit_key(stream, chart);
    if (view.y.log) fputs(" <span class=\"aside\">log scale</span>", stream);
    fprintf(stream, "</figcaption>\n<div class=\"plot%s\"><div class=\"area\">\n",
            chart->tall ? " tall" : "");
    emit_axes(stream, &view);
    emit_curves(stream, &view);
    emit_boxes(stream, &view);
    /* What else is below a curve is in its title: a longer word would lie on the first tick. */
    fputs("</div>", stream);
    if (!chart->over) fprintf(stream, "<span class=\"xname\">%s</span>", unit_of(chart));
    fputs("</div>\n", stream);
    emit_absent(stream, chart);
    fputs("</figure>\n", stream);
}
