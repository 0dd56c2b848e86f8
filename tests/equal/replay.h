/* A literal replay of trainings whose steps overlap, on one device, for equal.c.
 *
 * Every version of every parameter is kept as a plain copy. For each step the parameters of each
 * stage are set to the version that the paper's rule names, one whole step is run on one device,
 * and of it only the gradients are used: the newest parameters and the optimizer's state are put
 * back and updated with them. Nothing here knows of bodies, slots, rings or older versions in a
 * store. */
#ifndef TESTS_EQUAL_REPLAY_H
#define TESTS_EQUAL_REPLAY_H

#include "exec/answer.h"
#include "plan/plan.h"

/* What the rule needs to know of the pipeline. */
struct replay_rule {
    int stages;
    int *stage_of; /* per parameter; the caller frees it */
    bool two_versions, vertical_sync;
    /* Of replicas that train apart: */
    int every, replicas; /* steps from one average to the next; 0: they do not */
    float outer_lr, outer_momentum;
    int64_t batch, steps_per_epoch;
};

/* Local. Adds what the plan of a rank knows. */
void replay_note(const struct plan *plan, struct replay_rule *rule);
/* Local, blocking. Trains by a plan of one device. */
enum status replay_train(const struct plan *plan, const struct replay_rule *rule,
                         struct answer *out);
/* Local, blocking. The same of replicas that train apart, by a plan of one of them, which it
 * changes. The loss may round otherwise. */
enum status replay_local(struct plan *plan, const struct replay_rule *rule, struct answer *out);

#endif
