/* A run whose plan changes on its way: see course.h. All parts of its course are planned before it
 * begins, described only, so that what cannot be is refused then. What the largest part takes
 * beyond the first is in the row `transition`: the other rows are what the first part allocates. */
#include "base/exact.h"
#include "base/log.h"
#include "plan/resolve.h"
#include "planned/planned.h"

enum status planned_part(const struct planned_run *planned, const struct course_part *part,
                         bool dry, struct plan **out) {
    struct run_config config =
        resolve_for_part(&planned->plan->config, part, dry || planned->plan->config.dry);
    TRY(plan_new(&config, NULL, out));
    plan_use_comm(*out, planned->plan->comm);
    (*out)->memory.library = planned->plan->memory.library;
    (*out)->memory.trace = planned->plan->memory.trace;
    return STATUS_OK;
}

/* Between two plans each rank has its part of the values beside the old plan's arrays, and what
 * planning took twice: on the host. With ZeRO one replica gives the slices of all. */
static size_t moved_bytes(const struct planned_run *planned, const struct memory_estimate *memory) {
    const struct course *course = &planned->course;
    const struct run_config *config = &planned->plan->config;
    size_t slices = config->zero_stage ? (size_t)config->grid.replicas : 1,
           planning = memory->library - planned->code_bytes;
    size_t norms = course->open ? 2 * (size_t)course->blocks * sizeof(struct exact_sum) : 0;
    if (memory->apart) return norms;
    return norms + plan_move_bytes(config) + memory->params + memory->buffers +
           memory->state * slices + planning;
}

/* `memory` is the first part's. */
static void count_growth(const struct memory_estimate *other, struct memory_estimate *memory) {
    struct memory_estimate first = *memory, same = *other;
    first.transition = 0;
    same.library = memory->library;
    same.trace = memory->trace;
    size_t now = memory_sum(&same), before = memory_sum(&first);
    if (now > before + memory->transition) memory->transition = now - before;
}

static enum status count_part(struct planned_run *planned, const struct course_part *part) {
    const struct grid *grid = &planned->plan->config.grid;
    struct plan *plan = NULL;
    struct memory_estimate other;
    TRY(planned_part(planned, part, true, &plan));
    enum status status = STATUS_OK;
    count_growth(&plan->memory, &planned->plan->memory);
    for (int p = 0; p < grid->stages && planned->position && status == STATUS_OK; p++) {
        status = plan_memory_of(plan, group_rank(grid, GROUP_PIPELINE, 0, p), &other);
        if (status == STATUS_OK) count_growth(&other, &planned->position[p]);
    }
    plan_free(&plan);
    return status;
}

enum status planned_count_course(struct planned_run *planned) {
    const struct course *course = &planned->course;
    struct memory_estimate *own = &planned->plan->memory;
    struct course_part part;
    if (!course_changes(course)) return STATUS_OK;
    for (int i = 1; course_reaches(course, i, &part); i++) TRY(count_part(planned, &part));
    own->transition += moved_bytes(planned, own);
    for (int p = 0; p < planned->plan->config.grid.stages && planned->position; p++)
        planned->position[p].transition += moved_bytes(planned, &planned->position[p]);
    return STATUS_OK;
}
