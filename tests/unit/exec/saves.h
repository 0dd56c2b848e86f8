/* What the tests of checkpoints share: a folder of its own for each test, two checkpoints in it to
 * be damaged, and saving and resuming as a run does. */
#ifndef TESTS_EXEC_SAVES_H
#define TESTS_EXEC_SAVES_H

#include "exec/checkpoint.h"
#include "kit.h"

#define MLP "--model mlp --data digits --device ref --threads 1 --batch 128 "

extern char *folder;               /* of the checkpoints */
extern char said[1 << 20];         /* by the last resume */
extern uint64_t hash_at[5];        /* of make_two's run before each step */
extern struct kit_run *victim;     /* of make_two: every resume starts from its fresh state */
extern const char *const files[3]; /* of a checkpoint, the manifest last */

/* For TestSuite(..., .init, .fini). */
void saves_begin(void);
void saves_end(void);

struct checkpoint_config config_of(int keep);
/* Saves the run's step; asserts that it works. */
void save(struct kit_run *run, int keep, int64_t best);
/* The step resumed from, -1 when it failed, -2 when there was none. */
int64_t resume(struct kit_run *run);
/* Whether the folder has this. */
bool has(const char *name);

/* Checkpoints of steps 2 and 4, and the victim. */
void make_two(void);
/* FOLDER/step-0000000N/NAME; the caller frees it. */
char *path_of(int step, const char *name);
void write_whole(const char *path, const void *data, size_t bytes);

#endif
