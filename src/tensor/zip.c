/* ZIP archives for .npz files. libzip and minizip were left out: what NumPy writes needs a
 * directory of fixed records and zlib's inflate, and every length of it is to be checked by our own
 * words. */
#include "tensor/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MOST = 65535,
    INPUT_BYTES = 1 << 16,
    DEFLATE_MOST = 1032, /* what one packed byte can become */
    STORED = 0,
    DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
};

static const uint64_t directory_most = (uint64_t)1 << 28;

static uint64_t little(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

enum status zip_begins(const struct file_reader *file, bool *out) {
    unsigned char magic[4] = {0};
    TRY(file_read_at(file, 0, magic, file->total < 4 ? (size_t)file->total : 4));
    *out = memcmp(magic, "PK\3\4", 4) == 0 || memcmp(magic, "PK\5\6", 4) == 0;
    return STATUS_OK;
}

/* --- the directory --- */

struct directory {
    uint64_t begin, bytes, count;
};

static enum status fail_archive(const struct file_reader *file, uint64_t offset, const char *what) {
    return fail(STATUS_DATA, "%s: byte %" PRIu64 ": %s\n  the archive is damaged or truncated",
                file->path, offset, what);
}

/* The end record stands last, but for a comment whose length it knows. */
static enum status find_end(const struct file_reader *file, unsigned char end[END_BYTES],
                            uint64_t *offset) {
    size_t most = END_BYTES + COMMENT_MOST, bytes = file->total < most ? (size_t)file->total : most;
    if (bytes < END_BYTES) return fail_archive(file, file->total, "no end of a ZIP archive");
    unsigned char *tail = mem_new(bytes);
    enum status status = file_read_at(file, file->total - bytes, tail, bytes);
    bool found = false;
    for (size_t at = bytes - END_BYTES + 1; at-- > 0 && status == STATUS_OK && !found;) {
        found = memcmp(tail + at, "PK\5\6", 4) == 0 &&
                little(tail + at + 20, 2) == bytes - at - END_BYTES;
        if (!found) continue;
        memcpy(end, tail + at, END_BYTES);
        *offset = file->total - bytes + at;
    }
    free(tail);
    if (status == STATUS_OK && !found)
        return fail_archive(file, file->total, "no end of a ZIP archive");
    return status;
}

static enum status read_end64(const struct file_reader *file, uint64_t end, struct directory *out) {
    unsigned char locator[LOCATOR_BYTES], record[END64_BYTES];
    if (end < LOCATOR_BYTES) return fail_archive(file, end, "no ZIP64 locator before it");
    TRY(file_read_at(file, end - LOCATOR_BYTES, locator, sizeof locator));
    uint64_t at = little(locator + 8, 8);
    if (memcmp(locator, "PK\6\7", 4) != 0 || file->total < END64_BYTES ||
        at > file->total - END64_BYTES)
        return fail_archive(file, end - LOCATOR_BYTES, "not a ZIP64 locator");
    TRY(file_read_at(file, at, record, sizeof record));
    if (memcmp(record, "PK\6\6", 4) != 0) return fail_archive(file, at, "not a ZIP64 end record");
    *out = (struct directory){.count = little(record + 32, 8),
                              .bytes = little(record + 40, 8),
                              .begin = little(record + 48, 8)};
    return STATUS_OK;
}

static enum status find_directory(const struct file_reader *file, struct directory *out) {
    unsigned char end[END_BYTES];
    uint64_t offset = 0;
    TRY(find_end(file, end, &offset));
    *out = (struct directory){
        .count = little(end + 10, 2), .bytes = little(end + 12, 4), .begin = little(end + 16, 4)};
    if (out->count == UINT16_MAX || out->bytes == UINT32_MAX || out->begin == UINT32_MAX)
        TRY(read_end64(file, offset, out));
    if (out->begin > file->total || out->bytes > file->total - out->begin)
        return fail_archive(file, offset, "the directory it names lies outside of the file");
    if (out->bytes > directory_most || out->count > out->bytes / ENTRY_BYTES)
        return fail_archive(file, offset, "the directory it names cannot have so many members");
    return STATUS_OK;
}

/* Fields of 32 bits that are all ones stand in the ZIP64 extra field instead, in this order. */
static bool widen(const unsigned char *extra, size_t bytes, uint64_t *const value[3]) {
    size_t at = 0, left = 0;
    while (left == 0 && bytes - at >= 4) {
        size_t length = little(extra + at + 2, 2);
        bool wanted = little(extra + at, 2) == EXTRA_ZIP64;
        at += 4;
        if (length > bytes - at) return false;
        if (wanted)
            left = length;
        else
            at += length;
    }
    for (int i = 0; i < 3; i++) {
        if (*value[i] != UINT32_MAX) continue;
        if (left < 8) return false;
        *value[i] = little(extra + at, 8);
        at += 8;
        left -= 8;
    }
    return true;
}

/* The local header in front of the data has its own lengths of name and extra field. */
static enum status find_data(const struct file_reader *file, uint64_t local,
                             struct zip_member *member) {
    unsigned char header[LOCAL_BYTES];
    if (file->total < LOCAL_BYTES || local > file->total - LOCAL_BYTES)
        return fail_archive(file, local, "a member is said to begin here, outside of the file");
    TRY(file_read_at(file, local, header, sizeof header));
    if (memcmp(header, "PK\3\4", 4) != 0)
        return fail_archive(file, local, "a member is said to begin here");
    member->begin = local + LOCAL_BYTES + little(header + 26, 2) + little(header + 28, 2);
    if (member->begin > file->total || member->packed > file->total - member->begin)
        return fail_archive(file, local, "a member begins here and ends outside of the file");
    return STATUS_OK;
}

static enum status check_member(const struct file_reader *file, const unsigned char *entry,
                                const struct zip_member *member) {
    char quoted[TEXT_QUOTED_BYTES];
    uint64_t flags = little(entry + 8, 2), method = little(entry + 10, 2);
    if (flags & FLAG_ENCRYPTED)
        return fail(STATUS_DATA, "%s: %s is encrypted", file->path,
                    text_quoted(member->name, quoted));
    if (method != STORED && method != DEFLATED)
        return fail(STATUS_DATA,
                    "%s: %s is packed by method %" PRIu64
                    ", only stored and deflated members are read\n"
                    "  write it with numpy.savez or numpy.savez_compressed",
                    file->path, text_quoted(member->name, quoted), method);
    bool possible = method == STORED ? member->bytes == member->packed
                                     : member->bytes / DEFLATE_MOST <= member->packed;
    if (!possible)
        return fail(STATUS_DATA,
                    "%s: %s: %" PRIu64 " bytes packed cannot be %" PRIu64
                    " unpacked\n  the archive is damaged",
                    file->path, text_quoted(member->name, quoted), member->packed, member->bytes);
    return STATUS_OK;
}

/* One entry of the directory, from *at, which is moved behind it. */
static enum status parse_entry(const struct file_reader *file, struct arena *arena,
                               const unsigned char **at, const unsigned char *end, uint64_t offset,
                               struct zip_member *out) {
    const unsigned char *entry = *at;
    if (end - entry < ENTRY_BYTES || memcmp(entry, "PK\1\2", 4) != 0)
        return fail_archive(file, offset, "not an entry of the directory");
    size_t name = little(entry + 28, 2), extra = little(entry + 30, 2),
           comment = little(entry + 32, 2);
    if ((size_t)(end - entry) - ENTRY_BYTES < name + extra + comment)
        return fail_archive(file, offset, "an entry longer than the directory");
    uint64_t local = little(entry + 42, 4);
    char *text = arena_new(arena, name + 1);
    memcpy(text, entry + ENTRY_BYTES, name);
    *out = (struct zip_member){.name = text,
                               .packed = little(entry + 20, 4),
                               .bytes = little(entry + 24, 4),
                               .deflated = little(entry + 10, 2) == DEFLATED,
                               .checked = true,
                               .crc = (uint32_t)little(entry + 16, 4)};
    if (!widen(entry + ENTRY_BYTES + name, extra,
               (uint64_t *const[3]){&out->bytes, &out->packed, &local}))
        return fail_archive(file, offset, "a broken ZIP64 field");
    TRY(check_member(file, entry, out));
    *at = entry + ENTRY_BYTES + name + extra + comment;
    return find_data(file, local, out);
}

enum status zip_list(const struct file_reader *file, struct arena *arena, struct zip_member **out,
                     size_t *count) {
    struct directory directory;
    TRY(find_directory(file, &directory));
    unsigned char *text = mem_new((size_t)directory.bytes + 1);
    enum status status = file_read_at(file, directory.begin, text, (size_t)directory.bytes);
    struct zip_member *members =
        arena_new(arena, ((size_t)directory.count + 1) * sizeof(struct zip_member));
    const unsigned char *at = text, *end = text + directory.bytes;
    for (uint64_t i = 0; i < directory.count && status == STATUS_OK; i++)
        status = parse_entry(file, arena, &at, end, directory.begin + (uint64_t)(at - text),
                             &members[i]);
    free(text);
    if (status != STATUS_OK) return status;
    *out = members;
    *count = (size_t)directory.count;
    return STATUS_OK;
}

/* --- one member --- */

enum status zip_stream_open(const struct file_reader *file, const struct zip_member *member,
                            struct zip_stream *out) {
    *out = (struct zip_stream){.file = file, .member = member};
    if (!member->deflated) return STATUS_OK;
    if (inflateInit2(&out->inflate, -MAX_WBITS) != Z_OK)
        return fail(STATUS_MEMORY, "%s: out of memory: unpacking cannot start", file->path);
    out->input = mem_new(INPUT_BYTES);
    return STATUS_OK;
}

void zip_stream_close(struct zip_stream *stream) {
    if (stream->input) inflateEnd(&stream->inflate);
    free(stream->input);
    stream->input = NULL;
}

static enum status fail_member(const struct zip_stream *stream, const char *what) {
    const char *name = stream->member->name;
    return fail(STATUS_DATA, "%s%s%s: byte %" PRIu64 " of %" PRIu64 ": %s", stream->file->path,
                *name ? ": " : "", *name ? text_quoted(name, (char[TEXT_QUOTED_BYTES]){0}) : "",
                stream->given, stream->member->bytes, what);
}

static enum status refill(struct zip_stream *stream) {
    uint64_t left = stream->member->packed - stream->taken;
    if (stream->inflate.avail_in > 0 || left == 0) return STATUS_OK;
    size_t bytes = left < INPUT_BYTES ? (size_t)left : INPUT_BYTES;
    TRY(file_read_at(stream->file, stream->member->begin + stream->taken, stream->input, bytes));
    stream->taken += bytes;
    stream->inflate.next_in = stream->input;
    stream->inflate.avail_in = (uInt)bytes;
    return STATUS_OK;
}

static enum status inflate_some(struct zip_stream *stream, unsigned char *out, size_t bytes) {
    enum { PIECE = 1 << 30 };
    size_t done = 0;
    while (done < bytes) {
        TRY(refill(stream));
        uInt room = bytes - done < PIECE ? (uInt)(bytes - done) : PIECE;
        stream->inflate.next_out = out + done;
        stream->inflate.avail_out = room;
        int code = inflate(&stream->inflate, Z_NO_FLUSH);
        done += room - stream->inflate.avail_out;
        if (done == bytes) break;
        if (code == Z_STREAM_END || code == Z_BUF_ERROR)
            return fail_member(stream, "its packed data end before");
        if (code != Z_OK) return fail_member(stream, "its packed data are damaged");
    }
    return STATUS_OK;
}

enum status zip_stream_read(struct zip_stream *stream, void *out, size_t bytes) {
    const struct zip_member *member = stream->member;
    if (bytes > member->bytes - stream->given) return fail_member(stream, "it ends too early");
    if (member->deflated)
        TRY(inflate_some(stream, out, bytes));
    else
        TRY(file_read_at(stream->file, member->begin + stream->given, out, bytes));
    stream->given += bytes;
    if (member->checked) stream->crc = (uint32_t)crc32_z(stream->crc, out, bytes);
    return STATUS_OK;
}

enum status zip_stream_end(struct zip_stream *stream) {
    const struct zip_member *member = stream->member;
    CHECK(stream->given == member->bytes, "%" PRIu64 " of %" PRIu64 " bytes read", stream->given,
          member->bytes);
    if (!member->checked || stream->crc == member->crc) return STATUS_OK;
    return fail(STATUS_DATA, "%s: %s: its checksum is %08x, the archive says %08x\n  it is damaged",
                stream->file->path, text_quoted(member->name, (char[TEXT_QUOTED_BYTES]){0}),
                (unsigned)stream->crc, (unsigned)member->crc);
}
