/* safetensors files: named tensors, one after the other, behind a JSON header.
 *
 * The reader checks the whole header before it hands out anything: types, shapes, offsets without
 * gap or overlap, file length to the byte. What it then says about a tensor can be relied on. Data
 * are read on request (no mapping: a file that shrinks under us is an error, not a signal). Types
 * and ranks that tensor.h cannot express are listed and readable as bytes. The writer makes the
 * same bytes as the reference library, whole or not at all.
 *
 * Everything here is local and blocking. One struct safetensors may be read by several threads at
 * once. */
#ifndef TENSOR_SAFETENSORS_H
#define TENSOR_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/tensor.h"

struct safetensors; /* an open file */

struct safetensors_entry {
    const char *name, *type; /* type as the file spells it: "F32", "I16" */
    size_t rank;
    const int64_t *dim; /* [rank] */
    int bits;           /* of one element */
    uint64_t begin;     /* first byte, counted from the start of the data */
    uint64_t bytes;
    bool native; /* tensor.h can express it; only then are the two below set */
    enum dtype dtype;
    struct shape shape;
};

/* Opens and checks a file; the caller closes it. */
enum status safetensors_open(const char *path, struct safetensors **out);
/* The same on memory, which the caller keeps alive until the close; `name` is for messages. */
enum status safetensors_parse(const char *name, const void *data, size_t count,
                              struct safetensors **out);
/* Accepts NULL. */
void safetensors_close(struct safetensors **file);

/* Entries stand in the order of their data. Pointers live until the close. */
size_t safetensors_count(const struct safetensors *file);
const struct safetensors_entry *safetensors_at(const struct safetensors *file, size_t index);
/* The index of a name; false when the file has none. */
bool safetensors_find(const struct safetensors *file, const char *name, size_t *out);

/* Reads a whole tensor; `bytes` must be its size. Or a part of it, `offset` bytes after its first.
 */
enum status safetensors_read(const struct safetensors *file, size_t index, void *buffer,
                             size_t bytes);
enum status safetensors_read_part(const struct safetensors *file, size_t index, uint64_t offset,
                                  void *buffer, size_t bytes);

/* "[64,3,3,3]" of any rank, cut when long. Returns `text`. */
const char *safetensors_shape_text(const struct safetensors_entry *entry,
                                   char text[SHAPE_TEXT_BYTES]);

/* Writing. Items may come in any order; the file has the format's order. An item without data is
 * asked for through `source`, in file order, one at a time, so that the caller never holds all of
 * them: source calls safetensors_emit as often as it likes until the item is complete. All pointers
 * stay the caller's. */
struct safetensors_sink;
struct tensor_item {
    const char *name;
    enum dtype dtype;
    struct shape shape;
    const void *data; /* row major; NULL: ask the source */
};
struct safetensors_pair {
    const char *key, *value;
};
struct safetensors_content {
    const struct tensor_item *items;
    size_t item_count;
    const struct safetensors_pair *metadata;
    size_t metadata_count;
    enum status (*source)(void *context, size_t item, struct safetensors_sink *sink);
    void *context;
};
enum status safetensors_emit(struct safetensors_sink *sink, const void *data, size_t bytes);

/* What a manifest says about a file. */
struct safetensors_mark {
    uint64_t bytes;
    uint32_t crc32c;
};
/* Writes atomically: after a failure the old file, if any, is untouched. `mark` may be NULL. */
enum status safetensors_write(const char *path, const struct safetensors_content *content,
                              struct safetensors_mark *mark);
/* Reads any file through and gives its mark, to be held against a manifest. */
enum status safetensors_checksum(const char *path, struct safetensors_mark *out);

/* For the reader and the writer alike: row of a type in safetensors.def, -1 when there is none. */
int safetensors_type_row(const char *type);
enum { SAFETENSORS_HEADER_LIMIT = 100000000 };

#endif
