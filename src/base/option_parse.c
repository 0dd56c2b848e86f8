/* The command line: --name value, --name=value, -n value, -nvalue, --flag, --flag on|off, and --
 * before arguments that begin with a dash. Names are never abbreviated, so that a new option cannot
 * change an old script; an option given twice takes its last value, so that scripts can append.
 *
 * All arguments are read before any is applied, because --config comes in between. */
#include "base/option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/option_word.h"
#include "base/text.h"

enum { CONFIG_LIMIT_BYTES = 1 << 20 };

struct assignment {
    enum option_id id;
    const char *name; /* as typed: "--lr" or "-n" */
    const char *value;
};

struct parser {
    enum option_command command;
    int argc, next;
    char *const *argv;
    struct assignment *assignment;
    int assignment_count;
    const char **argument;
    int argument_count;
};

static const struct option_command_row *command_row(enum option_command command) {
    return &option_commands[__builtin_ctz(command)];
}

/* "-n, --local-ranks", or NULL where no name is near; the caller frees it. */
static char *near_option(const char *name, enum option_command command) {
    const char *near = option_nearest(name, command);
    enum option_id id;
    if (!near) return NULL;
    if (!option_find(near, &id) || !option_rows[id].letter)
        return mem_format("did you mean --%s?", near);
    return mem_format("did you mean -%c, --%s?", option_rows[id].letter, near);
}

static enum status unknown_option(const struct parser *parser, const char *typed) {
    char quoted[TEXT_QUOTED_BYTES];
    const char *name = typed + strspn(typed, "-");
    SCOPED_FREE char *answer = option_word_answer(name, parser->command, OPTION_FORM_ARGUMENT);
    if (!answer) answer = near_option(name, parser->command);
    text_quoted(typed, quoted);
    return answer ? fail(STATUS_USAGE, "%s: unknown option; %s", quoted, answer)
                  : fail(STATUS_USAGE, "%s: unknown option\n  all of them: stretto %s --help",
                         quoted, command_row(parser->command)->name);
}

static enum status foreign_option(const struct parser *parser, enum option_id id) {
    char *list = mem_text("");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (!(option_rows[id].commands & (1u << i))) continue;
        char *longer = mem_format("%s%s%s", list, *list ? ", " : "", option_commands[i].name);
        free(list);
        list = longer;
    }
    enum status status = fail(STATUS_USAGE, "--%s is not an option of %s, but of: %s",
                              option_rows[id].name, command_row(parser->command)->name, list);
    free(list);
    return status;
}

static bool find_letter(char letter, enum option_id *out) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].letter != letter) continue;
        *out = id;
        return true;
    }
    return false;
}

/* Finds the option of an argument; `value` becomes what follows "=" or the letter, or NULL. */
static enum status find_option(const struct parser *parser, const char *typed, enum option_id *id,
                               const char **value) {
    bool found;
    if (typed[1] != '-') {
        found = !isalpha((unsigned char)typed[2]) && find_letter(typed[1], id); /* -np is no -n p */
        *value = typed[1] && typed[2] ? typed + 2 : NULL;
    } else {
        const char *equals = strchr(typed, '=');
        SCOPED_FREE char *name = mem_format(
            "%.*s", (int)(equals ? equals - typed - 2 : (long)strlen(typed + 2)), typed + 2);
        found = option_find(name, id);
        *value = equals ? equals + 1 : NULL;
    }
    if (!found) return unknown_option(parser, typed);
    if (!(option_rows[*id].commands & (unsigned)parser->command))
        return foreign_option(parser, *id);
    return STATUS_OK;
}

static bool is_on_or_off(const char *text) {
    return text && (strcmp(text, "on") == 0 || strcmp(text, "off") == 0);
}

/* For a text the placeholder says more than the characters that are allowed. */
static enum status lacks_value(const char *typed, enum option_id id) {
    const struct option_row *row = &option_rows[id];
    if (row->type == OPTION_TYPE_TEXT)
        return fail(STATUS_USAGE, "%s needs a value: %s %s", typed, typed, row->placeholder);
    SCOPED_FREE char *allowed = option_allowed(id);
    return fail(STATUS_USAGE, "%s needs a value\n  allowed: %-s", typed, allowed);
}

static enum status parse_option(struct parser *parser) {
    const char *typed = parser->argv[parser->next++];
    const char *following = parser->next < parser->argc ? parser->argv[parser->next] : NULL;
    struct assignment assignment = {.name = typed};
    TRY(find_option(parser, typed, &assignment.id, &assignment.value));
    const struct option_row *row = &option_rows[assignment.id];
    bool flag = row->type == OPTION_TYPE_FLAG;
    if (flag && assignment.value && typed[1] != '-') return unknown_option(parser, typed); /* -hx */
    bool takes_next =
        flag ? is_on_or_off(following) : following && strncmp(following, "--", 2) != 0;
    if (!assignment.value && takes_next)
        assignment.value = parser->argv[parser->next++];
    else if (!assignment.value && flag)
        assignment.value = "on";
    if (!assignment.value) return lacks_value(typed, assignment.id);
    parser->assignment[parser->assignment_count++] = assignment;
    return STATUS_OK;
}

static enum status parse_arguments(struct parser *parser) {
    bool only_arguments = false;
    while (parser->next < parser->argc) {
        const char *typed = parser->argv[parser->next];
        if (!only_arguments && strcmp(typed, "--") == 0) {
            only_arguments = true;
            parser->next++;
        } else if (!only_arguments && typed[0] == '-' && typed[1]) {
            TRY(parse_option(parser));
        } else {
            parser->argument[parser->argument_count++] = typed;
            parser->next++;
        }
    }
    return STATUS_OK;
}

/* A file or a folder without its option: "check FILE", "train --resume DIR", "predict RUN FILE".
 * NULL: it is none, or the command reads none. */
static const char *option_of_file(const struct parser *parser, const char *typed) {
    const char *dot = strrchr(typed, '.');
    bool yaml = dot && (strcmp(dot, ".yml") == 0 || strcmp(dot, ".yaml") == 0);
    struct stat info;
    if (stat(typed, &info) != 0) return NULL;
    const struct {
        bool fits;
        enum option_id id;
        const char *words;
    } ways[] = {{true, OPTION_input, "--input"},
                {S_ISDIR(info.st_mode), OPTION_resume, "--resume --out"},
                {yaml, OPTION_config, "--config"},
                {!S_ISDIR(info.st_mode), OPTION_program, "--program"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (ways[i].fits && option_rows[ways[i].id].commands & (unsigned)parser->command)
            return ways[i].words;
    return NULL;
}

static enum status check_argument_count(const struct parser *parser) {
    const struct option_command_row *row = command_row(parser->command);
    char quoted[TEXT_QUOTED_BYTES];
    const char *extra = parser->argument_count > row->most ? parser->argument[row->most] : NULL;
    const char *option = extra ? option_of_file(parser, extra) : NULL;
    if (option)
        return fail(STATUS_USAGE, "%s: unexpected argument\n  did you mean: stretto %s %s %s",
                    text_quoted(extra, quoted), row->name, option, extra);
    if (extra)
        return fail(STATUS_USAGE, "%s: unexpected argument\n  usage: stretto %s [options]%s%s",
                    text_quoted(extra, quoted), row->name, *row->arguments ? " " : "",
                    row->arguments);
    if (parser->argument_count < row->least)
        return fail(STATUS_USAGE, "%s needs: %s\n  more: stretto %s --help", row->name,
                    row->arguments, row->name);
    return STATUS_OK;
}

static const char *last_value(const struct parser *parser, enum option_id id) {
    for (int i = parser->assignment_count; i-- > 0;) {
        if (parser->assignment[i].id == id) return parser->assignment[i].value;
    }
    return NULL;
}

static enum status read_config(const char *path, struct options *options) {
    SCOPED(bytes_free) struct bytes bytes = {0};
    TRY(file_read(path, CONFIG_LIMIT_BYTES, &bytes));
    return options_parse_yaml(path, bytes.data, bytes.count, options);
}

static enum status apply(const struct parser *parser, struct options *options) {
    const char *config = last_value(parser, OPTION_config), *help = last_value(parser, OPTION_help);
    if (help) return option_set(options, OPTION_help, help, "--help", OPTION_FROM_COMMAND_LINE);
    TRY(check_argument_count(parser));
    if (config) TRY(read_config(config, options));
    for (int i = 0; i < parser->assignment_count; i++) {
        const struct assignment *one = &parser->assignment[i];
        SCOPED_FREE char *where =
            mem_format("%.*s", one->name[1] == '-' ? (int)strcspn(one->name, "=") : 2, one->name);
        TRY(option_set(options, one->id, one->value, where, OPTION_FROM_COMMAND_LINE));
    }
    const char **argument =
        arena_new(&options->arena, (size_t)parser->argument_count * sizeof *argument);
    for (int i = 0; i < parser->argument_count; i++)
        argument[i] = arena_text(&options->arena, parser->argument[i]);
    options->argument = argument;
    options->argument_count = parser->argument_count;
    /* A run that goes on or is used has more options, in its folder: checked when those are known.
     */
    bool runs = options->command & (COMMAND_TRAIN | COMMAND_EXPLAIN | COMMAND_SIMULATE);
    bool used = options->command & (COMMAND_EVAL | COMMAND_PREDICT);
    bool later = used || (runs && options->resume && !options->overwrite);
    return later ? STATUS_OK : options_check(options);
}

enum status options_parse(enum option_command command, int argc, char *const *argv,
                          struct options *out) {
    struct parser parser = {
        .command = command,
        .argc = argc,
        .argv = argv,
        .assignment = MEM_ARRAY(struct assignment, argc),
        .argument = MEM_ARRAY(const char *, argc),
    };
    struct options options;
    options_init(command, &options);
    enum status status = parse_arguments(&parser);
    if (status == STATUS_OK) status = apply(&parser, &options);
    if (status == STATUS_OK)
        *out = options;
    else
        options_free(&options);
    free(parser.assignment);
    free(parser.argument);
    return status;
}
