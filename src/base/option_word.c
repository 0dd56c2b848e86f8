/* See option_word.h. A word is looked up before the nearest name is: "did you mean" by spelling
 * alone would take --gpus for --steps. */
#include "base/option_word.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/option_value.h"

enum { WORD_BYTES = 48 };

enum kind { STANDS, MAY_STAND, STANDS_NOT };

static const struct word {
    const char *word;
    enum kind kind;
    enum option_id id;
    const char *value, *more;
} words[] = {
#define WORD(text, field, value, more) {text, STANDS, OPTION_##field, value, more},
#define MAYBE(text, field, value, more) {text, MAY_STAND, OPTION_##field, value, more},
#define NOWORD(text, more) {text, STANDS_NOT, OPTION_COUNT, "", more},
#include "base/words.def"
};

/* In lower case, dashes for underscores, without what follows "=" or ":" (cuda:0). False: too long
 * for any word. */
static bool plain(const char *text, char out[WORD_BYTES]) {
    size_t length = strcspn(text, "=:");
    if (length >= WORD_BYTES) return false;
    for (size_t i = 0; i < length; i++)
        out[i] = text[i] == '_' ? '-' : (char)tolower((unsigned char)text[i]);
    out[length] = 0;
    return true;
}

static const struct word *find(const char *text) {
    char name[WORD_BYTES];
    if (!plain(text, name)) return NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].word, name) == 0) return &words[i];
    return NULL;
}

/* Whether this build takes the value that a word stands for. */
static bool is_taken(const struct word *word) {
    SCOPED(options_free) struct options trial = {0};
    options_init(COMMAND_TRAIN, &trial);
    const struct option_row *row = &option_rows[word->id];
    return option_value_parse(row, word->value, &trial.arena, (char *)&trial + row->field);
}

static char *name_of(const struct word *word, enum option_form form) {
    const struct option_row *row = &option_rows[word->id];
    bool value = *word->value;
    if (form == OPTION_FORM_KEY)
        return mem_format("%s%s%s", row->name, value ? ": " : "", word->value);
    if (row->letter && !value) return mem_format("-%c, --%s", row->letter, row->name);
    return mem_format("--%s%s%s", row->name, value ? " " : "", word->value);
}

static char *answer(const struct word *word, const char *name) {
    const char *more = word->kind == STANDS ? word->more : "";
    return mem_format("did you mean %s?%s%s", name, *more ? " " : "", more);
}

char *option_word_answer(const char *name, unsigned commands, enum option_form form) {
    const struct word *word = find(name);
    if (!word) return NULL;
    if (word->kind == STANDS_NOT || (word->kind == MAY_STAND && !is_taken(word)))
        return mem_text(word->more);
    if (!(option_rows[word->id].commands & commands)) return NULL;
    char *ours = name_of(word, form), *text = answer(word, ours);
    free(ours);
    return text;
}

char *option_value_answer(enum option_id id, const char *value, enum option_form form) {
    const struct word *word = find(value);
    enum option_type type = option_rows[id].type;
    if (!word || (type != OPTION_TYPE_CHOICE && type != OPTION_TYPE_DEVICE)) return NULL;
    bool own = word->kind == STANDS && word->id == id && *word->value;
    return own ? answer(word, word->value) : option_word_answer(value, COMMAND_ALL, form);
}
