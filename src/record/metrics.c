/* metrics.jsonl and its twin in TensorBoard. Each line leaves in one write, so that a reader that
 * follows the file never sees half a line unless the machine itself stops. */
#include "record/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/put_json.h"
#include "record/tensorboard.h"

struct metrics {
    FILE *stream;
    char *path;
    struct tensorboard *board;
    struct metrics_past past;
    enum status status; /* the first failure, which was said: nothing is written after it */
};

struct column {
    const char *key, *train_tag, *eval_tag;
    size_t offset; /* of its double in struct metrics_row */
    unsigned kinds;
    bool shown;
};

enum { TRAIN = METRICS_TRAIN, EVAL = METRICS_EVAL };

static const struct column columns[] = {
#define METRIC(field, kinds, shown, meaning)                                                       \
    {#field, "train/" #field, "eval/" #field, offsetof(struct metrics_row, field), kinds, shown},
#include "record/metrics.def"
#undef METRIC
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static double value_of(const struct metrics_row *row, const struct column *column) {
    double value;
    memcpy(&value, (const char *)row + column->offset, sizeof value);
    return value;
}

struct metrics_row metrics_row_new(enum metrics_kind kind, int64_t step, int64_t epoch) {
    struct metrics_row row = {.kind = kind, .step = step, .epoch = epoch, .unix_s = clock_wall_s()};
#define METRIC(field, kinds, shown, meaning) row.field = NAN;
#include "record/metrics.def"
#undef METRIC
    return row;
}

static void emit_ranks(FILE *stream, const char *key, const double *values, int count) {
    fprintf(stream, ",\"%s\":[", key);
    for (int r = 0; r < count; r++) {
        if (r) fputc(',', stream);
        put_json_number(stream, values[r]);
    }
    fputc(']', stream);
}

void metrics_emit(FILE *stream, const struct metrics_row *row) {
    fprintf(stream, "{\"kind\":\"%s\",\"step\":%lld,\"epoch\":%lld,\"unix_s\":",
            row->kind == METRICS_EVAL ? "eval" : "train", (long long)row->step,
            (long long)row->epoch);
    put_json_number(stream, row->unix_s);
    for (int i = 0; i < COLUMNS; i++) {
        if (!(columns[i].kinds & row->kind)) continue;
        fprintf(stream, ",\"%s\":", columns[i].key);
        put_json_number(stream, value_of(row, &columns[i]));
    }
    if (row->ranks > 1 && row->kind == METRICS_TRAIN) {
        emit_ranks(stream, "rank_loss", row->rank_loss, row->ranks);
        emit_ranks(stream, "rank_ms", row->rank_ms, row->ranks);
    }
    fputs("}\n", stream);
}

static double number_of(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void note_past(const json_t *root, int64_t step, int64_t last, struct metrics_past *past) {
    const char *kind = json_string_value(json_object_get(root, "kind"));
    if (step > last || !kind) return;
    if (strcmp(kind, "eval") == 0) {
        past->eval_loss = number_of(root, "loss");
        past->acc1 = number_of(root, "acc1");
        past->acc5 = number_of(root, "acc5");
        return;
    }
    if (step == 1) past->loss_first = number_of(root, "loss");
    if (step == last) past->loss_last = number_of(root, "loss");
}

/* Whether a line is a row of ours, and of which step. Rows up to step `last` tell of the past. */
static bool read_row(const char *line, size_t length, int64_t last, int64_t *step,
                     struct metrics_past *past) {
    if (length == 0 || line[length - 1] != '\n') return false;
    json_auto_t *root = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *value = json_object_get(root, "step");
    bool good = json_is_integer(value);
    if (good) *step = json_integer_value(value);
    if (good) note_past(root, *step, last, past);
    return good;
}

/* Copies the rows up to step `last`; lines that are no rows (cut short by a crash) are left out and
 * said. */
static enum status copy_rows(FILE *from, const char *path, int64_t last, struct file_writer *to,
                             struct metrics_past *past) {
    SCOPED_FREE char *line = NULL;
    size_t room = 0, bad = 0;
    int64_t step;
    for (ssize_t length; (length = getline(&line, &room, from)) >= 0;)
        if (!read_row(line, (size_t)length, last, &step, past))
            bad++;
        else if (step <= last)
            TRY(file_write(to, line, (size_t)length));
    if (ferror(from)) return fail(STATUS_DATA, "%s: read failed: %s", path, strerror(errno));
    if (bad > 0) log_warning("%s: %zu damaged %s left out", path, bad, bad == 1 ? "line" : "lines");
    return STATUS_OK;
}

static enum status cut_rows(const char *path, int64_t last, struct metrics_past *past) {
    if (!file_exists(path)) return STATUS_OK;
    if (!file_is_regular(path)) /* a pipe would make it wait */
        return fail(STATUS_DATA, "%s: not a regular file", path);
    FILE *from = fopen(path, "rbe");
    if (!from) return fail(STATUS_DATA, "%s: cannot open: %s", path, strerror(errno));
    struct file_writer to;
    enum status status = file_begin(path, &to);
    if (status == STATUS_OK) {
        status = copy_rows(from, path, last, &to, past);
        if (status == STATUS_OK)
            status = file_commit(&to);
        else
            file_abandon(&to);
    }
    fclose(from);
    return status;
}

static enum status write_failed(const struct metrics *metrics) {
    return fail(STATUS_DATA, "%s: write failed: %s", metrics->path, strerror(errno));
}

enum status metrics_open(const char *folder, int64_t resumed, struct metrics **out) {
    SCOPED(metrics_close) struct metrics *metrics = MEM_NEW(struct metrics);
    metrics->path = mem_format("%s/metrics.jsonl", folder);
    metrics->past = (struct metrics_past){NAN, NAN, NAN, NAN, NAN};
    if (resumed >= 0) TRY(cut_rows(metrics->path, resumed, &metrics->past));
    metrics->stream = fopen(metrics->path, resumed >= 0 ? "abe" : "wbe");
    if (!metrics->stream)
        return fail(STATUS_DATA, "%s: cannot write: %s", metrics->path, strerror(errno));
    TRY(tensorboard_open(folder, resumed >= 0 ? resumed + 1 : 0, &metrics->board));
    *out = metrics;
    metrics = NULL;
    return STATUS_OK;
}

const struct metrics_past *metrics_past(const struct metrics *metrics) {
    return &metrics->past;
}

static enum status write_row(struct metrics *metrics, const struct metrics_row *row) {
    metrics_emit(metrics->stream, row);
    if (fflush(metrics->stream) != 0) return write_failed(metrics);
    for (int i = 0; i < COLUMNS; i++) {
        double value = value_of(row, &columns[i]);
        if (!columns[i].shown || !(columns[i].kinds & row->kind) || !isfinite(value)) continue;
        const char *tag = row->kind == METRICS_EVAL ? columns[i].eval_tag : columns[i].train_tag;
        TRY(tensorboard_scalar(metrics->board, row->unix_s, row->step, tag, (float)value));
    }
    return STATUS_OK;
}

enum status metrics_write(struct metrics *metrics, const struct metrics_row *row) {
    if (metrics->status == STATUS_OK) metrics->status = write_row(metrics, row);
    return metrics->status;
}

enum status metrics_histogram(struct metrics *metrics, int64_t step, const char *tag,
                              const int64_t *count, int numbers) {
    if (metrics->status == STATUS_OK)
        metrics->status =
            tensorboard_histogram(metrics->board, clock_wall_s(), step, tag, count, numbers);
    return metrics->status;
}

enum status metrics_sync(struct metrics *metrics) {
    TRY(metrics->status);
    TRY(tensorboard_flush(metrics->board));
    if (fflush(metrics->stream) != 0 || fsync(fileno(metrics->stream)) != 0)
        return write_failed(metrics);
    return STATUS_OK;
}

enum status metrics_close(struct metrics **metrics) {
    if (!*metrics) return STATUS_OK;
    enum status status = (*metrics)->status, board = tensorboard_close(&(*metrics)->board);
    if ((*metrics)->stream && fclose((*metrics)->stream) != 0 && status == STATUS_OK)
        status = write_failed(*metrics);
    if (status == STATUS_OK) status = board;
    free((*metrics)->path);
    free(*metrics);
    *metrics = NULL;
    return status;
}
