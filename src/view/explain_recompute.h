/* What recomputation costs and saves: a row and a table of `stretto explain`. */
#ifndef VIEW_EXPLAIN_RECOMPUTE_H
#define VIEW_EXPLAIN_RECOMPUTE_H

#include <stdio.h>

#include "planned/planned.h"
#include "view/view_forecast.h"

/* One value of --recompute. */
struct recompute_mode {
    double flops;  /* that run again in a step, of the pipeline's first rank */
    double step;   /* forecast of it, in its units; 0: there is none */
    size_t *bytes; /* per position: activations of its rank */
};

enum { RECOMPUTE_POSITIONS = 8 }; /* along a pipeline, that are looked at */

struct recompute_cost {
    int again, micros; /* forwards of a step that run again, of how many, on this rank */
    double flops;      /* a step, of this rank */
    int positions;     /* RECOMPUTE_POSITIONS at most */
    struct recompute_mode mode[RECOMPUTE_POLICY_COUNT];
};

/* Local. Plans the ranks of a pipeline with the run's recomputation and without; with a forecast,
 * with every other, too, and forecasts their steps. The caller frees the result with
 * explain_recompute_cost_free, also after a failure. */
enum status explain_recompute_cost_of(const struct planned_run *planned,
                                      const struct view_forecast *view, struct recompute_cost *out);
void explain_recompute_cost_free(struct recompute_cost *cost);

/* Local. All modes beside one another. */
void explain_recompute_cost_print(const struct recompute_cost *cost,
                                  const struct view_forecast *view, FILE *out);

#endif
