/* The last step of a forecast as a timeline (record/timeline.h), and beside it what a run measured.
 * All local; nothing blocks but the reading of traces. */
#ifndef VIEW_DRAWING_H
#define VIEW_DRAWING_H

#include "record/timeline.h"
#include "record/trace.h"
#include "view/view_forecast.h"

/* It stays where it is: its timeline points into it. */
struct drawing {
    struct timeline timeline; /* to be drawn; borrows from all that follows */
    const struct view_forecast *view;
    const struct sim_result *result;
    double scale; /* of times, which a timeline counts in whole numbers */
    bool texts;
    struct timeline_kind kind[INSTR_COUNT_ + 1]; /* those that occur, and waiting */
    int kind_of[INSTR_COUNT_], kind_count;       /* per instruction: its kind + 1 */
    struct timeline_lane *lane;
    struct timeline_row *row;
    struct timeline_arrow *arrow;
    size_t arrow_count, arrow_capacity;
    struct timeline_lane *measured; /* NULL: nothing was */
    struct timeline_arrow *measured_arrow;
    size_t measured_arrow_count, measured_arrow_capacity;
    const char *title, *subtitle[2], *sentence[1];
    struct arena arena; /* texts, intervals and points */
};

/* The forecast must have kept its instructions (input.record), and outlive the drawing. A row is a
 * rank that was run. The caller closes it. */
void drawing_open(const struct view_forecast *view, struct drawing *out);
void drawing_close(struct drawing *drawing);
/* The number of an instruction's row of the legend, which it gets with its first use. */
int drawing_kind(struct drawing *drawing, int op);
/* Adds the events of a step as the measured version: those of rank r are in traces[r]. The forecast
 * was made with every rank apart. Fails where trace_step does, and adds nothing then. */
enum status drawing_measured(struct drawing *drawing, struct trace *const *traces, int64_t step);

#endif
