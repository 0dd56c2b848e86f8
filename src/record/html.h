/* Text and numbers on an HTML page. Every text that is not ours (names, paths, options, files)
 * reaches a page through html_text alone, which is what makes injection impossible. All local;
 * errors stay in the stream. */
#ifndef RECORD_HTML_H
#define RECORD_HTML_H

#include <stdint.h>
#include <stdio.h>

#include "base/text.h"

/* Any bytes, as content or inside a quoted attribute: markup is escaped, broken UTF-8 and control
 * characters but newline and tab become the replacement character. NULL is nothing. */
void html_text(FILE *stream, const char *text);

/* Numbers as people write them: "0.01234", "12,346", "3.2e-5"; "98.44%" of a fraction; "1,234,567".
 * Not finite is "not finite". Each returns `text`. */
const char *html_number(double value, char text[TEXT_BYTES]);
const char *html_percent(double fraction, char text[TEXT_BYTES]);
const char *html_integer(int64_t value, char text[TEXT_BYTES]);

/* A random word that a page's policy and its own script share, so that no other script runs;
 * returns `nonce`. Local; does not block. */
enum { HTML_NONCE_BYTES = 33 };
const char *html_nonce(char nonce[HTML_NONCE_BYTES]);

#endif
