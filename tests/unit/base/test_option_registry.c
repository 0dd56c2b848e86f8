/* Words of options that come from registries: all are there, and what they say of other options
 * fits the table. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"
#include "base/option_print.h"

static int count_words(enum option_registry registry) {
    struct option_word word;
    int count = 0;
    while (option_registry_word(registry, count, &word)) count++;
    return count;
}

/* The option whose words a registry holds. */
static enum option_id option_of(enum option_registry registry) {
    int id = 0;
    while (id < OPTION_COUNT && option_rows[id].registry != registry) id++;
    cr_assert_lt(id, OPTION_COUNT, "registry %d belongs to no option", (int)registry);
    return (enum option_id)id;
}

Test(base_option_registry, words_are_sound) {
    struct option_word word, other;
    for (int r = 1; r < OPTION_REGISTRY_COUNT; r++) {
        const char *option = option_rows[option_of((enum option_registry)r)].name;
        cr_expect(*option_registry_title((enum option_registry)r));
        cr_expect_gt(count_words((enum option_registry)r), 0, "--%s has no words", option);
        cr_expect_not(option_registry_word((enum option_registry)r, -1, &word));
        for (int i = 0; option_registry_word((enum option_registry)r, i, &word); i++) {
            /* a colon begins the argument of a text; the words of a choice may have one */
            bool text = option_rows[option_of((enum option_registry)r)].type == OPTION_TYPE_TEXT;
            cr_expect_eq(strcspn(word.name, text ? " |,:" : " |,"), strlen(word.name), "--%s %s",
                         option, word.name);
            for (int k = 0; k < i && option_registry_word((enum option_registry)r, k, &other); k++)
                cr_expect_str_neq(word.name, other.name, "--%s", option);
        }
    }
    cr_expect_eq(count_words(OPTION_REGISTRY_none), 0);
}

/* What a word says acts with it is an option that depends on such words. */
static void expect_dependent(enum option_id choice, const struct option_word *word) {
    char *list = mem_text(word->acts ? word->acts : ""), *rest = list;
    for (char *name; (name = strsep(&rest, " "));) {
        enum option_id id;
        if (!*name) continue;
        cr_assert(option_find(name, &id), "%s: no option is called %s", word->name, name);
        cr_expect(option_rows[id].needs == OPTION_NEEDS_CHOICE && option_rows[id].choice == choice,
                  "%s: --%s acts always", word->name, name);
    }
    free(list);
}

Test(base_option_registry, words_and_needs_agree) {
    struct option_word word;
    for (int r = 1; r < OPTION_REGISTRY_COUNT; r++) {
        enum option_id choice = option_of((enum option_registry)r);
        for (int i = 0; option_registry_word((enum option_registry)r, i, &word); i++)
            expect_dependent(choice, &word);
    }
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].needs != OPTION_NEEDS_CHOICE) continue;
        enum option_registry registry = option_rows[option_rows[id].choice].registry;
        bool acts = false;
        for (int i = 0; option_registry_word(registry, i, &word); i++)
            acts |= option_word_acts(&word, option_rows[id].name);
        cr_expect(acts, "--%s never acts", option_rows[id].name);
    }
}

Test(base_option_registry, words_as_they_are_typed) {
    static const struct {
        struct option_word word;
        const char *usage;
    } rows[] = {
        {{.name = "digits"}, "digits"},
        {{.name = "mnist", .argument = "DIR"}, "mnist:DIR"},
        {{.name = "synthetic", .argument = "[a=b]"}, "synthetic[:a=b]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *usage = option_word_usage(&rows[i].word);
        cr_expect_str_eq(usage, rows[i].usage);
        free(usage);
    }
    struct option_word word = {.name = "adam", .acts = "beta1 beta2"};
    cr_expect(option_word_acts(&word, "beta1") && option_word_acts(&word, "beta2"));
    cr_expect_not(option_word_acts(&word, "beta"));
    cr_expect_not(option_word_acts(&word, "beta1 beta2"));
    cr_expect_not(option_word_acts(&(struct option_word){.name = "sgd"}, "beta1"));
}

/* Every word of every registry can be set, is completed by both shells, and stands in the table of
 * the documents. */
Test(base_option_registry, words_are_everywhere) {
    char *text = NULL;
    size_t bytes;
    unsigned train = COMMAND_TRAIN;
    FILE *out = open_memstream(&text, &bytes);
    options_print_bash(&train, 1, out);
    fputs("\f", out);
    options_print_zsh(&train, 1, out);
    fclose(out);
    char *zsh = strchr(text, '\f');
    *zsh++ = 0;
    for (int r = 1; r < OPTION_REGISTRY_COUNT; r++) {
        enum option_id id = option_of((enum option_registry)r);
        char *option = mem_format("--%s", option_rows[id].name);
        const char *in_bash = strstr(text, option), *in_zsh = strstr(zsh, option);
        struct option_word word;
        struct options options;
        cr_assert(in_bash && in_zsh, "%s", option);
        options_init(COMMAND_TRAIN, &options);
        for (int i = 0; option_registry_word((enum option_registry)r, i, &word); i++) {
            cr_expect_eq(option_set(&options, id, word.name, option, OPTION_FROM_FILE), STATUS_OK);
            cr_expect(strstr(in_bash, word.name), "%s %s", option, word.name);
            cr_expect(strstr(in_zsh, word.name), "%s %s", option, word.name);
        }
        options_free(&options);
        free(option);
    }
    free(text);
}

Test(base_option_registry, names_in_help) {
    char *help = option_help_text(&option_rows[OPTION_data]);
    cr_expect(strncmp(help, "data set: digits, mnist:DIR, ", 29) == 0, "%s", help);
    cr_expect(strstr(help, " or synthetic[:"), "%s", help);
    cr_expect_null(strchr(help, '{'), "%s", help);
    free(help);
}

/* Whether `word` is in the text by itself, not as a part of a longer one. */
static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        bool begins = at == text || !strchr("abcdefghijklmnopqrstuvwxyz0123456789-", at[-1]);
        if (begins && !strchr("abcdefghijklmnopqrstuvwxyz0123456789-", at[length])) return true;
    }
    return false;
}

/* Defaults that depend on an optimizer, a model or a schedule are said by its table, not by hand:
 * a text of the table of options names none of them. */
Test(base_option_registry, defaults_come_from_registries) {
    static const enum option_registry registries[] = {OPTION_REGISTRY_optimizers,
                                                      OPTION_REGISTRY_schedules};
    struct option_word word;
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (*row->initial != '(' || id == OPTION_strategy) continue;
        for (int r = 0; r < 2; r++)
            for (int i = 0; option_registry_word(registries[r], i, &word); i++)
                cr_expect(!has_word(row->initial, word.name) || strcmp(word.name, "auto") == 0,
                          "--%s: %s", row->name, row->initial);
    }
}

Test(base_option_registry, defaults_in_help) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    options_print_markdown(out);
    fclose(out);
    for (int r = 1; r < OPTION_REGISTRY_COUNT; r++) {
        char *mark = mem_format("{%s}", option_registry_name((enum option_registry)r));
        cr_expect_null(strstr(text, mark), "%s", mark);
        free(mark);
    }
    cr_expect(strstr(text, "| (the model's: adamw for vit-micro, vit-tiny"), "%s", text);
    cr_expect(strstr(text, "its own: 0.1 for sgd, 0.001 for adam and adamw) |"), "%s", text);
    cr_expect(strstr(text, "v-half and v-min, else 1; auto chooses) |"), "%s", text);
    free(text);
}
