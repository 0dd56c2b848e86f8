/* The folder of a run: --out. */
#ifndef RUN_RUN_FOLDER_H
#define RUN_RUN_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "run/lock.h"

/* Local, blocking. Makes the folder ready and gives its path (the caller frees it): a new
 * runs/MODEL-DATE-TIME where --out is not given. A folder that holds a run is refused
 * (STATUS_USAGE) without --resume or --overwrite, and one that another process writes to. One that
 * holds files, and no mark, summary or manifest of ours, is refused in any case, and so is what
 * outputs_judge_folder refuses.
 * --overwrite removes what a run writes and nothing else; both clear what a killed write
 * left. Writes the mark, so that a full disk or a read-only place is known before training. The
 * caller gives `lock` back when the run is over. */
enum status run_folder_open(const struct options *options, char **out, struct lock **lock);
/* Local, blocking. Whether run_folder_open would be refused or could not write (`keeps`), or
 * run_folder_follow; makes and removes a folder of its own for the trial and leaves nothing behind.
 * STATUS_DATA where the disk has no room for `bytes`, which the run will write at once. */
enum status run_folder_check(const struct options *options, bool keeps, uint64_t bytes);
/* Local, blocking. The same for a node of a job whose first node opens the folder, which they may
 * share: looks at nothing that is in it, and takes nothing away. */
enum status run_folder_follow(const struct options *options, char **out);

/* Local, blocking. Whether the folder holds a run of ours; whether a run writes a file, or a folder
 * of checkpoints, of this name. */
bool run_folder_is_run(const char *folder);
bool run_folder_is_run_name(const char *name);

/* Local, blocking. Removes a model that several ranks wrote, each a part: an earlier start left it,
 * and model.safetensors is newer. */
enum status run_folder_remove_parts(const char *folder);

#endif
