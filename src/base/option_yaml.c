/* Options from and to YAML. A file is one mapping of option names to values; a value may also be a
 * mapping named after a group, holding options of that group:
 *
 *     model: lenet
 *     optimizer: {lr: 0.05, no-decay: [bias]}
 *
 * Read as a stream of libyaml events, never as a document tree, so that nothing is built from input
 * that is refused anyway: anchors and aliases (the way to make a small file huge), tags, several
 * documents, and deeper nesting. Every message begins with file:line:column. */
#include "base/option.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/log.h"
#include "base/text.h"

struct reader {
    const char *name;
    struct options *options;
    yaml_parser_t parser;
    yaml_event_t event;
    int seen_line[OPTION_COUNT]; /* 0: not yet */
};

enum { NO_GROUP = -1 };

#define REFUSE(reader, mark, format, ...)                                                          \
    fail(STATUS_USAGE, "%s:%zu:%zu: " format, (reader)->name, (mark).line + 1, (mark).column + 1,  \
         __VA_ARGS__)

static enum status refuse_syntax(const struct reader *reader) {
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return fail(STATUS_MEMORY, "%s: out of memory", reader->name);
    if (parser->error == YAML_READER_ERROR)
        return fail(STATUS_USAGE, "%s: byte %zu: not YAML text: %s", reader->name,
                    parser->problem_offset, parser->problem);
    return REFUSE(reader, parser->problem_mark, "not valid YAML: %s",
                  parser->problem ? parser->problem : "?");
}

/* Moves on to the next event. Anchors, aliases and tags end here. */
static enum status advance(struct reader *reader) {
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
        return REFUSE(reader, event->start_mark, "%s are not allowed in options",
                      anchor ? "anchors and aliases" : "tags");
    return STATUS_OK;
}

static bool is_null(const yaml_event_t *event) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp((const char *)event->data.scalar.value, words[i]) == 0) return true;
    }
    return false;
}

static bool has_zero_byte(const yaml_event_t *event) {
    return strlen((const char *)event->data.scalar.value) != event->data.scalar.length;
}

static enum status set_value(struct reader *reader, yaml_mark_t mark, enum option_id id,
                             const char *text) {
    char *where = mem_format("%s:%zu:%zu: %s", reader->name, mark.line + 1, mark.column + 1,
                             option_rows[id].name);
    enum status status = option_set(reader->options, id, text, where, OPTION_FROM_FILE);
    free(where);
    return status;
}

/* The items of a sequence as "a,b"; the event at hand is the sequence's start. */
static enum status read_sequence(struct reader *reader, enum option_id id) {
    yaml_mark_t mark = reader->event.start_mark;
    if (option_rows[id].type != OPTION_TYPE_LIST)
        return REFUSE(reader, mark, "%s takes one value, not a list", option_rows[id].name);
    char *text = mem_text("");
    enum status status;
    for (;;) {
        TRY_GOTO(advance(reader), end);
        if (reader->event.type == YAML_SEQUENCE_END_EVENT) break;
        if (reader->event.type != YAML_SCALAR_EVENT || has_zero_byte(&reader->event) ||
            strlen(text) > 4096) {
            status = REFUSE(reader, reader->event.start_mark, "%s takes a short list of words",
                            option_rows[id].name);
            goto end;
        }
        char *longer = mem_format("%s%s%s", text, *text ? "," : "",
                                  (const char *)reader->event.data.scalar.value);
        free(text);
        text = longer;
    }
    status = set_value(reader, mark, id, *text ? text : "none");
end:
    free(text);
    return status;
}

/* The event at hand is the value of option `id`. */
static enum status read_value(struct reader *reader, enum option_id id) {
    const yaml_event_t *event = &reader->event;
    const char *name = option_rows[id].name;
    if (event->type == YAML_SEQUENCE_START_EVENT) return read_sequence(reader, id);
    if (event->type != YAML_SCALAR_EVENT)
        return REFUSE(reader, event->start_mark, "%s takes one value, not a mapping", name);
    if (is_null(event))
        return REFUSE(reader, event->start_mark, "%s has no value\n  give one, or remove the line",
                      name);
    if (has_zero_byte(event))
        return REFUSE(reader, event->start_mark, "%s: the value holds a zero byte", name);
    return set_value(reader, event->start_mark, id, (const char *)event->data.scalar.value);
}

static int find_group(const char *name) {
    for (int group = 0; group < OPTION_GROUP_COUNT; group++) {
        if (strcmp(option_groups[group].name, name) == 0) return group;
    }
    return NO_GROUP;
}

static enum status refuse_key(const struct reader *reader, yaml_mark_t mark, const char *key) {
    char quoted[TEXT_QUOTED_BYTES];
    const char *near = option_nearest(key, COMMAND_ALL);
    return REFUSE(reader, mark, "%s: unknown option%s%s%s", text_quoted(key, quoted),
                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static enum status check_key(struct reader *reader, yaml_mark_t mark, int group,
                             enum option_id id) {
    const struct option_row *row = &option_rows[id];
    if (row->commands & OPTION_NOT_IN_FILE)
        return REFUSE(reader, mark, "%s is not allowed in a file\n  give --%s on the command line",
                      row->name, row->name);
    if (group != NO_GROUP && row->group != (enum option_group)group)
        return REFUSE(reader, mark, "%s is an option of the group %s, not of %s", row->name,
                      option_groups[row->group].name, option_groups[group].name);
    if (reader->seen_line[id])
        return REFUSE(reader, mark, "%s is given twice, first in line %d", row->name,
                      reader->seen_line[id]);
    reader->seen_line[id] = (int)mark.line + 1;
    return STATUS_OK;
}

static enum status read_mapping(struct reader *reader, int group);

/* The event at hand is the value that belongs to `key`. */
static enum status read_pair(struct reader *reader, yaml_mark_t mark, const char *key, int group) {
    int inner = group == NO_GROUP ? find_group(key) : NO_GROUP;
    if (inner != NO_GROUP && reader->event.type == YAML_MAPPING_START_EVENT)
        return read_mapping(reader, inner);
    enum option_id id;
    if (!option_find(key, &id)) {
        if (inner == NO_GROUP) return refuse_key(reader, mark, key);
        return REFUSE(reader, mark, "%s is a group of options: a mapping is expected", key);
    }
    TRY(check_key(reader, mark, group, id));
    return read_value(reader, id);
}

/* The event at hand is the mapping's start; at return it is the mapping's end. */
static enum status read_mapping(struct reader *reader, int group) {
    for (;;) {
        TRY(advance(reader));
        yaml_mark_t mark = reader->event.start_mark;
        if (reader->event.type == YAML_MAPPING_END_EVENT) return STATUS_OK;
        if (reader->event.type != YAML_SCALAR_EVENT || has_zero_byte(&reader->event))
            return REFUSE(reader, mark, "%s", "the name of an option is expected");
        char *key = mem_text((const char *)reader->event.data.scalar.value);
        enum status status = advance(reader);
        if (status == STATUS_OK) status = read_pair(reader, mark, key, group);
        free(key);
        TRY(status);
    }
}

static enum status read_stream(struct reader *reader) {
    TRY(advance(reader)); /* stream start */
    TRY(advance(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) return STATUS_OK; /* nothing but comments */
    TRY(advance(reader));
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return REFUSE(reader, reader->event.start_mark, "%s",
                      "lines of the form \"option: value\" are expected");
    TRY(read_mapping(reader, NO_GROUP));
    TRY(advance(reader)); /* document end */
    TRY(advance(reader));
    if (reader->event.type != YAML_STREAM_END_EVENT)
        return REFUSE(reader, reader->event.start_mark, "%s", "a second document; one is allowed");
    return STATUS_OK;
}

enum status options_parse_yaml(const char *name, const void *data, size_t count,
                               struct options *options) {
    struct reader reader = {.name = name, .options = options};
    if (!yaml_parser_initialize(&reader.parser))
        return fail(STATUS_MEMORY, "%s: out of memory", name);
    yaml_parser_set_input_string(&reader.parser, data, count);
    enum status status = read_stream(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    return status;
}

/* Whether YAML reads the bare text as the same text: option values hold no control characters. */
static bool is_plain(const char *text) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_";
    if (!strchr(safe, text[0]) || strcasecmp(text, "null") == 0) return false;
    for (; *text; text++) {
        if (!strchr(safe, *text) && !strchr("=,%+-", *text) && !(*text == ':' && text[1]))
            return false;
    }
    return true;
}

static void write_scalar(FILE *out, const char *text) {
    if (is_plain(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_option(FILE *out, const struct options *options, enum option_id id) {
    char *text = option_text(options, id);
    const char *remark = options->source[id] == OPTION_DERIVED ? "follows from the others"
                         : option_rows[id].commands & OPTION_NOT_KEPT
                             ? "of this start, not of the run"
                             : NULL;
    fprintf(out, "%s%s: ", remark ? "# " : "", option_rows[id].name);
    write_scalar(out, text);
    if (remark) fprintf(out, " (%s)", remark);
    fputc('\n', out);
    free(text);
}

static bool is_written(const struct options *options, enum option_id id) {
    unsigned commands = option_rows[id].commands;
    return option_is_set(options, id) && !(commands & OPTION_NOT_IN_FILE) &&
           ((commands & (unsigned)options->command) || option_is_given(options, id));
}

char *options_write_yaml(const struct options *options) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    CHECK(out, "a stream in memory");
    fprintf(out, "# Options of stretto %s, all resolved. To use them again: --config THIS_FILE\n",
            option_commands[__builtin_ctz(options->command)].name);
    int group = NO_GROUP;
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (!is_written(options, id)) continue;
        if (group != (int)option_rows[id].group)
            fprintf(out, "\n# %s\n", option_groups[option_rows[id].group].title);
        group = (int)option_rows[id].group;
        write_option(out, options, id);
    }
    fclose(out);
    return text;
}
