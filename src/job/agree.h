/* The programs that `auto` chose: the other ranks get them, and a resumed run takes them again. */
#ifndef JOB_AGREE_H
#define JOB_AGREE_H

#include "base/option.h"
#include "plan/choice.h"
#include "plan/plan_auto.h"

/* Local, blocking. The programs that the run in --out was with, for one that is resumed with
 * `auto`: empty where there are none, where an option that the choice depends on is another now, or
 * where they are for other ranks. The caller frees them with program_texts_free. */
void agree_saved(const struct options *options, const struct run_config *config,
                 struct program_texts *out);
/* Local, blocking. Saves the programs of a run in its folder. */
enum status agree_save(const struct plan *plan, const char *folder);

#endif
