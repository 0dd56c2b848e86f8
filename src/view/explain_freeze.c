/* See explain_freeze.h. */
#include "view/explain_freeze.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "graph/freeze.h"
#include "plan/course_file.h"
#include "plan/resolve.h"
#include "view/explain.h"
#include "view/view_forecast.h"

/* Batch norms that take the running statistics in training. */
static bool has_batch_norm(const struct graph *graph) {
    for (int n = 0; n < graph->forward_count; n++)
        if (graph->nodes[n].op == OP_BATCH_NORM_EVAL) return true;
    return false;
}

/* "blocks 1 to 2 of 4, with the layers before them". */
static void blocks_text(const struct graph *graph, char *text, size_t room) {
    int frozen = graph->frozen, all = freeze_blocks(graph);
    const char *stem = graph->stem ? ", with the layers before them" : "";
    if (frozen == all)
        snprintf(text, room, "all %d blocks%s, so the head alone is trained", all, stem);
    else
        snprintf(text, room, "the first %d of %d blocks%s", frozen, all, stem);
}

static const char *tied_name(const struct graph *graph) {
    int tied = freeze_tied(graph);
    return tied < 0 ? NULL : graph->params[tied].name;
}

void explain_freeze_print(const struct plan *plan, FILE *out) {
    const struct graph *graph = plan->micro[0].graph;
    const char *tied = tied_name(graph);
    int stages = plan->program->frozen;
    char blocks[160], trained[TEXT_BYTES], all[TEXT_BYTES], count[TEXT_BYTES], share[96] = "";
    if (graph->frozen == 0) return;
    blocks_text(graph, blocks, sizeof blocks);
    if (stages > 0)
        snprintf(share, sizeof share, " (%s %s no other)", text_count(stages, "stage", count),
                 stages == 1 ? "has" : "have");
    text_row(out, "frozen", EXPLAIN_NAME_COLUMNS,
             "%s; %s of %s parameters are trained. Frozen blocks%s run forward only, as in an "
             "evaluation: no dropout%s",
             blocks, text_thousands(freeze_trained_elements(graph), trained),
             text_thousands(graph_param_elements(graph), all), share,
             has_batch_norm(graph) ? ", batch norm with the running statistics" : "");
    if (tied)
        text_row(out, "", EXPLAIN_NAME_COLUMNS,
                 "%s is used in blocks that are trained, too: it is frozen there as well (--untie "
                 "gives the head weights of its own)",
                 tied);
}

/* --- the course --- */

/* What a part trains, and what its steps and the change to it should take. */
enum { TIED_BYTES = 128 };
struct part_cost {
    int64_t trained;
    char tied[TIED_BYTES]; /* a frozen parameter that blocks which are trained read; "": none */
    double step_ns, change_ns;
};

static enum status weigh_part(const struct planned_run *planned, const struct course_part *part,
                              struct part_cost *out) {
    struct planned_run other = *planned;
    struct view_forecast view;
    TRY(planned_part(planned, part, true, &other.plan));
    const struct graph *graph = other.plan->micro[0].graph;
    const char *tied = graph->frozen ? tied_name(graph) : NULL;
    out->trained = freeze_trained_elements(graph);
    snprintf(out->tied, sizeof out->tied, "%s", tied ? tied : "");
    enum status status = view_forecast_open(&other, false, &view);
    if (status == STATUS_OK) out->step_ns = view.forecast.result.step;
    if (status == STATUS_OK) out->change_ns = forecast_change(other.plan, &view.costs);
    if (status == STATUS_OK) view_forecast_close(&view);
    plan_free(&other.plan);
    return status;
}

/* Each number of frozen blocks is planned once. */
struct frozen_costs {
    const struct planned_run *planned;
    struct part_cost *of; /* trained 0: not asked for yet */
};

static enum status find_cost(struct frozen_costs *costs, int frozen) {
    struct course_part part = course_part_at(&costs->planned->course, 0, frozen);
    if (costs->of[frozen].trained) return STATUS_OK;
    return weigh_part(costs->planned, &part, &costs->of[frozen]);
}

/* Steps of part `index` and the change to it. */
static double part_ns(const struct course *course, int index, const struct part_cost *cost) {
    int64_t begin = course->part[index].step,
            end = index + 1 < course->count ? course->part[index + 1].step : course->config->steps;
    return (double)(end - begin) * cost->step_ns + (index > 0 ? cost->change_ns : 0);
}

static enum status course_ns(struct frozen_costs *costs, const struct course *course, double *ns) {
    *ns = 0;
    for (int i = 0; i < course->count; i++) {
        int frozen = course->part[i].frozen;
        TRY(find_cost(costs, frozen));
        *ns += part_ns(course, i, &costs->of[frozen]);
    }
    return STATUS_OK;
}

/* Nothing changes to the first. */
static const char *change_text(int part, const struct part_cost *cost, char text[TEXT_BYTES]) {
    if (part == 0) return "";
    snprintf(text, TEXT_BYTES, "%.2f ms", cost->change_ns * 1e-6);
    return text;
}

static enum status print_parts(struct frozen_costs *costs, FILE *out) {
    const struct course *course = &costs->planned->course;
    struct text_table table = {.align = "rrrrrr"};
    struct course_part part;
    char text[TEXT_BYTES];
    struct part_cost cost;
    double all_ns = 0;
    char tied[TIED_BYTES] = "";
    text_table_cell(&table, course->open ? "not before step" : "from step");
    text_table_cell(&table, "frozen blocks");
    text_table_cell(&table, "trained parameters"), text_table_cell(&table, "grid");
    text_table_cell(&table, "step"), text_table_cell(&table, "change");
    for (int i = 0; course_reaches(course, i, &part); i++) {
        TRY(weigh_part(costs->planned, &part, &cost));
        if (!course->open) all_ns += part_ns(course, i, &cost);
        if (*cost.tied) memcpy(tied, cost.tied, sizeof tied);
        text_table_cell(&table, "%s", text_thousands(part.step + 1, text));
        text_table_cell(&table, "%d", part.frozen);
        text_table_cell(&table, "%s", text_thousands(cost.trained, text));
        text_table_cell(&table, "%d x %d, %d", part.stages, part.replicas, part.micro_batches);
        text_table_cell(&table, "%.2f ms", cost.step_ns * 1e-6);
        text_table_cell(&table, "%s", change_text(i, &cost, text));
    }
    text_table_print(&table, EXPLAIN_NAME_COLUMNS, out);
    text_table_free(&table);
    if (*tied)
        text_row(out, "", EXPLAIN_NAME_COLUMNS,
                 "%s freezes with the first block, wherever it is used (--untie gives the head "
                 "weights of its own)",
                 tied);
    if (!course->open)
        text_row(out, "", EXPLAIN_NAME_COLUMNS,
                 "grid: stages x replicas, micro-batches; all steps and changes together: %s",
                 text_duration(all_ns * 1e-9, text));
    return STATUS_OK;
}

/* Published runs took these shares. */
static const struct freezing_share shares[] = {{1, 5}, {1, 4}, {1, 3}, {2, 5}, {1, 2}};
enum { SHARES = sizeof shares / sizeof shares[0] };

static enum status share_ns(struct frozen_costs *costs, struct freezing_share share, double *ns) {
    SCOPED(course_free) struct course course = {0};
    TRY(course_by_alpha(costs->planned->plan, share, &course));
    return course_ns(costs, &course, ns);
}

static enum status print_shares(struct frozen_costs *costs, FILE *out) {
    const struct course never = {
        .part = &(struct course_part){0}, .count = 1, .config = &costs->planned->plan->config};
    double whole, ns;
    char times[SHARES * TEXT_BYTES] = "", text[TEXT_BYTES];
    TRY(course_ns(costs, &never, &whole));
    for (int i = 0; i < SHARES; i++) {
        size_t used = strlen(times);
        TRY(share_ns(costs, shares[i], &ns));
        snprintf(times + used, sizeof times - used, "%s%d/%d %s (%.2fx)", i ? ", " : "",
                 (int)shares[i].part, (int)shares[i].of, text_duration(ns * 1e-9, text),
                 whole / ns);
    }
    text_row(out, "", EXPLAIN_NAME_COLUMNS,
             "all steps, without evaluation: %s with nothing frozen; by alpha: %s",
             text_duration(whole * 1e-9, text), times);
    return STATUS_OK;
}

enum status explain_course_print(const struct planned_run *planned, bool forecasts, FILE *out) {
    const struct course *course = &planned->course;
    int blocks = freeze_blocks(planned->plan->micro[0].graph);
    char steps[TEXT_BYTES];
    if (!course_changes(course)) return STATUS_OK;
    int most = course->open ? course_most(course, course->config->steps - 1)
                            : course->part[course->count - 1].frozen;
    if (course->recorded)
        text_row(out, "course", EXPLAIN_NAME_COLUMNS, "of %s; the plan is made anew for each part",
                 planned->plan->config.course->name);
    else
        text_row(out, "course", EXPLAIN_NAME_COLUMNS,
                 "%s frozen after every %s, up to %d of %d; the plan is made anew then",
                 course->open ? "blocks below the one whose gradients are smallest are"
                              : "more blocks are",
                 text_count(planned->plan->config.freeze_every, "step", steps), most, blocks);
    if (!forecasts) return STATUS_OK;
    SCOPED_FREE struct part_cost *of = MEM_ARRAY(struct part_cost, blocks + 1);
    struct frozen_costs costs = {planned, of};
    TRY(print_parts(&costs, out));
    return planned->plan->config.freezing.alpha.part > 0 ? print_shares(&costs, out) : STATUS_OK;
}

/* Steps and changes of the whole run, where it is known when they come. */
enum status explain_course_json(const struct planned_run *planned, json_t **out) {
    const struct course *course = &planned->course;
    json_t *parts = json_array();
    struct course_part part;
    struct part_cost cost;
    double all_ns = 0;
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && course_reaches(course, i, &part); i++) {
        status = weigh_part(planned, &part, &cost);
        if (!course->open) all_ns += part_ns(course, i, &cost);
        json_array_append_new(
            parts, json_pack("{s:I, s:i, s:i, s:i, s:i, s:I, s:f, s:f}", "step",
                             (json_int_t)part.step, "frozen", part.frozen, "stages", part.stages,
                             "replicas", part.replicas, "micro_batches", part.micro_batches,
                             "trained_params", (json_int_t)cost.trained, "step_ns", cost.step_ns,
                             "change_ns", i ? cost.change_ns : 0.0));
    }
    *out = json_pack("{s:o, s:o}", "parts", parts, "ns",
                     course->open ? json_null() : json_real(all_ns));
    return status;
}

json_t *explain_freeze_json(const struct plan *plan) {
    const struct graph *graph = plan->micro[0].graph;
    if (graph->frozen == 0) return NULL;
    return json_pack("{s:i, s:i, s:i, s:I, s:s?}", "blocks", graph->frozen, "of",
                     freeze_blocks(graph), "stages", plan->program->frozen, "trained_params",
                     (json_int_t)freeze_trained_elements(graph), "tied", tied_name(graph));
}
