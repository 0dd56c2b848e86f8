/* The job's secret: 32 bytes from the system, 64 hex digits as text. It travels by a descriptor
 * that children inherit or by a file only its owner may read; never by argument list, never into a
 * log: messages here name the place and what is wrong with it, not what it holds. */
#include "control/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { SECRET_TEXT = 2 * CONTROL_SECRET_BYTES, SECRET_FILE_MOST = 1024 };

enum status control_secret_new(struct control_secret *out) {
    struct control_secret fresh;
    ssize_t got = getrandom(fresh.bytes, sizeof fresh.bytes, 0);
    if (got != (ssize_t)sizeof fresh.bytes)
        return fail(STATUS_DATA, "the system gave no random bytes: %s", strerror(errno));
    *out = fresh;
    control_secret_wipe(&fresh);
    return STATUS_OK;
}

void control_secret_wipe(struct control_secret *secret) {
    explicit_bzero(secret, sizeof *secret);
}

void control_secret_text(const struct control_secret *secret, char text[SECRET_TEXT + 1]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < CONTROL_SECRET_BYTES; i++) {
        text[2 * i] = digits[secret->bytes[i] >> 4];
        text[2 * i + 1] = digits[secret->bytes[i] & 15];
    }
    text[SECRET_TEXT] = 0;
}

static int digit_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

enum status control_secret_parse(const char *name, const char *text, struct control_secret *out) {
    struct control_secret read = {{0}};
    text += strspn(text, " \t\r\n");
    size_t length = strcspn(text, " \t\r\n");
    if (length != SECRET_TEXT || text[length + strspn(text + length, " \t\r\n")])
        return fail(STATUS_USAGE,
                    "%s: a key is %d hexadecimal digits and nothing else\n"
                    "  stretto key makes a new one",
                    name, SECRET_TEXT);
    for (int i = 0; i < SECRET_TEXT; i++) {
        int value = digit_value(text[i]);
        if (value < 0) {
            control_secret_wipe(&read);
            return fail(STATUS_USAGE,
                        "%s: character %d of the key is not a hexadecimal digit\n"
                        "  stretto key makes a new one",
                        name, i + 1);
        }
        read.bytes[i / 2] |= (unsigned char)(i % 2 ? value : value << 4);
    }
    *out = read;
    control_secret_wipe(&read);
    return STATUS_OK;
}

enum status control_check_private(const char *path, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return fail(STATUS_DATA, "%s: cannot look at it: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return fail(STATUS_USAGE, "%s: is not a regular file", path);
    if (info.st_uid != geteuid())
        return fail(STATUS_USAGE,
                    "%s: belongs to user %u, this process runs as user %u\n"
                    "  a key must be the user's own file",
                    path, (unsigned)info.st_uid, (unsigned)geteuid());
    if (info.st_mode & 077)
        return fail(STATUS_USAGE,
                    "%s: has mode %04o, others may use it; it must be 0600\n"
                    "  chmod 600 it, and make a new key if others had the time to read it",
                    path, (unsigned)(info.st_mode & 07777));
    return STATUS_OK;
}

ssize_t control_read_all(int fd, char *text, size_t bytes) {
    size_t used = 0;
    while (used < bytes) {
        ssize_t got = read(fd, text + used, bytes - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static enum status read_secret(const char *path, int fd, struct control_secret *out) {
    char text[SECRET_FILE_MOST + 1] = {0};
    TRY(control_check_private(path, fd));
    ssize_t got = control_read_all(fd, text, SECRET_FILE_MOST);
    if (got < 0) return fail(STATUS_DATA, "%s: cannot be read: %s", path, strerror(errno));
    enum status status = control_secret_parse(path, text, out);
    explicit_bzero(text, sizeof text);
    return status;
}

enum status control_secret_file(const char *path, struct control_secret *out) {
    /* O_NONBLOCK: a pipe of that name must not stop us before we saw that it is one. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return fail(STATUS_DATA, "%s: %s", path,
                    errno == ELOOP ? "is a symbolic link; name the file itself" : strerror(errno));
    enum status status = read_secret(path, fd, out);
    close(fd);
    return status;
}

static enum status write_all(const char *path, int fd, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail(STATUS_DATA, "%s: cannot be written: %s", path, strerror(errno));
        at += done;
        bytes -= (size_t)done;
    }
    return STATUS_OK;
}

enum status control_secret_save(const char *path, const struct control_secret *secret) {
    char text[SECRET_TEXT + 2];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(STATUS_DATA, "%s: %s", path,
                    errno == EEXIST ? "exists and is not overwritten" : strerror(errno));
    control_secret_text(secret, text);
    text[SECRET_TEXT] = '\n';
    enum status status = write_all(path, fd, text, SECRET_TEXT + 1);
    explicit_bzero(text, sizeof text);
    if (close(fd) != 0 && status == STATUS_OK)
        status = fail(STATUS_DATA, "%s: cannot be written: %s", path, strerror(errno));
    if (status != STATUS_OK) unlink(path);
    return status;
}

enum status control_secret_share(const struct control_secret *secret, int *fd) {
    int memory = memfd_create("stretto-key", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return fail(STATUS_DATA, "no memory file for the job's key: %s", strerror(errno));
    enum status status = write_all("the job's key", memory, secret->bytes, sizeof secret->bytes);
    if (status == STATUS_OK &&
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        status = fail(STATUS_DATA, "cannot seal the job's key: %s", strerror(errno));
    if (status == STATUS_OK)
        *fd = memory;
    else
        close(memory);
    return status;
}

enum status control_secret_receive(int fd, struct control_secret *out) {
    struct control_secret read;
    /* pread: ranks inherit one open file, and its position with it. */
    ssize_t got = pread(fd, read.bytes, sizeof read.bytes, 0);
    int cause = errno;
    close(fd);
    if (got != (ssize_t)sizeof read.bytes)
        return fail(STATUS_USAGE, "descriptor %d holds no key of the launcher: %s", fd,
                    got < 0 ? strerror(cause) : "too short");
    *out = read;
    control_secret_wipe(&read);
    return STATUS_OK;
}
