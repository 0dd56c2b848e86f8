/* The writer of .npy files: format 1.0, the header as numpy.save writes it, to the byte. */
#include "tensor/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* NumPy keeps room for 21 digits of the first dimension, so that a file can grow in place. */
enum { HEADER_MOST = 256, PREFIX_BYTES = 10, ALIGN = 64, GROWTH_DIGITS = 21 };

static const char *const descr[DTYPE_COUNT] = {
    [DTYPE_F32] = "<f4", [DTYPE_F64] = "<f8", [DTYPE_F16] = "<f2",
    [DTYPE_I32] = "<i4", [DTYPE_I64] = "<i8", [DTYPE_U8] = "|u1",
};

/* "(2, 3)", "(2,)", "()"; returns the digits of the first dimension. */
static int shape_tuple(const struct shape *shape, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "(");
    for (int i = 0; i < shape->rank; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i ? ", " : "", shape->dim[i]);
    snprintf(text + used, bytes - used, shape->rank == 1 ? ",)" : ")");
    return shape->rank ? (int)strcspn(text + 1, ",)") : GROWTH_DIGITS;
}

static size_t make_header(enum dtype dtype, const struct shape *shape, unsigned char *out) {
    char tuple[SHAPE_TEXT_BYTES], text[HEADER_MOST];
    int digits = shape_tuple(shape, tuple, sizeof tuple);
    int used =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }%*s",
                 descr[dtype], tuple, GROWTH_DIGITS - digits, "");
    CHECK(used > 0 && used < HEADER_MOST - ALIGN, "a header of %d bytes", used);
    int padding = ALIGN - (PREFIX_BYTES + used + 1) % ALIGN, length = used + padding + 1;
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (unsigned char)(length & 0xFF);
    out[9] = (unsigned char)(length >> 8);
    memcpy(out + PREFIX_BYTES, text, (size_t)used);
    memset(out + PREFIX_BYTES + used, ' ', (size_t)padding);
    out[PREFIX_BYTES + length - 1] = '\n';
    return (size_t)(PREFIX_BYTES + length);
}

enum status npy_begin(const char *path, enum dtype dtype, const struct shape *shape,
                      struct npy_writer *out) {
    unsigned char header[PREFIX_BYTES + HEADER_MOST + ALIGN];
    if (!descr[dtype])
        return fail(STATUS_USAGE, "%s: NumPy has no type %s", path, dtype_name(dtype));
    struct npy_writer writer = {.left = (uint64_t)shape_count(shape) * dtype_bytes(dtype)};
    size_t bytes = make_header(dtype, shape, header);
    TRY(file_begin(path, &writer.file));
    enum status status = file_write(&writer.file, header, bytes);
    if (status == STATUS_OK)
        *out = writer;
    else
        file_abandon(&writer.file);
    return status;
}

enum status npy_emit(struct npy_writer *writer, const void *data, size_t bytes) {
    CHECK(bytes <= writer->left, "%zu bytes, %" PRIu64 " are left", bytes, writer->left);
    writer->left -= bytes;
    return bytes ? file_write(&writer->file, data, bytes) : STATUS_OK;
}

enum status npy_end(struct npy_writer *writer) {
    CHECK(writer->left == 0, "%" PRIu64 " bytes were never written", writer->left);
    return file_commit(&writer->file);
}

void npy_abandon(struct npy_writer *writer) {
    file_abandon(&writer->file);
}
