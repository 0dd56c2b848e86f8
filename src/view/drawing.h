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
    int32_t ids;                                 /* that instructions of the program have */
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
/* How many steps are drawn: one, or, where steps overlap, as many as are under way at once. */
int drawing_steps(const struct drawing *drawing);
/* The id and the micro-batch of an interval whose instruction ran in a body so many steps behind
 * the last one that is drawn whole (before it: below 0). Where one step is drawn they are the
 * instruction's; else ids differ from body to body, and micro-batches count from the first of these
 * steps. */
int32_t drawing_id(const struct drawing *drawing, int32_t id, int64_t body);
int32_t drawing_micro(const struct drawing *drawing, int32_t micro, int64_t body);
/* The newest step up to `last` that traces can show: where steps overlap, the last of as many as
 * are drawn, all of which ran with the pipeline full. 0: there is none. `trace` is rank 0's. */
enum status drawing_newest(const struct drawing *drawing, struct trace *trace, int64_t last,
                           int64_t *out);
/* Adds the events of a step, or of those up to it, as the measured version: those of rank r are in
 * traces[r]. The forecast was made with every rank apart. Fails where trace_step does, and adds
 * nothing then. */
enum status drawing_measured(struct drawing *drawing, struct trace *const *traces, int64_t step);

#endif
