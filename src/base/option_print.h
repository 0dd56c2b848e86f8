/* What people and shells read of the option table: help, documents, completion. All local. */
#ifndef BASE_OPTION_PRINT_H
#define BASE_OPTION_PRINT_H

#include "base/option.h"

/* Words for an option that the table leaves free; a row with NULL ends a list. */
struct option_words {
    enum option_id id;
    const char *words; /* "mlp lenet ..." */
};

/* The options of a command for --help; all of them as a Markdown table, and as a
 * section of a manual page; completion
 * scripts with the names of `count` commands (a bit each), their options and the values these may
 * take. */
enum { OPTION_HELP_COLUMN = 30 }; /* where what is said of an option begins */
void options_print_help(enum option_command command, FILE *out);
void options_print_markdown(FILE *out);
void options_print_man(FILE *out);
void options_print_bash(const unsigned *commands, int count, const struct option_words *more,
                        FILE *out);
void options_print_zsh(const unsigned *commands, int count, const struct option_words *more,
                       FILE *out);

#endif
