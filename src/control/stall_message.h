/* The stall message (contract 4) of a wait that lasts: which rank waits, at what, for which rank,
 * and where that one is; after a limit, and then at doubling times. For ranks that ask the control
 * server and for ranks that are threads of one process. Local, not blocking. */
#ifndef CONTROL_STALL_MESSAGE_H
#define CONTROL_STALL_MESSAGE_H

#include <stdbool.h>

#include "control/status_table.h"

/* Of one waiter; zeroed at first. */
struct control_stall {
    int64_t since_ns; /* the wait of the last message, */
    double next_s;    /* and when the next one is due */
};

/* Whether a message is due of a wait that began at `since_ns`, which tells waits apart. */
bool control_stall_due(struct control_stall *stall, int64_t since_ns, double limit_s);
/* Logs it: `row` is what the waiter does, `peer` the rank it waits for (-1: several), `there` where
 * that one is. */
void control_stall_message(int rank, struct control_row *row, int peer, const char *what,
                           int64_t since_ns, const char *there);

#endif
