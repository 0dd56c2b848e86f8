/* The safetensors reader.
 *
 * The header is parsed by jansson (duplicate keys refused), then every entry is checked on its own,
 * then all together: sorted by offset they must start at 0, touch one another and end with the
 * file. Mapping the file was rejected: a file truncated by someone else while we train would end
 * the process with SIGBUS. */
#include "tensor/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data are little-endian");

struct safetensors {
    struct arena arena; /* names, shapes */
    struct file_reader from;
    uint64_t data; /* where the data begin */
    struct safetensors_entry *entries;
    const struct safetensors_entry **by_name;
    size_t count;
};

static const struct {
    const char *name;
    int bits;
} types[] = {
#define SAFETENSORS_TYPE(name, bits) {name, bits},
#include "tensor/safetensors.def"
#undef SAFETENSORS_TYPE
};

int safetensors_type_row(const char *type) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].name, type)) return (int)i;
    return -1;
}

const char *safetensors_shape_text(const struct safetensors_entry *entry,
                                   char text[SHAPE_TEXT_BYTES]) {
    size_t used = (size_t)snprintf(text, SHAPE_TEXT_BYTES, "[");
    for (size_t i = 0; i < entry->rank; i++) {
        if (used > SHAPE_TEXT_BYTES - 32) { /* room for one number, "...]" and the end */
            used += (size_t)snprintf(text + used, SHAPE_TEXT_BYTES - used, "...");
            break;
        }
        used += (size_t)snprintf(text + used, SHAPE_TEXT_BYTES - used, "%s%" PRId64, i ? "," : "",
                                 entry->dim[i]);
    }
    snprintf(text + used, SHAPE_TEXT_BYTES - used, "]");
    return text;
}

/* Every complaint about one tensor names file and tensor alike. */
#define TENSOR_FAIL(file, name, format, ...)                                                       \
    fail(STATUS_DATA, "%s: tensor %s: " format, (file)->from.path,                                 \
         text_quoted(name, (char[TEXT_QUOTED_BYTES]){0}), __VA_ARGS__)

static enum status parse_shape(struct safetensors *file, const json_t *shape,
                               struct safetensors_entry *entry) {
    if (!json_is_array(shape))
        return TENSOR_FAIL(file, entry->name, "field \"shape\" is %s, not an array",
                           shape ? "of another kind" : "missing");
    entry->rank = json_array_size(shape);
    int64_t *dim = arena_new(&file->arena, (entry->rank + 1) * sizeof *dim);
    for (size_t i = 0; i < entry->rank; i++) {
        const json_t *value = json_array_get(shape, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return TENSOR_FAIL(file, entry->name, "dimension %zu is not a whole number from 0 up",
                               i);
        dim[i] = json_integer_value(value);
    }
    entry->dim = dim;
    return STATUS_OK;
}

static enum status parse_offsets(struct safetensors *file, const json_t *offsets,
                                 struct safetensors_entry *entry) {
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return TENSOR_FAIL(file, entry->name, "field \"data_offsets\" is %s",
                           offsets ? "not two whole numbers" : "missing");
    json_int_t begin = json_integer_value(first), end = json_integer_value(second);
    uint64_t limit = file->from.total - file->data;
    if (begin < 0 || end < begin || (uint64_t)end > limit)
        return TENSOR_FAIL(file, entry->name,
                           "data_offsets [%" JSON_INTEGER_FORMAT ",%" JSON_INTEGER_FORMAT
                           "] do not lie in the %" PRIu64 " bytes of data\n"
                           "  the file may be truncated: copy it again",
                           begin, end, limit);
    entry->begin = (uint64_t)begin;
    entry->bytes = (uint64_t)(end - begin);
    return STATUS_OK;
}

/* The size that type and shape ask for must be the size that the offsets give. */
static enum status check_size(const struct safetensors *file,
                              const struct safetensors_entry *entry) {
    uint64_t bits = 1;
    bool overflow = false;
    for (size_t i = 0; i < entry->rank; i++)
        overflow |= __builtin_mul_overflow(bits, (uint64_t)entry->dim[i], &bits);
    overflow |= __builtin_mul_overflow(bits, (uint64_t)entry->bits, &bits);
    char text[SHAPE_TEXT_BYTES];
    safetensors_shape_text(entry, text);
    if (overflow)
        return TENSOR_FAIL(file, entry->name, "shape %s of %s is too large for any file", text,
                           entry->type);
    if (bits % 8 != 0)
        return TENSOR_FAIL(file, entry->name, "shape %s of %s is not a whole number of bytes", text,
                           entry->type);
    if (bits / 8 != entry->bytes)
        return TENSOR_FAIL(file, entry->name,
                           "%s of %s needs %" PRIu64 " bytes, its data_offsets give %" PRIu64, text,
                           entry->type, bits / 8, entry->bytes);
    return STATUS_OK;
}

static void set_native(struct safetensors_entry *entry) {
    entry->native =
        entry->rank <= SHAPE_MAX_RANK && dtype_from_safetensors(entry->type, &entry->dtype);
    if (!entry->native) return;
    entry->shape.rank = (int)entry->rank;
    for (size_t i = 0; i < entry->rank; i++) entry->shape.dim[i] = entry->dim[i];
}

static enum status parse_entry(struct safetensors *file, const char *name, const json_t *value,
                               struct safetensors_entry *entry) {
    entry->name = arena_text(&file->arena, name);
    if (!json_is_object(value)) return TENSOR_FAIL(file, name, "%s", "its entry is not an object");
    const char *type = json_string_value(json_object_get(value, "dtype"));
    int row = type ? safetensors_type_row(type) : -1;
    if (row < 0)
        return TENSOR_FAIL(file, name, "dtype %s is not one that safetensors defines",
                           type ? text_quoted(type, (char[TEXT_QUOTED_BYTES]){0}) : "(missing)");
    entry->type = types[row].name;
    entry->bits = types[row].bits;
    TRY(parse_shape(file, json_object_get(value, "shape"), entry));
    TRY(parse_offsets(file, json_object_get(value, "data_offsets"), entry));
    TRY(check_size(file, entry));
    set_native(entry);
    return STATUS_OK;
}

/* Nothing here asks for what it says. */
static enum status check_metadata(const struct safetensors *file, json_t *metadata) {
    if (!json_is_object(metadata))
        return fail(STATUS_DATA, "%s: __metadata__ is not an object", file->from.path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return fail(STATUS_DATA, "%s: __metadata__ %s is not a string", file->from.path,
                        text_quoted(key, (char[TEXT_QUOTED_BYTES]){0}));
    }
    return STATUS_OK;
}

static int compare_offsets(const void *left, const void *right) {
    const struct safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1; /* empty ones first */
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right) {
    const struct safetensors_entry *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Sorts the entries by offset and checks that they fill the data without gap or overlap. */
static enum status check_cover(struct safetensors *file) {
    if (file->count > 1) qsort(file->entries, file->count, sizeof *file->entries, compare_offsets);
    uint64_t expected = 0, data_bytes = file->from.total - file->data;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        if (entry->begin != expected)
            return TENSOR_FAIL(file, entry->name,
                               "begins at byte %" PRIu64 " of the data, expected %" PRIu64
                               "\n  tensors must follow one another without gap or overlap",
                               entry->begin, expected);
        expected += entry->bytes;
    }
    if (expected != data_bytes)
        return fail(STATUS_DATA,
                    "%s: the tensors end at byte %" PRIu64 ", the file at byte %" PRIu64
                    "\n  it was cut, or something was added to its end: copy it again",
                    file->from.path, file->data + expected, file->from.total);
    return STATUS_OK;
}

static enum status parse_tensors(struct safetensors *file, json_t *root) {
    size_t room = json_object_size(root) + 1;
    file->entries = arena_new(&file->arena, room * sizeof *file->entries);
    file->by_name = arena_new(&file->arena, room * sizeof *file->by_name);
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) {
        if (!strcmp(name, "__metadata__")) {
            TRY(check_metadata(file, value));
            continue;
        }
        TRY(parse_entry(file, name, value, &file->entries[file->count]));
        file->count++;
    }
    TRY(check_cover(file));
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->entries[i];
    if (file->count > 1) qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    return STATUS_OK;
}

static enum status parse_header(struct safetensors *file, const char *header, size_t count) {
    if (count == 0 || header[0] != '{')
        return fail(STATUS_DATA,
                    "%s: byte 8 should be the \"{\" of a JSON header, not 0x%02x\n"
                    "  this is not a safetensors file",
                    file->from.path, count ? (unsigned char)header[0] : 0);
    json_error_t error;
    json_auto_t *root = json_loadb(header, count, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail(STATUS_DATA, "%s: header, byte %d: %s", file->from.path, 8 + error.position,
                    error.text);
    return parse_tensors(file, root);
}

/* By the first bytes of what torch.save writes: a ZIP archive, or before PyTorch 1.6 a pickle. Of a
 * length that can be one they say nothing: a header may well have 0x280 bytes. */
static bool is_pickle(uint64_t first) {
    return (first & 0xFFFFFFFF) == 0x04034B50 || (first & 0xFFFF) == 0x0280;
}

/* What stands where the length should be: of another kind of file its first bytes say more than a
 * number. */
static enum status fail_length(const struct safetensors *file, uint64_t length) {
    char begin[sizeof length + 1] = "", quoted[TEXT_QUOTED_BYTES];
    memcpy(begin, &length, sizeof length);
    if (text_is_clean(begin) && strlen(begin) == sizeof length)
        return fail(STATUS_DATA,
                    "%s: not a safetensors file: it begins with the text %s\n"
                    "  weights are a .safetensors file, or the folder of a run or a checkpoint",
                    file->from.path, text_quoted(begin, quoted));
    return fail(STATUS_DATA,
                "%s: not a safetensors file: its first 8 bytes would be a header of %" PRIu64
                " bytes, %d is the most\n"
                "  weights are a .safetensors file, or the folder of a run or a checkpoint",
                file->from.path, length, SAFETENSORS_HEADER_LIMIT);
}

/* Reads the length field, then the header. `file` has path, source and total set. */
static enum status load(struct safetensors *file) {
    uint64_t length = 0;
    if (file->from.total < sizeof length)
        return fail(STATUS_DATA,
                    "%s: %" PRIu64 " bytes, a safetensors file has at least 8\n"
                    "  the file is empty or truncated",
                    file->from.path, file->from.total);
    TRY(file_read_at(&file->from, 0, &length, sizeof length));
    bool is_length = length <= SAFETENSORS_HEADER_LIMIT;
    if (!is_length && is_pickle(length))
        return fail(STATUS_DATA,
                    "%s: PyTorch's own format, which is not read: it may run code\n"
                    "  python -c 'import torch, safetensors.torch as s; c = torch.load(\"%s\", "
                    "weights_only=True); c = c.get(\"state_dict\", c.get(\"model\", c)); "
                    "s.save_file({k: v.clone() for k, v in c.items()}, \"model.safetensors\")'\n"
                    "  writes one that is",
                    file->from.path, file->from.path);
    if (!is_length) return fail_length(file, length);
    file->data = sizeof length + length;
    if (file->data > file->from.total)
        return fail(STATUS_DATA,
                    "%s: the header ends at byte %" PRIu64 ", the file at byte %" PRIu64
                    "\n  the file is truncated: copy it again",
                    file->from.path, file->data, file->from.total);
    SCOPED_FREE char *header = malloc((size_t)length + 1);
    if (!header)
        return fail(STATUS_MEMORY, "%s: out of memory: a header of %" PRIu64 " bytes",
                    file->from.path, length);
    TRY(file_read_at(&file->from, sizeof length, header, (size_t)length));
    return parse_header(file, header, (size_t)length);
}

/* The name is copied; what it reads from is closed with it. */
static enum status load_from(struct file_reader from, struct safetensors **out) {
    SCOPED(safetensors_close) struct safetensors *file = MEM_NEW(struct safetensors);
    file->from = from;
    file->from.path = arena_text(&file->arena, from.path);
    TRY(load(file));
    *out = file;
    file = NULL;
    return STATUS_OK;
}

enum status safetensors_open(const char *path, struct safetensors **out) {
    struct file_reader from;
    TRY(file_reader_open(path, &from));
    return load_from(from, out);
}

enum status safetensors_parse(const char *name, const void *data, size_t count,
                              struct safetensors **out) {
    return load_from(file_reader_of(name, data, count), out);
}

void safetensors_close(struct safetensors **file) {
    if (!*file) return;
    file_reader_close(&(*file)->from);
    arena_free(&(*file)->arena);
    free(*file);
    *file = NULL;
}

size_t safetensors_count(const struct safetensors *file) {
    return file->count;
}

const struct safetensors_entry *safetensors_at(const struct safetensors *file, size_t index) {
    CHECK(index < file->count, "tensor %zu of %zu", index, file->count);
    return &file->entries[index];
}

bool safetensors_find(const struct safetensors *file, const char *name, size_t *out) {
    const struct safetensors_entry key = {.name = name}, *wanted = &key;
    if (file->count == 0) return false;
    const struct safetensors_entry **found =
        bsearch(&wanted, file->by_name, file->count, sizeof *file->by_name, compare_names);
    if (!found) return false;
    *out = (size_t)(*found - file->entries);
    return true;
}

enum status safetensors_read_part(const struct safetensors *file, size_t index, uint64_t offset,
                                  void *buffer, size_t bytes) {
    const struct safetensors_entry *entry = safetensors_at(file, index);
    CHECK(offset <= entry->bytes && bytes <= entry->bytes - offset,
          "%zu bytes at %" PRIu64 " of \"%s\", which has %" PRIu64, bytes, offset, entry->name,
          entry->bytes);
    return file_read_at(&file->from, file->data + entry->begin + offset, buffer, bytes);
}

enum status safetensors_read(const struct safetensors *file, size_t index, void *buffer,
                             size_t bytes) {
    const struct safetensors_entry *entry = safetensors_at(file, index);
    CHECK(bytes == entry->bytes, "a buffer of %zu bytes for \"%s\" of %" PRIu64, bytes, entry->name,
          entry->bytes);
    return safetensors_read_part(file, index, 0, buffer, bytes);
}

enum status safetensors_checksum(const char *path, struct safetensors_mark *out) {
    enum { PIECE = 1 << 20 };
    struct file_reader file;
    TRY(file_reader_open(path, &file));
    unsigned char *piece = mem_new(PIECE);
    uint32_t crc = 0;
    enum status status = STATUS_OK;
    for (uint64_t done = 0; done < file.total && status == STATUS_OK; done += PIECE) {
        size_t bytes = file.total - done < PIECE ? (size_t)(file.total - done) : PIECE;
        status = file_read_at(&file, done, piece, bytes);
        if (status == STATUS_OK) crc = crc32c(crc, piece, bytes);
    }
    free(piece);
    file_reader_close(&file);
    if (status == STATUS_OK) *out = (struct safetensors_mark){file.total, crc};
    return status;
}
