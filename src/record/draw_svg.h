/* The geometry of the SVG drawing, between draw_svg.c, draw_svg_rows.c and draw_svg_memory.c only.
 * Each function writes its part of the picture; all are local and errors stay in the stream. */
#ifndef RECORD_DRAW_SVG_H
#define RECORD_DRAW_SVG_H

#include "record/draw_parts.h"

struct svg {
    FILE *stream;
    const struct timeline *timeline;
    struct timeline_range range[TIMELINE_VERSIONS];
    double length; /* of the longer version, never 0 */
    int32_t micros;
    bool sides;  /* kinds of the side track are in the legend */
    int lanes;   /* versions that are there: 1 or 2 */
    size_t step; /* every step-th row is drawn */
    size_t rows; /* that are drawn */
    size_t blocks;

    double width, plot_x, plot_width; /* pixels */
    double bubble_x, peak_x;          /* columns right of the plot; peak_x 0: none */
    double row_height, pitch, rows_y;
    bool used[TIMELINE_CATEGORIES][DRAW_SHADES];
};

double svg_x(const struct svg *svg, enum timeline_version version, int64_t at);
/* Text of others, cut after `most` characters. */
void svg_text(FILE *stream, const char *text, int most);
/* The height of a version's lane in any drawn row. */
double svg_lane_height(const struct svg *svg);

void svg_rows(struct svg *svg);
void svg_critical(const struct svg *svg);
void svg_arrows(const struct svg *svg);
/* Returns the height it took: 0 without a curve. */
double svg_memory(const struct svg *svg, double y);

#endif
