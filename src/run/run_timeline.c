/* See run_timeline.h. A forecast that cannot be made is said and leaves the report without a
 * timeline: the run itself is not at fault. */
#include "run/run_timeline.h"

#include <stdlib.h>

#include "base/mem.h"
#include "view/drawing.h"

struct run_timeline {
    struct view_forecast view;
    struct drawing drawing;
};

/* The last step of an epoch may have a list of its own. */
static int64_t whole_step(const struct plan *plan, int64_t last) {
    bool short_one = plan->last_samples && last % plan->config.steps_per_epoch == 0;
    return short_one ? last - 1 : last;
}

static double most(const struct session *session, bool measured) {
    int64_t peak = 0;
    for (int r = 0; r < comm_size(engine_comm(session->engine)); r++) {
        const struct rank_figures *of = session->all ? &session->all[r] : &session->figures;
        int64_t bytes = measured ? of->peak_bytes : result_predicted_bytes(session, r);
        if (bytes > peak) peak = bytes;
    }
    return (double)peak;
}

/* The simulator counts slots and what is fixed; the plan and the process count everything. */
static void set_peaks(struct timeline *timeline, const struct session *session) {
    for (int v = 0; v < TIMELINE_VERSIONS; v++)
        timeline->version[v].figures.peak_bytes = most(session, v == TIMELINE_MEASURED);
}

/* Step 0: no step was measured that could be drawn. */
static char *title_of(const struct drawing *drawing, int64_t step) {
    int steps = drawing_steps(drawing);
    if (step == 0)
        return mem_format("Timeline as predicted: the trace has no %d steps in a row with the "
                          "pipeline full",
                          steps + 1);
    if (steps == 1)
        return mem_format("Timeline of step %lld: predicted above, measured below",
                          (long long)step);
    return mem_format("Timeline of steps %lld to %lld: predicted above, measured below",
                      (long long)step - steps + 1, (long long)step);
}

static void set_words(struct drawing *drawing, int64_t step, uint64_t dropped) {
    SCOPED_FREE char *title = title_of(drawing, step);
    SCOPED_FREE char *lost =
        mem_format("%llu events of the trace did not fit; some blocks may be missing",
                   (unsigned long long)dropped);
    drawing->timeline.title = arena_text(&drawing->arena, title);
    drawing->subtitle[1] = arena_text(&drawing->arena, lost);
    drawing->timeline.subtitle_count = dropped ? 2 : 1;
}

static uint64_t dropped_of(struct trace *const *traces, int count) {
    uint64_t sum = 0;
    for (int r = 0; r < count; r++) sum += trace_dropped(traces[r]);
    return sum;
}

struct run_timeline *run_timeline_new(const struct session *session) {
    const struct recorder *recorder = &session->recorder;
    int ranks = comm_size(engine_comm(session->engine));
    struct trace *const *traces = recorder->traces ? recorder->traces : &recorder->trace;
    if (!recorder->trace || (ranks > 1 && !recorder->traces)) return NULL;
    int64_t step = whole_step(session_plan(session), trace_last_step(recorder->trace));
    struct trace_event *events = NULL;
    size_t count = 0;
    enum status status = trace_step(recorder->trace, step, &events, &count);
    free(events);
    if (status != STATUS_OK || count == 0) return NULL;
    struct run_timeline *run = MEM_NEW(struct run_timeline);
    bool good = view_forecast_open(&session->planned, true, &run->view) == STATUS_OK;
    if (!good || !run->view.forecast.input.record) {
        if (good) view_forecast_close(&run->view);
        free(run);
        return NULL;
    }
    drawing_open(&run->view, &run->drawing);
    status = drawing_newest(&run->drawing, traces[0], step, &step);
    if (status == STATUS_OK && step > 0) status = drawing_measured(&run->drawing, traces, step);
    if (status != STATUS_OK) {
        run_timeline_free(&run);
        return NULL;
    }
    set_peaks(&run->drawing.timeline, session);
    set_words(&run->drawing, step, dropped_of(traces, ranks));
    return run;
}

const struct timeline *run_timeline_get(const struct run_timeline *run) {
    return run ? &run->drawing.timeline : NULL;
}

void run_timeline_summary(const struct run_timeline *run, struct summary *summary) {
    if (!run || run->view.forecast.units) return;
    summary->predicted_step_ms.p50 = run->view.forecast.result.step * 1e-6;
    summary->predicted_step_ms.low = run->view.forecast.low * 1e-6;
    summary->predicted_step_ms.high = run->view.forecast.high * 1e-6;
}

void run_timeline_free(struct run_timeline **run) {
    if (!*run) return;
    drawing_close(&(*run)->drawing);
    view_forecast_close(&(*run)->view);
    free(*run);
    *run = NULL;
}
