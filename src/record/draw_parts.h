/* What the drawings share, between the files draw*.c only: colours, figures in words. All local and
 * pure; errors stay in the stream. */
#ifndef RECORD_DRAW_PARTS_H
#define RECORD_DRAW_PARTS_H

#include <stdbool.h>
#include <stdio.h>

#include "record/axis.h"
#include "record/timeline.h"

/* Shades of a category: micro-batches from first to last are spread over them, lighter later. */
enum { DRAW_SHADES = 8 };
extern const double draw_lightest; /* share of white in the last shade */
int draw_shade_of(int32_t micro, int32_t micros);
uint32_t draw_colour(enum timeline_category category, int shade, bool dark);
/* Black or white, whichever is read better on a colour. */
uint32_t draw_ink_on(uint32_t colour);

/* Whether any interval is of a category, or on the critical path; whether the legend has kinds of
 * the side track. */
bool draw_has_category(const struct timeline *timeline, enum timeline_category category);
bool draw_has_critical(const struct timeline *timeline);
bool draw_has_side(const struct timeline *timeline);

/* A figure of a version: name, value and, where there is one, a note below ("11.8 to 12.6 ms"). */
enum { DRAW_FIGURES = 5 };
struct draw_figure {
    const char *name;
    bool there[TIMELINE_VERSIONS];
    char value[TIMELINE_VERSIONS][TEXT_BYTES], note[TIMELINE_VERSIONS][2 * TEXT_BYTES + 8];
};
void draw_figures(const struct timeline *timeline, struct draw_figure figure[DRAW_FIGURES]);

/* The sentences of the timeline and, where both versions are there, of their difference; the
 * caller frees each and the array. */
char **draw_sentences(const struct timeline *timeline, size_t *count);

/* Intervals of both versions; the timeline as JSON, every step-th row of it, for a <script>. */
size_t draw_interval_count(const struct timeline *timeline);
void draw_data(FILE *stream, const struct timeline *timeline, size_t step);

/* A time axis from 0 to `length`: its ticks in scaled units ("ms"), and what a tick is in time. */
struct draw_time_axis {
    struct axis axis;
    double scale; /* time of one unit of the axis */
    const char *unit;
};
struct draw_time_axis draw_time_axis(const struct timeline *timeline, double length, int most);

#endif
