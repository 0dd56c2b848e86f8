/* Copies of tensors, plain and whole: what a run takes beside its arrays to start, to hash and to
 * save. */
#ifndef PLAN_STAGING_H
#define PLAN_STAGING_H

#include "plan/plan.h"

/* What a rank takes from its first step on, besides its backend: the executor's tables, metrics,
 * libm. Measured. */
enum { RUN_DATA_BYTES = 500 << 10, RUN_CODE_BYTES = 380 << 10 };

/* Local. The most of it that this rank takes beyond what is there at that time: a start is over
 * before activations, scratch and loader have memory and the first step has run. */
size_t staging_bytes(const struct plan *plan);

/* Local. The share of one rank in staging_bytes where the replicas are threads of one process. The
 * plan has its memory estimate already. Of the replicas that hold the same tensors only one writes
 * them, but all of them compare. */
size_t staging_share_bytes(const struct plan *plan);

#endif
