/* The path of a measured step and what became of it.
 *
 * Which interval let another begin: of its cause (the prediction's, where the measurement does not
 * know it) and of what ended before it in its row, the one that ended later. Clocks of ranks may
 * disagree, so a cause may end after its effect began: the gap is then negative and the sum is
 * still exact. Begins fall along the path, which is what ends it. */
#include "record/difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

/* The intervals of one row of one version, by begin and by id. */
struct lookup {
    const struct timeline_interval **by_begin, **by_id;
    size_t count;
};

struct search {
    const struct timeline *timeline;
    struct lookup *rows[TIMELINE_VERSIONS];
    struct timeline_range range[TIMELINE_VERSIONS];
    struct difference *out;
    size_t capacity;
    double *row_delta; /* [kind_count * row_count]: differences of a kind by row */
};

static int by_id(const void *left, const void *right) {
    const struct timeline_interval *a = *(const struct timeline_interval *const *)left,
                                   *b = *(const struct timeline_interval *const *)right;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Waits are no work: what they wait for is on the path instead. */
static struct lookup lookup_of(const struct timeline *timeline, const struct timeline_lane *lane) {
    struct lookup row = {.by_begin = timeline_sorted(lane)};
    for (size_t i = 0; i < lane->interval_count; i++)
        if (timeline_category_of(timeline, row.by_begin[i]) != &timeline_categories[TIMELINE_WAIT])
            row.by_begin[row.count++] = row.by_begin[i];
    row.by_id = MEM_ARRAY(const struct timeline_interval *, row.count + 1);
    memcpy(row.by_id, row.by_begin, row.count * sizeof *row.by_id);
    qsort(row.by_id, row.count, sizeof *row.by_id, by_id);
    return row;
}

static const struct timeline_interval *
find(const struct search *search, enum timeline_version version, int32_t row, int32_t id) {
    if (row < 0 || (size_t)row >= search->timeline->row_count) return NULL;
    const struct lookup *lookup = &search->rows[version][row];
    struct timeline_interval wanted = {.id = id};
    const struct timeline_interval *key = &wanted;
    const struct timeline_interval **found =
        bsearch(&key, lookup->by_id, lookup->count, sizeof *lookup->by_id, by_id);
    return found ? *found : NULL;
}

static int64_t end_of(const struct timeline_interval *interval) {
    return interval->end > interval->begin ? interval->end : interval->begin;
}

/* What ended last in the row when `interval` began, side intervals included. */
static const struct timeline_interval *before(const struct lookup *row,
                                              const struct timeline_interval *interval) {
    const struct timeline_interval *best = NULL;
    size_t low = 0, high = row->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (row->by_begin[middle]->begin < interval->begin)
            low = middle + 1;
        else
            high = middle;
    }
    enum { LOOK_BACK = 64 }; /* intervals that overlap are few */
    for (size_t i = 0; i < low && i < LOOK_BACK; i++) {
        const struct timeline_interval *other = row->by_begin[low - 1 - i];
        if (end_of(other) <= interval->begin && (!best || end_of(other) > end_of(best)))
            best = other;
    }
    return best;
}

struct place {
    const struct timeline_interval *interval;
    int32_t row;
};

static const struct timeline_interval *twin(const struct search *search, struct place place) {
    return find(search, TIMELINE_PREDICTED, place.row, place.interval->id);
}

static struct place cause_of(const struct search *search, struct place place) {
    const struct timeline_interval *known = place.interval, *predicted = twin(search, place);
    if (known->cause_row < 0 && predicted) known = predicted;
    struct place cause = {find(search, TIMELINE_MEASURED, known->cause_row, known->cause_id),
                          known->cause_row};
    if (cause.interval && cause.interval->begin >= place.interval->begin) cause.interval = NULL;
    return cause;
}

static struct place earlier(const struct search *search, struct place place) {
    struct place cause = cause_of(search, place),
                 same = {before(&search->rows[TIMELINE_MEASURED][place.row], place.interval),
                         place.row};
    if (!cause.interval) return same;
    if (!same.interval) return cause;
    return end_of(cause.interval) >= end_of(same.interval) ? cause : same;
}

static struct difference_part *part_for(struct search *search, enum difference_cause cause,
                                        int32_t kind, int32_t row) {
    struct difference *out = search->out;
    for (size_t i = 0; i < out->count; i++)
        if (out->part[i].cause == cause && out->part[i].kind == kind && out->part[i].row == row)
            return &out->part[i];
    out->part = mem_grow(out->part, &search->capacity, out->count + 1, sizeof *out->part);
    out->part[out->count] = (struct difference_part){
        .cause = cause, .kind = kind, .row = row, .most_row = TIMELINE_NONE};
    return &out->part[out->count++];
}

/* Times of a damaged trace may be of any size. */
static int64_t bounded_sum(int64_t a, int64_t b) {
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static void add(struct search *search, enum difference_cause cause, int32_t kind, int32_t row,
                int64_t predicted, int64_t measured) {
    if (predicted == 0 && measured == 0) return;
    struct difference_part *part = part_for(search, cause, kind, row);
    part->predicted = bounded_sum(part->predicted, predicted);
    part->measured = bounded_sum(part->measured, measured);
}

static void add_kind(struct search *search, struct place place, int64_t predicted) {
    int64_t measured = timeline_length(place.interval);
    add(search, DIFFERENCE_KIND, place.interval->kind, TIMELINE_NONE, predicted, measured);
    size_t at = (size_t)place.interval->kind * search->timeline->row_count + (size_t)place.row;
    search->row_delta[at] += (double)measured - (double)predicted;
}

static void add_gap(struct search *search, struct place from, struct place to, int64_t predicted,
                    int64_t measured) {
    bool other = from.row != to.row;
    add(search, other ? DIFFERENCE_WAIT : DIFFERENCE_IDLE, TIMELINE_NONE, other ? from.row : to.row,
        predicted, measured);
}

static struct place last_measured(const struct search *search) {
    struct place last = {NULL, 0};
    for (size_t r = 0; r < search->timeline->row_count; r++) {
        const struct lookup *row = &search->rows[TIMELINE_MEASURED][r];
        for (size_t i = 0; i < row->count; i++)
            if (!last.interval || end_of(row->by_begin[i]) > end_of(last.interval))
                last = (struct place){row->by_begin[i], (int32_t)r};
    }
    return last;
}

/* One interval of the path and the gap before it. `ended` is where the prediction of the path so
 * far begins, seen from the end; what was not predicted has no length there. */
static void account(struct search *search, struct place place, struct place from, int64_t *ended) {
    const struct timeline_interval *predicted = twin(search, place);
    int64_t begin = predicted ? predicted->begin : *ended;
    add_kind(search, place, predicted ? timeline_since(*ended, begin) : 0);
    const struct timeline_interval *was = from.interval ? twin(search, from) : NULL;
    int64_t was_end = was ? end_of(was) : begin;
    if (from.interval)
        add_gap(search, from, place, timeline_since(begin, was_end),
                timeline_since(place.interval->begin, end_of(from.interval)));
    else
        add(search, DIFFERENCE_START, TIMELINE_NONE, place.row,
            timeline_since(begin, search->range[TIMELINE_PREDICTED].origin),
            timeline_since(place.interval->begin, search->range[TIMELINE_MEASURED].origin));
    *ended = was_end;
}

static void follow(struct search *search) {
    struct place place = last_measured(search);
    if (!place.interval) return;
    struct timeline_range predicted = search->range[TIMELINE_PREDICTED];
    const struct timeline_interval *last = twin(search, place);
    int64_t ended = last ? end_of(last) : predicted.origin + predicted.length;
    add(search, DIFFERENCE_END, TIMELINE_NONE, TIMELINE_NONE,
        timeline_since(predicted.origin + predicted.length, ended), 0);
    while (place.interval) {
        struct place from = earlier(search, place);
        account(search, place, from, &ended);
        place = from;
    }
}

/* Kinds with most of their difference on one row name it. */
static void name_rows(struct search *search) {
    size_t rows = search->timeline->row_count;
    for (size_t i = 0; i < search->out->count; i++) {
        struct difference_part *part = &search->out->part[i];
        if (part->cause != DIFFERENCE_KIND) continue;
        double whole = (double)(part->measured - part->predicted);
        for (size_t r = 0; r < rows; r++) {
            double share = search->row_delta[(size_t)part->kind * rows + r] / whole;
            if (whole == 0 || share <= part->most_share) continue;
            part->most_share = share;
            part->most_row = (int32_t)r;
        }
    }
}

static double delta_of(const struct difference_part *part) {
    return (double)part->measured - (double)part->predicted;
}

static int by_delta(const void *left, const void *right) {
    const struct difference_part *x = left, *y = right;
    double a = fabs(delta_of(x)), b = fabs(delta_of(y));
    if (a != b) return a > b ? -1 : 1;
    if (x->cause != y->cause) return x->cause < y->cause ? -1 : 1;
    return x->kind + x->row < y->kind + y->row ? -1 : 1;
}

struct difference difference_of(const struct timeline *timeline) {
    struct difference out = {0};
    struct search search = {.timeline = timeline, .out = &out};
    search.row_delta = MEM_ARRAY(double, timeline->kind_count * timeline->row_count + 1);
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        CHECK(timeline_has(timeline, v), "version %d is not there", v);
        search.rows[v] = MEM_ARRAY(struct lookup, timeline->row_count + 1);
        search.range[v] = timeline_range(timeline, v);
        for (size_t r = 0; r < timeline->row_count; r++)
            search.rows[v][r] = lookup_of(timeline, &timeline->version[v].lane[r]);
    }
    out.predicted = search.range[TIMELINE_PREDICTED].length;
    out.measured = search.range[TIMELINE_MEASURED].length;
    follow(&search);
    name_rows(&search);
    if (out.count > 1) qsort(out.part, out.count, sizeof *out.part, by_delta);
    for (int v = 0; v < TIMELINE_VERSIONS; v++) {
        for (size_t r = 0; r < timeline->row_count; r++) {
            free(search.rows[v][r].by_begin);
            free(search.rows[v][r].by_id);
        }
        free(search.rows[v]);
    }
    free(search.row_delta);
    return out;
}

void difference_free(struct difference *difference) {
    free(difference->part);
    *difference = (struct difference){0};
}
