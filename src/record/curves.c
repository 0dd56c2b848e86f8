/* metrics.jsonl back into series, a line at a time. */
#include "record/curves.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"

/* `after` covers later rows than `point`. */
static struct series_point joined(const struct series_point *point,
                                  const struct series_point *after) {
    struct series_point both = *point;
    both.last = after->last;
    both.rows += after->rows;
    both.finite += after->finite;
    if (after->finite == 0) return both;
    if (point->finite == 0) {
        both = *after;
        both.first = point->first;
        both.rows += point->rows;
        return both;
    }
    double share = (double)after->finite / (double)both.finite;
    both.mean = point->mean * (1 - share) + after->mean * share;
    bool low_here = point->low <= after->low, high_here = point->high >= after->high;
    if (low_here != high_here) both.low_first = low_here;
    if (!low_here && !high_here) both.low_first = after->low_first;
    both.low = low_here ? point->low : after->low;
    both.high = high_here ? point->high : after->high;
    return both;
}

static void halve(struct series *series) {
    for (int i = 0; i < series->count / 2; i++)
        series->point[i] = joined(&series->point[2 * i], &series->point[2 * i + 1]);
    series->count /= 2;
    series->rows_per_point *= 2;
}

static void count_value(struct series *series, int64_t step, bool finite) {
    if (!finite && series->absent == 0) series->first_absent = step;
    series->finite += finite;
    series->absent += !finite;
}

void series_add(struct series *series, int64_t step, double value) {
    bool finite = isfinite(value);
    if (!finite) value = NAN;
    count_value(series, step, finite);
    struct series_point row = {step, step, 1, finite, value, value, value, NAN, true};
    if (!series->point) {
        series->point = MEM_ARRAY(struct series_point, SERIES_POINTS);
        series->rows_per_point = 1;
    }
    struct series_point *last = series->count ? &series->point[series->count - 1] : NULL;
    if (last && last->rows < series->rows_per_point) {
        *last = joined(last, &row);
        return;
    }
    if (series->count == SERIES_POINTS) halve(series);
    series->point[series->count++] = row;
}

/* Mean of from[] around i, each entry weighted. Near the start the window shrinks on both sides,
 * else the steep beginning of a loss curve would be drawn too low; at the end it is cut. */
static double window_mean(const struct series *series, const double *from, bool weighted, int i,
                          int half) {
    int reach = half < i ? half : i;
    int end = i + reach < series->count - 1 ? i + reach : series->count - 1;
    double sum = 0, weight = 0;
    for (int j = i - reach; j <= end; j++) {
        if (isnan(from[j])) continue;
        double share = weighted ? (double)series->point[j].finite : 1;
        sum += from[j] * share;
        weight += share;
    }
    return weight > 0 ? sum / weight : NAN;
}

void series_smooth(struct series *series) {
    int count = series->count, half = count < 12 ? 0 : count < 120 ? 2 : count / 60;
    double *once = MEM_ARRAY(double, 2 * count + 1), *mean = once + count;
    for (int i = 0; i < count; i++) mean[i] = series->point[i].mean;
    for (int i = 0; i < count; i++) once[i] = window_mean(series, mean, true, i, half);
    for (int i = 0; i < count; i++) {
        double value = window_mean(series, once, false, i, half);
        series->point[i].smooth = series->point[i].finite ? value : NAN;
    }
    free(once);
}

void series_free(struct series *series) {
    free(series->point);
    *series = (struct series){0};
}

/* Which key of which kind of row goes where. */
static const struct source {
    const char *kind, *key;
    size_t offset;
    bool timed; /* over virtual time */
} sources[] = {
    {"train", "loss", offsetof(struct curves, loss), false},
    {"train", "lr", offsetof(struct curves, lr), false},
    {"train", "grad_norm", offsetof(struct curves, grad_norm), false},
    {"train", "samples_per_s", offsetof(struct curves, samples_per_s), false},
    {"eval", "loss", offsetof(struct curves, eval_loss), false},
    {"eval", "acc1", offsetof(struct curves, acc1), false},
    {"eval", "acc5", offsetof(struct curves, acc5), false},
    {"train", "loss", offsetof(struct curves, timed_loss), true},
    {"eval", "loss", offsetof(struct curves, timed_eval_loss), true},
    {"eval", "acc1", offsetof(struct curves, timed_acc1), true},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static struct series *series_of(struct curves *curves, int source) {
    return (struct series *)(void *)((char *)curves + sources[source].offset);
}

static double number_of(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The first row with ranks sets their number: it is also the first step, which is slow. */
static void add_ranks(struct curves *curves, const json_t *times) {
    int ranks = (int)json_array_size(times); /* 0 for what is no array */
    if (ranks == 0) return;
    if (!curves->rank) {
        curves->rank = MEM_ARRAY(struct curves_rank, ranks);
        curves->ranks = ranks;
        return;
    }
    for (int r = 0; r < ranks && r < curves->ranks; r++) {
        const json_t *value = json_array_get(times, (size_t)r);
        if (!json_is_number(value)) continue;
        curves->rank[r].ms_sum += json_number_value(value);
        curves->rank[r].rows++;
    }
}

/* False when the line is no row. */
static bool add_row(struct curves *curves, const json_t *root) {
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const json_t *step = json_object_get(root, "step");
    if (!kind || !json_is_integer(step)) return false;
    if (isnan(curves->begin_s)) curves->begin_s = number_of(root, "unix_s");
    double virtual_ms = number_of(root, "virtual_s") * 1e3;
    for (int i = 0; i < SOURCES; i++) {
        bool timed = sources[i].timed;
        if (strcmp(sources[i].kind, kind) != 0 || (timed && !(virtual_ms < 1e15))) continue;
        series_add(series_of(curves, i), timed ? llround(virtual_ms) : json_integer_value(step),
                   number_of(root, sources[i].key));
    }
    add_ranks(curves, json_object_get(root, "rank_ms"));
    curves->rows++;
    return true;
}

static void read_lines(FILE *stream, struct curves *curves) {
    SCOPED_FREE char *line = NULL;
    size_t room = 0;
    errno = 0;
    for (ssize_t length; (length = getline(&line, &room, stream)) >= 0;) {
        json_t *root = json_loadb(line, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
        if (!add_row(curves, root)) curves->damaged++;
        json_decref(root);
    }
    if (!feof(stream))
        curves->trouble =
            mem_format("metrics.jsonl could not be read to its end: %s", strerror(errno));
    else if (curves->rows == 0)
        curves->trouble = mem_text("metrics.jsonl holds no rows: the run wrote no metrics");
}

void curves_read(const char *folder, struct curves *out) {
    *out = (struct curves){.begin_s = NAN};
    SCOPED_FREE char *path = mem_format("%s/metrics.jsonl", folder);
    FILE *stream = fopen(path, "rbe");
    if (stream) {
        read_lines(stream, out);
        fclose(stream);
    } else
        out->trouble = errno == ENOENT
                           ? mem_text("metrics.jsonl is not there: the run wrote no metrics")
                           : mem_format("metrics.jsonl cannot be opened: %s", strerror(errno));
    for (int i = 0; i < SOURCES; i++) series_smooth(series_of(out, i));
}

void curves_free(struct curves *curves) {
    for (int i = 0; i < SOURCES; i++) series_free(series_of(curves, i));
    free(curves->trouble);
    free(curves->rank);
    *curves = (struct curves){.begin_s = NAN};
}
