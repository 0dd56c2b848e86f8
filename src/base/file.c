/* Whole-file reads and atomic writes. Errors carry the path, the offset where it matters, and the
 * system's own text. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

enum status file_open_failed(const char *path) {
    bool missing = errno == ENOENT || errno == ENOTDIR;
    return fail(missing ? STATUS_DATA : STATUS_UNREADABLE, "%s: cannot open: %s", path,
                strerror(errno));
}

enum status file_reader_open(const char *path, struct file_reader *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make it wait */
    if (fd < 0) return file_open_failed(path);
    struct stat info;
    bool known = fstat(fd, &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
        enum status status =
            known ? fail(STATUS_DATA, "%s: not a regular file", path) : file_open_failed(path);
        close(fd);
        return status;
    }
    *out = (struct file_reader){.path = path, .fd = fd, .total = (uint64_t)info.st_size};
    return STATUS_OK;
}

struct file_reader file_reader_of(const char *name, const void *data, size_t count) {
    return (struct file_reader){.path = name, .fd = -1, .memory = data, .total = count};
}

enum status file_read_at(const struct file_reader *reader, uint64_t offset, void *out,
                         size_t bytes) {
    CHECK(offset <= reader->total && bytes <= reader->total - offset,
          "%s: %zu bytes at %" PRIu64 " of %" PRIu64, reader->path, bytes, offset, reader->total);
    if (reader->fd < 0) {
        if (bytes > 0) memcpy(out, reader->memory + offset, bytes);
        return STATUS_OK;
    }
    unsigned char *cursor = out;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(reader->fd, cursor + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return fail(STATUS_UNREADABLE,
                        "%s: read stopped at byte %" PRIu64 " of %" PRIu64 ": %s", reader->path,
                        offset + done, reader->total,
                        got < 0 ? strerror(errno) : "the file became shorter");
        done += (size_t)got;
    }
    return STATUS_OK;
}

void file_reader_close(struct file_reader *reader) {
    if (reader->fd >= 0) close(reader->fd);
    reader->fd = -1;
}

static enum status read_whole(const struct file_reader *reader, struct bytes *out) {
    size_t count = (size_t)reader->total;
    unsigned char *data = malloc(count + 1);
    if (!data) return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes", reader->path, count);
    enum status status = file_read_at(reader, 0, data, count);
    if (status != STATUS_OK) {
        free(data);
        return status;
    }
    data[count] = 0;
    *out = (struct bytes){data, count};
    return STATUS_OK;
}

enum status file_read(const char *path, size_t limit, struct bytes *out) {
    SCOPED(file_reader_close) struct file_reader reader = {.fd = -1};
    TRY(file_reader_open(path, &reader));
    return reader.total <= limit
               ? read_whole(&reader, out)
               : fail(STATUS_DATA,
                      "%s: %" PRIu64 " bytes, more than the %zu this kind of file may have", path,
                      reader.total, limit);
}

void bytes_free(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}

enum status file_begin(const char *path, struct file_writer *out) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return fail(STATUS_DATA, "%s: not a regular file, and a file would take its place", path);
    struct file_writer writer = {.path = mem_text(path),
                                 .temporary = mem_format("%s.tmp.%d", path, (int)getpid())};
    writer.stream = fopen(writer.temporary, "wb");
    if (!writer.stream) {
        enum status status = fail(STATUS_DATA, "%s: cannot write: %s", path, strerror(errno));
        file_abandon(&writer);
        return status;
    }
    *out = writer;
    return STATUS_OK;
}

enum status file_write(struct file_writer *writer, const void *data, size_t bytes) {
    if (fwrite(data, 1, bytes, writer->stream) == bytes) return STATUS_OK;
    return fail(STATUS_DATA, "%s: write failed: %s", writer->path, strerror(errno));
}

char *folder_path(const char *folder, const char *name) {
    return mem_format("%s/%s", folder, name);
}

char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return mem_text(".");
    return slash == path ? mem_text("/") : mem_format("%.*s", (int)(slash - path), path);
}

enum status file_commit(struct file_writer *writer) {
    const char *what = NULL;
    if (ferror(writer->stream) || fflush(writer->stream) != 0) /* the former: an earlier fprintf */
        what = "write failed";
    else if (fsync(fileno(writer->stream)) != 0)
        what = "fsync failed";
    int code = errno;
    if (fclose(writer->stream) != 0 && !what) what = "close failed", code = errno;
    writer->stream = NULL;
    if (!what && rename(writer->temporary, writer->path) != 0) what = "rename failed", code = errno;
    if (what) {
        enum status status = fail(STATUS_DATA, "%s: %s: %s\n  nothing was changed", writer->path,
                                  what, strerror(code));
        file_abandon(writer);
        return status;
    }
    char *folder = folder_of(writer->path);
    enum status status = folder_sync(folder);
    free(folder);
    free(writer->path);
    free(writer->temporary);
    *writer = (struct file_writer){0};
    return status;
}

void file_abandon(struct file_writer *writer) {
    if (writer->stream) fclose(writer->stream);
    if (writer->temporary) unlink(writer->temporary);
    free(writer->path);
    free(writer->temporary);
    *writer = (struct file_writer){0};
}

enum status file_write_text(const char *path, const char *text) {
    struct file_writer writer;
    if (!text) return fail(STATUS_MEMORY, "%s: out of memory for its text", path);
    TRY(file_begin(path, &writer));
    enum status status = file_write(&writer, text, strlen(text));
    if (status == STATUS_OK) return file_commit(&writer);
    file_abandon(&writer);
    return status;
}

bool file_is_locked(const char *path) {
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), got;
    if (fd < 0) return false;
    do got = flock(fd, LOCK_SH | LOCK_NB);
    while (got != 0 && errno == EINTR);
    bool locked = got != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

bool file_is_at(int fd, const char *path) {
    struct stat mine, theirs;
    return fstat(fd, &mine) == 0 && stat(path, &theirs) == 0 && mine.st_ino == theirs.st_ino &&
           mine.st_dev == theirs.st_dev;
}

bool file_is_same(const char *a, const char *b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_ino == other.st_ino &&
           one.st_dev == other.st_dev;
}

char *file_absolute(const char *path) {
    SCOPED_FREE char *here = *path == '/' ? NULL : getcwd(NULL, 0);
    while (here && path[0] == '.' && path[1] == '/') path += 1 + strspn(path + 1, "/");
    return !here                    ? mem_text(path)
           : strcmp(path, ".") == 0 ? mem_text(here)
                                    : mem_format("%s/%s", here[1] ? here : "", path);
}

/* Names behind a folder that is there, to a folder or file that is not: no link is among them. */
static char *append_names(char *out, const char *names) {
    for (size_t length; *names; names += length) {
        names += strspn(names, "/");
        length = strcspn(names, "/");
        bool up = length == 2 && names[0] == '.' && names[1] == '.';
        if (length == 0 || (length == 1 && *names == '.')) continue;
        char *slash = strrchr(out, '/');
        char *longer = up ? mem_format("%.*s", slash ? (int)(slash - out) : 0, out)
                          : mem_format("%s/%.*s", out, (int)length, names);
        free(out);
        out = longer;
    }
    if (*out) return out;
    free(out);
    return mem_text("/");
}

char *file_resolved(const char *path) {
    char *whole = file_absolute(path), *end = whole + strlen(whole), *real = NULL;
    while (end > whole + 1 && end[-1] == '/') *--end = 0;
    for (char *cut = strrchr(whole, '/'); !real && cut;
         cut = memrchr(whole, '/', (size_t)(cut - whole))) {
        *cut = 0;
        real = realpath(cut == whole ? "/" : whole, NULL);
        *cut = '/';
        if (real && !real[1]) *real = 0; /* the root has its slash already */
        if (real) real = append_names(real, cut);
    }
    if (!real) return whole;
    free(whole);
    return real;
}

bool file_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool file_is_regular(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* A parent that may be written but not read cannot be synced: the folder counts as made. */
static enum status sync_parent(const char *path) {
    SCOPED_FREE char *parent = folder_of(path);
    bool readable = access(parent, R_OK) == 0 || errno != EACCES;
    return readable ? folder_sync(parent) : STATUS_OK;
}

enum status folder_make_new(const char *path, bool *made) {
    *made = mkdir(path, 0777) == 0;
    if (*made) return sync_parent(path);
    if (errno == EEXIST) return STATUS_OK;
    return fail(STATUS_DATA, "%s: cannot create folder: %s", path, strerror(errno));
}

static enum status make_level(const char *path) {
    bool made;
    struct stat info;
    TRY(folder_make_new(path, &made));
    if (made || (stat(path, &info) == 0 && S_ISDIR(info.st_mode))) return STATUS_OK;
    return fail(STATUS_DATA, "%s: cannot create folder: %s", path, strerror(EEXIST));
}

enum status folder_make(const char *path) {
    char *copy = mem_text(path);
    enum status status = STATUS_OK;
    for (char *cursor = copy + 1; status == STATUS_OK; cursor++) {
        if (*cursor != '/' && *cursor != 0) continue;
        char kept = *cursor;
        *cursor = 0;
        status = make_level(copy);
        *cursor = kept;
        if (!kept) break;
    }
    free(copy);
    return status;
}

bool folder_free_bytes(const char *path, uint64_t *out) {
    struct statvfs disk;
    if (statvfs(path, &disk) != 0 || disk.f_blocks == 0) return false;
    /* the rest is kept for root */
    *out = (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
    return true;
}

enum status folder_sync(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail(STATUS_DATA, "%s: cannot open folder: %s", path, strerror(errno));
    int code = fsync(fd) == 0 || errno == EINVAL
                   ? 0
                   : errno; /* EINVAL: the file system has no such thing */
    close(fd);
    return code ? fail(STATUS_DATA, "%s: fsync of the folder failed: %s", path, strerror(code))
                : STATUS_OK;
}

enum status folder_remove(const char *path) {
    struct stat top;
    bool is_folder =
        lstat(path, &top) == 0 && S_ISDIR(top.st_mode); /* a link goes, not its target */
    DIR *folder = is_folder ? opendir(path) : NULL;
    if (!folder)
        return (!is_folder && unlink(path) == 0) || errno == ENOENT
                   ? STATUS_OK
                   : fail(STATUS_DATA, "%s: cannot remove: %s", path, strerror(errno));
    enum status status = STATUS_OK;
    struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(folder))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        SCOPED_FREE char *child = mem_format("%s/%s", path, entry->d_name);
        struct stat info;
        if (lstat(child, &info) == 0 && S_ISDIR(info.st_mode))
            status = folder_remove(child);
        else if (unlink(child) != 0)
            status = fail(STATUS_DATA, "%s: cannot remove: %s", child, strerror(errno));
    }
    closedir(folder);
    if (status == STATUS_OK && rmdir(path) != 0)
        status = fail(STATUS_DATA, "%s: cannot remove: %s", path, strerror(errno));
    return status;
}

/* A folder that is not there holds nothing; one that cannot be read may hold something, and so may
 * one that a link names: its disk may not be mounted. */
static enum status open_folder(const char *path, DIR **out) {
    *out = opendir(path);
    int code = *out ? 0 : errno;
    if (*out || (code == ENOENT && !file_exists(path))) return STATUS_OK;
    return fail(STATUS_UNREADABLE, "%s: cannot open folder: %s%-s", path, strerror(code),
                code == ENOENT ? "\n  it is a link: what it names is missing" : "");
}

enum status folder_each(const char *path, enum status (*visit)(void *context, const char *name),
                        void *context) {
    DIR *folder;
    struct dirent *entry;
    enum status status = STATUS_OK;
    TRY(open_folder(path, &folder));
    if (!folder) return STATUS_OK;
    while (status == STATUS_OK && (errno = 0, entry = readdir(folder)))
        status = visit(context, entry->d_name);
    int code = status == STATUS_OK ? errno : 0;
    closedir(folder);
    if (code == 0) return status;
    return fail(STATUS_UNREADABLE, "%s: cannot be read: %s", path, strerror(code));
}

struct removal {
    const char *path;
    bool (*wanted)(const char *name);
};

static enum status remove_wanted(void *context, const char *name) {
    const struct removal *removal = context;
    if (!removal->wanted(name)) return STATUS_OK;
    SCOPED_FREE char *one = mem_format("%s/%s", removal->path, name);
    return folder_remove(one);
}

enum status folder_remove_named(const char *path, bool (*wanted)(const char *name)) {
    struct removal removal = {path, wanted};
    return folder_each(path, remove_wanted, &removal);
}
