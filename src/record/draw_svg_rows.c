/* Rows of the SVG drawing: a block for each interval, and what stands left and right of them.
 *
 * The side track is a strip along the lower edge of a lane, so that communication beside work is
 * seen beside it. Blocks too thin to be seen are joined: the file stays small and the picture the
 * same. */
#include "record/draw_svg.h"

#include <math.h>
#include <stdlib.h>

static const double THIN = 0.5, SIDE_SHARE = 0.24, DIGIT = 6.6;
enum { MANY = 100, LABEL_CHARS = 34, TITLES_MOST = 4000, ARROW_ROWS = 32, ARROWS_MOST = 800 };

double svg_x(const struct svg *svg, enum timeline_version version, int64_t at) {
    double since = (double)timeline_since(at, svg->range[version].origin);
    return svg->plot_x + since / svg->length * svg->plot_width;
}

double svg_lane_height(const struct svg *svg) {
    return svg->lanes == 2 ? (svg->row_height - 1) / 2 : svg->row_height;
}

static double lane_y(const struct svg *svg, size_t row, enum timeline_version version) {
    double y = svg->rows_y + (double)row * svg->pitch;
    return svg->lanes == 2 && version == TIMELINE_MEASURED ? y + svg_lane_height(svg) + 1 : y;
}

/* A rectangle that may still grow by its neighbours. */
struct block {
    const struct timeline_interval *first;
    enum timeline_category category;
    int shade;
    double from, to, y, height;
    size_t joined;
};

static void put_json_number(const struct svg *svg, const struct block *block, double width) {
    double size = fmin(12, block->height * 0.68);
    int digits = block->first->micro < 10 ? 1 : block->first->micro < 100 ? 2 : 3;
    if (block->first->micro < 0 || size < 7 || width < digits * DIGIT * size / 12 + 2) return;
    fprintf(svg->stream,
            "<text class=\"n%d_%d\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\">%d</text>\n",
            block->category, block->shade, block->from + width / 2,
            block->y + block->height / 2 + size * 0.36, size, block->first->micro);
}

static void emit_title(const struct svg *svg, const struct block *block) {
    char text[TIMELINE_TEXT], begin[TEXT_BYTES], length[TEXT_BYTES];
    if (block->joined > 1 || svg->blocks > TITLES_MOST) return;
    int version = svg->lanes == 1 && !timeline_has(svg->timeline, TIMELINE_PREDICTED);
    double since = (double)timeline_since(block->first->begin, svg->range[version].origin);
    fputs("<title>", svg->stream);
    svg_text(svg->stream, timeline_text(svg->timeline, block->first, text), 200);
    if (svg->lanes == 1)
        fprintf(svg->stream, ", from %s", timeline_time(svg->timeline, since, begin));
    fprintf(svg->stream, ", %s</title>",
            timeline_time(svg->timeline, (double)timeline_length(block->first), length));
}

static void emit_block(struct svg *svg, const struct block *block) {
    double width = block->to - block->from, gap = width > 3 ? 0.8 : 0;
    width = fmax(width - gap, 0.5);
    svg->used[block->category][block->shade] = true;
    svg->blocks++;
    fprintf(svg->stream,
            "<rect class=\"b k%d_%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"%s>",
            block->category, block->shade, block->from, block->y, width, block->height,
            block->height >= 12 && width > 6 ? " rx=\"2\"" : "");
    emit_title(svg, block);
    fputs("</rect>\n", svg->stream);
    if (timeline_categories[block->category].hatched && width > 2)
        fprintf(
            svg->stream,
            "<rect fill=\"url(#hatch)\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
            block->from, block->y, width, block->height);
    if (timeline_categories[block->category].track == TIMELINE_MAIN)
        put_json_number(svg, block, width);
}

/* A block too thin to be seen beside its neighbour becomes part of it. */
static bool joins(const struct block *block, const struct block *next) {
    bool near = next->to - next->from < THIN && next->from - block->to < THIN;
    bool same = block->category == next->category && block->shade == next->shade;
    return near && (same || next->to - block->from < 2 * THIN);
}

/* The blocks of one track of a lane; the caller frees them. */
static struct block *blocks_of(const struct svg *svg, enum timeline_version version,
                               const struct timeline_lane *lane, enum timeline_track track,
                               double y, double height, size_t *count) {
    SCOPED_FREE const struct timeline_interval **sorted = timeline_sorted(lane);
    struct block *blocks = MEM_ARRAY(struct block, lane->interval_count + 1);
    *count = 0;
    for (size_t i = 0; i < lane->interval_count; i++) {
        const struct timeline_category_row *row = timeline_category_of(svg->timeline, sorted[i]);
        if (row->track != track) continue;
        int64_t end = sorted[i]->end > sorted[i]->begin ? sorted[i]->end : sorted[i]->begin;
        struct block next = {sorted[i],
                             (enum timeline_category)(row - timeline_categories),
                             draw_shade_of(sorted[i]->micro, svg->micros),
                             svg_x(svg, version, sorted[i]->begin),
                             svg_x(svg, version, end),
                             y,
                             height,
                             1};
        struct block *last = &blocks[*count > 0 ? *count - 1 : 0];
        if (*count > 0 && joins(last, &next)) {
            last->to = fmax(last->to, next.to);
            last->joined++;
        } else
            blocks[(*count)++] = next;
    }
    return blocks;
}

/* Many blocks: one path for each colour, a quarter of the bytes of as many rectangles. */
static void emit_many(struct svg *svg, const struct block *blocks, size_t count) {
    for (int c = 0; c < TIMELINE_CATEGORIES; c++)
        for (int s = 0; s < DRAW_SHADES; s++) {
            bool any = false;
            for (size_t i = 0; i < count; i++) {
                const struct block *block = &blocks[i];
                if ((int)block->category != c || block->shade != s) continue;
                double width = block->to - block->from;
                width = fmax(width > 3 ? width - 0.8 : width, 0.4);
                if (!any) fprintf(svg->stream, "<path class=\"k%d_%d\" d=\"", c, s);
                fprintf(svg->stream, "M%.1f %.1fh%.1fv%.1fh-%.1fz", block->from, block->y, width,
                        block->height, width);
                any = svg->used[c][s] = true;
            }
            if (any) fputs("\"/>\n", svg->stream);
        }
    svg->blocks += count;
}

static void emit_track(struct svg *svg, enum timeline_version version,
                       const struct timeline_lane *lane, enum timeline_track track, double y,
                       double height) {
    size_t count;
    SCOPED_FREE struct block *blocks = blocks_of(svg, version, lane, track, y, height, &count);
    if (count > MANY && height < 20)
        emit_many(svg, blocks, count);
    else
        for (size_t i = 0; i < count; i++) emit_block(svg, &blocks[i]);
}

/* The strip of the side track; 0 where there is none or lanes are too thin for it. */
static double strip_height(const struct svg *svg) {
    double height = svg_lane_height(svg);
    return svg->sides && height >= 4 ? fmax(height * SIDE_SHARE, 1.5) : 0;
}

static double main_height(const struct svg *svg) {
    double height = svg_lane_height(svg), strip = strip_height(svg);
    return strip > 0 ? height - strip - (height >= 12 ? 1 : 0) : height;
}

static void emit_lane(struct svg *svg, size_t i, enum timeline_version version) {
    const struct timeline_lane *lane = &svg->timeline->version[version].lane[i * svg->step];
    double y = lane_y(svg, i, version), height = svg_lane_height(svg);
    double end = (double)svg->range[version].length / svg->length * svg->plot_width;
    fprintf(svg->stream,
            "<rect class=\"idle\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
            svg->plot_x, y, end, height);
    double strip = strip_height(svg);
    emit_track(svg, version, lane, TIMELINE_MAIN, y, main_height(svg));
    if (strip > 0) emit_track(svg, version, lane, TIMELINE_SIDE, y + height - strip, strip);
}

/* Bubble as a bar and a number, peak bytes as a number. */
static void emit_right(const struct svg *svg, size_t i, enum timeline_version version) {
    struct timeline_use use = timeline_use(
        svg->timeline, &svg->timeline->version[version].lane[i * svg->step], svg->range[version]);
    double y = lane_y(svg, i, version), height = svg_lane_height(svg), bar = fmin(height, 12);
    double middle = y + height / 2, size = fmin(12, height);
    char peak[TEXT_BYTES];
    fprintf(svg->stream,
            "<rect class=\"track\" x=\"%.1f\" y=\"%.2f\" width=\"42\" height=\"%.2f\"/>"
            "<rect class=\"bubble\" x=\"%.1f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
            svg->bubble_x, middle - bar / 2, bar, svg->bubble_x, middle - bar / 2,
            42 * fmin(fmax(use.bubble, 0), 1), bar);
    if (size < 9.5) return;
    fprintf(svg->stream,
            "<text class=\"t e\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\">%.1f%%</text>\n",
            svg->bubble_x + 88, middle + size * 0.36, size, use.bubble * 100);
    if (svg->peak_x > 0 && use.peak_bytes > 0)
        fprintf(svg->stream,
                "<text class=\"t e\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\">%s</text>\n",
                svg->peak_x + 76, middle + size * 0.36, size, text_size(use.peak_bytes, peak));
}

static void emit_label(const struct svg *svg, size_t i) {
    size_t apart = (size_t)fmax(1, ceil(14 / svg->pitch));
    if (i % apart != 0) return;
    double x = svg->plot_x - 12, size = fmin(12.5, fmax(svg->pitch, 9.5));
    double middle = svg->rows_y + (double)i * svg->pitch + svg->row_height / 2;
    bool named = svg->lanes == 2 && svg_lane_height(svg) >= 11;
    if (named) {
        for (int v = 0; v < TIMELINE_VERSIONS; v++)
            fprintf(svg->stream,
                    "<text class=\"s e\" x=\"%.1f\" y=\"%.1f\" font-size=\"10.5\">%s</text>\n", x,
                    lane_y(svg, i, v) + svg_lane_height(svg) / 2 + 3.6,
                    v == TIMELINE_PREDICTED ? "predicted" : "measured");
        x -= 62;
    }
    fprintf(svg->stream, "<text class=\"t e\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\">", x,
            middle + size * 0.36, size);
    svg_text(svg->stream, svg->timeline->row[i * svg->step].label, LABEL_CHARS);
    fputs("</text>\n", svg->stream);
}

void svg_rows(struct svg *svg) {
    for (size_t i = 0; i < svg->rows; i++) {
        emit_label(svg, i);
        for (int v = 0; v < TIMELINE_VERSIONS; v++) {
            if (!timeline_has(svg->timeline, v)) continue;
            emit_lane(svg, i, v);
            emit_right(svg, i, v);
        }
    }
}

/* --- over the rows --- */

struct marked {
    const struct timeline_interval *interval;
    size_t row; /* drawn */
};

static int by_begin(const void *left, const void *right) {
    const struct marked *a = left, *b = right;
    if (a->interval->begin != b->interval->begin)
        return a->interval->begin < b->interval->begin ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static struct marked *critical_of(const struct svg *svg, enum timeline_version version,
                                  size_t *count) {
    struct marked *marked = NULL;
    size_t capacity = 0;
    *count = 0;
    for (size_t i = 0; i < svg->rows; i++) {
        const struct timeline_lane *lane = &svg->timeline->version[version].lane[i * svg->step];
        for (size_t k = 0; k < lane->interval_count; k++) {
            if (!lane->interval[k].critical) continue;
            marked = mem_grow(marked, &capacity, *count + 1, sizeof *marked);
            marked[(*count)++] = (struct marked){&lane->interval[k], i};
        }
    }
    if (*count > 1) qsort(marked, *count, sizeof *marked, by_begin);
    return marked;
}

/* Where the line of a critical interval runs: along the lower edge of its track. */
static double critical_y(const struct svg *svg, enum timeline_version version,
                         const struct marked *marked) {
    const struct timeline_category_row *row = timeline_category_of(svg->timeline, marked->interval);
    double height = row->track == TIMELINE_MAIN ? main_height(svg) : svg_lane_height(svg);
    return lane_y(svg, marked->row, version) + (height >= 9 ? height - 1 : height / 2);
}

static void emit_critical(const struct svg *svg, enum timeline_version version) {
    size_t count;
    SCOPED_FREE struct marked *marked = critical_of(svg, version, &count);
    double last_x = 0, last_y = 0;
    for (size_t i = 0; i < count; i++) {
        const struct timeline_interval *interval = marked[i].interval;
        double y = critical_y(svg, version, &marked[i]);
        double from = svg_x(svg, version, interval->begin);
        double to = svg_x(svg, version, interval->begin + timeline_length(interval));
        if (i > 0 && y != last_y)
            fprintf(svg->stream, "<path class=\"hop\" d=\"M%.2f %.2fL%.2f %.2f\"/>\n", last_x,
                    last_y, from, y);
        fprintf(svg->stream, "<path class=\"crit\" d=\"M%.2f %.2fH%.2f\"/>\n", from, y, to);
        last_x = to;
        last_y = y;
    }
}

void svg_critical(const struct svg *svg) {
    fprintf(svg->stream, "<g stroke-width=\"%.1f\">\n", fmin(2.6, fmax(1, svg->row_height / 5)));
    for (int v = 0; v < TIMELINE_VERSIONS; v++)
        if (timeline_has(svg->timeline, v)) emit_critical(svg, v);
    fputs("</g>\n", svg->stream);
}

void svg_arrows(const struct svg *svg) {
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        const struct timeline_side *side = &svg->timeline->version[v];
        if (!side->lane || svg->lanes == 2 || svg->step > 1 || svg->rows > ARROW_ROWS ||
            side->arrow_count > ARROWS_MOST)
            continue;
        for (size_t i = 0; i < side->arrow_count; i++) {
            const struct timeline_arrow *arrow = &side->arrow[i];
            bool down = arrow->to_row > arrow->from_row;
            double height = svg_lane_height(svg);
            fprintf(svg->stream, "<path class=\"arrow\" d=\"M%.2f %.2fL%.2f %.2f\"/>\n",
                    svg_x(svg, v, arrow->from),
                    lane_y(svg, (size_t)arrow->from_row, v) + (down ? height : 0),
                    svg_x(svg, v, arrow->to),
                    lane_y(svg, (size_t)arrow->to_row, v) + (down ? 0 : height));
        }
    }
}
