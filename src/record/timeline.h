/* A timeline: what each rank does when, as predicted, as measured, or both; and what a picture of
 * it says besides. Plain data that the simulator and the executor fill and the drawings read;
 * nothing here knows of instructions.
 *
 * Times are counts of nanoseconds or of abstract units from any origin: each version is drawn from
 * its own earliest begin. All texts may hold anything; the drawings escape them. All functions are
 * local and pure. */
#ifndef RECORD_TIMELINE_H
#define RECORD_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum timeline_category {
#define CATEGORY(name, track, work, hatched, light, dark, text) TIMELINE_##name,
#include "record/timeline.def"
#undef CATEGORY
    TIMELINE_CATEGORIES
};
enum timeline_track { TIMELINE_MAIN, TIMELINE_SIDE };
enum timeline_unit { TIMELINE_NS, TIMELINE_UNITS };
enum timeline_version { TIMELINE_PREDICTED, TIMELINE_MEASURED, TIMELINE_VERSIONS };
enum { TIMELINE_NONE = -1 };

struct timeline_category_row {
    const char *text;
    enum timeline_track track;
    bool work, hatched;
    uint32_t light, dark; /* 0xRRGGBB */
};
extern const struct timeline_category_row timeline_categories[TIMELINE_CATEGORIES];

/* A row of the caller's legend: "F" is forward. */
struct timeline_kind {
    const char *name;
    enum timeline_category category;
};

struct timeline_interval {
    int64_t begin, end; /* end < begin counts as no length */
    int32_t kind;       /* index into kinds */
    int32_t stage, micro;
    int32_t id; /* of the instruction: unique in its row, the same predicted and measured */
    int32_t cause_row, cause_id; /* whose end let it begin; TIMELINE_NONE: the one before it */
    bool critical;
    const char *text; /* of the instruction; NULL: made of kind, stage and micro */
};

struct timeline_point {
    int64_t at, bytes; /* from this time on */
};

/* One rank in one version. Intervals may come in any order. */
struct timeline_lane {
    const struct timeline_interval *interval;
    size_t interval_count;
    const struct timeline_point *point; /* memory, by time; none: no curve */
    size_t point_count;
};

/* From a send to its receive. */
struct timeline_arrow {
    int32_t from_row, to_row;
    int64_t from, to;
};

/* NAN: not given; what can be is then measured from the intervals. */
struct timeline_figures {
    double step, step_low, step_high; /* in the unit; low and high are an interval */
    double bubble, span_bubble;       /* fractions */
    double exposed;                   /* in the unit, communication that nothing hides */
    double peak_bytes;                /* of the largest rank */
};
extern const struct timeline_figures timeline_figures_none;

struct timeline_side {
    const struct timeline_lane *lane; /* [row_count]; NULL: there is no such version */
    const struct timeline_arrow *arrow;
    size_t arrow_count;
    struct timeline_figures figures;
};

struct timeline_row {
    const char *label;   /* "rank 2 · replica 0 stage 2" */
    int64_t limit_bytes; /* 0: none */
};

/* All of it is borrowed by the functions that take it. */
struct timeline {
    const char *title;
    const char *const *subtitle; /* lines */
    size_t subtitle_count;
    int steps; /* that are drawn; 0: one */
    enum timeline_unit unit;
    const struct timeline_kind *kind;
    size_t kind_count;
    const struct timeline_row *row;
    size_t row_count;
    struct timeline_side version[TIMELINE_VERSIONS];
    const char *const *sentence; /* shown with the picture, before those of difference.h */
    size_t sentence_count;
};

/* Whether a version is there. */
bool timeline_has(const struct timeline *timeline, enum timeline_version version);
/* Earliest begin and length of a version: 0 and 0 without intervals. */
struct timeline_range {
    int64_t origin, length;
};
struct timeline_range timeline_range(const struct timeline *timeline, enum timeline_version which);
/* at - origin, at the ends of the range of int64_t where it would pass them. */
int64_t timeline_since(int64_t at, int64_t origin);
int64_t timeline_length(const struct timeline_interval *interval);
const struct timeline_category_row *timeline_category_of(const struct timeline *timeline,
                                                         const struct timeline_interval *interval);
/* The number of micro-batches that intervals name: 1 + the largest. */
int32_t timeline_micros(const struct timeline *timeline);

/* The intervals of a lane by begin, then end; the caller frees the array. */
const struct timeline_interval **timeline_sorted(const struct timeline_lane *lane);

/* One lane within a version of `length` that begins at `origin`. */
struct timeline_use {
    double work;        /* time with work in it, overlaps once */
    double exposed;     /* time with a side interval and nothing but waits beside it */
    double bubble;      /* 1 - work / length; 0 where length is 0 */
    double span_bubble; /* the same from its first to its last work */
    int64_t peak_bytes; /* 0 without a curve */
};
struct timeline_use timeline_use(const struct timeline *timeline, const struct timeline_lane *lane,
                                 struct timeline_range range);
/* The figures of a version, those not given measured from its intervals: bubbles and exposed
 * communication are means over the rows. */
struct timeline_figures timeline_figures(const struct timeline *timeline,
                                         enum timeline_version which);

/* "4.1 ms" or "12.5"; returns `text`. */
const char *timeline_time(const struct timeline *timeline, double time, char text[TEXT_BYTES]);
/* What the text of an interval is: its own or "F s2 m5"; returns `text` or the interval's. */
enum { TIMELINE_TEXT = 64 };
const char *timeline_text(const struct timeline *timeline, const struct timeline_interval *interval,
                          char text[TIMELINE_TEXT]);

#endif
