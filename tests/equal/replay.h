/* A literal replay of trainings whose steps overlap, on one device, for equal.c.
 *
 * Every version of every parameter is kept as a plain copy. For each step the parameters of each
 * stage are set to the version that the paper's rule names, one whole step is run on a device,
 * and of it only the gradients are used: the newest parameters and the optimizer's state are put
 * back and updated with them. Nothing here knows of bodies, slots, rings or older versions in a
 * store.
 *
 * Each replica is a training of one device of its own, which loads what that replica has: so its
 * loss is divided by its own labels. An update takes the mean of their gradients. */
#ifndef TESTS_EQUAL_REPLAY_H
#define TESTS_EQUAL_REPLAY_H

#include "exec/answer.h"
#include "plan/plan.h"

/* What the rule needs to know of the pipeline. */
struct replay_rule {
    int stages;
    int *stage_of; /* per parameter; the caller frees it */
    bool two_versions, vertical_sync;
    int replicas;
    int64_t batch, steps_per_epoch; /* of all replicas together */
    /* Of replicas that train apart: */
    int every; /* steps from one average to the next; 0: they do not */
    float outer_lr, outer_momentum;
};

/* Local. Adds what the plan of a rank knows. */
void replay_note(const struct plan *plan, struct replay_rule *rule);
/* Local, blocking. Opens the device of a replica, which loads what that replica of several has, by
 * a plan of one replica; changes the plan, which all of them share. The caller closes it. */
enum status replay_open(struct plan *plan, const struct replay_rule *rule, int replica,
                        struct train_state *state, struct engine **out);
/* Local. Level by level neighbours are added, an odd last one is carried up; overwrites `term`. */
float replay_sum(float *term, int count);
/* Local, blocking. Trains by a plan of one replica, which it changes. The loss may round otherwise.
 */
enum status replay_train(struct plan *plan, const struct replay_rule *rule, struct answer *out);
/* Local, blocking. The same of replicas that train apart. */
enum status replay_local(struct plan *plan, const struct replay_rule *rule, struct answer *out);

#endif
