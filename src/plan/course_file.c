/* See course_file.h. */
#include "plan/course_file.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

static const char *const keys[] = {"step",     "frozen",        "of",   "ranks", "stages",
                                   "replicas", "micro_batches", "batch"};
enum { STEP, FROZEN, OF, RANKS, STAGES, REPLICAS, MICRO_BATCHES, BATCH, KEYS };
enum { MOST_RANKS = 1 << 20, MOST_MICROS = 1 << 20 };
static const int64_t least[KEYS] = {0, 0, 1, 1, 1, 1, 1, 1},
                     most[KEYS] = {INT64_C(1) << 53, FREEZING_BLOCKS, FREEZING_BLOCKS,
                                   MOST_RANKS,       MOST_RANKS,      MOST_RANKS,
                                   MOST_MICROS,      INT64_C(1) << 40};

struct row {
    int64_t value[KEYS];
};

/* What each row has as the first one does. */
static enum status check_same(const struct json_place *place, const struct row *row,
                              const struct row *first) {
    static const int same[] = {OF, RANKS, BATCH};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct json_place member = json_member(place, keys[same[i]]);
        if (row->value[same[i]] != first->value[same[i]])
            return json_refuse(&member, "%lld, in the first row it is %lld",
                               (long long)row->value[same[i]], (long long)first->value[same[i]]);
    }
    struct json_place member = json_member(place, keys[MICRO_BATCHES]);
    int64_t all = row->value[REPLICAS] * row->value[MICRO_BATCHES],
            before = first->value[REPLICAS] * first->value[MICRO_BATCHES];
    if (all == before) return STATUS_OK;
    return json_refuse(
        &member, "%lld replicas x %lld are %lld micro-batches, in the first row they are %lld",
        (long long)row->value[REPLICAS], (long long)row->value[MICRO_BATCHES], (long long)all,
        (long long)before);
}

static enum status check_alone(const struct json_place *place, const struct row *row) {
    struct json_place frozen = json_member(place, keys[FROZEN]),
                      batch = json_member(place, keys[BATCH]),
                      ranks = json_member(place, keys[RANKS]);
    int64_t all = row->value[REPLICAS] * row->value[MICRO_BATCHES],
            cells = row->value[STAGES] * row->value[REPLICAS];
    if (row->value[FROZEN] > row->value[OF])
        return json_refuse(&frozen, "%lld of %lld blocks", (long long)row->value[FROZEN],
                           (long long)row->value[OF]);
    if (row->value[BATCH] % all)
        return json_refuse(&batch, "%lld samples are not dealt evenly into %lld micro-batches",
                           (long long)row->value[BATCH], (long long)all);
    bool one = row->value[RANKS] == 1 && row->value[STAGES] == 1;
    bool idle = row->value[REPLICAS] == 1 && cells < row->value[RANKS];
    if (one || idle || cells == row->value[RANKS]) return STATUS_OK;
    return json_refuse(&ranks, "%lld, not %lld stages x %lld replicas",
                       (long long)row->value[RANKS], (long long)row->value[STAGES],
                       (long long)row->value[REPLICAS]);
}

static enum status check_order(const struct json_place *place, const struct row *row,
                               const struct row *before) {
    struct json_place step = json_member(place, keys[STEP]),
                      frozen = json_member(place, keys[FROZEN]);
    if (!before && row->value[STEP] > 0)
        return json_refuse(&step, "%lld, the first part begins behind step 0",
                           (long long)row->value[STEP]);
    if (before && row->value[STEP] <= before->value[STEP])
        return json_refuse(&step, "%lld comes after %lld", (long long)row->value[STEP],
                           (long long)before->value[STEP]);
    if (before && row->value[FROZEN] < before->value[FROZEN])
        return json_refuse(&frozen, "%lld comes after %lld, but what is frozen stays so",
                           (long long)row->value[FROZEN], (long long)before->value[FROZEN]);
    return STATUS_OK;
}

static enum status read_row(const struct json_place *place, struct row *out) {
    TRY(json_expect_object(place));
    TRY(json_check_keys(place, keys, KEYS));
    for (int k = 0; k < KEYS; k++) {
        struct json_place member = json_member(place, keys[k]);
        TRY(json_get_int(&member, least[k], most[k], &out->value[k]));
    }
    return check_alone(place, out);
}

struct reading {
    struct row first, before;
    size_t capacity;
    struct course_part *part;
    struct course_file file;
};

static void take_row(struct reading *reading, const struct row *row) {
    struct course_file *file = &reading->file;
    if (file->count == 0) reading->first = *row;
    reading->before = *row;
    reading->part =
        mem_grow(reading->part, &reading->capacity, (size_t)file->count + 1, sizeof *reading->part);
    reading->part[file->count++] =
        (struct course_part){.step = row->value[STEP],
                             .frozen = (int)row->value[FROZEN],
                             .stages = (int)row->value[STAGES],
                             .replicas = (int)row->value[REPLICAS],
                             .micro_batches = (int)row->value[MICRO_BATCHES]};
}

/* Empty lines before the text make its line numbers those of the file. */
static enum status read_line(struct reading *reading, int line, const char *text, size_t bytes) {
    size_t before = (size_t)line - 1;
    SCOPED_FREE char *padded = mem_new(before + bytes + 1);
    SCOPED(json_file_free) struct json_file json = {0};
    struct row row;
    memset(padded, '\n', before);
    memcpy(padded + before, text, bytes);
    TRY(json_file_parse(reading->file.name, padded, before + bytes, STATUS_DATA, &json));
    struct json_place place = json_root(&json);
    TRY(read_row(&place, &row));
    TRY(check_order(&place, &row, reading->file.count ? &reading->before : NULL));
    if (reading->file.count) TRY(check_same(&place, &row, &reading->first));
    take_row(reading, &row);
    return STATUS_OK;
}

static enum status read_lines(struct reading *reading, const char *text, size_t bytes) {
    const char *end = text + bytes;
    for (int line = 1; text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        if (line > FREEZING_PERIODS)
            return fail(STATUS_DATA, "%s: more than %d rows", reading->file.name, FREEZING_PERIODS);
        TRY(read_line(reading, line, text, (size_t)(stop - text)));
        text = stop < end ? stop + 1 : end;
    }
    if (reading->file.count > 0) return STATUS_OK;
    return fail(STATUS_DATA, "%s: has no row: a course begins with one of step 0",
                reading->file.name);
}

enum status course_file_parse(const char *name, const char *text, size_t bytes, struct arena *arena,
                              struct course_file *out) {
    struct reading reading = {.file = {.name = name}};
    enum status status = read_lines(&reading, text, bytes);
    if (status == STATUS_OK) {
        size_t size = (size_t)reading.file.count * sizeof *reading.part;
        *out = reading.file;
        out->part = memcpy(arena_new(arena, size), reading.part, size);
        out->blocks = (int)reading.first.value[OF];
        out->ranks = (int)reading.first.value[RANKS];
        out->batch = reading.first.value[BATCH];
    }
    free(reading.part);
    return status;
}

enum status course_file_read(const char *path, struct arena *arena, struct course_file *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, COURSE_FILE_BYTES, &text));
    return course_file_parse(path, (const char *)text.data, text.count, arena, out);
}

void course_file_print(const struct course *course, const struct course_part *part, FILE *out) {
    const struct run_config *config = course->config;
    fprintf(out,
            "{\"step\":%lld,\"frozen\":%d,\"of\":%d,\"ranks\":%d,\"stages\":%d,\"replicas\":%d,"
            "\"micro_batches\":%d,\"batch\":%lld}\n",
            (long long)part->step, part->frozen, course->blocks, config->ranks, part->stages,
            part->replicas, part->micro_batches, (long long)config->batch);
}
