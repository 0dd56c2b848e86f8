/* What people and shells read of the option table: help, documents, completion. All local. */
#ifndef BASE_OPTION_PRINT_H
#define BASE_OPTION_PRINT_H

#include "base/option.h"

/* The options of a command for --help; all of them as a Markdown table, and as a section of a
 * manual page; completion scripts with the names of `count` commands (a bit each), their options
 * and the values these may take. */
enum { OPTION_HELP_COLUMN = 30 }; /* where what is said of an option begins */
void options_print_help(enum option_command command, FILE *out);
void options_print_markdown(FILE *out);
void options_print_man(FILE *out);
void options_print_bash(const unsigned *commands, int count, FILE *out);
void options_print_zsh(const unsigned *commands, int count, FILE *out);

/* What the row says of an option, with the names of its registry; the caller frees it. */
char *option_help_text(const struct option_row *row);

#endif
