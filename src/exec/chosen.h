/* The question of a replica for its group, while it is under way; private to src/exec. */
#ifndef EXEC_CHOSEN_H
#define EXEC_CHOSEN_H

#include "base/status.h"

struct engine;
struct posted;

/* Local; blocking. Whether the group that GROUP has asked for has formed; until it has. */
enum status chosen_test(struct engine *engine, const struct posted *posted, bool *formed);
enum status chosen_wait(struct engine *engine, const struct posted *posted);

#endif
