/* JSON files read strictly: duplicate keys are refused, and every message begins with file and
 * line and names the field. All local; nothing blocks.
 *
 * jansson forgets where a value stood. A place is therefore the chain of keys and indices that led
 * to it, on the stack of the functions that read it, and the text is walked again for its line when
 * there is something to complain about. Rejected: a parser of our own that keeps lines. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/status.h"

struct json_file {
    const char *name, *text; /* the caller's; they outlive the struct */
    size_t bytes;
    enum status status; /* of what is refused: STATUS_USAGE or STATUS_DATA */
    json_t *root;       /* owned */
};

struct json_place {
    const struct json_file *file;
    const struct json_place *parent; /* NULL: the whole text */
    const char *key;                 /* NULL: an item of a list */
    size_t index;
    const json_t *value; /* NULL: not there; borrowed from the file */
};

enum status json_file_parse(const char *name, const char *text, size_t bytes, enum status status,
                            struct json_file *out);
void json_file_free(struct json_file *file);

/* The value as json_dumps writes it, for people who may look at it on a terminal: what shown.h
 * would escape is \\uNNNN. NULL where json_dumps gives none; the caller frees it. json_print writes
 * it and a newline. */
char *json_shown(const json_t *value, size_t flags);
void json_print(const json_t *value, size_t flags, FILE *out);

/* The CRC32C of a value in canonical form: keys sorted, no spaces, numbers to the last bit. A file
 * keeps it as eight hexadecimal digits under "check", beside all else; json_check_content takes the
 * key out and refuses a file whose content is not what it states. */
uint32_t json_content_check(const json_t *value);
enum status json_check_content(struct json_file *file);

/* The whole text; the value of a key of an object; an item of a list. A place borrows `file`,
 * `parent` and `key`. */
struct json_place json_root(const struct json_file *file);
struct json_place json_member(const struct json_place *parent, const char *key);
struct json_place json_item(const struct json_place *parent, size_t index);

/* "zero_optimization.stage", "rows[3].op"; cut when long; returns `text`. */
enum { JSON_PATH_BYTES = 128 };
const char *json_path(const struct json_place *place, char text[JSON_PATH_BYTES]);
/* The line of a place, from 1; of the nearest one around it that can be found. */
int json_line(const struct json_place *place);
/* The value as text for messages, cut when long; returns `text`. */
enum { JSON_VALUE_BYTES = 96 };
const char *json_value_text(const json_t *value, char text[JSON_VALUE_BYTES]);

/* Fails with the file's status: "file:line: path: ...". */
enum status json_refuse(const struct json_place *place, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fails: "path: VALUE is not allowed, it takes WHAT". */
enum status json_refuse_value(const struct json_place *place, const char *takes);

/* Refuses what is no object or list; keys that are not among `names`, with the nearest one. */
enum status json_expect_object(const struct json_place *place);
enum status json_expect_list(const struct json_place *place);
enum status json_check_keys(const struct json_place *place, const char *const *names, int count);

/* Values: a number from low to high (both included); a whole one, which may be written as 5e8; a
 * text, which lives as long as the file; true or false. A value that is not there is refused. */
enum status json_get_real(const struct json_place *place, double low, double high, double *out);
enum status json_get_int(const struct json_place *place, int64_t low, int64_t high, int64_t *out);
enum status json_get_text(const struct json_place *place, const char **out);
enum status json_get_flag(const struct json_place *place, bool *out);

#endif
