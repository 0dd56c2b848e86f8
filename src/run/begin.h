/* Where the ranks of a run come from, of training as of using what was trained. */
#ifndef RUN_BEGIN_H
#define RUN_BEGIN_H

#include "run/session.h"

/* What ranks do with a trained model in place of training. */
struct use {
    /* Collective over the ranks, blocking: the model is loaded, the engine ready for
     * engine_forward. Ranks that are threads call it at once. */
    enum status (*run)(struct session *session);
    struct dataset *dataset; /* the caller's; NULL: that of the options */
};

/* Blocking. Runs, or starts, the ranks that the options and the environment ask for. `use` NULL:
 * they train. */
enum status begin(const struct options *options, const struct use *use);

#endif
