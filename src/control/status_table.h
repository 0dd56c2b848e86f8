/* The status table: what the ranks of one host are doing, in memory that their launcher sees too; a
 * row per rank.
 *
 * A rank writes its row before each instruction, as a record, which takes some ten nanoseconds; the
 * launcher reads it on request, and also after the rank has been killed: the exit report names the
 * instruction, not that of the last heartbeat. A row is guarded by a count that is odd while it is
 * written. A rank killed in the middle leaves it odd, and readers then take what is there. Rows of
 * ranks without a launcher of ours are private memory, used in the same way. All local, not
 * blocking. */
#ifndef CONTROL_STATUS_TABLE_H
#define CONTROL_STATUS_TABLE_H

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

/* As it is kept: its text, or a record of the writer's that becomes one when somebody reads it. */
struct control_content {
    int64_t step, since_ns;
    int64_t is_record;
    char bytes[CONTROL_DOING_BYTES];
};

enum { CONTROL_ROW_WORDS = sizeof(struct control_content) / sizeof(uint64_t) };

struct control_row {
    _Alignas(64) _Atomic uint64_t version;
    _Atomic int32_t blamed; /* see control_row_blame; 0: nobody, else that + 1 */
    _Atomic uint64_t word[CONTROL_ROW_WORDS];
};

struct control_status_table {
    int fd, count; /* fd -1: none */
    struct control_row *row;
};

/* The launcher's: memory of a fixed size behind a close-on-exec descriptor. The caller closes. */
enum status control_status_table_new(int count, struct control_status_table *out);
/* A rank's: the status table behind an inherited descriptor, which is closed. `index` is the row
 * that will be written; a status table without it is refused. */
enum status control_status_table_open(int fd, int index, struct control_status_table *out);
/* Accepts an empty one. */
void control_status_table_close(struct control_status_table *status_table);

/* By one thread at a time; `text` is cut at 95 bytes. */
void control_row_set(struct control_row *row, int64_t step, const char *text);
/* The same with a record in place of a text, and the time at hand: what is done once an instruction
 * must not format. Of the record the first CONTROL_DOING_BYTES count. */
void control_row_set_record(struct control_row *row, int64_t step, int64_t since_ns,
                            const void *record, size_t bytes);
/* Of the process, before there are threads: how the records of rows become texts. A record may be
 * half old, as a row may. Without it they read "?". */
typedef void control_describe_fn(const void *record, char text[CONTROL_DOING_BYTES]);
void control_describe_records(control_describe_fn *describe);
/* By any reader. A row never written has an empty text. Bytes that are not printable become '?'.
 * False when its writer did not get to the end of a change meanwhile: then it may be half old. */
bool control_row_get(struct control_row *row, struct control_doing *out);
/* A rank that fails names the rank that caused it: itself, another, or CONTROL_ANOTHER; so that the
 * launcher names the cause, not the first that ended. CONTROL_NOBODY: it named none. */
enum { CONTROL_NOBODY = -1, CONTROL_ANOTHER = -3 /* not this rank; not known which */ };
void control_row_blame(struct control_row *row, int rank);
int control_row_blamed(struct control_row *row);
/* "step 12 #17 r0 B s0 m5"; returns `text`, empty where nothing was written. */
const char *control_doing_text(const struct control_doing *doing, char *text, size_t bytes);

#endif
