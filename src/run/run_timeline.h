/* What a run's report shows of a step: the forecast of its plan, and what the trace measured. */
#ifndef RUN_RUN_TIMELINE_H
#define RUN_RUN_TIMELINE_H

#include "record/timeline.h"
#include "run/session.h"

struct run_timeline;

/* Local. Of the last step that was traced and ran the whole program: not the short
 * last one of an epoch, whose program is another. NULL where there is none, where the traces of
 * other ranks did not come or cannot be read, or where the step is too large to draw. Before the
 * recorder is closed; afterwards the timeline needs the session's planned run alone. The caller
 * frees it. */
struct run_timeline *run_timeline_new(const struct session *session);
/* Local. Borrowed; NULL of NULL. */
const struct timeline *run_timeline_get(const struct run_timeline *run);
/* Local. The forecast of the step goes into the summary, in place of the plan's estimate of one
 * rank. Nothing of NULL. */
void run_timeline_summary(const struct run_timeline *run, struct summary *summary);
/* Local. Accepts NULL. */
void run_timeline_free(struct run_timeline **run);

#endif
