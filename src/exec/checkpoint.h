/* Checkpoints: everything a run needs to go on as if it had never stopped.
 *
 * A checkpoint is a folder step-NNNNNNNN of the run's checkpoint folder: model.safetensors
 * (parameters and buffers, by the names of the ecosystem), optimizer.safetensors (state, as
 * PARAMETER.STATE; either is several files where several ranks write it) and manifest.json (step,
 * the sample that comes next, best result so far, what the run was told, what it ran on, and size
 * and checksum of each file). It is written under a temporary name, synced, renamed; only then are
 * older ones removed. A checkpoint newer than the one resumed from, which this run did not save, is
 * never removed: it is renamed *.damaged once a save reaches its step. Random numbers and the order
 * of samples follow from the seed, the step and the next sample, so nothing else of them is saved.
 */
#ifndef EXEC_CHECKPOINT_H
#define EXEC_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "exec/engine.h"

enum { CHECKPOINT_MAX_FACTS = 64 };

/* What a run was told or ran on, as text; compared on resume. */
struct checkpoint_fact {
    const char *key, *value;
    /* FIXED: must be equal. CLOCK: likewise, where the checkpoint has a clock. TOLD: a difference
     * is allowed and said. RAN_ON: likewise, and bits may differ from then on. */
    enum fact_kind { FACT_FIXED, FACT_CLOCK, FACT_TOLD, FACT_RAN_ON } kind;
};

struct checkpoint_config {
    const char *folder; /* of all checkpoints of the run */
    int keep;           /* newest ones to keep; the best is kept besides */
    const struct checkpoint_fact *facts;
    int fact_count;
    const struct plan *plan; /* of a run without an engine that only looks; else NULL */
};

/* Local. What a checkpoint of a run takes on disk, at least: the bytes of its tensors. */
uint64_t checkpoint_bytes(const struct plan *plan);

/* Collective over the engine's ranks, blocking. Saves; where any rank fails, all do: the older
 * checkpoints are untouched and nothing is left behind. Does not begin where the disk has no room
 * for it, or where some rank is not `ready` (STATUS_OK). */
enum status checkpoint_save(const struct checkpoint_config *config, struct engine *engine,
                            const struct checkpoint_state *state, enum status ready);

/* Collective likewise, blocking. Loads the newest whole checkpoint into the engine and moves it
 * to its step; damaged ones are passed over, saying which and why. One that cannot be read
 * (STATUS_UNREADABLE), or is of a newer format (STATUS_USAGE), may be whole: nothing older is
 * taken. *found is false when the folder has none at all, and the state stays as it was;
 * STATUS_DATA when there are some but none is whole. The first rank reads what it holds, and so
 * does a rank that holds slices or another stage; whoever holds the same as the first gets it by
 * the start list. With `engine` NULL it is local and only looks: the answer is the same, and
 * nothing is loaded or changed. */
enum status checkpoint_resume(const struct checkpoint_config *config, struct engine *engine,
                              struct checkpoint_state *state, bool *found);

/* Local, blocking. The step of the newest whole one, or -1; says nothing of those passed over,
 * which the resume does. And its course, in memory of the arena. */
int64_t checkpoint_newest(const char *folder, struct arena *arena, struct train_course *course);

/* Local, blocking. Whether a folder has a checkpoint of ours, whole or not: one with a manifest
 * that reads as one. Speaks only of a folder that cannot be read. */
bool checkpoint_is_ours(const char *folder);
/* Local, blocking. Removes all checkpoints, damaged and half-written ones too, and the folder
 * unless something else is in it. */
enum status checkpoint_remove_all(const char *folder);

/* Collective, blocking. Parameters and buffers to model.safetensors in a folder; where ranks hold
 * different ones, each its own to a numbered file, with an index. */
enum status checkpoint_save_model(struct engine *engine, const char *folder);

/* Local, blocking. Parameters and buffers that this rank holds into one safetensors file. */
struct safetensors_mark;
enum status checkpoint_write_model(struct engine *engine, const char *path,
                                   struct safetensors_mark *mark);

/* Local, blocking. Takes parameters and buffers by name from any safetensors file ("module." in
 * front is allowed), or from the folder of a run or a checkpoint; f16, bf16 and f64 become f32.
 * Says what was converted, missing, extra or of another shape; the latter keep their values.
 * STATUS_DATA, and nothing is changed, when nothing fits or a value is not finite. */
enum status checkpoint_load_weights(struct engine *engine, const char *path);
/* Local, blocking. The same of a model that is to be used as it is: STATUS_DATA, and nothing is
 * changed, where the file does not have all of it. */
enum status checkpoint_load_model(struct engine *engine, const char *path);
/* Local, blocking. Whether that would be refused for a run of this plan; silent where it would not.
 */
enum status checkpoint_check_weights(const struct plan *plan, const char *path);

#endif
