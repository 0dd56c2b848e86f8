/* Groups that are chosen while ranks run, in virtual time; private to src/sim.
 *
 * Whoever decides (sync/controller.h) must be told of ranks in the order of (time, rank). Ranks are
 * run on as far as they can, and not in the order of time: so what a rank asks for is noted with
 * its time, and decided when no rank can ask for anything earlier. A rank that waits cannot: what
 * it waits for comes from a decision, or from a rank that does not wait. */
#ifndef SIM_CHOICES_H
#define SIM_CHOICES_H

#include "sim/sim_state.h"

/* Local. Where a group of the program is chosen; frees it. */
void sim_choices_new(struct sim *sim);
void sim_choices_free(struct sim *sim);
/* Local. For runs that draw their own numbers: the first `steps` of all replicas. */
void sim_choices_begin(struct sim *sim, int steps);

/* Local. A run has come to GROUP, at its clock. Whether its group has formed; *at: when. False: the
 * run is woken then. */
void sim_choices_ask(struct sim *sim, int32_t run);
bool sim_choices_formed(struct sim *sim, int32_t run, double *at);
/* Local. A run asks for the number of its replica's mini-batch `index`, at its clock. Whether it is
 * known, and what it is; false: the run is woken then. */
void sim_choices_draw(struct sim *sim, int32_t run, int64_t index);
bool sim_choices_number(struct sim *sim, int32_t run, int64_t index, int64_t *out);

/* Local. Decides what was asked for first, if that was not later than `time`, and at that time not
 * by a later rank; or what is due by then. False: there is no such thing. */
bool sim_choices_decide(struct sim *sim, double time, int rank);

/* Local. Of a run that draws: it begins its next step, if there is one (*ended: there is none), and
 * asks for the number behind it. False: it waits for the number. At the end of a step. */
bool sim_choices_step(struct sim *sim, int32_t run, bool *ended);
void sim_choices_finish(struct sim *sim, const struct sim_state *state);
/* Local. When (k + 1) R numbers had been done, of all steps. */
void sim_choices_ends(struct sim *sim);

/* Local. As sim_arrive and sim_meeting, for an average over those chosen. */
int64_t sim_choices_arrive(struct sim *sim, int32_t run, const struct sim_op *op);
const struct sim_meeting *sim_choices_meeting(struct sim *sim, int32_t run, int64_t number);

#endif
