/* Text for people: suggestions, quantities with units, quoted values, aligned tables. All local. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
int text_distance(const char *a, const char *b);
/* The word of the list nearest to `word`, or NULL when none is near enough to suggest. */
const char *text_nearest(const char *word, const char *const *list, int count);
/* Where a word is in a table whose rows are names, or begin with theirs (NULL is none); -1:
 * nowhere.
 */
int text_find(const char *word, const void *rows, size_t row_bytes, size_t count);
#define TEXT_FIND(word, table)                                                                     \
    text_find(word, table, sizeof(table)[0], sizeof(table) / sizeof(table)[0])

/* "1.5 GiB", "817 B"; "1 h 05 min", "3.2 s", "4.1 ms"; returns `text`. */
enum { TEXT_BYTES = 32 };
const char *text_size(int64_t bytes, char text[TEXT_BYTES]);
const char *text_duration(double seconds, char text[TEXT_BYTES]);
/* "1 replica", "2 replicas", "2 micro-batches"; returns `text`. */
const char *text_count(int64_t count, const char *noun, char text[TEXT_BYTES]);
/* "97.10% (top 5: 99.80%)", of fractions; without the second where that is NaN; returns `text`. */
const char *text_accuracy(double first, double five, char text[TEXT_BYTES]);
/* "11,173,962", for people; returns `text`. */
const char *text_thousands(int64_t value, char text[TEXT_BYTES]);
/* "46.7", "317", "23,390": a rate, to what is worth saying of it; returns `text`. */
const char *text_rate(double rate, char text[TEXT_BYTES]);
/* The shortest decimal that reads back to the same double; returns `text`. */
const char *text_real(double value, char text[TEXT_BYTES]);

/* A value from outside, fit for a message: in quotes, control and broken bytes escaped, cut when
 * long. */
enum { TEXT_QUOTED_BYTES = 96 };
const char *text_quoted(const char *value, char text[TEXT_QUOTED_BYTES]);
/* Length of the UTF-8 sequence at `at`, its code point in `out`; 0 when it is broken (overlong
 * forms, surrogates and numbers above 10FFFF included). */
int text_utf8(const char *at, uint32_t *out);
/* The same text with the sign for a broken one (U+FFFD) in place of each byte that is no UTF-8, for
 * JSON; the caller frees it. */
char *text_mended(const char *text);
/* Whether all of it is valid UTF-8 without control characters. */
bool text_is_clean(const char *text);
/* Whether it has decimal digits, one or more, and nothing else. */
bool text_is_digits(const char *text);
/* Whether a text ends in another, such as a file in ".npy". */
bool text_ends_in(const char *text, const char *ending);
/* Columns a terminal needs, counting one for each code point. */
int text_width(const char *text);
/* Columns of the terminal a stream goes to; `otherwise` where it goes to none or it does not say.
 */
int text_columns(FILE *stream, int otherwise);
/* Prints words, broken so that no line passes column `width`, nor a number from its unit and the
 * name before it; the cursor is at column `indent` already and later lines are indented to it. Ends
 * with a newline. */
void text_wrap(FILE *out, const char *words, int indent, int width);
/* The same as a text without the last newline, for a message; the caller frees it. */
char *text_wrapped(const char *words, int indent, int width);

/* An entry of a list: a name, then words from `column` on, below it where the name is too long,
 * broken before the edge of the terminal (or column 100). */
void text_entry(FILE *out, const char *name, int column, const char *words);
/* The same of words that are put together as printf does it. */
void text_row(FILE *out, const char *name, int column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Words for a manual page: what troff would take for its own signs is escaped. No newlines. */
void text_troff(FILE *out, const char *words);

/* A table with aligned columns. `align` has a letter per column: l or r. Cells are copied, row by
 * row. */
struct text_table {
    const char *align;
    struct arena arena;
    const char **cell;
    size_t count, capacity;
};
void text_table_cell(struct text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void text_table_print(const struct text_table *table, int indent, FILE *out);
void text_table_free(struct text_table *table);

#endif
