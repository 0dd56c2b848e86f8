/* See course.h. */
#include "plan/course.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/freeze.h"
#include "plan/course_file.h"
#include "program/pipeline.h"

static int64_t periods_of(const struct run_config *config, const struct freezing_rule *rule) {
    int64_t every = config->freeze_every;
    if (every <= 0 || !freezing_changes(rule)) return 1;
    int64_t periods = (config->steps + every - 1) / every;
    return periods > 1 ? periods : 1;
}

/* What each period has frozen; past the end of a list its last item. */
static enum status fill(const struct run_config *config, const struct freezing_rule *rule,
                        int blocks, int periods, int *frozen) {
    if (rule->norm) return STATUS_OK; /* nothing at first */
    if (rule->alpha.part > 0) {
        freezing_by_alpha(blocks, rule->alpha, periods, frozen);
        return STATUS_OK;
    }
    for (int p = 0; p < periods && rule->count; p++)
        frozen[p] = rule->list[p < rule->count ? p : rule->count - 1];
    if (frozen[periods - 1] <= blocks) return STATUS_OK;
    return fail(
        STATUS_USAGE,
        "--freeze %d in period %d: model %s has %d blocks beside its head, which is trained",
        frozen[periods - 1], periods < rule->count ? periods : rule->count, config->model->name,
        blocks);
}

static void take_parts(const int *frozen, int periods, int64_t every, struct course *out) {
    for (int p = 0; p < periods; p++)
        if (p == 0 || frozen[p] > frozen[p - 1])
            course_add(out, course_part_at(out, p * every, frozen[p]));
}

/* --- grids --- */

/* Frozen blocks leave half as many stages, again and again, as long as the largest is no larger
 * than the largest was with nothing frozen. Every number of blocks counts, whether some part has it
 * or not: so a grid follows from what is frozen, and not from the way there. */
static void shrink(const struct plan *plan, struct course *out) {
    const struct run_config *config = &plan->config;
    const struct graph *graph = plan->micro[0].graph;
    SCOPED(partition_source_free)
    struct partition_source *source = partition_source_new(graph);
    SCOPED(partition_runs_free) struct partition_runs runs = partition_runs_of(source);
    struct pipe_units units = partition_pipe_units(&runs, graph, 0, config->pipe);
    int stages = config->grid.stages;
    SCOPED_FREE int *cuts = MEM_ARRAY(int, stages);
    int64_t most = pipe_cut(&units, stages, cuts);
    out->stages = MEM_ARRAY(int, out->blocks + 1);
    for (int f = 0; f <= out->blocks; f++) {
        units = partition_pipe_units(&runs, graph, f, config->pipe);
        if (f > freezing_first(&config->freezing)) stages = pipe_shrink(&units, stages, most);
        out->stages[f] = stages;
    }
}

static enum status check_grids(const struct course *course) {
    const struct run_config *config = course->config;
    const struct grid *grid = &config->grid;
    struct course_part part;
    for (int i = 0; config->auto_dp && course_reaches(course, i, &part); i++) {
        int copies = grid->stages / part.stages;
        if (copies * part.stages != grid->stages)
            return fail(
                STATUS_USAGE,
                "--auto-dp: with %d frozen blocks a pipeline of %d stages has %d, and ranks "
                "are left over\n  --stages with a power of two",
                part.frozen, grid->stages, part.stages);
        if (part.micro_batches * copies != config->micro_batches)
            return fail(STATUS_USAGE,
                        "--micro-batches %d: with %d frozen blocks a pipeline becomes %d, which "
                        "share them evenly or not at all\n  --micro-batches %d",
                        config->micro_batches, part.frozen, copies, grid->stages);
    }
    return STATUS_OK;
}

struct course_part course_part_at(const struct course *course, int64_t step, int frozen) {
    const struct run_config *config = course->config;
    int stages = course->stages ? course->stages[frozen] : config->grid.stages,
        copies = config->auto_dp ? config->grid.stages / stages : 1;
    return (struct course_part){.step = step,
                                .frozen = frozen,
                                .stages = stages,
                                .replicas = config->replicas * copies,
                                .micro_batches = config->micro_batches / copies};
}

bool course_is_at(const struct course_part *part, const struct run_config *config) {
    return part->frozen == config->frozen && part->stages == config->grid.stages &&
           part->replicas == config->replicas && part->micro_batches == config->micro_batches;
}

static enum status by_rule(const struct plan *plan, const struct freezing_rule *rule,
                           struct course *out) {
    const struct run_config *config = &plan->config;
    int64_t periods = periods_of(config, rule);
    *out = (struct course){.config = config, .blocks = freeze_blocks(plan->micro[0].graph)};
    if (periods > FREEZING_PERIODS)
        return fail(STATUS_USAGE,
                    "--freeze-every: the run has %lld periods of %lld steps, of which only %d can "
                    "be\n  name a longer time",
                    (long long)periods, (long long)config->freeze_every, FREEZING_PERIODS);
    SCOPED_FREE int *frozen = MEM_ARRAY(int, periods);
    TRY(fill(config, rule, out->blocks, (int)periods, frozen));
    if (config->pipe != PIPE_OFF) shrink(plan, out);
    take_parts(frozen, (int)periods, config->freeze_every, out);
    /* Also of a run that ends within a period: it may be resumed with more steps. */
    out->open = rule->norm && config->steps > 0;
    enum status status = check_grids(out);
    if (status != STATUS_OK) course_free(out);
    return status;
}

/* --- courses of files --- */

static enum status check_file(const struct course_file *file, const struct course *course) {
    const struct run_config *config = course->config;
    const struct course_part *first = &file->part[0];
    if (file->blocks != course->blocks)
        return fail(STATUS_USAGE, "--course %s: is of a model with %d blocks, %s has %d",
                    file->name, file->blocks, config->model->name, course->blocks);
    if (file->batch != config->batch)
        return fail(STATUS_USAGE, "--course %s: its steps have %lld samples, --batch is %lld",
                    file->name, (long long)file->batch, (long long)config->batch);
    if (config->ranks > 1 && file->ranks != config->ranks)
        return fail(STATUS_USAGE,
                    "--course %s: its grids are of %d ranks, this run has %d\n"
                    "  -n %d; one device replays any of them, with --strategy single",
                    file->name, file->ranks, config->ranks, file->ranks);
    if (first->replicas == config->replicas && first->micro_batches == config->micro_batches)
        return STATUS_OK;
    return fail(
        STATUS_USAGE,
        "--course %s: it begins with %d replicas x %d micro-batches, this run with %d x %d\n"
        "  %s",
        file->name, first->replicas, first->micro_batches, config->replicas, config->micro_batches,
        config->ranks == 1 ? "name the same by --deal"
                           : "name the same by --stages, "
                             "--replicas and --micro-batches");
}

/* Pipelines may have any grid of these ranks; other strategies have one. */
static enum status check_cells(const struct course_file *file, const struct run_config *config) {
    for (int i = 0; i < file->count && config->ranks > 1; i++) {
        const struct course_part *part = &file->part[i];
        bool same = part->stages == config->grid.stages && part->replicas == config->replicas;
        if (same || pipeline_find(config->schedule)) continue;
        return fail(STATUS_USAGE,
                    "--course %s: line %d has %d stages x %d replicas, which --strategy with "
                    "schedule %s has not\n  --strategy gpipe, or another pipeline",
                    file->name, i + 1, part->stages, part->replicas, config->schedule);
    }
    return STATUS_OK;
}

static enum status by_file(const struct plan *plan, struct course *out) {
    const struct run_config *config = &plan->config;
    const struct course_file *file = config->course;
    *out = (struct course){
        .config = config, .blocks = freeze_blocks(plan->micro[0].graph), .recorded = true};
    TRY(check_file(file, out));
    TRY(check_cells(file, config));
    for (int i = 0; i < file->count && (i == 0 || file->part[i].step < config->steps); i++) {
        struct course_part part = file->part[i];
        if (config->ranks == 1) part.stages = 1;
        course_add(out, part);
    }
    return STATUS_OK;
}

enum status course_new(const struct plan *plan, struct course *out) {
    if (plan->config.course) return by_file(plan, out);
    return by_rule(plan, &plan->config.freezing, out);
}

enum status course_by_alpha(const struct plan *plan, struct freezing_share alpha,
                            struct course *out) {
    struct freezing_rule rule = {.alpha = alpha};
    return by_rule(plan, &rule, out);
}

void course_free(struct course *course) {
    free(course->part);
    free(course->stages);
    *course = (struct course){0};
}

const struct course_part *course_at(const struct course *course, int64_t step) {
    int at = 0;
    while (at + 1 < course->count && course->part[at + 1].step <= step) at++;
    return &course->part[at];
}

int64_t course_until(const struct course *course, int64_t step) {
    const struct course_part *part = course_at(course, step);
    bool last = part == &course->part[course->count - 1];
    if (!last) return part[1].step;
    if (!course->open) return INT64_MAX;
    int64_t every = course->config->freeze_every;
    return (step / every + 1) * every;
}

int course_most(const struct course *course, int64_t step) {
    const struct run_config *config = course->config;
    return freezing_most(&config->freezing, course->blocks, (int)(step / config->freeze_every));
}

void course_add(struct course *course, struct course_part part) {
    CHECK(course->count == 0 || part.step > course->part[course->count - 1].step,
          "a part begins behind step %lld, which is not the last", (long long)part.step);
    struct course_part *longer = MEM_ARRAY(struct course_part, course->count + 1);
    if (course->count > 0) memcpy(longer, course->part, (size_t)course->count * sizeof *longer);
    longer[course->count++] = part;
    free(course->part);
    course->part = longer;
}

void course_take(struct course *course, const struct course_part *part, int count, int64_t step) {
    struct course whole = *course;
    whole.part = NULL, whole.count = 0;
    for (int i = 0; i < count && (i == 0 || part[i].step < step); i++) course_add(&whole, part[i]);
    for (int i = 0; i < course->count; i++)
        if (whole.count == 0 || (!course->open && course->part[i].step >= step && i > 0))
            course_add(&whole, course->part[i]);
    free(course->part);
    *course = whole;
}

struct course course_copy(const struct course *course) {
    struct course copy = *course;
    copy.part = MEM_ARRAY(struct course_part, course->count);
    memcpy(copy.part, course->part, (size_t)course->count * sizeof *copy.part);
    if (!course->stages) return copy;
    copy.stages = MEM_ARRAY(int, course->blocks + 1);
    memcpy(copy.stages, course->stages, (size_t)(course->blocks + 1) * sizeof *copy.stages);
    return copy;
}

/* By norms any number of blocks may be frozen at some time, which is not before its cap allows it.
 */
bool course_reaches(const struct course *course, int index, struct course_part *out) {
    const struct run_config *config = course->config;
    int64_t step = 0;
    if (!course->open) {
        if (index < course->count) *out = course->part[index];
        return index < course->count;
    }
    if (index > course_most(course, config->steps - 1)) return false;
    while (index > 0 && (step == 0 || course_most(course, step) < index))
        step += config->freeze_every;
    *out = course_part_at(course, step, index);
    return true;
}
