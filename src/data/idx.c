/* The parser trusts no number before it is compared with the length of what is there. Offsets in
 * messages count unpacked bytes. */
#include "data/idx.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static uint32_t big_endian(const unsigned char *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static size_t element_bytes(int type) {
    static const unsigned char bytes[16] = {
        [0x08] = 1, [0x09] = 1, [0x0B] = 2, [0x0C] = 4, [0x0D] = 4, [0x0E] = 8};
    return type < 16 ? bytes[type] : 0;
}

static enum status parse_magic(const char *name, const unsigned char *data, size_t count,
                               struct idx *idx) {
    if (count < 4)
        return fail(STATUS_DATA, "%s: %zu bytes, but the IDX magic alone has 4", name, count);
    idx->type = data[2];
    idx->rank = data[3];
    if (data[0] != 0 || data[1] != 0 || element_bytes(idx->type) == 0)
        return fail(
            STATUS_DATA,
            "%s: byte 0: magic 0x%08X is not IDX's\n  expected two zero bytes, a type, a rank",
            name, big_endian(data));
    if (idx->rank < 1 || idx->rank > IDX_MAX_RANK)
        return fail(STATUS_DATA, "%s: byte 3: %d dimensions, expected 1 to %d", name, idx->rank,
                    IDX_MAX_RANK);
    if (count < 4 + 4 * (size_t)idx->rank)
        return fail(STATUS_DATA,
                    "%s: ends at byte %zu, inside its header of %d bytes\n  is it truncated?", name,
                    count, 4 + 4 * idx->rank);
    return STATUS_OK;
}

/* All but the values, of which only the bytes are known then. */
static enum status parse_header(const char *name, const unsigned char *data, size_t count,
                                struct idx *idx) {
    TRY(parse_magic(name, data, count, idx));
    idx->value_bytes = element_bytes(idx->type);
    for (int d = 0; d < idx->rank; d++) {
        idx->dim[d] = big_endian(data + 4 + 4 * d);
        if (__builtin_mul_overflow(idx->value_bytes, (size_t)idx->dim[d], &idx->value_bytes))
            return fail(STATUS_DATA,
                        "%s: byte %d: dimension %d is %lld: more bytes than can be counted", name,
                        4 + 4 * d, d, (long long)idx->dim[d]);
    }
    return STATUS_OK;
}

static size_t header_bytes(const struct idx *idx) {
    return 4 + 4 * (size_t)idx->rank;
}

static enum status announce(const char *name, const unsigned char *head, size_t count,
                            size_t *out_header, size_t *out_values) {
    struct idx idx = {0};
    TRY(parse_header(name, head, count, &idx));
    *out_header = header_bytes(&idx);
    *out_values = idx.value_bytes;
    return STATUS_OK;
}

const struct announced_kind idx_kind = {
    .head_bytes = 4 + 4 * IDX_MAX_RANK, .limit = (size_t)4 << 30, .parse = announce};

enum status idx_parse(const char *name, const unsigned char *data, size_t count, struct idx *out) {
    struct idx idx = {0};
    TRY(parse_header(name, data, count, &idx));
    size_t header = header_bytes(&idx), need = idx.value_bytes;
    if (count - header != need)
        return fail(STATUS_DATA,
                    "%s: the header announces %zu bytes of values, but %zu follow it\n  %s", name,
                    need, count - header,
                    count - header < need ? "is it truncated?" : "something was appended");
    idx.values = data + header;
    *out = idx;
    return STATUS_OK;
}

static enum status parse_bytes(const char *name, struct bytes bytes, int rank, const char *what,
                               struct idx *out) {
    struct idx idx;
    TRY(idx_parse(name, bytes.data, bytes.count, &idx));
    if (idx.type != IDX_U8 || idx.rank != rank)
        return fail(STATUS_DATA,
                    "%s: byte 0: magic 0x%08X, expected 0x%08X (%s)\n  are the files mixed up?",
                    name, (unsigned)(idx.type << 8 | idx.rank), (unsigned)(IDX_U8 << 8 | rank),
                    what);
    if (idx.dim[0] == 0) return fail(STATUS_DATA, "%s: byte 4: holds 0 samples", name);
    *out = idx;
    return STATUS_OK;
}

static enum status check_labels(const char *name, const struct idx *label, int classes) {
    for (int64_t i = 0; i < label->dim[0]; i++)
        if (label->values[i] >= classes)
            return fail(STATUS_DATA, "%s: byte %lld: label %d of sample %lld, expected 0 to %d",
                        name, (long long)(8 + i), label->values[i], (long long)i, classes - 1);
    return STATUS_OK;
}

static unsigned char *copy_of(const unsigned char *data, size_t bytes) {
    return memcpy(mem_new(bytes), data, bytes);
}

enum status idx_images(const char *image_name, struct bytes image, const char *label_name,
                       struct bytes label, int classes, struct image_set *out) {
    struct idx images, labels;
    TRY(parse_bytes(image_name, image, 3, "images: bytes, 3 dimensions", &images));
    TRY(parse_bytes(label_name, label, 1, "labels: bytes, 1 dimension", &labels));
    for (int d = 1; d < 3; d++)
        if (images.dim[d] < 1 || images.dim[d] > IMAGE_MAX_SIZE)
            return fail(STATUS_DATA, "%s: byte %d: images %lldx%lld, expected sides of 1 to %d",
                        image_name, 4 + 4 * d, (long long)images.dim[1], (long long)images.dim[2],
                        IMAGE_MAX_SIZE);
    if (images.dim[0] != labels.dim[0])
        return fail(STATUS_DATA,
                    "%s holds %lld images but %s %lld labels\n  are they of one data set?",
                    image_name, (long long)images.dim[0], label_name, (long long)labels.dim[0]);
    TRY(check_labels(label_name, &labels, classes));
    *out = (struct image_set){.pixels = copy_of(images.values, images.value_bytes),
                              .labels = copy_of(labels.values, labels.value_bytes),
                              .count = images.dim[0],
                              .channels = 1,
                              .height = (int)images.dim[1],
                              .width = (int)images.dim[2]};
    return STATUS_OK;
}
