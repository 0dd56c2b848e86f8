/* How a run starts here: where its ranks come from, and what is refused before anything is written.
 * train and explain go the same way, so that explain answers as train would. */
#ifndef RUN_START_H
#define RUN_START_H

#include "launch/layout.h"
#include "planned/planned.h"
#include "run/lock.h"

struct session;
/* Collective: what a rank does with a trained model; see begin.h. */
typedef enum status session_use(struct session *session);

enum start_kind {
    START_ONE,      /* one rank, in this process */
    START_THREADS,  /* ranks as threads of this process */
    START_LAUNCHER, /* ranks as processes that this one starts */
    START_RANK      /* this process is one of several ranks, started by another */
};

struct start {
    enum start_kind kind;
    struct launch_config launch; /* its texts belong to the options */
    struct launch_identity identity;
    struct launch_layout layout; /* of START_LAUNCHER */
    struct rank_info info;       /* to plan with: this process's, or rank 0's */
    session_use *use;            /* of a trained model; NULL: it is trained */
    bool folderless;             /* a program's run, by the library: it leaves no folder */
};

/* Local. From the options and the environment; may read a host file and look up names. */
enum status start_find(const struct options *options, struct start *out);
/* Local. Whether this process opens the folder of the run, and reads weights and checkpoints to
 * check them: rank 0, or our launcher where that starts it. Rank 0 itself loads them. */
bool start_keeps_run(const struct start *start);
/* Local, blocking. Refuses --weights that do not fit, before there is a folder; where the run is
 * kept. */
enum status start_check_weights(const struct start *start, const struct planned_run *planned);
/* Local, blocking. Refuses what the run would be refused for on this machine: memory, the file of
 * --save-program, --weights, where ranks meet, --out. Leaves nothing behind. */
enum status start_check(const struct start *start, const struct planned_run *planned);
/* Local, blocking for some 0.2 s with --dtype bf16. Says what is allowed and hardly wanted: bf16
 * where f32 is faster, a range test that passes its data many times. */
void start_advise(const struct planned_run *planned);
/* Local, blocking. The checks and the advice, and a warning where the threads of ranks outnumber
 * the cores; then opens the folder of the run and writes the program where --save-program names a
 * file. Of a run without a folder memory alone is checked. For all kinds but START_RANK, whose
 * ranks meet first. The caller frees the name and gives the lock back. */
enum status start_open(const struct start *start, const struct planned_run *planned, char **folder,
                       struct lock **lock);

#endif
