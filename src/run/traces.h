/* The traces of all ranks in one file: how they come to rank 0. */
#ifndef RUN_TRACES_H
#define RUN_TRACES_H

#include "comm/comm.h"
#include "record/trace.h"

/* Which clock a rank has (machine_clock), and what it showed as the ranks left a barrier. */
struct traces_clock {
    uint64_t id;
    int64_t now_ns;
};
/* Local. What is added to the times of another rank to have them by my clock: nothing where both
 * have the same, however late one of them looked at it. */
int64_t traces_shift(const struct traces_clock *mine, const struct traces_clock *other);

/* Collective over the ranks, blocking. On rank 0 the events of the others go to `file`, an empty
 * one of the caller (-1 elsewhere, or where it could not be opened); out[1..] are their traces,
 * which read it and which the caller frees before it, as is the array of all ranks; `mine` is
 * out[0]. Elsewhere *out is NULL. Ranks of other hosts have clocks of their own: theirs are set by
 * the moment all leave a barrier, so they are right to some milliseconds. A file that cannot be
 * written does not fail the others: `lacks` is its status, and *out NULL. */
enum status traces_gather(struct comm *comm, struct trace *mine, const struct trace_config *config,
                          int file, struct trace ***out, enum status *lacks);

#endif
