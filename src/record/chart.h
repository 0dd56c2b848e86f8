/* A chart on a page: HTML and SVG without script or fixed width.
 *
 * The curves are one SVG stretched over the plot, with strokes that keep their width; labels, grid
 * and hover boxes are HTML placed by percentages. So a chart fills a wide screen and a phone alike
 * and its text has the same size on both, which a picture scaled as a whole cannot do. */
#ifndef RECORD_CHART_H
#define RECORD_CHART_H

#include <stdbool.h>
#include <stdio.h>

#include "record/axis.h"
#include "record/curves.h"

enum chart_style {
    CHART_RAW,    /* every value, thin and pale */
    CHART_SMOOTH, /* the smoothed curve */
    CHART_PLAIN,  /* every value */
    CHART_MARKED  /* every value, with a dot each where they are few */
};

struct chart_line {
    const char *name;
    const struct series *series;
    enum chart_style style;
    int color; /* 0 .. 3: of the page's palette */
};

enum chart_scale { CHART_LINEAR, CHART_FITTING /* log when the curve spans decades */ };
enum { CHART_LINES = 4 };

struct chart {
    const char *title; /* all texts are static and ours, written unescaped */
    enum axis_unit unit;
    enum chart_scale scale;
    bool tall;
    int line_count;
    struct chart_line line[CHART_LINES];
    /* What the lines are drawn over; NULL: steps. It must grow by the same factor at each step, and
     * is then the logarithmic axis that equal steps make. */
    const struct series *over;
    const char *over_name;
    const char *unit_name; /* of what the points cover; NULL: step */
};

/* Local. Whether there is anything to show. */
bool chart_has_values(const struct chart *chart);
/* Local. Writes a <figure>, or nothing without values; errors stay in the stream. Lines without a
 * value are left out; rows without one are counted below the chart. */
void chart_emit(FILE *stream, const struct chart *chart);

#endif
