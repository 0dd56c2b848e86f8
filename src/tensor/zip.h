/* ZIP archives, as far as .npz files need them: a list of the members, and one member read from its
 * first byte to its last. Members are stored or deflated, ZIP64 or not. A plain file is read the
 * same way, as one stored member without a checksum.
 *
 * The directory is checked when it is listed: what it says lies inside the file, and no member
 * announces more than its packed bytes can give. The checksum of a member is compared at its end.
 *
 * Everything here is local and blocking. Several threads may read one archive, each through its own
 * stream. */
#ifndef TENSOR_ZIP_H
#define TENSOR_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"

struct zip_member {
    const char *name;       /* "" for a plain file */
    uint64_t begin, packed; /* where its bytes lie in the file */
    uint64_t bytes;         /* unpacked */
    bool deflated, checked; /* checked: `crc` is known */
    uint32_t crc;
};

/* Whether the file begins as an archive does. */
enum status zip_begins(const struct file_reader *file, bool *out);
/* The members in the order of the directory; they live in `arena`. */
enum status zip_list(const struct file_reader *file, struct arena *arena, struct zip_member **out,
                     size_t *count);

/* Reading one member. `file` and `member` must outlive the stream. */
struct zip_stream {
    const struct file_reader *file;
    const struct zip_member *member;
    uint64_t taken, given; /* bytes read from the file; bytes handed out */
    uint32_t crc;
    z_stream inflate;
    unsigned char *input; /* packed bytes; NULL for stored members */
};
enum status zip_stream_open(const struct file_reader *file, const struct zip_member *member,
                            struct zip_stream *out);
/* The next bytes, all of them: at the end of the member it fails. */
enum status zip_stream_read(struct zip_stream *stream, void *out, size_t bytes);
/* After the last byte: fails where the checksum is another one. */
enum status zip_stream_end(struct zip_stream *stream);
void zip_stream_close(struct zip_stream *stream);

#endif
