/* The reader of .npy and .npz files. An array is a stream of bytes, out of the file itself or out
 * of a member of an archive: a prefix (magic, format, length), a header that is the text of a
 * Python dictionary with three keys, and the values. The text is read by a parser of that one
 * dictionary: nothing of it is ever evaluated. */
#include "tensor/npy.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "tensor/zip.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are swapped where the file is "
                                                          "big-endian");

enum {
    PREFIX_BYTES = 12,
    HEADER_MOST = 1 << 16,
    CHUNK_BYTES = 1 << 18,
    WORD_BYTES = 64,
    ARRAYS_MOST = 1 << 14
};

struct npy {
    struct arena arena; /* names and members */
    struct file_reader file;
    const struct zip_member *members; /* those that are arrays */
    char **labels;                    /* of an array in messages: "a.npz: images" */
    size_t count;
};

/* --- the header --- */

struct reader {
    const char *label; /* of the array, for messages */
    const char *at, *end;
};

static void skip_blanks(struct reader *reader) {
    while (reader->at < reader->end && isspace((unsigned char)*reader->at)) reader->at++;
}

/* Takes one character if it is next. */
static bool take(struct reader *reader, char wanted) {
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != wanted) return false;
    reader->at++;
    return true;
}

static enum status fail_header(const struct reader *reader, const char *what) {
    return fail(STATUS_DATA, "%s: the header of the array %s\n  numpy.save writes such files",
                reader->label, what);
}

/* A text in quotes, without escapes. */
static bool take_text(struct reader *reader, char out[WORD_BYTES]) {
    skip_blanks(reader);
    char quote = take(reader, '\'') ? '\'' : take(reader, '"') ? '"' : 0;
    for (size_t used = 0; quote && reader->at < reader->end && used < WORD_BYTES - 1; used++) {
        out[used] = *reader->at++;
        if (out[used] != quote) continue;
        out[used] = 0;
        return true;
    }
    return false;
}

static bool take_word(struct reader *reader, const char *word) {
    skip_blanks(reader);
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* Digits, and the L of old long integers. */
static bool take_dimension(struct reader *reader, int64_t *out) {
    skip_blanks(reader);
    int64_t value = 0;
    const char *begin = reader->at;
    for (; reader->at < reader->end && isdigit((unsigned char)*reader->at); reader->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *reader->at - '0', &value))
            return false;
    if (reader->at == begin) return false;
    take(reader, 'L');
    *out = value;
    return true;
}

static enum status take_shape(struct reader *reader, struct shape *out) {
    struct shape shape = {0};
    if (!take(reader, '(')) return fail_header(reader, "has no tuple as shape");
    while (!take(reader, ')')) {
        if (shape.rank == SHAPE_MAX_RANK)
            return fail(STATUS_DATA, "%s: an array of more than %d dimensions", reader->label,
                        SHAPE_MAX_RANK);
        if (!take_dimension(reader, &shape.dim[shape.rank++]))
            return fail_header(reader, "has a shape that is no list of whole numbers");
        if (!take(reader, ',') && (reader->at == reader->end || *reader->at != ')'))
            return fail_header(reader, "has a shape that does not end");
    }
    *out = shape;
    return STATUS_OK;
}

static bool type_is_known(char kind, int bytes) {
#define NPY_TYPE(letter, size, c_type, convert)                                                    \
    if (kind == (letter) && bytes == (size)) return true;
#include "tensor/npy.def"
#undef NPY_TYPE
    return false;
}

static enum status take_type(struct reader *reader, struct npy_array *out) {
    char text[WORD_BYTES], quoted[TEXT_QUOTED_BYTES];
    if (take(reader, '['))
        return fail(STATUS_DATA,
                    "%s: an array of records, expected numbers\n"
                    "  save each field as an array of its own",
                    reader->label);
    if (!take_text(reader, text)) return fail_header(reader, "has no text as descr");
    const char *type = text + (strchr("<>|=", text[0]) && text[0] ? 1 : 0);
    if (type[0] == 'O')
        return fail(STATUS_DATA,
                    "%s: an array of Python objects, which would need pickle to read\n"
                    "  save it as numbers: array.astype('float32')",
                    reader->label);
    if (strlen(type) != 2 || !type_is_known(type[0], type[1] - '0'))
        return fail(STATUS_DATA,
                    "%s: type %s, expected one of f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, "
                    "b1%-s",
                    reader->label, text_quoted(text, quoted),
                    strchr("US", type[0]) && type[0]
                        ? "\n  of texts: numpy.unique(array, return_inverse=True)[1]"
                        : "");
    memcpy(out->type, type, 3);
    out->real = type[0] == 'f';
    out->element_bytes = type[1] - '0';
    out->big_endian = text[0] == '>';
    return STATUS_OK;
}

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 };

static enum status take_key(struct reader *reader, struct npy_array *out, int *seen) {
    char key[WORD_BYTES];
    if (!take_text(reader, key) || !take(reader, ':'))
        return fail_header(reader, "is no dictionary of descr, fortran_order and shape");
    int bit = !strcmp(key, "descr")           ? KEY_DESCR
              : !strcmp(key, "fortran_order") ? KEY_ORDER
              : !strcmp(key, "shape")         ? KEY_SHAPE
                                              : 0;
    if (bit == 0 || *seen & bit) return fail_header(reader, "has an unknown key, or one twice");
    *seen |= bit;
    if (bit == KEY_DESCR) return take_type(reader, out);
    if (bit == KEY_SHAPE) return take_shape(reader, &out->shape);
    out->column_major = take_word(reader, "True");
    if (!out->column_major && !take_word(reader, "False"))
        return fail_header(reader, "has a fortran_order that is neither True nor False");
    return STATUS_OK;
}

static enum status parse_header(struct reader *reader, struct npy_array *out) {
    int seen = 0;
    struct npy_array array = {0};
    if (!take(reader, '{')) return fail_header(reader, "does not begin with {");
    while (!take(reader, '}')) {
        TRY(take_key(reader, &array, &seen));
        if (!take(reader, ',') && (reader->at == reader->end || *reader->at != '}'))
            return fail_header(reader, "does not end with }");
    }
    skip_blanks(reader);
    if (reader->at != reader->end) return fail_header(reader, "goes on after its }");
    if (seen != KEY_ALL) return fail_header(reader, "lacks descr, fortran_order or shape");
    *out = array;
    return STATUS_OK;
}

/* --- the stream up to the values --- */

static enum status read_prefix(struct zip_stream *stream, const char *label, size_t *length) {
    unsigned char prefix[PREFIX_BYTES];
    uint64_t total = stream->member->bytes;
    if (total < 10)
        return fail(STATUS_DATA,
                    "%s: %" PRIu64 " bytes: not a NumPy array (.npy), which has at least 10,\n"
                    "  nor an archive of them (.npz)",
                    label, total);
    TRY(zip_stream_read(stream, prefix, 10));
    if (memcmp(prefix, "\x93NUMPY", 6) != 0)
        return fail(STATUS_DATA,
                    "%s: byte 0: not a NumPy array (.npy), nor an archive of them (.npz)\n"
                    "  numpy.save writes such files",
                    label);
    if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0)
        return fail(STATUS_DATA, "%s: byte 6: format %d.%d, expected 1.0, 2.0 or 3.0", label,
                    prefix[6], prefix[7]);
    *length = prefix[8] | (size_t)prefix[9] << 8;
    if (prefix[6] == 1) return STATUS_OK;
    TRY(zip_stream_read(stream, prefix + 10, 2));
    *length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    return STATUS_OK;
}

static enum status check_length(const char *label, const struct npy_array *array, uint64_t left) {
    uint64_t bytes = (uint64_t)array->element_bytes;
    bool fits = true, empty = false;
    for (int i = 0; i < array->shape.rank; i++) {
        uint64_t dim = (uint64_t)array->shape.dim[i];
        empty |= dim == 0;
        fits &= !__builtin_mul_overflow(bytes, dim ? dim : 1, &bytes) && bytes <= INT64_MAX / 8;
    }
    if (empty) bytes = 0;
    if (fits && left == bytes) return STATUS_OK;
    char shape[SHAPE_TEXT_BYTES];
    shape_text(&array->shape, shape);
    if (!fits)
        return fail(STATUS_DATA, "%s: shape %s of %s: more bytes than can be counted", label, shape,
                    array->type);
    return fail(STATUS_DATA,
                "%s: shape %s of %s is %" PRIu64 " bytes, but %" PRIu64
                " bytes follow the header\n  %s",
                label, shape, array->type, bytes, left,
                left < bytes ? "is it truncated?" : "something was appended");
}

/* Leaves the stream at the first value. */
static enum status read_header(struct zip_stream *stream, const char *label,
                               struct npy_array *out) {
    size_t length = 0;
    struct npy_array array;
    TRY(read_prefix(stream, label, &length));
    uint64_t left = stream->member->bytes - stream->given;
    if (length > HEADER_MOST || length > left)
        return fail(STATUS_DATA, "%s: byte 8: a header of %zu bytes, expected at most %" PRIu64,
                    label, length, left < HEADER_MOST ? left : (uint64_t)HEADER_MOST);
    char *text = mem_new(length + 1);
    enum status status = zip_stream_read(stream, text, length);
    struct reader reader = {label, text, text + length};
    if (status == STATUS_OK) status = parse_header(&reader, &array);
    free(text);
    if (status == STATUS_OK) status = check_length(label, &array, left - length);
    if (status == STATUS_OK) *out = array;
    return status;
}

enum status npy_describe(const struct npy *file, size_t index, struct npy_array *out) {
    SCOPED(zip_stream_close) struct zip_stream stream = {0};
    TRY(zip_stream_open(&file->file, &file->members[index], &stream));
    return read_header(&stream, file->labels[index], out);
}

/* --- values --- */

static void swap_bytes(unsigned char *data, size_t count, int bytes) {
    for (; count-- > 0; data += bytes)
        for (int i = 0; i < bytes / 2; i++) {
            unsigned char kept = data[i];
            data[i] = data[bytes - 1 - i];
            data[bytes - 1 - i] = kept;
        }
}

static void to_f32(const struct npy_array *array, const unsigned char *in, size_t count,
                   float *out) {
#define NPY_TYPE(letter, size, c_type, convert)                                                    \
    if (array->type[0] == (letter) && array->element_bytes == (size))                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            c_type value;                                                                          \
            memcpy(&value, in + i * sizeof value, sizeof value);                                   \
            out[i] = (float)convert(value);                                                        \
        }
#include "tensor/npy.def"
#undef NPY_TYPE
}

/* Whole numbers alone; the first one that does not fit, or `count`. */
static size_t to_i64(const struct npy_array *array, const unsigned char *in, size_t count,
                     int64_t *out) {
#define NPY_TYPE(letter, size, c_type, convert)                                                    \
    if ((letter) != 'f' && array->type[0] == (letter) && array->element_bytes == (size))           \
        for (size_t i = 0; i < count; i++) {                                                       \
            c_type value;                                                                          \
            memcpy(&value, in + i * sizeof value, sizeof value);                                   \
            out[i] = (int64_t)value;                                                               \
        }
#include "tensor/npy.def"
#undef NPY_TYPE
    for (size_t i = 0; i < count && array->type[0] == 'u' && array->element_bytes == 8; i++)
        if (out[i] < 0) return i;
    return count;
}

/* Where element `at` of the file's order belongs: the first dimension runs fastest there. */
static size_t row_major(const struct shape *shape, size_t at) {
    size_t place = 0, stride = (size_t)shape_count(shape);
    for (int i = 0; i < shape->rank; i++) {
        size_t dim = (size_t)shape->dim[i];
        stride /= dim;
        place += at % dim * stride;
        at /= dim;
    }
    return place;
}

struct conversion {
    const char *label;
    struct npy_array array;
    enum dtype dtype;
    unsigned char *out;
    unsigned char *raw, *converted; /* one chunk each */
};

/* An infinite number of the file stays one; a finite one must not become infinite. */
static enum status check_range(const struct conversion *to, size_t first, size_t count,
                               const float *out) {
    double value;
    if (to->array.type[0] != 'f' || to->array.element_bytes != sizeof value) return STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (!isinf(out[i])) continue;
        memcpy(&value, to->raw + i * sizeof value, sizeof value);
        if (isfinite(value))
            return fail(STATUS_DATA,
                        "%s: element %zu is %g, beyond the range of f32 (3.4e38)\n"
                        "  values are read as f32: scale them before",
                        to->label, first + i, value);
    }
    return STATUS_OK;
}

static enum status convert(const struct conversion *to, size_t first, size_t count,
                           unsigned char *out) {
    if (to->array.big_endian) swap_bytes(to->raw, count, to->array.element_bytes);
    if (to->dtype == DTYPE_F32) {
        to_f32(&to->array, to->raw, count, (float *)out);
        TRY(check_range(to, first, count, (const float *)out));
    }
    if (to->dtype == DTYPE_U8) memcpy(out, to->raw, count);
    if (to->dtype != DTYPE_I64) return STATUS_OK;
    size_t done = to_i64(&to->array, to->raw, count, (int64_t *)out);
    if (done == count) return STATUS_OK;
    return fail(STATUS_DATA, "%s: element %zu is above %" PRId64, to->label, first + done,
                INT64_MAX);
}

static enum status read_some(struct zip_stream *stream, const struct conversion *to) {
    size_t total = (size_t)shape_count(&to->array.shape), bytes = dtype_bytes(to->dtype);
    size_t most = CHUNK_BYTES / 8;
    for (size_t first = 0; first < total; first += most) {
        size_t count = total - first < most ? total - first : most;
        TRY(zip_stream_read(stream, to->raw, count * (size_t)to->array.element_bytes));
        bool plain = !to->array.column_major;
        TRY(convert(to, first, count, plain ? to->out + first * bytes : to->converted));
        for (size_t i = 0; i < count && !plain; i++)
            memcpy(to->out + row_major(&to->array.shape, first + i) * bytes,
                   to->converted + i * bytes, bytes);
    }
    return STATUS_OK;
}

static enum status read_values(struct zip_stream *stream, const struct conversion *to) {
    TRY(read_some(stream, to));
    return zip_stream_end(stream);
}

static enum status check_wanted(const struct conversion *to) {
    const struct npy_array *array = &to->array;
    CHECK(to->dtype == DTYPE_F32 || to->dtype == DTYPE_I64 || to->dtype == DTYPE_U8,
          "values cannot be read as %s", dtype_name(to->dtype));
    if (to->dtype == DTYPE_I64 && array->real)
        return fail(STATUS_DATA,
                    "%s: type %s, expected whole numbers\n"
                    "  convert them first: array.astype('int64')",
                    to->label, array->type);
    if (to->dtype == DTYPE_U8 && (array->real || array->element_bytes != 1 || *array->type == 'i'))
        return fail(STATUS_DATA, "%s: type %s, expected u1", to->label, array->type);
    return STATUS_OK;
}

enum status npy_read(const struct npy *file, size_t index, enum dtype dtype, void *out,
                     size_t bytes) {
    SCOPED(zip_stream_close) struct zip_stream stream = {0};
    struct conversion to = {.label = file->labels[index], .dtype = dtype, .out = out};
    TRY(zip_stream_open(&file->file, &file->members[index], &stream));
    enum status status = read_header(&stream, to.label, &to.array);
    if (status == STATUS_OK) status = check_wanted(&to);
    if (status == STATUS_OK) {
        size_t needs = (size_t)shape_count(&to.array.shape) * dtype_bytes(dtype);
        CHECK(bytes == needs, "%s: %zu bytes for an array of %zu", to.label, bytes, needs);
        to.raw = mem_new(CHUNK_BYTES);
        to.converted = mem_new(CHUNK_BYTES);
        status = read_values(&stream, &to);
        free(to.raw);
        free(to.converted);
    }
    return status;
}

bool npy_has_rows(const struct npy *file, const struct npy_array *array) {
    return file->count == 1 && !*file->members[0].name && !array->column_major &&
           array->shape.rank > 0;
}

enum status npy_read_rows(const struct npy *file, enum dtype dtype, int64_t first, int64_t count,
                          void *out) {
    SCOPED(zip_stream_close) struct zip_stream stream = {0};
    struct conversion to = {.label = file->labels[0], .dtype = dtype, .out = out};
    TRY(zip_stream_open(&file->file, &file->members[0], &stream));
    enum status status = read_header(&stream, to.label, &to.array);
    if (status == STATUS_OK) status = check_wanted(&to);
    if (status == STATUS_OK) {
        CHECK(npy_has_rows(file, &to.array) && first >= 0 && first + count <= to.array.shape.dim[0],
              "rows %" PRId64 " + %" PRId64 " of %s", first, count, to.label);
        int64_t each = shape_count(&to.array.shape) / to.array.shape.dim[0];
        stream.given += (uint64_t)(first * each) * (uint64_t)to.array.element_bytes;
        size_t bytes = (size_t)(count * each) * (size_t)to.array.element_bytes;
        to.array.shape = SHAPE(count * each);
        to.raw = mem_new(bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES);
        status = read_some(&stream, &to);
        free(to.raw);
    }
    return status;
}

/* --- files --- */

static bool is_array(const char *name, size_t *stem) {
    size_t length = strlen(name);
    bool npy = length >= 4 && strcmp(name + length - 4, ".npy") == 0;
    *stem = npy ? length - 4 : length;
    return npy;
}

static enum status list_archive(struct npy *file) {
    struct zip_member *members;
    size_t count, stem;
    TRY(zip_list(&file->file, &file->arena, &members, &count));
    if (count > ARRAYS_MOST)
        return fail(STATUS_DATA, "%s: %zu members, expected at most %d", file->file.path, count,
                    ARRAYS_MOST);
    file->members = members;
    file->labels = arena_new(&file->arena, (count + 1) * sizeof *file->labels);
    for (size_t i = 0; i < count; i++) {
        if (!is_array(members[i].name, &stem)) continue;
        struct zip_member *kept = &members[file->count];
        *kept = members[i];
        char *name = arena_text(&file->arena, kept->name), quoted[TEXT_QUOTED_BYTES];
        name[stem] = 0;
        kept->name = name;
        size_t ignored;
        if (npy_find(file, name, &ignored))
            return fail(STATUS_DATA, "%s: two arrays are named %s", file->file.path,
                        text_quoted(name, quoted));
        SCOPED_FREE char *label = mem_format("%s: %s", file->file.path, text_quoted(name, quoted));
        file->labels[file->count++] = arena_text(&file->arena, label);
    }
    return STATUS_OK;
}

static enum status list(struct npy *file) {
    bool archive = false;
    TRY(zip_begins(&file->file, &archive));
    if (archive) return list_archive(file);
    struct zip_member *whole = arena_new(&file->arena, sizeof *whole);
    *whole = (struct zip_member){.name = "", .packed = file->file.total, .bytes = file->file.total};
    file->members = whole;
    file->labels = arena_new(&file->arena, sizeof *file->labels);
    file->labels[0] = arena_text(&file->arena, file->file.path);
    file->count = 1;
    return STATUS_OK;
}

static enum status list_or_close(struct npy *file, struct npy **out) {
    enum status status = list(file);
    if (status == STATUS_OK)
        *out = file;
    else
        npy_close(&file);
    return status;
}

enum status npy_open(const char *path, struct npy **out) {
    struct file_reader reader;
    TRY(file_reader_open(path, &reader));
    struct npy *file = MEM_NEW(struct npy);
    file->file = reader;
    file->file.path = arena_text(&file->arena, path);
    return list_or_close(file, out);
}

enum status npy_parse(const char *name, const void *data, size_t count, struct npy **out) {
    struct npy *file = MEM_NEW(struct npy);
    file->file = file_reader_of(arena_text(&file->arena, name), data, count);
    return list_or_close(file, out);
}

void npy_close(struct npy **file) {
    if (!*file) return;
    file_reader_close(&(*file)->file);
    arena_free(&(*file)->arena);
    free(*file);
    *file = NULL;
}

size_t npy_count(const struct npy *file) {
    return file->count;
}

const char *npy_name(const struct npy *file, size_t index) {
    return file->members[index].name;
}

bool npy_find(const struct npy *file, const char *name, size_t *out) {
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->members[i].name, name) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}
