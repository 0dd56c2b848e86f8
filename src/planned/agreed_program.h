/* The program that `auto` chose: the other ranks get it, and a resumed run takes it again. */
#ifndef PLANNED_AGREED_PROGRAM_H
#define PLANNED_AGREED_PROGRAM_H

#include "base/option.h"
#include "plan/plan_auto.h"

/* Local, blocking. The text of the program that the run in --out was with, for one that is resumed
 * with `auto`: empty where there is none, where an option that the choice depends on is another
 * now, or where it is for other ranks. The caller frees it with bytes_free. */
void agreed_program_find(const struct options *options, const struct run_config *config,
                         struct bytes *out);
/* Local, blocking. Saves the program of a run in its folder. */
enum status agreed_program_save(const struct plan *plan, const char *folder);

#endif
