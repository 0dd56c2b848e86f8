/* See transition.h. The plan of a part is made when the part begins: of a run of weeks nobody needs
 * those to come, and what is frozen later may be decided on the way. */
#include "run/transition.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "graph/freeze.h"
#include "plan/course_file.h"
#include "plan/graphs.h"
#include "program/program.h"
#include "view/view_forecast.h"

static const struct course *course_of(const struct session *session) {
    return &session->planned.course;
}

static bool is_first(const struct session *session) {
    return comm_rank(engine_comm(session->engine)) == 0;
}

/* --- the next plan --- */

struct plan_hashes {
    uint64_t program, layouts;
};

/* The ranks compared those of the first plan as they joined. */
static enum status compare_plans(struct session *session, const struct plan *plan) {
    struct comm *comm = engine_comm(session->engine);
    struct plan_hashes own = {.program = program_hash(plan->program)};
    SCOPED_FREE struct plan_hashes *all = MEM_ARRAY(struct plan_hashes, comm_size(comm));
    TRY(engine_agree(session->engine, graphs_layouts_hash(plan, &own.layouts)));
    TRY(comm_exchange(comm_world(comm), &own, sizeof own, all));
    for (int r = 1; r < comm_size(comm); r++)
        if (memcmp(&all[r], &all[0], sizeof *all) != 0)
            return fail(STATUS_USAGE,
                        "ranks 0 and %d have planned the next part of the run differently: it has "
                        "%d frozen blocks\n  start all ranks from one build, with the same options",
                        r, plan->config.frozen);
    return STATUS_OK;
}

static void tell(const struct session *session, const char *what) {
    const struct engine_observer *observer = &session->state.observer;
    if (observer->changing) observer->changing(observer->context, what, session->state.done.step);
}

static enum status open_part(struct session *session, const struct course_part *part) {
    tell(session, "PLAN");
    plan_free(&session->before); /* a resume leaves one behind */
    session->before = session->later;
    session->later = NULL;
    enum status status = planned_part(&session->planned, part, false, &session->later);
    TRY(engine_agree(session->engine, status));
    return compare_plans(session, session->later);
}

/* --- the rule norm --- */

enum status transition_open(struct session *session) {
    const struct course *course = course_of(session);
    if (!course_changes(course)) return STATUS_OK;
    session->state.course = course;
    if (!course->open) return STATUS_OK;
    session->state.norms =
        (struct train_norms){MEM_ARRAY(struct exact_sum, course->blocks), course->blocks};
    return STATUS_OK;
}

/* A period is over: all ranks have the same norms, and decide alike. */
static enum status decide(struct session *session, int64_t steps) {
    struct course *course = &session->planned.course;
    struct train_norms *norms = &session->state.norms;
    int before = course->part[course->count - 1].frozen;
    SCOPED_FREE double *squares = MEM_ARRAY(double, course->blocks);
    tell(session, "DECIDE");
    TRY(engine_settle(session->engine));
    TRY(engine_gather_norms(session->engine));
    for (int b = 0; b < course->blocks; b++) {
        squares[b] = exact_total(&norms->squares[b]);
        norms->squares[b] = (struct exact_sum){0};
    }
    int frozen = freezing_by_norm(course->blocks, before, course_most(course, steps), squares);
    if (frozen > before) course_add(course, course_part_at(course, steps, frozen));
    session->decided = steps;
    return STATUS_OK;
}

static bool is_to_decide(const struct session *session, int64_t steps) {
    const struct course *course = course_of(session);
    return course->open && steps > 0 && steps > session->decided &&
           steps % course->config->freeze_every == 0;
}

enum status transition_next(void *context, int64_t steps, const struct plan **out) {
    struct session *session = context;
    if (is_to_decide(session, steps)) TRY(decide(session, steps));
    const struct course_part *part = course_at(course_of(session), steps);
    if (course_is_at(part, &session_plan(session)->config)) return STATUS_OK;
    TRY(open_part(session, part));
    session->sent += comm_sent_bytes(engine_comm(session->engine)) - session->sent_before;
    *out = session->later;
    return STATUS_OK;
}

enum status transition_step(struct session *session) {
    const struct plan *next = NULL;
    int64_t steps = engine_next_step(session->engine), begin = clock_ns();
    TRY(transition_next(session, steps, &next));
    if (!next) return STATUS_OK;
    TRY(engine_settle(session->engine));
    TRY(engine_change_plan(&session->engine, next));
    return transition_done(session, steps, clock_ns() - begin);
}

int64_t transition_until(void *context, int64_t steps) {
    return course_until(course_of(context), steps);
}

void transition_free(struct session *session) {
    free(session->state.norms.squares);
    session->state.norms = (struct train_norms){0};
    plan_free(&session->before);
    plan_free(&session->later);
}

/* --- what is told of it --- */

static const struct graph *graph_of(const struct session *session) {
    return session_plan(session)->micro[0].graph;
}

/* "3.14 ms": what a step of a plan should take. */
static const char *forecast_text(const struct session *session, const struct plan *plan,
                                 char text[TEXT_BYTES]) {
    struct planned_run other = session->planned;
    struct view_forecast view;
    other.plan = (struct plan *)(uintptr_t)plan;
    if (view_forecast_open(&other, false, &view) != STATUS_OK) return "?";
    text_duration(view.forecast.result.step * 1e-9, text);
    view_forecast_close(&view);
    return text;
}

/* ", 2 x 2 ranks in place of 4 x 1"; empty where the grid is the same. */
static void grid_text(const struct run_config *now, const struct run_config *before, char *text,
                      size_t room) {
    *text = 0;
    if (now->grid.stages == before->grid.stages && now->replicas == before->replicas) return;
    snprintf(text, room, "; %d x %d stages and replicas in place of %d x %d", now->grid.stages,
             now->replicas, before->grid.stages, before->replicas);
}

static void say_changed(const struct session *session, int64_t steps, int64_t ns) {
    const struct graph *graph = graph_of(session);
    const struct plan *now = session_plan(session),
                      *before = session->before ? session->before : session->planned.plan;
    char trained[TEXT_BYTES], all[TEXT_BYTES], bytes[TEXT_BYTES], grid[128], time[TEXT_BYTES],
        was[TEXT_BYTES];
    if (session->planned.options.quiet || session->planned.options.json) return;
    grid_text(&now->config, &before->config, grid, sizeof grid);
    log_note(
        "step %lld: the first %d of %d blocks are frozen from here on; %s of %s parameters are "
        "trained%s\n  a step should take %s, not %s; %s moved in %.2f s",
        (long long)steps + 1, graph->frozen, freeze_blocks(graph),
        text_thousands(freeze_trained_elements(graph), trained),
        text_thousands(graph_param_elements(graph), all), grid, forecast_text(session, now, time),
        forecast_text(session, before, was), text_size((int64_t)session->state.moved_bytes, bytes),
        (double)ns * 1e-9);
}

static enum status write_course(const struct session *session, int64_t step) {
    const struct course *course = course_of(session);
    if (!course_changes(course) || !session->folder || !is_first(session)) return STATUS_OK;
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    CHECK(file, "no memory");
    for (int i = 0; i < course->count && course->part[i].step <= step; i++)
        course_file_print(course, &course->part[i], file);
    fclose(file);
    SCOPED_FREE char *owned = text;
    SCOPED_FREE char *path = folder_path(session->folder, "course.jsonl");
    return file_write_text(path, owned);
}

enum status transition_begin(const struct session *session, int64_t step) {
    return write_course(session, step);
}

enum status transition_done(void *context, int64_t steps, int64_t ns) {
    struct session *session = context;
    session->sent_before = comm_sent_bytes(engine_comm(session->engine));
    if (is_first(session)) say_changed(session, steps, ns);
    plan_free(&session->before);
    return engine_agree(session->engine, write_course(session, steps));
}

/* --- resuming --- */

/* A checkpoint is made by the plan of the step before it. */
static const struct course_part *part_of(const struct session *session, int64_t step) {
    return course_at(course_of(session), step > 0 ? step - 1 : 0);
}

/* One device replays the grid of any ranks; other ranks than those of the part decide anew. */
static void lay_out(const struct course *course, struct course_part *part) {
    const struct run_config *config = course->config;
    int ranks = part->stages * part->replicas;
    bool idle = ranks < config->ranks && part->replicas == 1 && !config->auto_dp;
    if (config->ranks == 1)
        part->stages = 1;
    else if (ranks != config->ranks && !idle)
        *part = course_part_at(course, part->step, part->frozen);
}

static void take_course(struct session *session, const struct train_course *recorded,
                        int64_t step) {
    struct train_norms *norms = &session->state.norms;
    bool fits = recorded->norms.blocks == norms->blocks;
    struct course *course = &session->planned.course;
    course_take(course, recorded->part, recorded->count, step);
    for (int i = 0; i < course->count; i++) lay_out(course, &course->part[i]);
    session->decided = 0;
    for (int b = 0; b < norms->blocks; b++)
        norms->squares[b] = fits ? recorded->norms.squares[b] : (struct exact_sum){0};
}

enum status transition_plan(struct session *session, const char *checkpoints) {
    struct train_course recorded = {0};
    if (!course_changes(course_of(session))) return STATUS_OK;
    int64_t step = checkpoint_newest(checkpoints, &session->arena, &recorded);
    take_course(session, &recorded, step);
    const struct course_part *part = part_of(session, step);
    return planned_part(&session->planned, part, true, &session->later);
}

/* What the first rank has found, to all. */
static enum status share_course(struct session *session, struct train_course *course) {
    struct engine *engine = session->engine;
    bool first = is_first(session);
    int32_t counts[2] = {course->count, course->norms.blocks};
    TRY(engine_share_bytes(engine, first, counts, sizeof counts));
    size_t parts = (size_t)counts[0] * sizeof *course->part,
           sums = (size_t)counts[1] * sizeof *course->norms.squares;
    struct course_part *part = arena_new(&session->arena, parts + 1);
    struct exact_sum *squares = arena_new(&session->arena, sums + 1);
    if (first && parts) memcpy(part, course->part, parts);
    if (first && sums) memcpy(squares, course->norms.squares, sums);
    TRY(engine_share_bytes(engine, first, part, parts));
    TRY(engine_share_bytes(engine, first, squares, sums));
    *course = (struct train_course){part, counts[0], {squares, counts[1]}};
    return STATUS_OK;
}

enum status transition_resume(struct session *session, const char *checkpoints) {
    struct train_course recorded = {0};
    int64_t step = 0;
    if (!course_changes(course_of(session))) return STATUS_OK;
    bool first = is_first(session);
    TRY(engine_gather_norms(session->engine)); /* of a run that goes back these are forgotten */
    if (first) step = checkpoint_newest(checkpoints, &session->arena, &recorded);
    TRY(engine_share_bytes(session->engine, first, &step, sizeof step));
    if (step < 0) return STATUS_OK; /* there is none */
    TRY(share_course(session, &recorded));
    take_course(session, &recorded, step);
    const struct course_part *part = part_of(session, step);
    if (course_is_at(part, &session_plan(session)->config)) return STATUS_OK;
    TRY(open_part(session, part));
    engine_close(&session->engine);
    TRY(session_open(session, NULL));
    return engine_follow_clock(session->engine, false);
}
