/* A run whose plan changes on its way goes from one part of its course to the next (plan/course.h):
 * the callbacks of struct train_config. Their context is the session. */
#ifndef RUN_TRANSITION_H
#define RUN_TRANSITION_H

#include "run/session.h"

/* Local. Before the engine is opened: what the state of the training has of the course. */
enum status transition_open(struct session *session);

/* Collective. The plan of the part that begins behind `steps`, if one does; ranks whose programs or
 * layouts differ are refused together. */
enum status transition_next(void *session, int64_t steps, const struct plan **out);
/* Local. */
int64_t transition_until(void *session, int64_t steps);
/* Local, blocking. Says it, writes it down, and gives the plan before back. */
enum status transition_done(void *session, int64_t steps, int64_t ns);

/* Collective, blocking. All of that before a step, for whoever runs steps one by one. */
enum status transition_step(struct session *session);

/* Collective, blocking. Before a checkpoint is loaded: opens the engine anew with the plan that the
 * newest one was made by, if that is another. */
enum status transition_resume(struct session *session, const char *checkpoints);

/* Local, blocking. The same of a session without an engine, which only looks. */
enum status transition_plan(struct session *session, const char *checkpoints);

/* Local, blocking. Writes course.jsonl as far as the run has come: a row for each part. */
enum status transition_begin(const struct session *session, int64_t step);

/* Local. Behind the engine. */
void transition_free(struct session *session);

#endif
