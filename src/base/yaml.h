/* Small YAML files by a schema. All local; nothing blocks.
 *
 * A file is read as a stream of libyaml events, never as a document tree, so that nothing is built
 * from input that is refused anyway: anchors and aliases (the way to make a small file huge), tags,
 * several documents, nesting beyond the schema. A schema is a table of keys for each mapping and a
 * function for each item of a list. Every message begins with file:line:column; unknown keys and
 * keys given twice are refused.
 *
 *     static const struct yaml_key keys[] = {
 *         {.name = "ranks", .required = true, .read = yaml_read_int,
 *          .offset = offsetof(struct host, ranks), .low = 1, .high = 64},
 *     };
 *     TRY(yaml_root(&reader));
 *     TRY(yaml_mapping(&reader, "a host", keys, 1, &host));
 *     return yaml_end(&reader);
 *
 * The "event at hand" is reader->event. A function that reads a value finds its first event at hand
 * and leaves its last one there. */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include <yaml.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

struct yaml_reader {
    const char *name; /* of the file, for messages; the caller's */
    yaml_parser_t parser;
    yaml_event_t event;
    struct arena *arena; /* texts go here; the caller's */
};

/* Fails with STATUS_USAGE at a place of the file. */
#define YAML_REFUSE(reader, mark, format, ...)                                                     \
    fail(STATUS_USAGE, "%s:%zu:%zu: " format, (reader)->name, (mark).line + 1, (mark).column + 1,  \
         __VA_ARGS__)

/* `data` stays the caller's and is read until yaml_close, which is called after a success only. */
enum status yaml_open(const char *name, const void *data, size_t count, struct arena *arena,
                      struct yaml_reader *out);
void yaml_close(struct yaml_reader *reader);

/* Moves on to the next event. Anchors, aliases and tags end here. */
enum status yaml_next(struct yaml_reader *reader);
/* Moves on to the first event of the document: the end of the stream where there is none. And from
 * its last event to the end: a second document is refused. */
enum status yaml_root(struct yaml_reader *reader);
enum status yaml_end(struct yaml_reader *reader);

/* A key of a mapping. The value is read by `read`, which gets its own row and the structure that
 * the mapping fills; `offset`, `low` and `high` (both included) are for the readers below. */
struct yaml_key {
    const char *name;
    bool required;
    enum status (*read)(struct yaml_reader *reader, const struct yaml_key *key, void *into);
    size_t offset;
    double low, high;
};
enum { YAML_KEYS_MAX = 128 };
/* `what` names the mapping in messages: "a host". */
enum status yaml_mapping(struct yaml_reader *reader, const char *what, const struct yaml_key *keys,
                         int count, void *into);
/* Calls `read` for each item of a list; `what` names the list. */
enum status yaml_list(struct yaml_reader *reader, const char *what,
                      enum status (*read)(struct yaml_reader *reader, void *into), void *into);
/* The value at hand as text that lives until the next event; no list, mapping, null or zero byte.
 * `field` is for messages. */
enum status yaml_scalar(struct yaml_reader *reader, const char *field, const char **out);
/* Whether the scalar at hand holds a zero byte, which no text of ours may. */
bool yaml_has_zero_byte(const struct yaml_reader *reader);

/* Readers of single values: a double, an int64_t, a const char * of at most 64 bytes in the arena.
 */
enum status yaml_read_real(struct yaml_reader *reader, const struct yaml_key *key, void *into);
enum status yaml_read_int(struct yaml_reader *reader, const struct yaml_key *key, void *into);
enum status yaml_read_text(struct yaml_reader *reader, const struct yaml_key *key, void *into);

#endif
