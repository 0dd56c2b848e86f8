/* Operations that a program defines (struct stretto_op of the public header). The table of op.def
 * is closed: backends, fusions and profiles are tables over it. So these are two of its rows, one
 * for all forward and one for all backward operations, and what they do is in the attributes of a
 * call. Rejected: rows added to the table while the program runs, which would give every such table
 * a second, growing part. */
#ifndef OP_USER_H
#define OP_USER_H

#include "op/op.h"
#include "stretto.h"

/* One use of such an operation in a graph, which owns it. */
struct op_use {
    struct stretto_op op;     /* a copy; what an older caller does not have is 0 */
    struct stretto_call call; /* types of the forward call, once they are inferred */
};

/* Local. A use from what the caller gave; STATUS_USAGE, logged, for one that is not whole. */
enum status op_use_init(const struct stretto_op *op, void *context, struct op_use *out);

#endif
