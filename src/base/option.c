/* The table as data, and single options: defaults, setting, asking. */
#include "base/option.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option_value.h"
#include "base/option_word.h"
#include "base/text.h"

const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(group_id, c_field, type_id, text, short_name, value, holder, bounds, command_bits,  \
               resuming, needing, about)                                                           \
    {                                                                                              \
        .group = OPTION_GROUP_##group_id,                                                          \
        .type = OPTION_TYPE_##type_id,                                                             \
        .name = text,                                                                              \
        .letter = short_name,                                                                      \
        .initial = value,                                                                          \
        .placeholder = holder,                                                                     \
        .limits = bounds,                                                                          \
        .help = about,                                                                             \
        .commands = command_bits,                                                                  \
        .resume = OPTION_RESUME_##resuming,                                                        \
        .needs = needing,                                                                          \
        .field = offsetof(struct options, c_field),                                                \
        .bytes = sizeof((struct options *)0)->c_field,                                             \
    },
#include "base/options.def"
};

const struct option_command_row option_commands[COMMAND_COUNT] = {
#define COMMAND(ID, word, fewest, largest, words, about)                                           \
    {.name = #word, .arguments = words, .summary = about, .least = fewest, .most = largest},
#include "base/options.def"
};

const struct option_group_row option_groups[OPTION_GROUP_COUNT] = {
#define GROUP(ID, text, heading) {.name = text, .title = heading},
#include "base/options.def"
};

void options_init(enum option_command command, struct options *out) {
    memset(out, 0, sizeof *out);
    out->command = command;
    for (int id = 0; id < OPTION_COUNT; id++) option_reset(out, id);
}

void options_free(struct options *options) {
    arena_free(&options->arena);
    memset(options, 0, sizeof *options);
}

static bool collect_word(const char *word, size_t length, void *context) {
    struct text_table *list = context;
    text_table_cell(list, "%.*s", (int)length, word);
    return false;
}

/* What is allowed; of words as the two lines that a message has for them. A longer list is cut:
 * help has it whole. The caller frees it. */
static char *allowed_lines(const struct option_row *row) {
    enum { INDENT = 11, WIDTH = 80, SHOWN = 105 }; /* behind "  allowed: " */
    char *all = option_value_allowed(row);
    if (row->type != OPTION_TYPE_CHOICE && row->type != OPTION_TYPE_LIST) return all;
    if (strlen(all) > 2 * (WIDTH - INDENT - 4)) {
        size_t end = SHOWN;
        while (end > 0 && all[end] != ',') end--;
        char *some = mem_format("%.*s, ...; --help lists all", (int)end, all);
        free(all);
        all = some;
    }
    char *lines = text_wrapped(all, INDENT, WIDTH);
    free(all);
    return lines;
}

static enum status refuse(const struct option_row *row, const char *text, const char *where) {
    char quoted[TEXT_QUOTED_BYTES];
    SCOPED(text_table_free) struct text_table words = {0};
    if (row->type != OPTION_TYPE_TEXT) option_value_words(row, collect_word, &words);
    const char *near = text_nearest(text, words.cell, (int)words.count);
    if (near && strncmp(text, near, strlen(near)) == 0 && text[strlen(near)] == ',')
        near = NULL; /* a list that repeats itself: its words are right */
    SCOPED_FREE char *answer =
        option_value_answer((enum option_id)(row - option_rows), text,
                            *where == '-' ? OPTION_FORM_ARGUMENT : OPTION_FORM_KEY);
    if (!answer && near) answer = mem_format("did you mean %s?", near);
    SCOPED_FREE char *allowed = allowed_lines(row);
    return fail(STATUS_USAGE, "%s: %s is not allowed%s%s\n  allowed: %-s", where,
                text_quoted(text, quoted), answer ? "; " : "", answer ? answer : "", allowed);
}

enum status option_set(struct options *options, enum option_id id, const char *text,
                       const char *where, enum option_source source) {
    const struct option_row *row = &option_rows[id];
    if (!option_value_parse(row, text, &options->arena, (char *)options + row->field))
        return refuse(row, text, where);
    options->source[id] = source;
    return STATUS_OK;
}

void option_reset(struct options *options, enum option_id id) {
    const struct option_row *row = &option_rows[id];
    memset((char *)options + row->field, 0, row->bytes);
    options->source[id] = OPTION_UNSET;
    if (!*row->initial || *row->initial == '(') return;
    enum status status = option_set(options, id, row->initial, row->name, OPTION_DEFAULT);
    CHECK(status == STATUS_OK, "default of option %s", row->name);
}

bool option_is_set(const struct options *options, enum option_id id) {
    return options->source[id] != OPTION_UNSET;
}

bool option_is_given(const struct options *options, enum option_id id) {
    return options->source[id] >= OPTION_FROM_FILE;
}

void option_resolve(struct options *options, enum option_id id) {
    options->source[id] = OPTION_RESOLVED;
}

void option_derive(struct options *options, enum option_id id) {
    options->source[id] = OPTION_DERIVED;
}

bool option_find(const char *name, enum option_id *out) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (strcmp(option_rows[id].name, name) != 0) continue;
        *out = id;
        return true;
    }
    return false;
}

const char *option_nearest(const char *name, unsigned commands) {
    const char *list[OPTION_COUNT];
    int count = 0;
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].commands & commands) list[count++] = option_rows[id].name;
    }
    return text_nearest(name, list, count);
}

char *option_text(const struct options *options, enum option_id id) {
    return option_value_format(&option_rows[id], (const char *)options + option_rows[id].field);
}

const char *option_string(const struct options *options, enum option_id id) {
    const char *text;
    CHECK(option_rows[id].type == OPTION_TYPE_TEXT, "--%s is no text", option_rows[id].name);
    if (!option_is_set(options, id)) return NULL;
    memcpy(&text, (const char *)options + option_rows[id].field, sizeof text);
    return text;
}

char *option_allowed(enum option_id id) {
    return option_value_allowed(&option_rows[id]);
}
