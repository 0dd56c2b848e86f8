/* Sums over the intervals of a timeline. A lane is read in one sweep over its sorted intervals; the
 * side track is kept apart, since it overlaps the main one and itself. */
#include "record/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/html.h"

const struct timeline_category_row timeline_categories[TIMELINE_CATEGORIES] = {
#define CATEGORY(name, track, work, hatched, light, dark, text)                                    \
    {text, TIMELINE_##track, work, hatched, light, dark},
#include "record/timeline.def"
#undef CATEGORY
};

const struct timeline_figures timeline_figures_none = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};

bool timeline_has(const struct timeline *timeline, enum timeline_version version) {
    return timeline->version[version].lane != NULL;
}

int64_t timeline_since(int64_t at, int64_t origin) {
    int64_t since;
    if (__builtin_sub_overflow(at, origin, &since)) return at < origin ? INT64_MIN : INT64_MAX;
    return since;
}

int64_t timeline_length(const struct timeline_interval *interval) {
    int64_t length = timeline_since(interval->end, interval->begin);
    return length > 0 ? length : 0;
}

const struct timeline_category_row *timeline_category_of(const struct timeline *timeline,
                                                         const struct timeline_interval *interval) {
    CHECK(interval->kind >= 0 && (size_t)interval->kind < timeline->kind_count, "kind %d of %zu",
          interval->kind, timeline->kind_count);
    return &timeline_categories[timeline->kind[interval->kind].category];
}

struct timeline_range timeline_range(const struct timeline *timeline, enum timeline_version which) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t r = 0; timeline_has(timeline, which) && r < timeline->row_count; r++) {
        const struct timeline_lane *lane = &timeline->version[which].lane[r];
        for (size_t i = 0; i < lane->interval_count; i++) {
            const struct timeline_interval *interval = &lane->interval[i];
            if (interval->begin < first) first = interval->begin;
            if (interval->begin > last) last = interval->begin;
            if (interval->end > last) last = interval->end;
        }
    }
    if (first > last) return (struct timeline_range){0, 0};
    return (struct timeline_range){first, timeline_since(last, first)};
}

int32_t timeline_micros(const struct timeline *timeline) {
    int32_t most = -1;
    for (int v = 0; v < TIMELINE_VERSIONS; v++)
        for (size_t r = 0; timeline->version[v].lane && r < timeline->row_count; r++) {
            const struct timeline_lane *lane = &timeline->version[v].lane[r];
            for (size_t i = 0; i < lane->interval_count; i++)
                if (lane->interval[i].micro > most) most = lane->interval[i].micro;
        }
    return most + 1;
}

static int by_begin(const void *left, const void *right) {
    const struct timeline_interval *a = *(const struct timeline_interval *const *)left,
                                   *b = *(const struct timeline_interval *const *)right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

const struct timeline_interval **timeline_sorted(const struct timeline_lane *lane) {
    const struct timeline_interval **sorted =
        MEM_ARRAY(const struct timeline_interval *, lane->interval_count + 1);
    for (size_t i = 0; i < lane->interval_count; i++) sorted[i] = &lane->interval[i];
    qsort(sorted, lane->interval_count, sizeof *sorted, by_begin);
    return sorted;
}

/* How long at least one of some intervals runs; those come by begin. */
struct cover {
    bool any;
    int64_t first, until;
    double time;
};

/* Adds an interval; returns the part of it that was not covered before. */
static int64_t cover_add(struct cover *cover, int64_t begin, int64_t end) {
    if (!cover->any) *cover = (struct cover){true, begin, begin, 0};
    if (end < begin) end = begin;
    if (begin < cover->until) begin = cover->until;
    if (end <= begin) return 0;
    cover->until = end;
    cover->time += (double)timeline_since(end, begin);
    return timeline_since(end, begin);
}

static bool is_side(const struct timeline_category_row *row) {
    return row->track == TIMELINE_SIDE;
}

static bool is_wait(const struct timeline_category_row *row) {
    return row == &timeline_categories[TIMELINE_WAIT];
}

/* What side intervals cover beyond the main ones: all together less the main ones alone. */
static void use_of_times(const struct timeline *timeline, const struct timeline_lane *lane,
                         struct timeline_use *use, struct cover *work) {
    const struct timeline_interval **sorted = timeline_sorted(lane);
    struct cover main = {0}, all = {0};
    for (size_t i = 0; i < lane->interval_count; i++) {
        const struct timeline_category_row *row = timeline_category_of(timeline, sorted[i]);
        if (is_wait(row)) continue;
        if (row->work) cover_add(work, sorted[i]->begin, sorted[i]->end);
        if (!is_side(row)) cover_add(&main, sorted[i]->begin, sorted[i]->end);
        cover_add(&all, sorted[i]->begin, sorted[i]->end);
    }
    free(sorted);
    use->work = work->time;
    use->exposed = all.time - main.time;
}

struct timeline_use timeline_use(const struct timeline *timeline, const struct timeline_lane *lane,
                                 struct timeline_range range) {
    struct timeline_use use = {0};
    struct cover work = {0};
    use_of_times(timeline, lane, &use, &work);
    double span = (double)timeline_since(work.until, work.first);
    use.bubble = range.length > 0 ? 1 - use.work / (double)range.length : 0;
    use.span_bubble = span > 0 ? 1 - use.work / span : 0;
    for (size_t i = 0; i < lane->point_count; i++)
        if (lane->point[i].bytes > use.peak_bytes) use.peak_bytes = lane->point[i].bytes;
    return use;
}

static void fill(double *figure, double value) {
    if (isnan(*figure)) *figure = value;
}

struct timeline_figures timeline_figures(const struct timeline *timeline,
                                         enum timeline_version which) {
    struct timeline_figures figures = timeline->version[which].figures;
    struct timeline_range range = timeline_range(timeline, which);
    double bubble = 0, span_bubble = 0, exposed = 0, peak = 0;
    double rows = timeline->row_count > 0 ? (double)timeline->row_count : 1;
    for (size_t r = 0; timeline_has(timeline, which) && r < timeline->row_count; r++) {
        struct timeline_use use = timeline_use(timeline, &timeline->version[which].lane[r], range);
        bubble += use.bubble / rows;
        span_bubble += use.span_bubble / rows;
        exposed += use.exposed / rows;
        peak = fmax(peak, (double)use.peak_bytes);
    }
    fill(&figures.step, (double)range.length);
    fill(&figures.bubble, bubble);
    fill(&figures.span_bubble, span_bubble);
    fill(&figures.exposed, exposed);
    if (peak > 0) fill(&figures.peak_bytes, peak);
    return figures;
}

const char *timeline_time(const struct timeline *timeline, double time, char text[TEXT_BYTES]) {
    if (timeline->unit == TIMELINE_UNITS || !isfinite(time)) return html_number(time, text);
    return text_duration(time / 1e9, text);
}

const char *timeline_text(const struct timeline *timeline, const struct timeline_interval *interval,
                          char text[TIMELINE_TEXT]) {
    if (interval->text) return interval->text;
    int used = snprintf(text, TIMELINE_TEXT, "%s", timeline->kind[interval->kind].name);
    if (interval->stage >= 0 && used < TIMELINE_TEXT)
        used +=
            snprintf(text + used, (size_t)(TIMELINE_TEXT - used), " s%" PRId32, interval->stage);
    if (interval->micro >= 0 && used < TIMELINE_TEXT)
        snprintf(text + used, (size_t)(TIMELINE_TEXT - used), " m%" PRId32, interval->micro);
    return text;
}
