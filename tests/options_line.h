/* The options of a line of text, for programs of the tests: words are between blanks. */
#ifndef TESTS_OPTIONS_LINE_H
#define TESTS_OPTIONS_LINE_H

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/option.h"

/* As options_parse; the caller frees them. */
static inline enum status options_of_line(enum option_command command, const char *line,
                                          struct options *out) {
    char *copy = mem_text(line), *state = NULL;
    char **word = MEM_ARRAY(char *, strlen(line) / 2 + 1);
    int count = 0;
    for (char *w = strtok_r(copy, " ", &state); w; w = strtok_r(NULL, " ", &state))
        word[count++] = w;
    enum status status = options_parse(command, count, word, out);
    free(word);
    free(copy);
    return status;
}

#endif
