/* What the calls of the public library on a run share; include/stretto.h. */
#ifndef RUN_LIBRARY_H
#define RUN_LIBRARY_H

#include <pthread.h>
#include <sys/types.h>

#include "base/log.h"
#include "run/local_ranks.h"
#include "stretto.h"

enum { LIBRARY_ERROR_BYTES = 4000 };

struct stretto_run {
    struct stretto_config config;
    struct options options;
    struct arena arena; /* of the words that the options point to */
    struct start start;
    struct local_ranks *ranks;
    pid_t process;  /* the one that has the ranks' threads: a child of fork has the memory alone */
    char *saved_in; /* the folder of the last checkpoint; NULL: there is none */
    struct log_sink sink;
    pthread_mutex_t use;      /* one call at a time */
    pthread_mutex_t messages; /* guards the log function and the text */
    bool in_call;
    /* Errors of the call under way, and those that came before it: data are read ahead, so that a
     * sample that cannot be read is told of some steps before it is missed. The first of several is
     * the cause, the others its echoes. */
    char error[LIBRARY_ERROR_BYTES], earlier[LIBRARY_ERROR_BYTES];
};

/* A call under way. */
struct entry {
    struct stretto_run *run; /* NULL: it was closed, or is of another process */
    const struct log_sink *before;
};

/* Blocking while another thread's call is under way. Whether the call can go on; otherwise *status
 * says why not. Each is followed by library_leave, which gives the code to return. */
bool library_enter(struct entry *entry, struct stretto_run *run, enum status *status);
int library_leave(struct entry *entry, enum status status);

/* Local. STATUS_USAGE, logged, for a run that was opened for forward alone. */
enum status library_trains(const struct stretto_run *run, const char *call);

/* Local. The planned run of the first rank here. */
const struct planned_run *library_planned(const struct stretto_run *run);

#endif
