/* history.jsonl: a row for each start of a run: when it began, at which step, with which command
 * line, and what time it took so far. A run that is resumed tells from these what all of it took.
 */
#ifndef RECORD_HISTORY_H
#define RECORD_HISTORY_H

#include <stdint.h>

#include "base/status.h"

struct history_times {
    double wall_s, user_s, sys_s;
};

struct history;

/* Local, blocking. Adds a row for a start that goes on after `first_step` steps. At 0 the run
 * begins anew, and so does its history; else the rows of earlier starts stay, but for damaged ones,
 * which are left out and counted in a warning. The row is on disk when this returns. The caller
 * frees. */
enum status history_open(const char *folder, const char *command, int64_t first_step,
                         struct history **out);
/* Local, blocking. What this start took so far, atomically. */
enum status history_note(struct history *history, const struct history_times *times);
/* Local. What all starts took together. */
struct history_times history_total(const struct history *history);
/* Local. The command lines of all starts, a line each; the caller frees it. */
char *history_commands(const struct history *history);
/* Local. Accepts NULL. */
void history_free(struct history **history);

#endif
