/* See yaml.h. */
#include "base/yaml.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

enum { TEXT_LIMIT = 64 };

enum status yaml_open(const char *name, const void *data, size_t count, struct arena *arena,
                      struct yaml_reader *out) {
    *out = (struct yaml_reader){.name = name, .arena = arena};
    if (!yaml_parser_initialize(&out->parser))
        return fail(STATUS_MEMORY, "%s: out of memory", name);
    yaml_parser_set_input_string(&out->parser, data, count);
    return STATUS_OK;
}

void yaml_close(struct yaml_reader *reader) {
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
}

static enum status refuse_syntax(const struct yaml_reader *reader) {
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return fail(STATUS_MEMORY, "%s: out of memory", reader->name);
    if (parser->error == YAML_READER_ERROR)
        return fail(STATUS_USAGE, "%s: byte %zu: not YAML text: %s", reader->name,
                    parser->problem_offset, parser->problem);
    return YAML_REFUSE(reader, parser->problem_mark, "not valid YAML: %s",
                       parser->problem ? parser->problem : "?");
}

enum status yaml_next(struct yaml_reader *reader) {
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event)) return refuse_syntax(reader);
    const yaml_event_t *event = &reader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT) anchor = event->data.alias.anchor;
    if (event->type == YAML_SCALAR_EVENT)
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
    if (event->type == YAML_MAPPING_START_EVENT)
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
    if (event->type == YAML_SEQUENCE_START_EVENT)
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
    if (anchor || tag)
        return YAML_REFUSE(reader, event->start_mark, "%s are not allowed",
                           anchor ? "anchors and aliases" : "tags");
    return STATUS_OK;
}

enum status yaml_root(struct yaml_reader *reader) {
    TRY(yaml_next(reader)); /* stream start */
    TRY(yaml_next(reader)); /* document start, or stream end */
    return reader->event.type == YAML_STREAM_END_EVENT ? STATUS_OK : yaml_next(reader);
}

enum status yaml_end(struct yaml_reader *reader) {
    TRY(yaml_next(reader)); /* document end */
    TRY(yaml_next(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) return STATUS_OK;
    return YAML_REFUSE(reader, reader->event.start_mark, "%s", "a second document; one is allowed");
}

static bool is_null(const yaml_event_t *event) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           TEXT_FIND((const char *)event->data.scalar.value, words) >= 0;
}

bool yaml_has_zero_byte(const struct yaml_reader *reader) {
    const yaml_event_t *event = &reader->event;
    return strlen((const char *)event->data.scalar.value) != event->data.scalar.length;
}

enum status yaml_scalar(struct yaml_reader *reader, const char *field, const char **out) {
    const yaml_event_t *event = &reader->event;
    if (event->type != YAML_SCALAR_EVENT)
        return YAML_REFUSE(reader, event->start_mark, "%s takes one value, not a %s", field,
                           event->type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping");
    if (is_null(event))
        return YAML_REFUSE(reader, event->start_mark,
                           "%s has no value\n  give one, or remove the line", field);
    if (yaml_has_zero_byte(reader))
        return YAML_REFUSE(reader, event->start_mark, "%s: the value holds a zero byte", field);
    *out = (const char *)event->data.scalar.value;
    return STATUS_OK;
}

/* ---- mappings and lists ---- */

static void join_names(const struct yaml_key *keys, int count, char *text, size_t bytes) {
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        size_t used = strlen(text);
        bool fits = used + strlen(keys[i].name) + sizeof ", , ..." < bytes;
        snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", fits ? keys[i].name : "...");
        if (!fits) break;
    }
}

static enum status refuse_key(const struct yaml_reader *reader, const char *what,
                              const struct yaml_key *keys, int count) {
    const char *names[YAML_KEYS_MAX], *key = (const char *)reader->event.data.scalar.value;
    char quoted[TEXT_QUOTED_BYTES], list[256];
    for (int i = 0; i < count; i++) names[i] = keys[i].name;
    const char *near = text_nearest(key, names, count);
    join_names(keys, count, list, sizeof list);
    return YAML_REFUSE(reader, reader->event.start_mark,
                       "%s: unknown key of %s%s%s%s\n  its keys are: %s", text_quoted(key, quoted),
                       what, near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                       list);
}

/* The row of the key at hand, with the line it stands in noted. */
static enum status find_key(const struct yaml_reader *reader, const char *what,
                            const struct yaml_key *keys, int count, int *line,
                            const struct yaml_key **out) {
    const yaml_event_t *event = &reader->event;
    if (event->type != YAML_SCALAR_EVENT || yaml_has_zero_byte(reader))
        return YAML_REFUSE(reader, event->start_mark, "the name of a key of %s is expected", what);
    int at = 0;
    while (at < count && strcmp(keys[at].name, (const char *)event->data.scalar.value) != 0) at++;
    if (at == count) return refuse_key(reader, what, keys, count);
    if (line[at])
        return YAML_REFUSE(reader, event->start_mark, "%s is given twice, first in line %d",
                           keys[at].name, line[at]);
    line[at] = (int)event->start_mark.line + 1;
    *out = &keys[at];
    return STATUS_OK;
}

static enum status check_required(const struct yaml_reader *reader, yaml_mark_t mark,
                                  const char *what, const struct yaml_key *keys, int count,
                                  const int *line) {
    for (int i = 0; i < count; i++) {
        if (keys[i].required && !line[i])
            return YAML_REFUSE(reader, mark, "%s without the key %s", what, keys[i].name);
    }
    return STATUS_OK;
}

enum status yaml_mapping(struct yaml_reader *reader, const char *what, const struct yaml_key *keys,
                         int count, void *into) {
    int line[YAML_KEYS_MAX] = {0};
    CHECK(count <= YAML_KEYS_MAX, "%d keys", count);
    yaml_mark_t mark = reader->event.start_mark;
    if (reader->event.type != YAML_MAPPING_START_EVENT) {
        char list[256];
        join_names(keys, count, list, sizeof list);
        return YAML_REFUSE(reader, mark, "%s is a mapping\n  its keys are: %s", what, list);
    }
    for (;;) {
        const struct yaml_key *key = NULL;
        TRY(yaml_next(reader));
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return check_required(reader, mark, what, keys, count, line);
        TRY(find_key(reader, what, keys, count, line, &key));
        TRY(yaml_next(reader));
        TRY(key->read(reader, key, into));
    }
}

enum status yaml_list(struct yaml_reader *reader, const char *what,
                      enum status (*read)(struct yaml_reader *reader, void *into), void *into) {
    if (reader->event.type != YAML_SEQUENCE_START_EVENT)
        return YAML_REFUSE(reader, reader->event.start_mark, "%s is a list: - ..., or [..., ...]",
                           what);
    for (;;) {
        TRY(yaml_next(reader));
        if (reader->event.type == YAML_SEQUENCE_END_EVENT) return STATUS_OK;
        TRY(read(reader, into));
    }
}

/* ---- values ---- */

static enum status refuse_value(const struct yaml_reader *reader, const struct yaml_key *key,
                                const char *text, const char *takes) {
    char quoted[TEXT_QUOTED_BYTES], low[TEXT_BYTES], high[TEXT_BYTES];
    return YAML_REFUSE(reader, reader->event.start_mark,
                       "%s: %s is not allowed\n  it takes %s from %s to %s", key->name,
                       text_quoted(text, quoted), takes, text_real(key->low, low),
                       text_real(key->high, high));
}

enum status yaml_read_real(struct yaml_reader *reader, const struct yaml_key *key, void *into) {
    const char *text;
    double value;
    TRY(yaml_scalar(reader, key->name, &text));
    if (!number_real(text, &value) || value < key->low || value > key->high)
        return refuse_value(reader, key, text, "a number");
    *(double *)((char *)into + key->offset) = value;
    return STATUS_OK;
}

enum status yaml_read_int(struct yaml_reader *reader, const struct yaml_key *key, void *into) {
    const char *text;
    int64_t value;
    TRY(yaml_scalar(reader, key->name, &text));
    if (!number_int(text, &value) || (double)value < key->low || (double)value > key->high)
        return refuse_value(reader, key, text, "a whole number");
    *(int64_t *)((char *)into + key->offset) = value;
    return STATUS_OK;
}

enum status yaml_read_text(struct yaml_reader *reader, const struct yaml_key *key, void *into) {
    const char *text;
    char quoted[TEXT_QUOTED_BYTES];
    TRY(yaml_scalar(reader, key->name, &text));
    if (!*text || strlen(text) > TEXT_LIMIT || !text_is_clean(text))
        return YAML_REFUSE(reader, reader->event.start_mark,
                           "%s: %s is not allowed\n  it takes text in UTF-8 without control "
                           "characters, 1 to %d bytes",
                           key->name, text_quoted(text, quoted), TEXT_LIMIT);
    *(const char **)((char *)into + key->offset) = arena_text(reader->arena, text);
    return STATUS_OK;
}
