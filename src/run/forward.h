/* Forward passes of a trained model on all ranks: what eval, predict and the library share. */
#ifndef RUN_FORWARD_H
#define RUN_FORWARD_H

#include "run/session.h"

/* What a rank does with the outputs of its batches. */
struct forward {
    void *context;
    /* Local: on ranks with the stage of the output. A failure of one rank stops all. NULL: outputs
     * are not wanted. */
    enum status (*output)(void *context, const struct engine_output *output);
};

/* Collective, blocking. The whole split, with progress on long work. STATUS_STOPPED after a signal.
 */
enum status forward_run(struct session *session, const struct forward *forward,
                        struct eval_result *out);

/* Local. The class with the highest score, the first of equal ones. */
int64_t forward_class(const float *scores, int64_t classes);

/* Local. Whether this is the rank that speaks. */
bool forward_is_first(const struct session *session);

#endif
