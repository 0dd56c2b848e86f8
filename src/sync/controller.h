/* Who trains what and averages with whom, where replicas do not wait for one another: a replica
 * asks for the number of its next mini-batch and, when it is ready, for the group that it averages
 * in.
 *
 * As the rules of groups (groups.h) this is a value: the time is an argument, and nothing here
 * sends, waits or reads a clock. So threads of one process, a control server, virtual time and the
 * simulator decide alike.
 *
 * Number n is the part of replica n mod R of step n div R; whoever is next gets it. Numbers are
 * handed out in rounds, at whose ends all replicas pause: to be evaluated, saved, or because
 * somebody asked for it. In a round each replica has one number from the start, in the order of
 * replicas; it asks for another one when it begins the one before. So equal replicas have the
 * samples that synchronous ones would. A replica without a further number rests until the next
 * round, or leaves in the last one: nobody waits for it.
 *
 * Replicas count their own mini-batches: `index`, from 0 over the whole run. */
#ifndef SYNC_CONTROLLER_H
#define SYNC_CONTROLLER_H

#include "sync/groups.h"

enum {
    CONTROLLER_NONE = -1,   /* there is no further number in this round */
    CONTROLLER_UNKNOWN = -2 /* nobody has asked for it yet */
};
enum { CONTROLLER_KEPT = 64 }; /* the newest numbers of a replica, which are told again */

struct controller;

/* Local. Of a checked configuration; `next` is the first number of the run. The caller closes it,
 * which accepts NULL and clears it. */
struct controller *controller_open(const struct groups_config *config, int64_t next);
void controller_close(struct controller **controller);

/* Local, before the first round. The run goes on with number `next`; each replica has had so many.
 */
void controller_place(struct controller *controller, int64_t next, int64_t each);

/* Local. Round `round` begins, from 0 on, and has the numbers before `end`; `last`: there will be
 * no other. Whoever comes first begins it; the others say the same. */
void controller_begin(struct controller *controller, int64_t round, int64_t end, bool last);
/* Local. Somebody asks for a pause: the round ends with the step under way. Its end. */
int64_t controller_pause(struct controller *controller);
/* Local. Draws the number that is the replica's mini-batch `index`, or CONTROLLER_NONE; or what was
 * drawn for it: of that alone. */
int64_t controller_draw(struct controller *controller, int replica, int64_t index);
int64_t controller_number(const struct controller *controller, int replica, int64_t index);
/* Local. How many a replica has had; numbers handed out, over the whole run. */
int64_t controller_drawn(const struct controller *controller, int replica);
int64_t controller_next_number(const struct controller *controller);

/* Local. A replica is ready to average its mini-batch `index` at a key. Take all groups that have
 * formed before anything else is told. */
void controller_arrive(struct controller *controller, int key, int replica, int64_t index,
                       int64_t now_ns);
/* Local. As groups_next and groups_wake_ns. */
bool controller_form(struct controller *controller, int64_t now_ns, struct group_formed *out);
int64_t controller_wake_ns(const struct controller *controller);

/* The answer to one member. */
struct controller_group {
    int64_t number, spread;
    int count, key;
    bool connects;
    const int *replica; /* ascending; valid until the replica arrives again */
    const double *weight;
};
/* Local. Whether the replica's group for mini-batch `index` has formed. */
bool controller_group(const struct controller *controller, int key, int replica, int64_t index,
                      struct controller_group *out);
/* Local. How many have come and have no group yet. */
int controller_waiting(const struct controller *controller, int key);

/* Local, between rounds. The state as numbers for a checkpoint, as groups_save and groups_load. */
int64_t controller_save(const struct controller *controller, int64_t *out);
enum status controller_load(struct controller *controller, const int64_t *numbers, int64_t count);

#endif
