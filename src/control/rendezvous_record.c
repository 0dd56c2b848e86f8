/* Printing and reading rendezvous records: see rendezvous_record.h. One "key value" a line in fixed
 * order; the last line is the CRC32C of all before it. */
#include "control/rendezvous_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"

static const char first_line[] = "stretto rendezvous 2\n";

static void read_word(const char *path, char word[CONTROL_RENDEZVOUS_WORD]) {
    FILE *file = fopen(path, "re");
    snprintf(word, CONTROL_RENDEZVOUS_WORD, "-");
    if (!file) return;
    if (fscanf(file, "%127s", word) != 1) snprintf(word, CONTROL_RENDEZVOUS_WORD, "-");
    fclose(file);
}

/* A value of a line: printable, no blanks, not empty. */
static bool is_word(const char *text, size_t most) {
    size_t length = strlen(text);
    if (length == 0 || length >= most) return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return true;
}

static void read_link(const char *path, char word[CONTROL_RENDEZVOUS_WORD]) {
    ssize_t got = readlink(path, word, CONTROL_RENDEZVOUS_WORD - 1);
    word[got > 0 ? got : 0] = 0;
    if (!is_word(word, CONTROL_RENDEZVOUS_WORD)) snprintf(word, 2, "-");
}

static enum status set_nonce(char nonce[CONTROL_RENDEZVOUS_WORD]) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return fail(STATUS_DATA, "the system gave no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

enum status control_rendezvous_record_new(const char *job, int world,
                                          const struct control_rendezvous_info *info,
                                          struct control_rendezvous_record *out) {
    struct control_rendezvous_record record = {.pid = getpid(), .world = world, .info = *info};
    if (job && !is_word(job, CONTROL_RENDEZVOUS_WORD))
        return fail(STATUS_USAGE, "the job's id must be of 1 to %d printable characters, no blanks",
                    CONTROL_RENDEZVOUS_WORD - 1);
    if (info->address[0] && !is_word(info->address, CONTROL_ADDRESS_BYTES))
        return fail(STATUS_USAGE, "the address to publish has blanks or control characters");
    snprintf(record.job, sizeof record.job, "%s", job ? job : "-");
    TRY(set_nonce(record.nonce));
    read_word("/proc/sys/kernel/hostname", record.host);
    read_word("/proc/sys/kernel/random/boot_id", record.boot);
    read_link("/proc/self/ns/pid", record.space);
    read_link("/proc/self/ns/net", record.net);
    *out = record;
    control_secret_wipe(&record.info.secret);
    return STATUS_OK;
}

size_t control_rendezvous_record_print(const struct control_rendezvous_record *record,
                                       char text[CONTROL_RENDEZVOUS_BYTES]) {
    char secret[2 * CONTROL_SECRET_BYTES + 1];
    control_secret_text(&record->info.secret, secret);
    int used =
        snprintf(text, CONTROL_RENDEZVOUS_BYTES,
                 "%sjob %s\nworld %d\nnonce %s\nhost %s\nboot %s\nspace %s\nnet %s\n"
                 "pid %d\naddress %s\nsecret %s\n",
                 first_line, record->job, record->world, record->nonce, record->host, record->boot,
                 record->space, record->net, record->pid, record->info.address, secret);
    explicit_bzero(secret, sizeof secret);
    uint32_t crc = crc32c(0, text, (size_t)used);
    used += snprintf(text + used, CONTROL_RENDEZVOUS_BYTES - (size_t)used, "crc %08x\n", crc);
    return (size_t)used;
}

/* Copies the value of the line "key value" at *at and steps over it. */
static bool take(const char **at, const char *key, char *value, size_t most) {
    size_t length = strlen(key);
    if (strncmp(*at, key, length) != 0 || (*at)[length] != ' ') return false;
    const char *begin = *at + length + 1, *end = strchr(begin, '\n');
    if (!end || (size_t)(end - begin) >= most) return false;
    memcpy(value, begin, (size_t)(end - begin));
    value[end - begin] = 0;
    *at = end + 1;
    return is_word(value, most);
}

static bool take_int(const char **at, const char *key, int *value) {
    char word[16], *end;
    if (!take(at, key, word, sizeof word)) return false;
    errno = 0;
    long number = strtol(word, &end, 10);
    *value = (int)number;
    return *end == 0 && errno == 0 && number >= 0 && number <= 1 << 30;
}

static bool take_secret(const char **at, struct control_secret *secret) {
    char word[2 * CONTROL_SECRET_BYTES + 1];
    if (!take(at, "secret", word, sizeof word) || strlen(word) != sizeof word - 1) return false;
    if (strspn(word, "0123456789abcdef") != sizeof word - 1) return false;
    enum status status = control_secret_parse("rendezvous file", word, secret);
    explicit_bzero(word, sizeof word);
    return status == STATUS_OK;
}

static bool whole(const char *text, size_t bytes) {
    enum { CRC_LINE = 13 }; /* "crc 01234567\n" */
    char line[CRC_LINE + 1];
    if (bytes < CRC_LINE) return false;
    uint32_t crc = crc32c(0, text, bytes - CRC_LINE);
    snprintf(line, sizeof line, "crc %08x\n", crc);
    return memcmp(text + bytes - CRC_LINE, line, CRC_LINE) == 0;
}

enum control_rendezvous_state
control_rendezvous_record_parse(const char *text, size_t bytes,
                                struct control_rendezvous_record *out) {
    struct control_rendezvous_record record = {0};
    char copy[CONTROL_RENDEZVOUS_BYTES];
    size_t head = strlen(first_line), compared = bytes < head ? bytes : head;
    if (memcmp(text, first_line, compared) != 0) return CONTROL_RENDEZVOUS_ALIEN;
    if (bytes >= sizeof copy || memchr(text, 0, bytes) || !whole(text, bytes))
        return CONTROL_RENDEZVOUS_TORN;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    const char *at = copy + head;
    bool good =
        take(&at, "job", record.job, sizeof record.job) && take_int(&at, "world", &record.world) &&
        take(&at, "nonce", record.nonce, sizeof record.nonce) &&
        take(&at, "host", record.host, sizeof record.host) &&
        take(&at, "boot", record.boot, sizeof record.boot) &&
        take(&at, "space", record.space, sizeof record.space) &&
        take(&at, "net", record.net, sizeof record.net) && take_int(&at, "pid", &record.pid) &&
        take(&at, "address", record.info.address, sizeof record.info.address) &&
        take_secret(&at, &record.info.secret) && strncmp(at, "crc ", 4) == 0;
    explicit_bzero(copy, sizeof copy);
    if (good) *out = record;
    explicit_bzero(&record, sizeof record);
    return good ? CONTROL_RENDEZVOUS_GOOD : CONTROL_RENDEZVOUS_TORN;
}

bool control_rendezvous_same_boot(const struct control_rendezvous_record *a,
                                  const struct control_rendezvous_record *b) {
    return strcmp(a->boot, "-") != 0 && strcmp(a->boot, b->boot) == 0;
}

bool control_rendezvous_same_space(const struct control_rendezvous_record *a,
                                   const struct control_rendezvous_record *b) {
    return control_rendezvous_same_boot(a, b) && strcmp(a->space, "-") != 0 &&
           strcmp(a->space, b->space) == 0;
}

bool control_rendezvous_same_host(const struct control_rendezvous_record *a,
                                  const struct control_rendezvous_record *b) {
    return control_rendezvous_same_boot(a, b) && strcmp(a->net, "-") != 0 &&
           strcmp(a->net, b->net) == 0;
}
