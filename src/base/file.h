/* Files: whole reads with clear errors, and writes that are either whole or not there. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

struct bytes {
    unsigned char *data; /* owned, one zero byte follows the last */
    size_t count;
};

/* Local, blocking. Reads a whole regular file of at most `limit` bytes; the caller frees with
 * bytes_free. STATUS_UNREADABLE where the system would not open or read what is there. */
enum status file_read(const char *path, size_t limit, struct bytes *out);
void bytes_free(struct bytes *bytes);
/* Local. Says that an open failed, from errno: STATUS_DATA where nothing of that name is there,
 * else STATUS_UNREADABLE. */
enum status file_open_failed(const char *path);

/* A regular file that is read in parts, or memory that stands for one (`fd` -1). Several threads
 * may read one. The path and the memory are borrowed. */
struct file_reader {
    const char *path; /* for messages */
    int fd;
    const unsigned char *memory;
    uint64_t total; /* bytes of the file */
};
/* Local, blocking but for memory. The bytes of file_read_at must lie inside the file; a file that
 * became shorter is STATUS_UNREADABLE. file_reader_close may be called twice. */
enum status file_reader_open(const char *path, struct file_reader *out);
struct file_reader file_reader_of(const char *name, const void *data, size_t count);
enum status file_read_at(const struct file_reader *reader, uint64_t offset, void *out,
                         size_t bytes);
void file_reader_close(struct file_reader *reader);

/* Local, blocking. An atomic write: open a temporary neighbour, write, then file_commit (flush,
 * fsync, rename, fsync of the folder) or file_abandon (remove). After a failed commit nothing is
 * left behind. */
struct file_writer {
    FILE *stream;
    char *path, *temporary;
};
enum status file_begin(const char *path, struct file_writer *out);
enum status file_write(struct file_writer *writer, const void *data, size_t bytes);
enum status file_commit(struct file_writer *writer);
void file_abandon(struct file_writer *writer);

/* Local, blocking. Writes a small text atomically; NULL: whoever made it had no memory. */
enum status file_write_text(const char *path, const char *text);

/* Local, not blocking. Whether a process holds a lock of the kernel (flock) on the file of that
 * name, for writing. */
bool file_is_locked(const char *path);
/* Local. Whether the open file is still the one of that name: others may have removed or replaced
 * it. */
bool file_is_at(int fd, const char *path);
/* Local. Whether both names are of one file that is there, by whatever links. */
bool file_is_same(const char *a, const char *b);
/* Local. The path from the root, of names as they are: no link is followed. file_resolved follows
 * those of the part that is there, but for a link at its end, and has no "." and "..". The caller
 * frees both. */
char *file_absolute(const char *path);
char *file_resolved(const char *path);
/* Local. True when the path exists; is a regular file, or a link to one. folder_make creates
 * parents too; each new folder is synced in its parent. folder_make_new needs the parent, and tells
 * whether this call made the folder: of several processes at once one does. folder_remove takes all
 * below; of a link it takes the link alone. */
bool file_exists(const char *path);
bool file_is_regular(const char *path);
char *folder_of(const char *path);                       /* its parent; the caller frees it */
char *folder_path(const char *folder, const char *name); /* FOLDER/NAME; likewise */
enum status folder_make(const char *path);
enum status folder_make_new(const char *path, bool *made);
/* Local. What this process may still write to the disk of an existing folder; false: unknown. */
bool folder_free_bytes(const char *path, uint64_t *out);
enum status folder_sync(const char *path);
enum status folder_remove(const char *path);
/* Local, blocking. Calls `visit` with each name in a folder, in any order, until one fails; removes
 * what has a name that `wanted` knows. A folder that is not there has none; STATUS_UNREADABLE where
 * it cannot be read. */
enum status folder_each(const char *path, enum status (*visit)(void *context, const char *name),
                        void *context);
enum status folder_remove_named(const char *path, bool (*wanted)(const char *name));

#endif
