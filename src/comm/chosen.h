/* Groups whose members are chosen again and again, while ranks run. A part of comm.h. */
#ifndef COMM_CHOSEN_H
#define COMM_CHOSEN_H

#include <stdint.h>

#include "base/status.h"

struct comm;
struct comm_group;

/* Collective over the job, not blocking, as comm_group_new: those that members are chosen from. The
 * group can all_reduce and meet. */
enum status comm_group_new_chosen(struct comm *comm, const int *ranks, int count,
                                  struct comm_group **out);
/* Local, alike on those chosen, when none of its operations is under way here. The next ones,
 * COMM_CHOSEN_OPERATIONS at most, are of these members: `count` of the ranks, by their places, in
 * ascending order; this rank is one of them. `number` is the same on all of them, and larger than
 * what each was told before. */
enum { COMM_CHOSEN_OPERATIONS = 1 << 20 };
void comm_group_choose(struct comm_group *group, const int *places, int count, uint64_t number);

#endif
