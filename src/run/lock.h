/* Who writes to the folder of a run: one at a time. Two of them would mix their checkpoints, and
 * with --overwrite remove each other's. */
#ifndef RUN_LOCK_H
#define RUN_LOCK_H

#include "base/status.h"

struct lock;

/* Local, not blocking. Takes FOLDER/.stretto-lock for this process, until it gives it back or ends,
 * however it ends. STATUS_USAGE, naming who has it, when another does. Where nothing can be written
 * *out is NULL: whoever writes will say why. */
enum status lock_take(const char *folder, struct lock **out);
/* Local, not blocking. Whether lock_take would be refused, without taking it. */
enum status lock_check(const char *folder);
/* Local. Removes the file. Accepts NULL. */
void lock_give_back(struct lock **lock);

#endif
