/* What the ranks of one host are doing, in memory that their launcher sees too: a row a rank.
 *
 * A rank writes its row before each instruction, some ten nanoseconds; the launcher reads it when
 * somebody asks, and still when the rank has been killed: the obituary names the very instruction,
 * not that of the last beat. A row is guarded by a count that is odd while it is written. Who was
 * killed in the midst leaves it so, and readers then take what is there. Rows of ranks without a
 * launcher of ours are private memory, used in the same way. All local, not blocking. */
#ifndef CONTROL_BOARD_H
#define CONTROL_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { CONTROL_DOING_BYTES = 96 };

struct control_doing {
    int64_t step;     /* negative: not shown */
    int64_t since_ns; /* of the monotonic clock, which all processes of a host share */
    char text[CONTROL_DOING_BYTES];
};

enum { CONTROL_ROW_WORDS = sizeof(struct control_doing) / sizeof(uint64_t) };

struct control_row {
    _Alignas(64) _Atomic uint64_t version;
    _Atomic int32_t blamed; /* see control_row_blame; 0: nobody, else that + 1 */
    _Atomic uint64_t word[CONTROL_ROW_WORDS];
};

struct control_board {
    int fd, count; /* fd -1: none */
    struct control_row *row;
};

/* The launcher's: memory of a fixed size behind a close-on-exec descriptor. The caller closes. */
enum status control_board_new(int count, struct control_board *out);
/* A rank's: the board behind an inherited descriptor, which is closed. `index` is the row that will
 * be written; a board without it is refused. */
enum status control_board_open(int fd, int index, struct control_board *out);
/* Accepts an empty one. */
void control_board_close(struct control_board *board);

/* By one thread at a time; `text` is cut at 95 bytes. */
void control_row_set(struct control_row *row, int64_t step, const char *text);
/* By anybody. A row never written has an empty text. Bytes that are not printable become '?'.
 * False when its writer did not get to the end of a change meanwhile: then it may be half old. */
bool control_row_get(struct control_row *row, struct control_doing *out);
/* A rank that fails says because of whom: its own number, another's, or CONTROL_ANOTHER; so that
 * the launcher names who caused the end, not who ended first. CONTROL_NOBODY: it did not say. */
enum { CONTROL_NOBODY = -1, CONTROL_ANOTHER = -3 /* not this rank; not known which */ };
void control_row_blame(struct control_row *row, int rank);
int control_row_blamed(struct control_row *row);
/* "step 12 #17 r0 B s0 m5"; returns `text`, empty where nothing was written. */
const char *control_doing_text(const struct control_doing *doing, char *text, size_t bytes);

#endif
