/* What the executor tests share: a run opened from a line of options, and a folder that goes away.
 */
#ifndef TESTS_EXEC_KIT_H
#define TESTS_EXEC_KIT_H

#include "base/option.h"
#include "exec/checkpoint.h"
#include "exec/engine.h"
#include "plan/plan.h"

/* The options of a line of `stretto train`; asserts that they parse. The caller frees them. */
void kit_options(const char *line, struct options *out);

/* The plan of a rank from options, and its data set, which ranks of one process share. */
struct kit_plan {
    struct options options; /* resolved; texts are those of the options given */
    struct dataset *dataset;
    bool owns_dataset;
    struct plan *plan;
};
enum status kit_plan(const struct options *options, int rank, int ranks, struct dataset *dataset,
                     struct kit_plan *out);
void kit_plan_free(struct kit_plan *plan);

/* Opened with the options of `stretto train`; kit_open asserts that it works. */
struct kit_run {
    struct options options;
    struct kit_plan planned;
    struct train_state state;
    struct engine *engine;
};
/* Opens the executor of a plan. `comm` (NULL: one rank) becomes its own, and is cleared. */
enum status kit_engine(const struct plan *plan, struct train_state *state, struct comm **comm,
                       struct engine **out);
struct kit_run *kit_open(const char *line, ...) __attribute__((format(printf, 1, 2)));
struct kit_run *kit_open_watched(const struct engine_observer *observer, const char *line, ...)
    __attribute__((format(printf, 2, 3)));
void kit_close(struct kit_run **run);

/* `steps` more, or (negative) all that are left; the last result. */
struct step_result kit_steps(struct kit_run *run, int64_t steps);
uint64_t kit_hash(const struct kit_run *run);

/* The number of a parameter; asserts that there is one of this name. */
int kit_find_param(const struct state_layout *layout, const char *name);
/* Plain values of a parameter by its name; the caller frees them. */
float *kit_param(const struct kit_run *run, const char *name, int64_t *count);
void kit_set_param(struct kit_run *run, const char *name, int64_t at, float value);
/* The largest difference between the parameters of two runs. */
double kit_distance(const struct kit_run *a, const struct kit_run *b);

/* A new folder under /tmp; folder_remove takes it away. The caller frees the path. */
char *kit_folder(void);
/* For a TestSuite: a folder of its own, kit_place, is the working folder; then it is removed. */
extern char *kit_place;
void kit_enter(void);
void kit_leave(void);

/* For TestSuite(..., .init, .fini): a folder of each test's own, and where its file of weights
 * goes.
 */
extern struct kit_files { char *folder, *weights; } kit_files;
void kit_files_begin(void);
void kit_files_end(void);

#endif
