/* What files that hold a secret have in common. Private to src/control. */
#ifndef CONTROL_SECRET_H
#define CONTROL_SECRET_H

#include <sys/types.h>

#include "control/control.h"

/* Local. A regular file, the user's own, that nobody else may use; else says why not. */
enum status control_check_private(const char *path, int fd);

/* Local, blocking. Up to `bytes` of a file; -1 with errno when it cannot be read. */
ssize_t control_read_all(int fd, char *text, size_t bytes);

#endif
