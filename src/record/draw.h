/* Drawings of a timeline: a picture for documents (SVG) and a page to look around in (HTML). Both
 * are one file that needs nothing else, in light and dark. docs/drawing.md says how to read them.
 * All functions are local; the timeline is borrowed for the call. */
#ifndef RECORD_DRAW_H
#define RECORD_DRAW_H

#include <stdio.h>

#include "base/status.h"
#include "record/timeline.h"

/* Blocking. Writes the drawing atomically: path ends in .svg or .html, other names are
 * STATUS_USAGE, which draw_check tells before. */
enum status draw_check(const char *path);
enum status draw_write(const char *path, const struct timeline *timeline);

/* Errors of writing stay in the stream; STATUS_MEMORY. Rows beyond DRAW_SVG_ROWS are thinned out
 * evenly, and the picture says so; blocks narrower than a third of a pixel are joined with their
 * neighbours. */
enum { DRAW_SVG_ROWS = 256 };
enum status draw_svg(FILE *stream, const struct timeline *timeline);

/* Errors stay in the stream. The page holds texts of instructions up to DRAW_TEXTS intervals, and
 * intervals of rows up to DRAW_INTERVALS; beyond, rows are thinned out evenly, and the page says
 * so. The section is the page without its head and title, for a page of others; it carries its
 * style and script, and needs a policy that allows inline styles and the script of this nonce
 * (html.h). */
enum { DRAW_TEXTS = 40000, DRAW_INTERVALS = 2500000 };
void draw_html_page(FILE *stream, const struct timeline *timeline);
void draw_html_section(FILE *stream, const struct timeline *timeline, const char *nonce);

#endif
