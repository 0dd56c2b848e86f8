/* See announced.h. The packed bytes pass through a small block, so that what a file takes is what
 * its header announces and that block. */
#include "base/announced.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/log.h"
#include "base/mem.h"

enum { BLOCK_BYTES = 65536 };

/* --- a gzip stream, a part at a time --- */

struct unpacking {
    const struct file_reader *file;
    z_stream stream;
    uint64_t taken; /* packed bytes that were read */
    size_t given;   /* unpacked bytes */
    bool ended;
    unsigned char block[BLOCK_BYTES];
};

static enum status refill(struct unpacking *unpacking) {
    uint64_t left = unpacking->file->total - unpacking->taken;
    size_t bytes = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    if (unpacking->stream.avail_in > 0 || bytes == 0) return STATUS_OK;
    TRY(file_read_at(unpacking->file, unpacking->taken, unpacking->block, bytes));
    unpacking->taken += bytes;
    unpacking->stream.next_in = unpacking->block;
    unpacking->stream.avail_in = (uInt)bytes;
    return STATUS_OK;
}

static enum status damaged(const struct unpacking *unpacking, const char *how) {
    return fail(STATUS_DATA, "%s: gzip data is %s at unpacked byte %zu", unpacking->file->path, how,
                unpacking->given);
}

/* Up to `bytes` more, fewer at the end of the last member. */
static enum status unpack(struct unpacking *unpacking, unsigned char *out, size_t bytes,
                          size_t *done) {
    z_stream *stream = &unpacking->stream;
    for (*done = 0; *done < bytes && !unpacking->ended;) {
        TRY(refill(unpacking));
        if (stream->avail_in == 0) return damaged(unpacking, "truncated");
        size_t room = bytes - *done < 1u << 30 ? bytes - *done : 1u << 30;
        stream->next_out = out + *done;
        stream->avail_out = (uInt)room;
        int code = inflate(stream, Z_NO_FLUSH);
        *done += room - stream->avail_out;
        unpacking->given += room - stream->avail_out;
        if (code == Z_STREAM_END) {
            unpacking->ended = stream->avail_in == 0 && unpacking->taken == unpacking->file->total;
            if (!unpacking->ended) code = inflateReset(stream); /* another member follows */
        }
        if (code != Z_OK && code != Z_STREAM_END) return damaged(unpacking, "corrupt");
    }
    return STATUS_OK;
}

/* --- what the header announces --- */

struct announced {
    size_t header, values;
};

static enum status parse(const char *name, const struct announced_kind *kind,
                         const unsigned char *head, size_t count, struct announced *out) {
    size_t total;
    TRY(kind->parse(name, head, count, &out->header, &out->values));
    if (!__builtin_add_overflow(out->header, out->values, &total) && total <= kind->limit)
        return STATUS_OK;
    return fail(
        STATUS_DATA,
        "%s: the header announces %zu bytes of values, more than the %zu bytes this kind of "
        "file may have",
        name, out->values, kind->limit);
}

static enum status misfit(const char *name, const struct announced *announced, uint64_t total) {
    bool less = total < announced->header + announced->values;
    return fail(STATUS_DATA,
                "%s: the header announces %zu bytes of values, but %" PRIu64 " follow it\n  %s",
                name, announced->values, total - announced->header,
                less ? "is it truncated?" : "something was appended");
}

static enum status room_for(const char *name, const struct announced *announced,
                            struct bytes *out) {
    size_t total = announced->header + announced->values;
    unsigned char *data = malloc(total + 1);
    if (!data) return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes", name, total);
    data[total] = 0;
    *out = (struct bytes){data, total};
    return STATUS_OK;
}

/* Behind the header: `count` bytes of the file are in `head`. */
static enum status unpack_values(struct unpacking *unpacking, const struct announced *announced,
                                 const unsigned char *head, size_t count,
                                 const struct bytes *room) {
    size_t more = 0, beyond = 0;
    unsigned char next;
    if (count < room->count) {
        memcpy(room->data, head, count);
        TRY(unpack(unpacking, room->data + count, room->count - count, &more));
    } else {
        memcpy(room->data, head, room->count);
        beyond = count - room->count;
    }
    if (count < room->count && count + more < room->count)
        return misfit(unpacking->file->path, announced, count + more);
    if (beyond == 0) TRY(unpack(unpacking, &next, 1, &beyond)); /* its end, with the checksum */
    if (beyond == 0) return STATUS_OK;
    return fail(STATUS_DATA,
                "%s: the header announces %zu bytes of values, but it unpacks to more\n"
                "  something was appended",
                unpacking->file->path, announced->values);
}

/* Deflate turns a byte into 1032 at most: no room is taken for what cannot come. */
static bool can_unpack_to(const struct file_reader *file, size_t bytes) {
    return bytes / 1032 <= file->total;
}

static enum status unpack_file(struct unpacking *unpacking, const struct announced_kind *kind,
                               unsigned char *head, struct bytes *out) {
    const struct file_reader *file = unpacking->file;
    struct announced announced;
    SCOPED(bytes_free) struct bytes room = {0};
    size_t count;
    TRY(unpack(unpacking, head, kind->head_bytes, &count));
    TRY(parse(file->path, kind, head, count, &announced));
    if (!can_unpack_to(file, announced.values))
        return fail(STATUS_DATA,
                    "%s: the header announces %zu bytes of values, but %" PRIu64
                    " packed bytes cannot hold so many\n  is it truncated?",
                    file->path, announced.values, file->total);
    TRY(room_for(file->path, &announced, &room));
    TRY(unpack_values(unpacking, &announced, head, count, &room));
    *out = room;
    room = (struct bytes){0};
    return STATUS_OK;
}

static enum status gunzip(const struct file_reader *file, const struct announced_kind *kind,
                          unsigned char *head, struct bytes *out) {
    SCOPED_FREE struct unpacking *unpacking = calloc(1, sizeof *unpacking);
    if (!unpacking || inflateInit2(&unpacking->stream, 16 + MAX_WBITS) != Z_OK)
        return fail(STATUS_MEMORY, "%s: out of memory: gunzip cannot start", file->path);
    unpacking->file = file;
    enum status status = unpack_file(unpacking, kind, head, out);
    inflateEnd(&unpacking->stream);
    return status;
}

/* --- plain files --- */

static enum status read_plain(const struct file_reader *file, const struct announced_kind *kind,
                              const unsigned char *head, size_t count, struct bytes *out) {
    struct announced announced;
    SCOPED(bytes_free) struct bytes room = {0};
    TRY(parse(file->path, kind, head, count, &announced));
    if (announced.header + announced.values != file->total)
        return misfit(file->path, &announced, file->total);
    TRY(room_for(file->path, &announced, &room));
    TRY(file_read_at(file, 0, room.data, room.count));
    *out = room;
    room = (struct bytes){0};
    return STATUS_OK;
}

static enum status read_any(const struct file_reader *file, const struct announced_kind *kind,
                            unsigned char *head, struct bytes *out) {
    size_t count = file->total < kind->head_bytes ? (size_t)file->total : kind->head_bytes;
    TRY(file_read_at(file, 0, head, count));
    if (count >= 2 && head[0] == 0x1F && head[1] == 0x8B) return gunzip(file, kind, head, out);
    return read_plain(file, kind, head, count, out);
}

enum status announced_read(const char *path, const struct announced_kind *kind, struct bytes *out) {
    SCOPED(file_reader_close) struct file_reader file = {.fd = -1};
    unsigned char head[ANNOUNCED_HEAD_BYTES];
    CHECK(kind->head_bytes <= sizeof head, "a header of %zu bytes", kind->head_bytes);
    TRY(file_reader_open(path, &file));
    return read_any(&file, kind, head, out);
}

enum status announced_gunzip(const char *name, const unsigned char *packed, size_t count,
                             const struct announced_kind *kind, struct bytes *out) {
    struct file_reader file = file_reader_of(name, packed, count);
    unsigned char head[ANNOUNCED_HEAD_BYTES];
    CHECK(kind->head_bytes <= sizeof head, "a header of %zu bytes", kind->head_bytes);
    return gunzip(&file, kind, head, out);
}
