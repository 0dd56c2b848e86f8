/* Options from and to YAML. A file is one mapping of option names to values; a value may also be a
 * mapping named after a group, holding options of that group:
 *
 *     model: lenet
 *     optimizer: {lr: 0.05, no-decay: [bias]}
 *
 * Read by the events of base/yaml.h: what that refuses, and deeper nesting, is refused here. */
#include "base/option.h"

#include <stdlib.h>
#include <string.h>

#include "base/option_word.h"
#include "base/text.h"
#include "base/yaml.h"

struct reader {
    struct yaml_reader yaml;
    struct options *options;
    const char *program;         /* that wrote the file, and has names of its own; NULL: not said */
    int seen_line[OPTION_COUNT]; /* 0: not yet */
};

enum { NO_GROUP = -1 };

#define REFUSE(reader, mark, ...) YAML_REFUSE(&(reader)->yaml, mark, __VA_ARGS__)

static enum status advance(struct reader *reader) {
    return yaml_next(&reader->yaml);
}

/* Whether no table of this program has the name that a value begins with. */
static bool is_foreign(enum option_id id, const char *text) {
    const struct option_row *row = &option_rows[id];
    struct option_word word;
    size_t length = row->type == OPTION_TYPE_TEXT ? strcspn(text, ":") : strlen(text);
    if (row->registry == OPTION_REGISTRY_none) return false;
    for (int i = 0; option_registry_word(row->registry, i, &word); i++)
        if (strlen(word.name) == length && strncmp(text, word.name, length) == 0) return false;
    return true;
}

static enum status set_value(struct reader *reader, yaml_mark_t mark, enum option_id id,
                             const char *text) {
    char quoted[TEXT_QUOTED_BYTES];
    if (reader->program && is_foreign(id, text))
        return REFUSE(reader, mark,
                      "%s %s is of the program %s, not of this one\n  use that program in place "
                      "of this one, with the same arguments",
                      option_rows[id].name, text_quoted(text, quoted), reader->program);
    SCOPED_FREE char *where = mem_format("%s:%zu:%zu: %s", reader->yaml.name, mark.line + 1,
                                         mark.column + 1, option_rows[id].name);
    return option_set(reader->options, id, text, where, OPTION_FROM_FILE);
}

/* The items of a sequence as "a,b"; the event at hand is the sequence's start. */
static enum status read_sequence(struct reader *reader, enum option_id id) {
    yaml_mark_t mark = reader->yaml.event.start_mark;
    if (option_rows[id].type != OPTION_TYPE_LIST && option_rows[id].type != OPTION_TYPE_NAMES)
        return REFUSE(reader, mark, "%s takes one value, not a list", option_rows[id].name);
    SCOPED_FREE char *text = mem_text("");
    for (;;) {
        TRY(advance(reader));
        if (reader->yaml.event.type == YAML_SEQUENCE_END_EVENT) break;
        if (reader->yaml.event.type != YAML_SCALAR_EVENT || yaml_has_zero_byte(&reader->yaml) ||
            strlen(text) > 4096)
            return REFUSE(reader, reader->yaml.event.start_mark, "%s takes a short list of words",
                          option_rows[id].name);
        char *longer = mem_format("%s%s%s", text, *text ? "," : "",
                                  (const char *)reader->yaml.event.data.scalar.value);
        free(text);
        text = longer;
    }
    return set_value(reader, mark, id, *text ? text : "none");
}

/* The event at hand is the value of option `id`. */
static enum status read_value(struct reader *reader, enum option_id id) {
    const char *text;
    yaml_mark_t mark = reader->yaml.event.start_mark;
    if (reader->yaml.event.type == YAML_SEQUENCE_START_EVENT) return read_sequence(reader, id);
    TRY(yaml_scalar(&reader->yaml, option_rows[id].name, &text));
    return set_value(reader, mark, id, text);
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
    SCOPED_FREE char *answer = option_word_answer(key, COMMAND_ALL, OPTION_FORM_KEY);
    if (!answer && near) answer = mem_format("did you mean %s?", near);
    return REFUSE(reader, mark, "%s: unknown option%s%s", text_quoted(key, quoted),
                  answer ? "; " : "", answer ? answer : "");
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
    if (inner != NO_GROUP && reader->yaml.event.type == YAML_MAPPING_START_EVENT)
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
        yaml_mark_t mark = reader->yaml.event.start_mark;
        if (reader->yaml.event.type == YAML_MAPPING_END_EVENT) return STATUS_OK;
        if (reader->yaml.event.type != YAML_SCALAR_EVENT || yaml_has_zero_byte(&reader->yaml))
            return REFUSE(reader, mark, "%s", "the name of an option is expected");
        SCOPED_FREE char *key = mem_text((const char *)reader->yaml.event.data.scalar.value);
        TRY(advance(reader));
        TRY(read_pair(reader, mark, key, group));
    }
}

static enum status read_stream(struct reader *reader) {
    TRY(yaml_root(&reader->yaml));
    if (reader->yaml.event.type == YAML_STREAM_END_EVENT) return STATUS_OK; /* only comments */
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
        return REFUSE(reader, reader->yaml.event.start_mark, "%s",
                      "lines of the form \"option: value\" are expected");
    TRY(read_mapping(reader, NO_GROUP));
    return yaml_end(&reader->yaml);
}

/* What the line that begins with OPTION_PROGRAM_LINE names; NULL: there is none. */
static const char *find_program(const char *data, size_t count, struct arena *arena) {
    size_t begin = strlen(OPTION_PROGRAM_LINE);
    for (const char *line = data, *end = data + count; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((stop ? stop : end) - line);
        if (length > begin && memcmp(line, OPTION_PROGRAM_LINE, begin) == 0) {
            char *path = mem_format("%.*s", (int)(length - begin), line + begin);
            const char *kept = text_is_clean(path) ? arena_text(arena, path) : NULL;
            free(path);
            return kept;
        }
        line += length + 1;
    }
    return NULL;
}

enum status options_parse_yaml(const char *name, const void *data, size_t count,
                               struct options *options) {
    struct reader reader = {.options = options,
                            .program = find_program(data, count, &options->arena)};
    TRY(yaml_open(name, data, count, &options->arena, &reader.yaml));
    enum status status = read_stream(&reader);
    yaml_close(&reader.yaml);
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
    SCOPED_FREE char *text = option_text(options, id);
    const char *remark = options->source[id] == OPTION_DERIVED ? "follows from the others"
                         : option_rows[id].commands & OPTION_NOT_KEPT
                             ? "of this start, not of the run"
                             : NULL;
    fprintf(out, "%s%s: ", remark ? "# " : "", option_rows[id].name);
    write_scalar(out, text);
    if (remark) fprintf(out, " (%s)", remark);
    fputc('\n', out);
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
