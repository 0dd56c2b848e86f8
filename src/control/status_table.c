/* See status_table.h. */
#include "control/status_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limit.h"
#include "base/log.h"
#include "control/agree.h"

static enum status map_rows(struct control_status_table *status_table) {
    size_t bytes = (size_t)status_table->count * sizeof *status_table->row;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, status_table->fd, 0);
    if (memory == MAP_FAILED)
        return fail(STATUS_MEMORY, "the status table of the ranks cannot be mapped: %s",
                    strerror(errno));
    status_table->row = memory;
    return STATUS_OK;
}

/* Sealed in size: no rank can cut it under the launcher's feet. */
enum status control_status_table_new(int count, struct control_status_table *out) {
    struct control_status_table status_table = {.count = count};
    status_table.fd = memfd_create("stretto-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (status_table.fd < 0 ||
        ftruncate(status_table.fd, (off_t)((size_t)count * sizeof *status_table.row)) != 0 ||
        fcntl(status_table.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        enum status status = limit_fail("shared memory for the status table of the ranks", errno);
        if (status_table.fd >= 0) close(status_table.fd);
        return status;
    }
    enum status status = map_rows(&status_table);
    if (status == STATUS_OK)
        *out = status_table;
    else
        close(status_table.fd);
    return status;
}

enum status control_status_table_open(int fd, int index, struct control_status_table *out) {
    struct control_status_table status_table = {.fd = fd};
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || index < 0 ||
        (off_t)((size_t)index + 1) > info.st_size / (off_t)sizeof *status_table.row)
        return fail(STATUS_USAGE,
                    "the launcher's status table has no row %d\n"
                    "  STRETTO_BOARD_FD is for the launcher alone: unset it",
                    index);
    status_table.count = (int)(info.st_size / (off_t)sizeof *status_table.row);
    enum status status = map_rows(&status_table);
    close(fd);
    status_table.fd = -1;
    if (status == STATUS_OK) *out = status_table;
    return status;
}

void control_status_table_close(struct control_status_table *status_table) {
    if (status_table->row)
        munmap(status_table->row, (size_t)status_table->count * sizeof *status_table->row);
    if (status_table->row && status_table->fd >= 0) close(status_table->fd);
    *status_table = (struct control_status_table){.fd = -1};
}

/* So many bytes of the content, from its begin. Who reads one of its words also sees that the count
 * is odd: each is released, and no fence is needed, which the thread sanitizer does not know. */
static void write_row(struct control_row *row, const struct control_content *content,
                      size_t bytes) {
    uint64_t word[CONTROL_ROW_WORDS];
    size_t words = (bytes + sizeof *word - 1) / sizeof *word;
    memcpy(word, content, words * sizeof *word);
    uint64_t version = atomic_load_explicit(&row->version, memory_order_relaxed);
    atomic_store_explicit(&row->version, version | 1, memory_order_relaxed);
    for (size_t i = 0; i < words; i++)
        atomic_store_explicit(&row->word[i], word[i], memory_order_release);
    atomic_store_explicit(&row->version, (version | 1) + 1, memory_order_release);
}

void control_row_set(struct control_row *row, int64_t step, const char *text) {
    struct control_content content = {.step = step, .since_ns = clock_ns()};
    memcpy(content.bytes, text, strnlen(text, sizeof content.bytes - 1));
    write_row(row, &content, sizeof content);
}

void control_row_set_record(struct control_row *row, int64_t step, int64_t since_ns,
                            const void *record, size_t bytes) {
    struct control_content content;
    if (bytes > sizeof content.bytes) bytes = sizeof content.bytes;
    content.step = step;
    content.since_ns = since_ns;
    content.is_record = true;
    memcpy(content.bytes, record, bytes);
    write_row(row, &content, offsetof(struct control_content, bytes) + bytes);
}

static void describe_unknown(const void *record, char text[CONTROL_DOING_BYTES]) {
    (void)record;
    snprintf(text, CONTROL_DOING_BYTES, "?");
}

/* Atomic: runs of a program that open at once set it beside one another. */
static control_describe_fn *_Atomic describe_record = describe_unknown;

void control_describe_records(control_describe_fn *describe) {
    describe_record = describe;
}

bool control_row_get(struct control_row *row, struct control_doing *out) {
    enum { TRIES = 1000 };
    uint64_t word[CONTROL_ROW_WORDS], before, after;
    int tries = 0;
    do {
        before = atomic_load_explicit(&row->version, memory_order_acquire);
        for (int i = 0; i < CONTROL_ROW_WORDS; i++)
            word[i] = atomic_load_explicit(&row->word[i], memory_order_acquire);
        after = atomic_load_explicit(&row->version, memory_order_relaxed);
    } while ((before != after || before & 1) && ++tries < TRIES);
    struct control_content content;
    char text[CONTROL_DOING_BYTES];
    control_describe_fn *describe = describe_record; /* gcc's call by it would be a plain read */
    memcpy(&content, word, sizeof content);
    if (content.is_record)
        describe(content.bytes, text);
    else
        memcpy(text, content.bytes, sizeof text);
    text[sizeof text - 1] = 0;
    *out = (struct control_doing){.step = content.step, .since_ns = content.since_ns};
    control_clean_copy(out->text, sizeof out->text, text);
    return tries < TRIES;
}

void control_row_blame(struct control_row *row, int rank) {
    atomic_store_explicit(&row->blamed, rank + 1, memory_order_release);
}

int control_row_blamed(struct control_row *row) {
    return atomic_load_explicit(&row->blamed, memory_order_acquire) - 1;
}

const char *control_doing_text(const struct control_doing *doing, char *text, size_t bytes) {
    if (doing->step < 0 || !doing->text[0])
        snprintf(text, bytes, "%s", doing->text);
    else
        snprintf(text, bytes, "step %lld %s", (long long)doing->step, doing->text);
    return text;
}
