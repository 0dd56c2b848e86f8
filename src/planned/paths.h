/* Which options and arguments of a command name files that it reads. */
#ifndef PLANNED_PATHS_H
#define PLANNED_PATHS_H

#include <stdbool.h>

#include "base/option.h"

/* Local, may block (looks at the disk). Calls `visit` with each file or folder that the command
 * reads, as it was named, and with what names it ("--weights"), until one fails. Of a data set the
 * arrays that its folder must hold are files of their own. */
enum status paths_each_input(const struct options *options,
                             enum status (*visit)(void *context, const char *path,
                                                  const char *label),
                             void *context);
/* Local. Whether the option names files that are read. */
bool paths_are_read(enum option_id id);

/* Local. The value of an option as option_text has it, with every path from the root: it means the
 * same in another folder. The caller frees it. */
char *paths_text(const struct options *options, enum option_id id);
/* Local. The same of all options: the texts that change go to the arena. */
void paths_make_absolute(struct options *options, struct arena *arena);
/* Local. Whether an option of two commands names the same file: by its path, or on the disk. */
bool paths_same(const struct options *a, const struct options *b, enum option_id id);

#endif
