/* Words of other systems: every row has an answer of one line, which names what there is here. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/option_word.h"

static const struct {
    const char *word, *value, *more;
    int id; /* OPTION_COUNT: none */
    bool maybe;
} rows[] = {
#define WORD(text, field, value, more) {text, value, more, OPTION_##field, false},
#define MAYBE(text, field, value, more) {text, value, more, OPTION_##field, true},
#define NOWORD(text, more) {text, "", more, OPTION_COUNT, false},
#include "base/words.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* An option of ours would be taken, not answered; and each word is answered once. */
Test(base_option_word, rows_are_sound) {
    for (int i = 0; i < ROWS; i++) {
        enum option_id id;
        cr_expect_not(option_find(rows[i].word, &id), "%s is an option", rows[i].word);
        cr_expect_eq(strspn(rows[i].word, "abcdefghijklmnopqrstuvwxyz0123456789-"),
                     strlen(rows[i].word), "%s", rows[i].word);
        for (int k = 0; k < i; k++) cr_expect_str_neq(rows[k].word, rows[i].word);
        cr_expect(rows[i].id < OPTION_COUNT || *rows[i].more, "%s has no answer", rows[i].word);
        cr_expect(!rows[i].maybe || (*rows[i].more && *rows[i].value), "%s", rows[i].word);
    }
}

Test(base_option_word, every_word_is_answered_in_one_line) {
    for (int i = 0; i < ROWS; i++) {
        char *argument = option_word_answer(rows[i].word, COMMAND_TRAIN, OPTION_FORM_ARGUMENT),
             *key = option_word_answer(rows[i].word, COMMAND_ALL, OPTION_FORM_KEY);
        cr_assert(argument && key, "%s", rows[i].word);
        cr_expect_null(strchr(argument, '\n'), "%s", argument);
        cr_expect_leq(strlen(argument), 120u, "%s", argument);
        const char *name = rows[i].id < OPTION_COUNT ? option_rows[rows[i].id].name : "";
        cr_expect(strstr(argument, name) && strstr(key, name), "%s: %s", rows[i].word, argument);
        free(argument);
        free(key);
    }
}

/* What an answer names is taken. */
Test(base_option_word, values_are_those_of_the_option) {
    for (int i = 0; i < ROWS; i++) {
        struct options options;
        if (rows[i].maybe || !*rows[i].value) continue;
        options_init(COMMAND_TRAIN, &options);
        cr_expect_eq(option_set(&options, rows[i].id, rows[i].value, "", OPTION_FROM_FILE),
                     STATUS_OK, "%s: %s", rows[i].word, rows[i].value);
        options_free(&options);
    }
}

static void expect_answer(char *found, const char *wanted) {
    cr_expect(wanted ? found && strcmp(found, wanted) == 0 : !found, "%s, not %s",
              found ? found : "nothing", wanted ? wanted : "nothing");
    free(found);
}

Test(base_option_word, forms) {
    static const char tensor[] =
        "there is no tensor parallelism here: --stages S splits a model by layers";
    expect_answer(option_word_answer("Learning_Rate=3", COMMAND_TRAIN, OPTION_FORM_ARGUMENT),
                  "did you mean --lr?");
    expect_answer(option_word_answer("learning_rate", COMMAND_ALL, OPTION_FORM_KEY),
                  "did you mean lr?");
    expect_answer(option_word_answer("learning_rate", COMMAND_EVAL, OPTION_FORM_ARGUMENT), NULL);
    expect_answer(option_word_answer("FSDP", COMMAND_TRAIN, OPTION_FORM_ARGUMENT),
                  "did you mean --strategy zero3?");
    expect_answer(option_word_answer("fsdp", COMMAND_ALL, OPTION_FORM_KEY),
                  "did you mean strategy: zero3?");
    expect_answer(option_word_answer("tensor_parallel", COMMAND_TRAIN, OPTION_FORM_KEY), tensor);
    expect_answer(option_word_answer("nothing", COMMAND_TRAIN, OPTION_FORM_ARGUMENT), NULL);
    expect_answer(option_word_answer("", COMMAND_TRAIN, OPTION_FORM_ARGUMENT), NULL);
    expect_answer(option_value_answer(OPTION_strategy, "fsdp", OPTION_FORM_ARGUMENT),
                  "did you mean zero3?");
    expect_answer(option_value_answer(OPTION_device, "bf16", OPTION_FORM_ARGUMENT),
                  "did you mean --dtype bf16?");
    expect_answer(option_word_answer("hosts", COMMAND_TRAIN, OPTION_FORM_ARGUMENT),
                  "did you mean --hostfile?");
    expect_answer(option_value_answer(OPTION_model, "gpt2-small", OPTION_FORM_ARGUMENT),
                  "did you mean gpt2?");
    expect_answer(option_value_answer(OPTION_strategy, "tp", OPTION_FORM_ARGUMENT), tensor);
    expect_answer(option_value_answer(OPTION_lr, "fsdp", OPTION_FORM_ARGUMENT), NULL);
}

/* No answer leads to a device that does not train. */
Test(base_option_word, words_for_gpus) {
    static const char *const words[] = {"cuda", "gpus", "gpus-per-node"};
    for (int i = 0; i < 3; i++) {
        char *found = option_word_answer(words[i], COMMAND_TRAIN, OPTION_FORM_ARGUMENT);
        cr_expect(found && strstr(found, "--device cuda"), "%s: %s", words[i],
                  found ? found : "nothing");
        free(found);
    }
}
