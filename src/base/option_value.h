/* Values of options as text: private to base/option*.c. All local. */
#ifndef BASE_OPTION_VALUE_H
#define BASE_OPTION_VALUE_H

#include "base/option.h"

/* Reads `text` into `field` (of the row's C type); texts are copied into the arena. False, with
 * `field` untouched, when the text is not of the type or outside the row's limits. */
bool option_value_parse(const struct option_row *row, const char *text, struct arena *arena,
                        void *field);

/* The value as text that reads back to the same value; the caller frees it. */
char *option_value_format(const struct option_row *row, const void *field);

/* What the row allows, in words; the caller frees it. */
char *option_value_allowed(const struct option_row *row);

/* The words of a CHOICE or LIST, and of a registry: calls `each` with them one after the other
 * until it returns true; returns whether any did. */
bool option_value_words(const struct option_row *row,
                        bool (*each)(const char *word, size_t length, void *context),
                        void *context);

#endif
