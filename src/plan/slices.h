/* Slices: what each replica of a stage owns where they share out optimizer state, gradients or
 * parameters. Of each bucket, whole blocks of NORM's, the part that a reduce-scatter leaves to the
 * replica. */
#ifndef PLAN_SLICES_H
#define PLAN_SLICES_H

#include "plan/buckets.h"
#include "plan/store_layout.h"

/* Local. The slices of member `member` of `members`, ascending; one for each bucket, some may be
 * empty. Returns how many; the caller frees *out. */
int slices_owned(const struct bucket_list *lists, int list_count, int members, int member,
                 struct slice **out);

#endif
