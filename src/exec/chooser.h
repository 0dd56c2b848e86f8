/* Who decides which number a replica has next and with whom it averages (sync/controller.h), as a
 * rank sees it: one for all threads of a process, or that of virtual time. A rank has one of its
 * own, which its opener owns. */
#ifndef EXEC_CHOOSER_H
#define EXEC_CHOOSER_H

#include "comm/comm.h"
#include "sync/controller.h"

struct engine_chooser {
    void *context;
    /* Blocking, alike on all ranks. A round begins, with the numbers before `end`. */
    enum status (*begin)(void *context, struct comm *comm, int64_t round, int64_t end, bool last);
    /* Local. Asks for the number of the replica's mini-batch `index`; others than its first rank
     * need not. What it is; CONTROLLER_UNKNOWN, or with `wait` blocking until it is known. */
    enum status (*draw)(void *context, int replica, int64_t index);
    enum status (*number)(void *context, int replica, int64_t index, bool wait, int64_t *out);
    /* Local. The replica asks for its group; where time is virtual, its clock has done so. */
    enum status (*arrive)(void *context, int key, int replica, int64_t index);
    /* Whether that group has formed; with `wait` blocking until it has. What *out points to is
     * valid until the replica arrives again. */
    enum status (*group)(void *context, int key, int replica, int64_t index, bool wait,
                         struct controller_group *out, bool *formed);
    /* Local. Somebody asks for a pause. */
    enum status (*pause)(void *context);
    /* Local, at a pause, by one rank for all: as controller_save and controller_load; how many
     * numbers a replica has had. */
    int64_t (*save)(void *context, int64_t *out);
    enum status (*load)(void *context, const int64_t *numbers, int64_t count);
    int64_t (*drawn)(void *context, int replica);
    /* Likewise. The first number of the run, behind as many of each replica. */
    void (*place)(void *context, int64_t next, int64_t each);
};

/* Local. A controller that the ranks of one process share, as threads: for each its chooser. Waits
 * end with STATUS_PEER soon after a rank is lost. The caller frees it behind the engines. */
struct shared_chooser;
struct shared_chooser *shared_chooser_new(const struct groups_config *config, int ranks);
void shared_chooser_free(struct shared_chooser **chooser);
const struct engine_chooser *shared_chooser_of(struct shared_chooser *chooser, int rank);

#endif
