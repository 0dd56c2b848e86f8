/* In which order gradients are added, as one number: what the verifier compares. Private to
 * src/program. */
#ifndef PROGRAM_ORDER_H
#define PROGRAM_ORDER_H

#include <stdint.h>

#include "program/program.h"

/* Local. The gradient of one micro-batch; one sum added to another, in this order; the uses of a
 * parameter added up. 0 is the neutral element: a sum of nothing. */
uint64_t order_leaf(int micro);
uint64_t order_sum(uint64_t into, uint64_t from);
uint64_t order_tied(uint64_t sum);

/* Local. What the order named in the program's header is defined to be over the micro-batches of
 * some replicas that have samples (all of them where `samples` is NULL), each told by its number
 * less `base`; 0 where there is none. */
struct order_scope {
    int first_replica, replica_count, base;
};
uint64_t order_defined(const struct program *program, const int64_t *samples,
                       struct order_scope scope);

/* Local. What one rank must have added: like that, and told apart where it was summed over the
 * replicas. Once, behind all of its own sums; with replicas-first once for each micro-batch that
 * any replica has samples for. */
uint64_t order_reduced(uint64_t own);
uint64_t order_of_rank(const struct program *program, const int64_t *samples,
                       struct order_scope scope);
/* Local. What such sums of all ranks add up to, by the tree of a reduction. Whether that is the
 * order of the header is a question about the header alone. */
uint64_t order_of_ranks(const struct program *program, const int64_t *samples);

#endif
