/* Files whose header says how long they are, gzipped or plain: read whole, and never more of them
 * than the header announces. A packed file of a few kilobytes may unpack to gigabytes; so the
 * header is read first, and the rest has the room that it asks for and no more. */
#ifndef BASE_ANNOUNCED_H
#define BASE_ANNOUNCED_H

#include "base/file.h"

enum { ANNOUNCED_HEAD_BYTES = 64 };

/* A kind of such files. */
struct announced_kind {
    size_t head_bytes; /* enough for every header, ANNOUNCED_HEAD_BYTES at most */
    size_t limit;      /* bytes that a file may have, whatever it announces */
    /* The length of the header, and of what it announces behind it. Fails, logged, where the first
     * `count` bytes of the file are no header: fewer than head_bytes where it ends before. */
    enum status (*parse)(const char *name, const unsigned char *head, size_t count,
                         size_t *header_bytes, size_t *value_bytes);
};

/* Local, blocking. Header and values of a file, through gunzip when it starts with the gzip magic;
 * the caller frees with bytes_free. STATUS_DATA, logged, where its length is another one than the
 * header announces. */
enum status announced_read(const char *path, const struct announced_kind *kind, struct bytes *out);
/* Local. The same of a gzip stream held in memory; `name` is for messages. */
enum status announced_gunzip(const char *name, const unsigned char *packed, size_t count,
                             const struct announced_kind *kind, struct bytes *out);

#endif
