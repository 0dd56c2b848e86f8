/* See board.h. */
#include "control/board.h"

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

static enum status map_rows(struct control_board *board) {
    size_t bytes = (size_t)board->count * sizeof *board->row;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, board->fd, 0);
    if (memory == MAP_FAILED)
        return fail(STATUS_MEMORY, "the board of the ranks cannot be mapped: %s", strerror(errno));
    board->row = memory;
    return STATUS_OK;
}

/* Sealed in size: no rank can cut it under the launcher's feet. */
enum status control_board_new(int count, struct control_board *out) {
    struct control_board board = {.count = count};
    board.fd = memfd_create("stretto-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (board.fd < 0 || ftruncate(board.fd, (off_t)((size_t)count * sizeof *board.row)) != 0 ||
        fcntl(board.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        enum status status = limit_fail("shared memory for the board of the ranks", errno);
        if (board.fd >= 0) close(board.fd);
        return status;
    }
    enum status status = map_rows(&board);
    if (status == STATUS_OK)
        *out = board;
    else
        close(board.fd);
    return status;
}

enum status control_board_open(int fd, int index, struct control_board *out) {
    struct control_board board = {.fd = fd};
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || index < 0 ||
        (off_t)((size_t)index + 1) > info.st_size / (off_t)sizeof *board.row)
        return fail(STATUS_USAGE,
                    "the launcher's board has no row %d\n"
                    "  STRETTO_BOARD_FD is for the launcher alone: unset it",
                    index);
    board.count = (int)(info.st_size / (off_t)sizeof *board.row);
    enum status status = map_rows(&board);
    close(fd);
    board.fd = -1;
    if (status == STATUS_OK) *out = board;
    return status;
}

void control_board_close(struct control_board *board) {
    if (board->row) munmap(board->row, (size_t)board->count * sizeof *board->row);
    if (board->row && board->fd >= 0) close(board->fd);
    *board = (struct control_board){.fd = -1};
}

void control_row_set(struct control_row *row, int64_t step, const char *text) {
    struct control_doing doing = {.step = step, .since_ns = clock_ns()};
    uint64_t word[CONTROL_ROW_WORDS];
    memcpy(doing.text, text, strnlen(text, sizeof doing.text - 1));
    memcpy(word, &doing, sizeof word);
    uint64_t version = atomic_load_explicit(&row->version, memory_order_relaxed);
    atomic_store_explicit(&row->version, version | 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < CONTROL_ROW_WORDS; i++)
        atomic_store_explicit(&row->word[i], word[i], memory_order_relaxed);
    atomic_store_explicit(&row->version, (version | 1) + 1, memory_order_release);
}

bool control_row_get(struct control_row *row, struct control_doing *out) {
    enum { TRIES = 1000 };
    uint64_t word[CONTROL_ROW_WORDS], before, after;
    int tries = 0;
    do {
        before = atomic_load_explicit(&row->version, memory_order_acquire);
        for (int i = 0; i < CONTROL_ROW_WORDS; i++)
            word[i] = atomic_load_explicit(&row->word[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&row->version, memory_order_relaxed);
    } while ((before != after || before & 1) && ++tries < TRIES);
    struct control_doing doing;
    memcpy(&doing, word, sizeof doing);
    doing.text[sizeof doing.text - 1] = 0;
    *out = doing;
    control_clean_copy(out->text, sizeof out->text, doing.text);
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
