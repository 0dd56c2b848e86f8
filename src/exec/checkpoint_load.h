/* What a checkpoint has, back into an engine: tensors, clocks, whoever decides on groups. Private
 * to src/exec; checkpoint.c finds one and checks it. */
#ifndef EXEC_CHECKPOINT_LOAD_H
#define EXEC_CHECKPOINT_LOAD_H

#include "exec/engine.h"
#include "exec/manifest.h"

/* Local, blocking. The whole model is in the files (engine NULL); or loads what this rank holds of
 * it. */
enum status checkpoint_each_part(const struct plan *plan, struct engine *engine, const char *folder,
                                 const struct manifest *manifest);
/* Local, blocking. All that this rank takes of a checkpoint that was found whole. */
enum status checkpoint_load_files(struct engine *engine, const char *folder,
                                  const struct manifest *manifest);

#endif
