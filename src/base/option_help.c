/* What the table says to people and shells. */
#include "base/option.h"

#include <stdlib.h>
#include <string.h>

#include "base/option_value.h"
#include "base/text.h"

/* "--optimizer sgd|adam|adamw", "--batch N", "--resume"; a flag that is on shows how to switch it.
 */
static char *usage_of(const struct option_row *row) {
    const char *value = *row->placeholder ? row->placeholder : row->limits;
    if (row->type == OPTION_TYPE_LIST) return mem_format("--%s %s,...", row->name, value);
    if (row->type == OPTION_TYPE_FLAG)
        return mem_format("--%s%s", row->name, strcmp(row->initial, "on") == 0 ? " on|off" : "");
    return mem_format("--%s %s", row->name, value);
}

/* "(64)", or what is said of a default that depends; "" when there is none to speak of. */
static char *default_of(const struct option_row *row) {
    if (!*row->initial || (row->type == OPTION_TYPE_FLAG && strcmp(row->initial, "off") == 0))
        return mem_text("");
    return *row->initial == '(' ? mem_text(row->initial) : mem_format("(%s)", row->initial);
}

static void print_option(const struct option_row *row, FILE *out) {
    char *usage = usage_of(row), *initial = default_of(row);
    char *help = mem_format("%s%s%s", row->help, *initial ? " " : "", initial);
    char *name =
        row->letter ? mem_format("  -%c, %s", row->letter, usage) : mem_format("      %s", usage);
    text_entry(out, name, OPTION_HELP_COLUMN, help);
    free(name);
    free(usage);
    free(initial);
    free(help);
}

static void print_types(FILE *out) {
    fputs("\nvalues\n", out);
    text_entry(out, "  flag", OPTION_HELP_COLUMN, "--x, --x on or --x off");
    text_entry(out, "  SIZE", OPTION_HELP_COLUMN, "512M, 1.5GiB (powers of 1024) or 2GB (of 1000)");
    text_entry(out, "  TIME", OPTION_HELP_COLUMN, "90 (seconds), 10m or 2h");
    text_entry(out, "  PERIOD", OPTION_HELP_COLUMN, "a number of steps, epoch, 2epochs or never");
}

void options_print_help(enum option_command command, FILE *out) {
    const struct option_command_row *about = &option_commands[__builtin_ctz(command)];
    fprintf(out, "stretto %s: %s\n\nusage: stretto %s [options]%s%s\n", about->name, about->summary,
            about->name, *about->arguments ? " " : "", about->arguments);
    int printed = 0;
    for (int group = 0; group < OPTION_GROUP_COUNT; group++) {
        bool first = true;
        for (int id = 0; id < OPTION_COUNT; id++) {
            const struct option_row *row = &option_rows[id];
            if (!(row->commands & (unsigned)command) || row->group != (enum option_group)group)
                continue;
            if (first) fprintf(out, "\n%s\n", option_groups[group].title);
            first = false;
            print_option(row, out);
            printed++;
        }
    }
    if (printed > 5) print_types(out);
}

/* In a Markdown table a bar must be escaped, even inside code. */
static void print_cell(const char *text, FILE *out) {
    for (; *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void print_commands_of(const struct option_row *row, FILE *out) {
    bool first = true;
    if ((row->commands & COMMAND_ALL) == COMMAND_ALL) {
        fputs("all", out);
        return;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (!(row->commands & (1u << i))) continue;
        fprintf(out, "%s%s", first ? "" : ", ", option_commands[i].name);
        first = false;
    }
}

void options_print_markdown(FILE *out) {
    fputs("| option | default | commands | meaning |\n|---|---|---|---|\n", out);
    int group = -1;
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        char *usage = usage_of(row);
        if (group != (int)row->group)
            fprintf(out, "| **%s** | | | |\n", option_groups[row->group].title);
        group = (int)row->group;
        fputs("| `", out);
        if (row->letter) fprintf(out, "-%c, ", row->letter);
        print_cell(usage, out);
        fputs("` | ", out);
        print_cell(
            row->type == OPTION_TYPE_FLAG && !strcmp(row->initial, "off") ? "" : row->initial, out);
        fputs(" | ", out);
        print_commands_of(row, out);
        fputs(" | ", out);
        print_cell(row->help, out);
        fputs(" |\n", out);
        free(usage);
    }
}

static bool print_word(const char *word, size_t length, void *context) {
    fprintf(context, " %.*s", (int)length, word);
    return false;
}

static const char *find_words(const struct option_words *more, enum option_id id) {
    while (more->words && more->id != id) more++;
    return more->words;
}

/* Words for what a value may be; file names where the placeholder says so. */
static void print_value_case(const struct option_row *row, const char *known, FILE *out) {
    bool file = !strcmp(row->placeholder, "FILE") || !strcmp(row->placeholder, "DIR");
    bool words = row->type == OPTION_TYPE_CHOICE || row->type == OPTION_TYPE_LIST;
    if (!file && !words && !known) return;
    fprintf(out, "    --%s) COMPREPLY=($(compgen ", row->name);
    if (known)
        fprintf(out, "-W '%s'", known);
    else if (file)
        fprintf(out, "-%c", !strcmp(row->placeholder, "DIR") ? 'd' : 'f');
    else {
        fputs("-W '", out);
        option_value_words(row, print_word, out);
        fputs("'", out);
    }
    fputs(" -- \"$word\")); return ;;\n", out);
}

void options_print_completion(const unsigned *commands, int count, const struct option_words *more,
                              FILE *out) {
    fputs("# Completion of stretto for bash. To use it: source <(stretto completion bash)\n"
          "_stretto() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    local commands='",
          out);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? " " : "", option_commands[__builtin_ctz(commands[i])].name);
    fputs("'\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"--help --version $commands\" -- \"$word\")); return\n"
          "    fi\n"
          "    case $before in\n",
          out);
    for (int id = 0; id < OPTION_COUNT; id++)
        print_value_case(&option_rows[id], find_words(more, id), out);
    fputs("    esac\n    case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "    %s) words='", option_commands[__builtin_ctz(commands[i])].name);
        for (int id = 0; id < OPTION_COUNT; id++) {
            if (option_rows[id].commands & commands[i]) fprintf(out, " --%s", option_rows[id].name);
        }
        fputs("' ;;\n", out);
    }
    fputs(
        "    esac\n"
        "    case $word in\n"
        "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
        "    *) if [ \"${COMP_WORDS[1]}\" = help ]; then COMPREPLY=($(compgen -W \"$commands\" -- "
        "\"$word\"))\n"
        "        else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n"
        "    esac\n"
        "}\n"
        "complete -o filenames -F _stretto stretto\n",
        out);
}
