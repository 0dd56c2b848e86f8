/* See json.h. The walk for a line relies on jansson having accepted the text. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/text.h"

enum { DEPTH_MAX = 16 }; /* of places; deeper ones are found at their outer ones */

enum status json_file_parse(const char *name, const char *text, size_t bytes, enum status status,
                            struct json_file *out) {
    json_error_t error;
    struct json_file file = {.name = name, .text = text, .bytes = bytes, .status = status};
    file.root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!file.root)
        return fail(status, "%s:%d:%d: not valid JSON: %s", name, error.line, error.column,
                    error.text);
    *out = file;
    return STATUS_OK;
}

void json_file_free(struct json_file *file) {
    json_decref(file->root);
    *file = (struct json_file){0};
}

/* Control characters below U+0020 are escaped in values already: those that are left are the
 * layout. */
char *json_shown(const json_t *value, size_t flags) {
    char *plain = json_dumps(value, flags), *text = NULL;
    size_t bytes;
    if (!plain) return NULL;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "a stream in memory");
    for (const char *at = plain; *at;) {
        uint32_t code = 0;
        int length = text_utf8(at, &code);
        if (length == 0) length = 1;
        if (code >= 0x7F && code <= 0xFFFF && shown_is_control(code))
            fprintf(out, "\\u%04x", (unsigned)code);
        else
            fwrite(at, 1, (size_t)length, out);
        at += length;
    }
    fclose(out);
    free(plain);
    return text;
}

void json_print(const json_t *value, size_t flags, FILE *out) {
    SCOPED_FREE char *text = json_shown(value, flags);
    if (text) fprintf(out, "%s\n", text);
}

uint32_t json_content_check(const json_t *value) {
    SCOPED_FREE char *text =
        json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    return text ? crc32c(0, text, strlen(text)) : 0;
}

enum status json_check_content(struct json_file *file) {
    const char *stated = json_string_value(json_object_get(file->root, "check"));
    char found[16];
    if (!stated || strlen(stated) != 8)
        return fail(file->status, "%s: has no check: eight hexadecimal digits", file->name);
    char copy[16];
    snprintf(copy, sizeof copy, "%s", stated);
    json_object_del(file->root, "check");
    snprintf(found, sizeof found, "%08x", json_content_check(file->root));
    if (strcmp(copy, found) == 0) return STATUS_OK;
    char quoted[TEXT_QUOTED_BYTES];
    return fail(file->status, "%s: content has checksum %s, it states %s\n  it was changed or cut",
                file->name, found, text_quoted(copy, quoted));
}

struct json_place json_root(const struct json_file *file) {
    return (struct json_place){.file = file, .value = file->root};
}

struct json_place json_member(const struct json_place *parent, const char *key) {
    return (struct json_place){.file = parent->file,
                               .parent = parent,
                               .key = key,
                               .value = json_object_get(parent->value, key)};
}

struct json_place json_item(const struct json_place *parent, size_t index) {
    return (struct json_place){.file = parent->file,
                               .parent = parent,
                               .index = index,
                               .value = json_array_get(parent->value, index)};
}

const char *json_path(const struct json_place *place, char text[JSON_PATH_BYTES]) {
    text[0] = 0;
    if (!place->parent) return text;
    json_path(place->parent, text);
    size_t used = strlen(text), room = JSON_PATH_BYTES - used;
    if (!place->key) {
        snprintf(text + used, room, "[%zu]", place->index);
        return text;
    }
    char quoted[TEXT_QUOTED_BYTES];
    bool plain = *place->key &&
                 strspn(place->key, "abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(place->key);
    snprintf(text + used, room, "%s%s", used ? "." : "",
             plain ? place->key : text_quoted(place->key, quoted));
    return text;
}

/* ---- lines ---- */

struct walk {
    const char *at, *end;
};

static void skip_space(struct walk *walk) {
    while (walk->at < walk->end && strchr(" \t\r\n,:", *walk->at)) walk->at++;
}

static void skip_string(struct walk *walk) {
    for (walk->at++; walk->at < walk->end && *walk->at != '"'; walk->at++)
        if (*walk->at == '\\') walk->at++;
    walk->at++;
}

/* Over a string, a number, or an object or list with all that is in it. */
static void skip_value(struct walk *walk) {
    int depth = 0;
    do {
        skip_space(walk);
        if (walk->at >= walk->end) return;
        if (*walk->at == '"')
            skip_string(walk);
        else if (strchr("{[", *walk->at))
            depth++, walk->at++;
        else if (strchr("}]", *walk->at))
            depth--, walk->at++;
        else
            while (walk->at < walk->end && !strchr(" \t\r\n,:]}", *walk->at)) walk->at++;
    } while (depth > 0);
}

/* From the start of an object to the value of `key`; *found is where the key begins. */
static bool enter_key(struct walk *walk, const char *key, const char **found) {
    size_t length = strlen(key);
    for (walk->at++;;) {
        skip_space(walk);
        if (walk->at >= walk->end || *walk->at != '"') return false;
        const char *begin = walk->at;
        skip_string(walk);
        bool same = (size_t)(walk->at - begin) == length + 2 && !memcmp(begin + 1, key, length);
        skip_space(walk);
        if (same) *found = begin;
        if (same) return true;
        skip_value(walk);
    }
}

static bool enter_item(struct walk *walk, size_t index, const char **found) {
    walk->at++;
    for (size_t i = 0; i < index; i++) skip_value(walk);
    skip_space(walk);
    if (walk->at < walk->end) *found = walk->at;
    return walk->at < walk->end;
}

int json_line(const struct json_place *place) {
    const struct json_place *chain[DEPTH_MAX];
    int depth = 0, line = 1;
    for (; place->parent; place = place->parent) {
        if (depth == DEPTH_MAX) depth = 0; /* the inner ones are given up */
        chain[depth++] = place;
    }
    struct walk walk = {place->file->text, place->file->text + place->file->bytes};
    skip_space(&walk);
    const char *found = walk.at;
    while (depth-- > 0) {
        const struct json_place *next = chain[depth];
        if (!(next->key ? enter_key(&walk, next->key, &found)
                        : enter_item(&walk, next->index, &found)))
            break;
    }
    for (const char *at = place->file->text; at < found && at < walk.end; at++) line += *at == '\n';
    return line;
}

/* ---- messages ---- */

const char *json_value_text(const json_t *value, char text[JSON_VALUE_BYTES]) {
    if (json_is_string(value)) return text_quoted(json_string_value(value), text);
    if (json_is_real(value)) return text_real(json_real_value(value), text);
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6);
    SCOPED_FREE char *dump = value ? json_dumps(value, flags) : NULL;
    snprintf(text, JSON_VALUE_BYTES - 4, "%s", dump ? dump : "nothing");
    if (dump && strlen(dump) > strlen(text)) memcpy(text + strlen(text), "...", 4);
    return text;
}

enum status json_refuse(const struct json_place *place, const char *format, ...) {
    char path[JSON_PATH_BYTES];
    va_list args;
    va_start(args, format);
    SCOPED_FREE char *message = shown_vtext(format, args);
    va_end(args);
    json_path(place, path);
    return fail(place->file->status, "%s:%d: %s%s%-s", place->file->name, json_line(place), path,
                *path ? ": " : "", message);
}

enum status json_refuse_value(const struct json_place *place, const char *takes) {
    char text[JSON_VALUE_BYTES];
    if (!place->value) return json_refuse(place, "is missing\n  it takes %s", takes);
    return json_refuse(place, "%s is not allowed\n  it takes %s",
                       json_value_text(place->value, text), takes);
}

/* ---- values ---- */

enum status json_expect_object(const struct json_place *place) {
    return json_is_object(place->value) ? STATUS_OK : json_refuse_value(place, "an object: {...}");
}

enum status json_expect_list(const struct json_place *place) {
    return json_is_array(place->value) ? STATUS_OK : json_refuse_value(place, "a list: [...]");
}

enum status json_check_keys(const struct json_place *place, const char *const *names, int count) {
    const char *key;
    json_t *value;
    TRY(json_expect_object(place));
    json_object_foreach((json_t *)place->value, key, value) {
        if (text_find(key, names, sizeof *names, (size_t)count) >= 0) continue;
        const char *near = text_nearest(key, names, count);
        struct json_place unknown = json_member(place, key);
        return json_refuse(&unknown, "unknown key%s%s%s", near ? "; did you mean " : "",
                           near ? near : "", near ? "?" : "");
    }
    return STATUS_OK;
}

static enum status refuse_number(const struct json_place *place, const char *what, double low,
                                 double high) {
    char takes[96], from[TEXT_BYTES], to[TEXT_BYTES];
    snprintf(takes, sizeof takes, "%s from %s to %s", what, text_real(low, from),
             text_real(high, to));
    return json_refuse_value(place, takes);
}

enum status json_get_real(const struct json_place *place, double low, double high, double *out) {
    double value = json_number_value(place->value);
    if (!json_is_number(place->value) || !(value >= low && value <= high))
        return refuse_number(place, "a number", low, high);
    *out = value;
    return STATUS_OK;
}

enum status json_get_int(const struct json_place *place, int64_t low, int64_t high, int64_t *out) {
    double real = json_real_value(place->value);
    bool whole = json_is_integer(place->value) ||
                 (json_is_real(place->value) && fabs(real) < 0x1p53 && real == floor(real));
    int64_t value = !whole                          ? 0
                    : json_is_integer(place->value) ? json_integer_value(place->value)
                                                    : (int64_t)real;
    if (!whole || value < low || value > high)
        return refuse_number(place, "a whole number", (double)low, (double)high);
    *out = value;
    return STATUS_OK;
}

enum status json_get_text(const struct json_place *place, const char **out) {
    const char *text = json_string_value(place->value);
    if (!text || !*text || strlen(text) > 4096 || !text_is_clean(text))
        return json_refuse_value(place, "text without control characters, 1 to 4096 bytes");
    *out = text;
    return STATUS_OK;
}

enum status json_get_flag(const struct json_place *place, bool *out) {
    if (!json_is_boolean(place->value)) return json_refuse_value(place, "true or false");
    *out = json_is_true(place->value);
    return STATUS_OK;
}
