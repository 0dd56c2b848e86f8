/* The sentence of a wait that lasts (contract 4): who waits, at what, for whom, and where that one
 * is; after a limit, and then at doubling times. For ranks that ask the control server and for
 * ranks that are threads of one process. Local, not blocking. */
#ifndef CONTROL_SENTENCE_H
#define CONTROL_SENTENCE_H

#include <stdbool.h>

#include "control/status_table.h"

/* Of one waiter; zeroed at first. */
struct control_patience {
    int64_t since_ns; /* the wait last spoken of, */
    double next_s;    /* and when to speak of it again */
};

/* Whether it is time to speak of a wait that began at `since_ns`, which tells waits apart. */
bool control_patience_ends(struct control_patience *patience, int64_t since_ns, double limit_s);
/* Says it: `row` is what the waiter does, `peer` whom it waits for (-1: several), `there` where
 * that one is. */
void control_sentence(int rank, struct control_row *row, int peer, const char *what,
                      int64_t since_ns, const char *there);

#endif
