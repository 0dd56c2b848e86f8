/* See course.h. */
#include "plan/course.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/freeze.h"

static int64_t periods_of(const struct run_config *config, const struct freezing_rule *rule) {
    int64_t every = config->freeze_every;
    if (every <= 0 || !freezing_changes(rule)) return 1;
    int64_t periods = (config->steps + every - 1) / every;
    return periods > 1 ? periods : 1;
}

/* What each period has frozen; past the end of a list its last item. */
static enum status fill(const struct run_config *config, const struct freezing_rule *rule,
                        int blocks, int periods, int *frozen) {
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
    out->part = MEM_ARRAY(struct course_part, periods);
    for (int p = 0; p < periods; p++)
        if (p == 0 || frozen[p] > frozen[p - 1])
            out->part[out->count++] = (struct course_part){p * every, frozen[p]};
}

static enum status by_rule(const struct plan *plan, const struct freezing_rule *rule,
                           struct course *out) {
    const struct run_config *config = &plan->config;
    int64_t periods = periods_of(config, rule);
    *out = (struct course){0};
    if (periods > FREEZING_PERIODS)
        return fail(STATUS_USAGE,
                    "--freeze-every: the run has %lld periods of %lld steps, of which only %d can "
                    "be\n  name a longer time",
                    (long long)periods, (long long)config->freeze_every, FREEZING_PERIODS);
    SCOPED_FREE int *frozen = MEM_ARRAY(int, periods);
    TRY(fill(config, rule, freeze_blocks(plan->micro[0].graph), (int)periods, frozen));
    take_parts(frozen, (int)periods, config->freeze_every, out);
    return STATUS_OK;
}

enum status course_new(const struct plan *plan, struct course *out) {
    return by_rule(plan, &plan->config.freezing, out);
}

enum status course_by_alpha(const struct plan *plan, struct freezing_share alpha,
                            struct course *out) {
    struct freezing_rule rule = {.alpha = alpha};
    return by_rule(plan, &rule, out);
}

void course_free(struct course *course) {
    free(course->part);
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
    return last ? INT64_MAX : part[1].step;
}
