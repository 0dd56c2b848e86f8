/* See history.h. The file is small and is written whole each time: a row changes as its start goes
 * on, and a reader never sees half of one. */
#include "record/history.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

struct history {
    char *path;
    json_t *rows; /* an array; the last one is of this start */
};

static const char *const time_keys[] = {"wall_s", "user_s", "sys_s"};
enum { TIMES = sizeof time_keys / sizeof time_keys[0] };

static bool is_row(const json_t *row) {
    bool good = json_is_string(json_object_get(row, "command"));
    for (int i = 0; i < TIMES; i++) good &= json_is_number(json_object_get(row, time_keys[i]));
    return good;
}

static void read_rows(struct history *history, char *text) {
    char *state = NULL;
    int damaged = 0;
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (is_row(row))
            json_array_append(history->rows, row);
        else
            damaged++;
        json_decref(row);
    }
    if (damaged)
        log_warning("%s: %d damaged %s left out", history->path, damaged,
                    damaged == 1 ? "line" : "lines");
}

static enum status read_file(struct history *history) {
    enum { HISTORY_LIMIT = 64 << 20 };
    SCOPED(bytes_free) struct bytes text = {0};
    if (!file_exists(history->path)) return STATUS_OK; /* of a version that wrote none */
    TRY(file_read(history->path, HISTORY_LIMIT, &text));
    read_rows(history, (char *)text.data);
    return STATUS_OK;
}

/* Arguments may be any bytes, JSON is UTF-8. */
static json_t *text_of(const char *command) {
    json_t *text = json_string(command);
    if (text) return text;
    char *plain = mem_text(command);
    for (char *at = plain; *at; at++) {
        if ((unsigned char)*at >= 0x80) *at = '?';
    }
    text = json_string(plain);
    free(plain);
    return text;
}

static enum status write_file(const struct history *history) {
    SCOPED_FREE char *text = NULL;
    size_t bytes, index;
    json_t *row;
    FILE *stream = open_memstream(&text, &bytes);
    CHECK(stream, "a stream in memory");
    json_array_foreach(history->rows, index, row) {
        json_dumpf(row, stream, JSON_COMPACT | JSON_REAL_PRECISION(17));
        fputc('\n', stream);
    }
    fclose(stream);
    return file_write_text(history->path, text);
}

enum status history_open(const char *folder, const char *command, int64_t first_step,
                         struct history **out) {
    struct history *history = MEM_NEW(struct history);
    *history = (struct history){mem_format("%s/history.jsonl", folder), json_array()};
    enum status status = first_step > 0 ? read_file(history) : STATUS_OK;
    json_array_append_new(
        history->rows, json_pack("{s:f, s:I, s:o, s:f, s:f, s:f}", "unix_s", clock_wall_s(),
                                 "first_step", (json_int_t)first_step, "command", text_of(command),
                                 time_keys[0], 0.0, time_keys[1], 0.0, time_keys[2], 0.0));
    if (status == STATUS_OK) status = write_file(history);
    if (status == STATUS_OK)
        *out = history;
    else
        history_free(&history);
    return status;
}

enum status history_note(struct history *history, const struct history_times *times) {
    json_t *row = json_array_get(history->rows, json_array_size(history->rows) - 1);
    const double values[TIMES] = {times->wall_s, times->user_s, times->sys_s};
    for (int i = 0; i < TIMES; i++) json_object_set_new(row, time_keys[i], json_real(values[i]));
    return write_file(history);
}

struct history_times history_total(const struct history *history) {
    double sum[TIMES] = {0};
    size_t index;
    json_t *row;
    json_array_foreach(history->rows, index, row) {
        for (int i = 0; i < TIMES; i++)
            sum[i] += json_number_value(json_object_get(row, time_keys[i]));
    }
    return (struct history_times){sum[0], sum[1], sum[2]};
}

char *history_commands(const struct history *history) {
    char *text = NULL;
    size_t bytes, index;
    json_t *row;
    FILE *stream = open_memstream(&text, &bytes);
    CHECK(stream, "a stream in memory");
    json_array_foreach(history->rows, index, row) {
        fprintf(stream, "%s%s", index ? "\n" : "",
                json_string_value(json_object_get(row, "command")));
    }
    fclose(stream);
    return text;
}

void history_free(struct history **history) {
    if (!*history) return;
    json_decref((*history)->rows);
    free((*history)->path);
    free(*history);
    *history = NULL;
}
