/* The plan on one screen. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include <stdio.h>

#include "cli/job.h"

enum { EXPLAIN_NAME_COLUMNS = 11 }; /* of a row's name */

/* Local. What train prints before it starts and explain prints altogether, without the parts of
 * --show. */
void explain_print(const struct job *job, FILE *out);
/* Local, blocking. Writes the program as text; STATUS_USAGE when the file exists. */
enum status explain_save_program(const struct plan *plan, const char *path);
/* Local, blocking. Whether that would be refused; leaves no file behind. */
enum status explain_check_program(const char *path);

#endif
