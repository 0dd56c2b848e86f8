/* The values of --recompute. */
#ifndef PROGRAM_RECOMPUTE_POLICY_H
#define PROGRAM_RECOMPUTE_POLICY_H

#include <stdbool.h>

/* For which micro-batches pipelines run forward again before backward, instead of keeping its
 * activations: for none; for all but a replica's last one; for all. By block: each layer block
 * of a stage right before its own backward. */
enum recompute_policy {
    RECOMPUTE_NEVER,
    RECOMPUTE_EXCEPT_LAST,
    RECOMPUTE_ALWAYS,
    RECOMPUTE_EXCEPT_LAST_BLOCK,
    RECOMPUTE_ALWAYS_BLOCK
};
enum { RECOMPUTE_POLICY_COUNT = RECOMPUTE_ALWAYS_BLOCK + 1 };
static inline bool recompute_by_block(enum recompute_policy policy) {
    return policy >= RECOMPUTE_EXCEPT_LAST_BLOCK;
}
static inline bool recompute_keeps_last(enum recompute_policy policy) {
    return policy == RECOMPUTE_EXCEPT_LAST || policy == RECOMPUTE_EXCEPT_LAST_BLOCK;
}
/* Local. As --recompute spells it; the policy of a name, or -1. */
const char *recompute_policy_name(enum recompute_policy policy);
int recompute_policy_find(const char *name);

#endif
