/* What files that hold a secret have in common. Private to src/control. */
#ifndef CONTROL_SECRET_H
#define CONTROL_SECRET_H

#include "control/control.h"

/* Local. A regular file, the user's own, that nobody else may use; else says why not. */
enum status control_check_private(const char *path, int fd);

#endif
