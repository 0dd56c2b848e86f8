/* The traces of all ranks in one file: how they come to rank 0. */
#ifndef CLI_TRACES_H
#define CLI_TRACES_H

#include "comm/comm.h"
#include "record/trace.h"

/* Collective over the ranks, blocking. On rank 0 out[1..] are the traces of the others, which the
 * caller frees, as is the array of all ranks; `mine` is out[0]. Elsewhere *out is NULL. Ranks of
 * other hosts have clocks of their own: theirs are set by the moment all leave a barrier, so they
 * are right to some milliseconds. */
enum status traces_gather(struct comm *comm, struct trace *mine, const struct trace_config *config,
                          struct trace ***out);

#endif
