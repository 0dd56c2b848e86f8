/* printf for people: what comes from outside (names in files, paths, arguments, the environment)
 * shows its control characters instead of sending them to a terminal or a log, where they could
 * forge a line, hide a part of one or change the screen.
 *
 * The conversions are those of printf, with this difference: in what %s, %.*s and %c bring, control
 * characters, newlines among them, signs that turn the direction of writing and bytes that are no
 * UTF-8 become \xNN. A text of our own that was put together before, with names shown already, is
 * %-s: its newlines stay. Widths count bytes. What %.*s cuts ends in a zero byte
 * further on, as every text of ours does. All local. */
#ifndef BASE_SHOWN_H
#define BASE_SHOWN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Like snprintf: returns the bytes that all of it has, `size` or more where it was cut. */
size_t shown_format(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t shown_vformat(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* The same as a text of its own; the caller frees it. */
char *shown_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *shown_vtext(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/* Like fprintf and printf. */
void shown_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a code point is one of those: it moves the cursor, turns the writing or is none. */
bool shown_is_control(uint32_t code);
/* Of these, whether it turns the direction of writing: names of files in Arabic may have some. */
bool shown_turns(uint32_t code);
/* Whether a text is shown as it is. */
bool shown_is_plain(const char *text);

#endif
