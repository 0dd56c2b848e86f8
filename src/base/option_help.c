/* What the table says to people. */
#include "base/option_print.h"

#include <stdlib.h>
#include <string.h>

#include "base/option_value.h"
#include "base/text.h"

static void extend(char **text, const char *more) {
    char *longer = mem_format("%s%s", *text, more);
    free(*text);
    *text = longer;
}

static bool append_word(const char *word, size_t length, void *context) {
    SCOPED_FREE char *one = mem_format("%s%.*s", **(char **)context ? "|" : "", (int)length, word);
    extend(context, one);
    return false;
}

/* "--optimizer sgd|adam|adamw", "--batch N", "--resume"; a flag that is on shows how to switch it.
 */
static char *usage_of(const struct option_row *row) {
    if (row->type == OPTION_TYPE_FLAG)
        return mem_format("--%s%s", row->name, strcmp(row->initial, "on") == 0 ? " on|off" : "");
    SCOPED_FREE char *value = mem_text(row->placeholder);
    if (!*value) option_value_words(row, append_word, &value);
    return mem_format("--%s %s%s", row->name, value, row->type == OPTION_TYPE_LIST ? ",..." : "");
}

/* "digits, mnist:DIR or synthetic[:KEY=VALUE,...]"; with `option`, those alone that it acts with.
 */
static char *names_of(enum option_registry registry, const char *option) {
    struct option_word word;
    char *names = mem_text(""), *before = NULL; /* the last one, not written yet */
    for (int i = 0; option_registry_word(registry, i, &word); i++) {
        if (option && !option_word_acts(&word, option)) continue;
        if (before && *names) extend(&names, ", ");
        if (before) extend(&names, before);
        free(before);
        before = option_word_usage(&word);
    }
    if (before && *names) extend(&names, " or ");
    if (before) extend(&names, before);
    free(before);
    return names;
}

/* A text with `names`, which it frees, in place of the mark at `at`. */
static char *put_names(const char *text, const char *at, const char *mark, char *names) {
    char *whole = mem_format("%.*s%s%s", (int)(at - text), text, names, at + strlen(mark));
    free(names);
    return whole;
}

char *option_help_text(const struct option_row *row) {
    static const char all[] = "{names}", acting[] = "{acting}";
    const char *at = strstr(row->help, all);
    if (at) return put_names(row->help, at, all, names_of(row->registry, NULL));
    at = strstr(row->help, acting);
    if (!at) return mem_text(row->help);
    return put_names(row->help, at, acting, names_of(option_rows[row->choice].registry, row->name));
}

/* --- defaults --- */

/* Words of a registry that give an option the same value: "sgd", "adam and adamw". */
struct same_default {
    char value[TEXT_BYTES], *names;
    int count;
};

static void join(struct same_default *same, const char *name) {
    char *names = same->count ? mem_format("%s %s", same->names, name) : mem_text(name);
    free(same->names);
    same->names = names;
    same->count++;
}

/* The values in the order of the registry, each with its words; how many there are. */
static int collect_defaults(enum option_registry registry, const char *option,
                            struct same_default *same, int most) {
    struct option_word word;
    char text[TEXT_BYTES];
    int count = 0;
    for (int i = 0; option_registry_word(registry, i, &word); i++) {
        const char *value = option_registry_default(registry, i, option, text);
        int at = 0;
        while (at < count && strcmp(same[at].value, value) != 0) at++;
        if (!*value || at == most) continue;
        if (at == count) snprintf(same[count++].value, TEXT_BYTES, "%s", value);
        join(&same[at], word.name);
    }
    return count;
}

/* " for adam and adamw", from "adam adamw". */
static char *for_names(const struct same_default *same) {
    char *words = mem_text(" for "), *state = NULL, *names = mem_text(same->names);
    int i = 0;
    for (char *name = strtok_r(names, " ", &state); name; name = strtok_r(NULL, " ", &state), i++) {
        extend(&words, i == 0 ? "" : i == same->count - 1 ? " and " : ", ");
        extend(&words, name);
    }
    free(names);
    return words;
}

/* "2 for zbv and v-half, else 1": a value that most have is said last, without them. */
static char *defaults_of(enum option_registry registry, const char *option) {
    enum { MOST = 8, NAMED = 3 };
    struct same_default same[MOST] = {0};
    int count = collect_defaults(registry, option, same, MOST), common = 0;
    char *words = mem_text("");
    for (int i = 1; i < count; i++)
        if (same[i].count > same[common].count) common = i;
    if (same[common].count <= NAMED) common = -1;
    for (int i = 0; i < count; i++) {
        SCOPED_FREE char *names = i == common ? mem_text("") : for_names(&same[i]);
        SCOPED_FREE char *one = mem_format("%s%s%s", *words ? ", " : "", same[i].value, names);
        if (i != common) extend(&words, one);
    }
    if (common >= 0) extend(&words, *words ? ", else " : "");
    if (common >= 0) extend(&words, same[common].value);
    for (int i = 0; i < count; i++) free(same[i].names);
    return words;
}

/* The default as it is shown; "{optimizers}" in it stands for what that registry gives. */
static char *initial_of(const struct option_row *row) {
    char *text = mem_text(row->initial);
    for (int r = OPTION_REGISTRY_none + 1; r < OPTION_REGISTRY_COUNT; r++) {
        SCOPED_FREE char *mark = mem_format("{%s}", option_registry_name((enum option_registry)r));
        const char *at = strstr(text, mark);
        if (at) {
            char *whole =
                put_names(text, at, mark, defaults_of((enum option_registry)r, row->name));
            free(text);
            text = whole;
        }
    }
    return text;
}

/* "(64)", or what is said of a default that depends; "" when there is none to speak of. */
static char *default_of(const struct option_row *row) {
    if (!*row->initial || (row->type == OPTION_TYPE_FLAG && strcmp(row->initial, "off") == 0))
        return mem_text("");
    return *row->initial == '(' ? initial_of(row) : mem_format("(%s)", row->initial);
}

static void print_option(const struct option_row *row, FILE *out) {
    SCOPED_FREE char *usage = usage_of(row), *initial = default_of(row);
    char *words = option_help_text(row);
    SCOPED_FREE char *help = mem_format("%s%s%s", words, *initial ? " " : "", initial);
    free(words);
    SCOPED_FREE char *name =
        row->letter ? mem_format("  -%c, %s", row->letter, usage) : mem_format("      %s", usage);
    text_entry(out, name, OPTION_HELP_COLUMN, help);
}

static void print_types(FILE *out) {
    fputs("\nvalues\n", out);
    text_entry(out, "  flag", OPTION_HELP_COLUMN, "--x, --x on or --x off");
    text_entry(out, "  SIZE", OPTION_HELP_COLUMN, "512M, 1.5GiB (powers of 1024) or 2GB (of 1000)");
    text_entry(out, "  TIME", OPTION_HELP_COLUMN, "90 (seconds), 10m or 2h");
    text_entry(out, "  PERIOD", OPTION_HELP_COLUMN, "a number of steps, epoch, 2epochs or never");
}

/* What train does not have is why one looks up another command. */
static bool is_own(const struct option_row *row, enum option_command command) {
    return row->commands & (unsigned)command && !(row->commands & COMMAND_TRAIN);
}

/* The options of a group that are the command's own, or those that it shares; how many. */
static int print_group(enum option_command command, int group, bool own, const char *title,
                       FILE *out) {
    int printed = 0;
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (!(row->commands & (unsigned)command) || row->group != (enum option_group)group ||
            is_own(row, command) != own)
            continue;
        if (printed++ == 0 && *title) fprintf(out, "\n%s\n", title);
        print_option(row, out);
    }
    return printed;
}

void options_print_help(enum option_command command, FILE *out) {
    const struct option_command_row *about = &option_commands[__builtin_ctz(command)];
    fprintf(out, "stretto %s: %s\n\nusage: stretto %s [options]%s%s\n", about->name, about->summary,
            about->name, *about->arguments ? " " : "", about->arguments);
    char *title = mem_format("options of %s", about->name);
    int printed = 0;
    for (int group = 0; group < OPTION_GROUP_COUNT; group++)
        printed += print_group(command, group, true, printed ? "" : title, out);
    for (int group = 0; group < OPTION_GROUP_COUNT; group++)
        printed += print_group(command, group, false, option_groups[group].title, out);
    free(title);
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
        char *usage = usage_of(row), *help = option_help_text(row), *initial = initial_of(row);
        if (group != (int)row->group)
            fprintf(out, "| **%s** | | | |\n", option_groups[row->group].title);
        group = (int)row->group;
        fputs("| `", out);
        if (row->letter) fprintf(out, "-%c, ", row->letter);
        print_cell(usage, out);
        fputs("` | ", out);
        print_cell(row->type == OPTION_TYPE_FLAG && !strcmp(initial, "off") ? "" : initial, out);
        fputs(" | ", out);
        print_commands_of(row, out);
        fputs(" | ", out);
        print_cell(help, out);
        fputs(" |\n", out);
        free(usage);
        free(help);
        free(initial);
    }
}

/* Bold up to the first blank, then in italics: the name, then its value. */
static void print_man_usage(const struct option_row *row, FILE *out) {
    char *usage = usage_of(row), *value = strchr(usage, ' ');
    if (value) *value++ = 0;
    fputs(".TP\n", out);
    if (row->letter) fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB", out);
    text_troff(out, usage);
    fputs("\\fR", out);
    if (value) {
        fputs(" \\fI", out);
        text_troff(out, value);
        fputs("\\fR", out);
    }
    fputs("\n", out);
    free(usage);
}

/* A default in brackets is said as it is: it depends on something. */
static void print_man_option(const struct option_row *row, FILE *out) {
    char *initial = default_of(row), *help = option_help_text(row);
    print_man_usage(row, out);
    text_troff(out, help);
    free(help);
    if (*initial) fputs(" ", out);
    text_troff(out, initial);
    free(initial);
    fputs(".\n", out);
    if (row->commands & COMMAND_TRAIN) return;
    fputs("An option of ", out);
    print_commands_of(row, out);
    fputs(".\n", out);
}

void options_print_man(FILE *out) {
    int group = -1;
    fputs("Unless noted otherwise, an option is one of train, explain, simulate and launch.\n"
          "Defaults are in brackets.\n",
          out);
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (group != (int)row->group) {
            fputs(".SS ", out);
            text_troff(out, option_groups[row->group].title);
            fputs("\n", out);
        }
        group = (int)row->group;
        print_man_option(row, out);
    }
}
