/* summary.json through one table made of summary.def: init, writer and reader walk the same rows.
 */
#include "record/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "record/put_json.h"

enum kind {
    KIND_TEXT,
    KIND_INT,
    KIND_REAL,
    KIND_FLAG,
    KIND_HASH,
    KIND_INTS,
    KIND_REALS,
    KIND_GROUP,
    KIND_END
};

struct row {
    const char *key;
    enum kind kind;
    size_t offset; /* in struct summary; none for groups */
};

static const struct row rows[] = {
#define FIELD(kind, key, meaning) {#key, KIND_##kind, offsetof(struct summary, key)},
#define GROUP(key) {#key, KIND_GROUP, 0},
#define MEMBER(group, key, meaning) {#key, KIND_REAL, offsetof(struct summary, group.key)},
#define END(key) {#key, KIND_END, 0},
#include "record/summary.def"
#undef FIELD
#undef GROUP
#undef MEMBER
#undef END
};
enum { ROWS = sizeof rows / sizeof rows[0], FILE_LIMIT = 64 << 20 };

/* A field by its row, whatever its kind. */
union field {
    void *any;
    const char **text;
    int64_t *integer;
    double *real;
    enum summary_flag *flag;
    struct summary_hash *hash;
    struct summary_ints *ints;
    struct summary_reals *reals;
};

static union field field_of(const struct summary *summary, const struct row *row) {
    return (union field){.any = (char *)(uintptr_t)summary + row->offset};
}

void summary_init(struct summary *summary) {
    *summary = (struct summary){0};
    for (int i = 0; i < ROWS; i++) {
        union field field = field_of(summary, &rows[i]);
        if (rows[i].kind == KIND_INT) *field.integer = SUMMARY_NO_INT;
        if (rows[i].kind == KIND_REAL) *field.real = NAN;
        if (rows[i].kind == KIND_FLAG) *field.flag = SUMMARY_NO_FLAG;
    }
}

void summary_free(struct summary *summary) {
    arena_free(&summary->arena);
    summary_init(summary);
}

const char *summary_text(struct summary *summary, const char *text) {
    return text ? arena_text(&summary->arena, text) : NULL;
}

struct summary_ints summary_ints_new(struct summary *summary, int count) {
    int64_t *item = arena_new(&summary->arena, ((size_t)count + 1) * sizeof *item);
    for (int i = 0; i < count; i++) item[i] = SUMMARY_NO_INT;
    return (struct summary_ints){item, count};
}

int summary_largest(const struct summary_ints *ints) {
    int best = -1;
    for (int i = 0; i < ints->count; i++)
        if (ints->item[i] != SUMMARY_NO_INT && (best < 0 || ints->item[i] > ints->item[best]))
            best = i;
    return best;
}

struct summary_reals summary_reals_new(struct summary *summary, int count) {
    double *item = arena_new(&summary->arena, ((size_t)count + 1) * sizeof *item);
    for (int i = 0; i < count; i++) item[i] = NAN;
    return (struct summary_reals){item, count};
}

static void emit_int(FILE *stream, int64_t value) {
    if (value == SUMMARY_NO_INT)
        fputs("null", stream);
    else
        fprintf(stream, "%" PRId64, value);
}

static void emit_ints(FILE *stream, const struct summary_ints *ints) {
    if (ints->count == 0) fputs("null", stream);
    for (int i = 0; i < ints->count; i++) {
        putc(i ? ',' : '[', stream);
        emit_int(stream, ints->item[i]);
    }
    if (ints->count > 0) putc(']', stream);
}

static void emit_reals(FILE *stream, const struct summary_reals *reals) {
    if (reals->count == 0) fputs("null", stream);
    for (int i = 0; i < reals->count; i++) {
        putc(i ? ',' : '[', stream);
        put_json_number(stream, reals->item[i]);
    }
    if (reals->count > 0) putc(']', stream);
}

static void emit_hash(FILE *stream, const struct summary_hash *hash) {
    if (hash->known)
        fprintf(stream, "\"%016" PRIx64 "\"", hash->value);
    else
        fputs("null", stream);
}

static void emit_flag(FILE *stream, enum summary_flag flag) {
    fputs(flag == SUMMARY_NO_FLAG ? "null" : flag == SUMMARY_ON ? "true" : "false", stream);
}

static void emit_value(FILE *stream, const struct row *row, union field field) {
    switch (row->kind) {
    case KIND_TEXT: put_json_text(stream, *field.text); break;
    case KIND_INT: emit_int(stream, *field.integer); break;
    case KIND_REAL: put_json_number(stream, *field.real); break;
    case KIND_FLAG: emit_flag(stream, *field.flag); break;
    case KIND_HASH: emit_hash(stream, field.hash); break;
    case KIND_INTS: emit_ints(stream, field.ints); break;
    case KIND_REALS: emit_reals(stream, field.reals); break;
    case KIND_GROUP: putc('{', stream); break;
    case KIND_END: break;
    }
}

/* One key a line, groups on one line: a summary is also read by people and by diff. */
void summary_emit(FILE *stream, const struct summary *summary) {
    bool first = true, inside = false;
    putc('{', stream);
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].kind == KIND_END) {
            putc('}', stream);
            inside = false;
            continue;
        }
        fprintf(stream, "%s%s\"%s\": ", first ? "" : ",", inside ? (first ? "" : " ") : "\n  ",
                rows[i].key);
        emit_value(stream, &rows[i], field_of(summary, &rows[i]));
        first = rows[i].kind == KIND_GROUP;
        inside |= first;
    }
    fputs("\n}\n", stream);
}

enum status summary_write(const struct summary *summary, const char *path) {
    struct file_writer writer;
    TRY(file_begin(path, &writer));
    summary_emit(writer.stream, summary);
    return file_commit(&writer);
}

static bool read_ints(struct summary *summary, const json_t *value, struct summary_ints *out) {
    if (!json_is_array(value)) return false;
    struct summary_ints ints = summary_ints_new(summary, (int)json_array_size(value));
    for (int i = 0; i < ints.count; i++) {
        const json_t *item = json_array_get(value, (size_t)i);
        if (!json_is_integer(item) && !json_is_null(item)) return false;
        if (json_is_integer(item)) ints.item[i] = json_integer_value(item);
    }
    *out = ints;
    return true;
}

static bool read_reals(struct summary *summary, const json_t *value, struct summary_reals *out) {
    if (!json_is_array(value)) return false;
    struct summary_reals reals = summary_reals_new(summary, (int)json_array_size(value));
    for (int i = 0; i < reals.count; i++) {
        const json_t *item = json_array_get(value, (size_t)i);
        if (!json_is_number(item) && !json_is_null(item)) return false;
        if (json_is_number(item)) reals.item[i] = json_number_value(item);
    }
    *out = reals;
    return true;
}

static bool read_hash(const json_t *value, struct summary_hash *out) {
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
    *out = (struct summary_hash){true, strtoull(text, NULL, 16)};
    return true;
}

/* False when the value is of another kind than the row's. null is of every kind and leaves the
 * field as new. */
static bool read_value(struct summary *summary, const struct row *row, const json_t *value) {
    union field field = field_of(summary, row);
    if (json_is_null(value)) return true;
    switch (row->kind) {
    case KIND_TEXT: *field.text = summary_text(summary, json_string_value(value)); break;
    case KIND_INT: *field.integer = json_integer_value(value); break;
    case KIND_REAL: *field.real = json_number_value(value); break;
    case KIND_FLAG: *field.flag = json_is_true(value) ? SUMMARY_ON : SUMMARY_OFF; break;
    case KIND_HASH: return read_hash(value, field.hash);
    case KIND_INTS: return read_ints(summary, value, field.ints);
    case KIND_REALS: return read_reals(summary, value, field.reals);
    default: return false;
    }
    return row->kind == KIND_TEXT   ? json_is_string(value)
           : row->kind == KIND_INT  ? json_is_integer(value)
           : row->kind == KIND_REAL ? json_is_number(value)
                                    : json_is_boolean(value);
}

static enum status read_rows(const char *path, const json_t *root, struct summary *summary) {
    const json_t *object = root;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].kind == KIND_END) {
            object = root;
            continue;
        }
        const json_t *value = json_object_get(object, rows[i].key);
        bool alone = object == root && rows[i].kind != KIND_GROUP;
        if (!value && alone) continue; /* an older version measured less */
        if (!value) return fail(STATUS_DATA, "%s: key \"%s\" is missing", path, rows[i].key);
        bool good = rows[i].kind == KIND_GROUP ? json_is_object(value)
                                               : read_value(summary, &rows[i], value);
        if (!good)
            return fail(STATUS_DATA, "%s: the value of \"%s\" is of another kind", path,
                        rows[i].key);
        if (rows[i].kind == KIND_GROUP) object = value;
    }
    return STATUS_OK;
}

enum status summary_read(const char *path, struct summary *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, FILE_LIMIT, &text));
    json_error_t error;
    json_auto_t *root =
        json_loadb((const char *)text.data, text.count, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail(STATUS_DATA, "%s: line %d, column %d: %s", path, error.line, error.column,
                    error.text);
    SCOPED(summary_free) struct summary summary = {0};
    summary_init(&summary);
    TRY(read_rows(path, root, &summary));
    *out = summary;
    summary_init(&summary);
    return STATUS_OK;
}

bool summary_is_ours(const char *path) {
    static const char *const keys[] = {"version", "strategy", "param_hash", "exit"};
    json_auto_t *root = file_is_regular(path) ? json_load_file(path, 0, NULL) : NULL;
    bool is = json_is_object(root);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        is &= !!json_object_get(root, keys[i]);
    return is;
}
