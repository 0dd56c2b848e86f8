/* See view_forecast.h. */
#include "view/view_forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "view/fit.h"

bool view_forecast_is_wanted(const struct options *options) {
    return option_is_given(options, OPTION_costs) || option_is_given(options, OPTION_profile) ||
           option_is_given(options, OPTION_cluster) || option_is_given(options, OPTION_delay) ||
           option_is_given(options, OPTION_hetero) || option_is_given(options, OPTION_draw);
}

enum status view_forecast_open(const struct planned_run *planned, bool apart,
                               struct view_forecast *out) {
    *out = (struct view_forecast){.planned = planned, .costs = *planned->costs};
    if (!out->costs.units && !out->costs.simulated) out->costs.crowd = planned_crowd(planned);
    enum status status = forecast_new(planned->plan, &out->costs, apart, &out->forecast);
    if (status == STATUS_OK)
        status = forecast_clip(&out->forecast, &out->clip_waits, &out->clip_time);
    if (status == STATUS_OK)
        status = forecast_unequal(planned->plan, &out->forecast, &out->unequal);
    /* Delays are ns, as all but units. */
    if (status == STATUS_OK) out->forecast.units = option_is_given(&planned->options, OPTION_costs);
    if (status != STATUS_OK) view_forecast_close(out);
    return status;
}

void view_forecast_close(struct view_forecast *view) {
    forecast_free(&view->forecast);
}

/* --- the critical path --- */

/* Parts of the critical path, largest first: what it spends on one kind of instruction of one rank.
 */
struct path_part {
    int run;
    uint8_t op;
    bool transfer;
    double time;
};

static int by_time(const void *a, const void *b) {
    double one = ((const struct path_part *)a)->time, other = ((const struct path_part *)b)->time;
    return (one < other) - (one > other);
}

static const struct instr *instr_at(const struct view_forecast *view, int run, int at) {
    int rank = view->forecast.result.rank[run].rank;
    return &program_list(view->planned->plan->program, rank, LIST_BODY)->items[at];
}

/* The caller frees the parts. */
static struct path_part *critical_path(const struct view_forecast *view, int *count) {
    const struct sim_path *path = &view->forecast.path;
    int kinds = INSTR_COUNT_ * 2, runs = view->forecast.result.run_count, kept = 0;
    struct path_part *part = MEM_ARRAY(struct path_part, (size_t)runs * (size_t)kinds + 1);
    for (int i = 0; i < path->count; i++) {
        const struct sim_path_item *item = &path->item[i];
        uint8_t op = instr_at(view, item->run, item->at)->op;
        struct path_part *into = &part[item->run * kinds + op * 2 + item->transfer];
        *into =
            (struct path_part){item->run, op, item->transfer, into->time + item->end - item->begin};
    }
    for (int i = 0; i < runs * kinds; i++)
        if (part[i].time > 0) part[kept++] = part[i];
    qsort(part, (size_t)kept, sizeof *part, by_time);
    *count = kept;
    return part;
}

static double slowness_of(const struct view_forecast *view, int run) {
    int rank = view->forecast.result.rank[run].rank;
    const struct cost_net *net = &view->forecast.input.net;
    double law = net->hetero ? hetero_slowness(net->hetero, rank) : 1;
    return cost_device_of(net, rank).slowness * law;
}

/* What the path explains: the last step; where steps overlap the forecast is the mean of several.
 */
static double path_time(const struct view_forecast *view) {
    const struct sim_path *path = &view->forecast.path;
    if (view->planned->plan->program->ahead == 0 || path->count == 0)
        return view->forecast.result.step;
    return path->item[0].end - path->item[path->count - 1].begin;
}

/* "B of rank 2 (3 times slower) 45%" */
static char *part_text(const struct view_forecast *view, const struct path_part *part) {
    double share = 100 * part->time / path_time(view), slow = slowness_of(view, part->run);
    int rank = view->forecast.result.rank[part->run].rank;
    char factor[TEXT_BYTES + 16] = "";
    if (slow != 1) snprintf(factor, sizeof factor, " (%.3g times slower)", slow);
    return mem_format("%s%s of rank %d%s %.1f%%", part->transfer ? "transfer of " : "",
                      instr_rows[part->op].name, rank, factor, share);
}

/* --- in words --- */

#define row(out, name, ...) text_row(out, name, VIEW_NAME_COLUMNS, __VA_ARGS__)

/* A time in the unit of the costs: in a sentence, in a table that names the unit itself. */
static const char *time_text(const struct view_forecast *view, double time, char text[TEXT_BYTES]) {
    if (!view->forecast.units) return text_duration(time * 1e-9, text);
    snprintf(text, TEXT_BYTES, "%.6g units", time);
    return text;
}

static const char *cell_text(const struct view_forecast *view, double time, char text[TEXT_BYTES]) {
    time_text(view, time, text);
    if (view->forecast.units) *strchr(text, ' ') = 0;
    return text;
}

static void print_costs(const struct view_forecast *view, FILE *out) {
    const struct options *options = &view->planned->options;
    const struct run_config *config = &view->planned->plan->config;
    char threads[TEXT_BYTES];
    if (view->costs.units && !view->forecast.units) {
        row(out, "costs", "given: waits of %s; all else takes no time", options->delay);
    } else if (view->costs.units) {
        SCOPED_FREE char *text = cost_units_text(view->costs.units);
        row(out, "costs", "given: %s; groups meet without cost, MEET takes c", text);
    } else if (view->costs.section) {
        row(out, "costs", "measured: %s", options->profile);
    } else if (view->costs.cluster) {
        row(out, "costs", "rates and links of %s, %d of its %lld ranks", options->cluster,
            config->ranks, (long long)view->costs.cluster->ranks);
    } else {
        char crowd[TEXT_BYTES + 32] = "";
        if (view->costs.crowd > 1)
            snprintf(crowd, sizeof crowd, ", %.3g threads to a core", view->costs.crowd);
        row(out, "costs", "rules of the operations, for ranks of this machine (%s, %s each%s)",
            config->device, text_count(config->threads, "thread", threads), crowd);
    }
}

/* In place of what the source says of passes. */
static void print_laws(const struct view_forecast *view, FILE *out) {
    const struct planned_run *planned = view->planned;
    char rate[TEXT_BYTES];
    if (!view->costs.hetero) return;
    if (planned->plan->flop_ns > 0)
        row(out, "laws", "%s: passes run at %s GFLOP/s, whatever the costs above say",
            planned->options.hetero, text_rate(1 / planned->plan->flop_ns, rate));
    else
        row(out, "laws", "%s, applied to the costs above", planned->options.hetero);
}

/* What slow ranks cost under this strategy, in one sentence. */
static void print_unequal(const struct view_forecast *view, int columns, FILE *out) {
    const struct forecast_unequal *unequal = &view->unequal;
    char step[TEXT_BYTES], same[TEXT_BYTES], mean[TEXT_BYTES + 16] = "";
    bool overlaps = view->planned->plan->program->ahead > 0,
         many_replicas = view->planned->plan->config.grid.replicas > 1;
    if (!unequal->are) return;
    if (unequal->steps > 1) snprintf(mean, sizeof mean, " on average of %d steps", unequal->steps);
    SCOPED_FREE char *words = mem_format(
        "a step takes %s%s, %.3g times the %s that it takes with equal ranks: under %s "
        "%s",
        time_text(view, unequal->step, step), mean, unequal->step / unequal->same,
        time_text(view, unequal->same, same), view->planned->options.strategy,
        view->planned->plan->config.chooses ? "a replica waits for those that it averages with"
        : !overlaps                         ? "every step waits for its slowest rank"
        : many_replicas                     ? "all pipelines go at the pace of the slowest rank"
                                            : "a pipeline goes at the pace of its slowest rank");
    SCOPED_FREE char *other =
        unequal->other ? mem_format("%s; %s, which %s, would take %s", words, unequal->other,
                                    unequal->how, time_text(view, unequal->other_step, step))
                       : NULL;
    text_entry(out, "unequal", columns, other ? other : words);
}

/* Which step it is, where laws make each another one. */
static void name_step(const struct view_forecast *view, char *text, size_t bytes) {
    const struct program *program = view->planned->plan->program;
    int stages = program->grid.stages;
    *text = 0;
    if (view->planned->plan->config.chooses) {
        snprintf(text, bytes, ", the mean of steps %d to %d, whoever does their parts",
                 2 * stages + 1, view->forecast.input.steps);
        return;
    }
    if (view->unequal.steps < 2) return;
    if (program->ahead > 0)
        snprintf(text, bytes,
                 ", the mean of steps %d to %d of a run: laws change from step to step",
                 2 * stages + 1, 4 * stages);
    else
        snprintf(text, bytes, ", step %d of a run: laws change from step to step", FORECAST_STEPS);
}

/* Of replicas that train apart: the step that averages, and what that makes of all. */
static void print_averaging(const struct view_forecast *view, int columns, FILE *out) {
    double averaging = view->forecast.averaging, step = view->forecast.result.step;
    int every = view->planned->plan->program->every;
    char longer[TEXT_BYTES], mean[TEXT_BYTES];
    if (every == 0) return;
    SCOPED_FREE char *words =
        mem_format("each step of %d averages and takes %s, so a step takes %s in the mean", every,
                   time_text(view, averaging, longer),
                   time_text(view, step + (averaging - step) / every, mean));
    text_entry(out, "average", columns, words);
}

/* Of replicas that choose whom they average with. */
static void print_groups(const struct view_forecast *view, int columns, FILE *out) {
    const struct run_config *config = &view->planned->plan->config;
    if (!config->chooses) return;
    SCOPED_FREE char *words = mem_format(
        "rule %s: groups of %.3g of %d replicas in the mean; %s", config->groups.rule,
        view->forecast.result.group_size, config->replicas,
        config->groups_by_stage ? "each stage has its own" : "all stages of a replica have one");
    text_entry(out, "groups", columns, words);
}

static void print_step(const struct view_forecast *view, FILE *out) {
    const struct forecast *forecast = &view->forecast;
    char step[TEXT_BYTES], low[TEXT_BYTES], high[TEXT_BYTES], first[TEXT_BYTES], rate[TEXT_BYTES],
        which[TEXT_BYTES + 48];
    double percent = 100 * forecast->result.first_step / forecast->result.step - 100;
    time_text(view, forecast->result.step, step);
    time_text(view, forecast->result.first_step, first);
    name_step(view, which, sizeof which);
    if (forecast->low < forecast->high)
        row(out, "step", "%s, with 90%% probability from %s to %s", step,
            time_text(view, forecast->low, low), time_text(view, forecast->high, high));
    else
        row(out, "step", "%s%s", step, which);
    if (fabs(percent) > 0.1) row(out, "", "the first one takes %s", first);
    if (!forecast->units)
        row(out, "throughput", "%s samples a second",
            text_rate((double)view->planned->plan->config.batch / (forecast->result.step * 1e-9),
                      rate));
}

static char *clip_text(const struct view_forecast *view) {
    char time[TEXT_BYTES];
    return mem_format("the update waits for the norm of all ranks' gradients, which takes %s of a "
                      "step (%.1f%%); with --clip 0 it does not wait",
                      time_text(view, view->clip_time, time),
                      100 * view->clip_time / view->forecast.result.step);
}

static void print_clip(const struct view_forecast *view, int columns, FILE *out) {
    if (!view->clip_waits) return;
    SCOPED_FREE char *words = clip_text(view);
    text_entry(out, "clipping", columns, words);
}

void view_forecast_print_row(const struct view_forecast *view, FILE *out) {
    enum { NAME_COLUMNS = 11 };
    const struct forecast *forecast = &view->forecast;
    char step[TEXT_BYTES], low[TEXT_BYTES], high[TEXT_BYTES];
    SCOPED_FREE char *range = NULL, *idle = NULL;
    if (forecast->low < forecast->high)
        range = mem_format(" (90%% sure: %s to %s)", time_text(view, forecast->low, low),
                           time_text(view, forecast->high, high));
    if (view->planned->plan->config.ranks > 1)
        idle = mem_format(", with a bubble of %.1f%%: time in which a rank runs no forward or "
                          "backward pass",
                          100 * forecast->result.bubble);
    SCOPED_FREE char *words = mem_format("forecast of a step: %s%s%s; more: stretto simulate",
                                         time_text(view, forecast->result.step, step),
                                         range ? range : "", idle ? idle : "");
    text_entry(out, "time", NAME_COLUMNS, words);
    print_averaging(view, NAME_COLUMNS, out);
    print_groups(view, NAME_COLUMNS, out);
    print_unequal(view, NAME_COLUMNS, out);
    print_clip(view, NAME_COLUMNS, out);
}

char *view_forecast_path_text(const struct view_forecast *view) {
    enum { SHOWN = 4 };
    int count;
    SCOPED_FREE struct path_part *part = critical_path(view, &count);
    const char *why = view->planned->plan->config.chooses
                          ? "not kept: each replica is at a step of its own"
                          : "not kept: too many instructions";
    char *words = mem_text(count ? "what the step waits for: " : why);
    double rest = 100;
    for (int i = 0; i <= count && i <= SHOWN; i++) {
        bool last = i == SHOWN && i < count;
        if (i == count || (i == SHOWN && !last)) break;
        char *one = last ? mem_format("other %.1f%%", rest) : part_text(view, &part[i]),
             *longer = mem_format("%s%s%s", words, i ? ", " : "", one);
        rest -= 100 * part[i].time / path_time(view);
        free(one);
        free(words);
        words = longer;
    }
    return words;
}

static void print_path(const struct view_forecast *view, FILE *out) {
    SCOPED_FREE char *words = view_forecast_path_text(view);
    row(out, "path", "%s", words);
}

static int64_t peak_bytes(const struct view_forecast *view, int rank) {
    return (int64_t)planned_rank_bytes(view->planned, rank);
}

static void print_table(const struct view_forecast *view, FILE *out) {
    const struct sim_result *result = &view->forecast.result;
    bool alike = result->run_count < view->planned->plan->config.ranks;
    struct text_table table = {.align = alike ? "rrrrrrr" : "rrrrrr"};
    char text[TEXT_BYTES];
    static const char *const titles[] = {"computes", "bubble", "waits", "exposed", "memory"};
    text_table_cell(&table, "rank");
    if (alike) text_table_cell(&table, "others alike");
    for (int i = 0; i < 5; i++) text_table_cell(&table, "%s", titles[i]);
    for (int r = 0; r < result->run_count; r++) {
        const struct sim_rank *rank = &result->rank[r];
        text_table_cell(&table, "%d", rank->rank);
        if (alike) text_table_cell(&table, "%d", rank->like - 1);
        text_table_cell(&table, "%s", cell_text(view, rank->busy, text));
        text_table_cell(&table, "%.1f%%", 100 * (1 - rank->busy / result->step));
        text_table_cell(&table, "%s", cell_text(view, rank->waits, text));
        text_table_cell(&table, "%s", cell_text(view, rank->exposed, text));
        text_table_cell(&table, "%s", text_size(peak_bytes(view, rank->rank), text));
    }
    text_table_print(&table, 2, out);
    text_table_free(&table);
    if (alike) fputs("  others alike: so many ranks more do the same, with the same times\n", out);
    fprintf(out,
            "  computes: in passes; waits: for other ranks; exposed: in messages that no work "
            "hides%s\n",
            view->forecast.units ? "; in units" : "");
}

/* The predicted peak, as explain has it. */
static void print_memory(const struct view_forecast *view, FILE *out) {
    char size[TEXT_BYTES], of[TEXT_BYTES + 32] = "";
    int rank;
    size_t bytes = memory_sum(planned_largest(view->planned, &rank));
    if (view->planned->position)
        snprintf(of, sizeof of, " of rank %d, which needs most", rank);
    else if (view->planned->plan->config.ranks > 1)
        snprintf(of, sizeof of, " of a rank");
    bool explained = view->planned->options.command == COMMAND_EXPLAIN;
    row(out, "memory", "%s predicted peak%s%s", text_size((int64_t)bytes, size), of,
        explained ? "" : "; its parts: stretto explain");
}

char *view_forecast_shape_text(const struct view_forecast *view) {
    const struct program *program = view->planned->plan->program;
    const struct grid *grid = &program->grid;
    char line[TEXT_BYTES], replicas[TEXT_BYTES], micros[TEXT_BYTES], each[TEXT_BYTES + 32] = "";
    text_count(grid->stages, "stage", line);
    if (grid->chunks > 1) {
        snprintf(line, sizeof line, "%d in a pipeline", grid->stages);
        snprintf(each, sizeof each, ", %d stages on each rank", grid->chunks);
    }
    const struct choice *choice = &view->planned->plan->choice;
    return mem_format("%d = %s%s x %s%s, schedule %s%s%s, %s", program->ranks,
                      grid->drivers > 0 ? "a driver + " : "", line,
                      text_count(grid->replicas, "replica", replicas), each,
                      view->planned->plan->config.schedule, choice->row_count ? ": " : "",
                      choice->row_count ? choice->row[0].name : "",
                      text_count(program->micro_batches, "micro-batch", micros));
}

void view_forecast_print(const struct view_forecast *view, FILE *out) {
    enum { TABLE_ROWS = 16 };
    const struct sim_result *result = &view->forecast.result;
    char exposed[TEXT_BYTES], *shape = view_forecast_shape_text(view);
    row(out, "ranks", "%s", shape);
    free(shape);
    print_costs(view, out);
    print_laws(view, out);
    print_step(view, out);
    print_averaging(view, VIEW_NAME_COLUMNS, out);
    print_groups(view, VIEW_NAME_COLUMNS, out);
    print_unequal(view, VIEW_NAME_COLUMNS, out);
    row(out, "bubble",
        "%.1f%% of the ranks' time is no forward or backward pass; %.1f%% between a rank's first "
        "and last pass (span)",
        100 * result->bubble, 100 * result->span_bubble + 1e-9);
    row(out, "exposed", "%s a step of communication that no work hides, mean of the ranks (%.1f%%)",
        time_text(view, result->exposed, exposed), 100 * result->exposed / result->step);
    print_clip(view, VIEW_NAME_COLUMNS, out);
    print_memory(view, out);
    print_path(view, out);
    if (result->run_count <= TABLE_ROWS) print_table(view, out);
}

/* --- JSON --- */

static json_t *ranks_json(const struct view_forecast *view) {
    const struct sim_result *result = &view->forecast.result;
    json_t *list = json_array();
    for (int r = 0; r < result->run_count; r++) {
        const struct sim_rank *rank = &result->rank[r];
        json_array_append_new(list, json_pack("{s:i, s:i, s:f, s:f, s:f, s:I}", "rank", rank->rank,
                                              "ranks", rank->like, "busy", rank->busy, "waits",
                                              rank->waits, "exposed", rank->exposed, "peak_bytes",
                                              (json_int_t)peak_bytes(view, rank->rank)));
    }
    return list;
}

static json_t *path_json(const struct view_forecast *view) {
    json_t *list = json_array();
    int count;
    SCOPED_FREE struct path_part *part = critical_path(view, &count);
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:f}", "rank",
                                              view->forecast.result.rank[part[i].run].rank,
                                              "instruction", instr_rows[part[i].op].name,
                                              "transfer", part[i].transfer, "time", part[i].time));
    return list;
}

json_t *view_forecast_json(const struct view_forecast *view) {
    const struct forecast *forecast = &view->forecast;
    const struct sim_result *result = &forecast->result;
    const struct program *program = view->planned->plan->program;
    json_t *root = json_pack(
        "{s:o, s:s, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, "
        "s:f, s:o, s:o}",
        "fits", fit_json(view->planned), "schedule", view->planned->plan->config.schedule, "ranks",
        program->ranks, "stages", program->grid.stages, "replicas", program->grid.replicas,
        "micro_batches", program->micro_batches, "unit", forecast->units ? "units" : "ns", "step",
        result->step, "step_low", forecast->low, "step_high", forecast->high, "first_step",
        result->first_step, "bubble", result->bubble, "span_bubble", result->span_bubble, "exposed",
        result->exposed, "clip_wait", view->clip_waits ? view->clip_time : 0.0, "peak_bytes",
        (json_int_t)planned_most_bytes(view->planned), "instructions",
        (json_int_t)result->instructions, "seconds", forecast->seconds, "rank", ranks_json(view),
        "path", path_json(view));
    if (view->unequal.are)
        json_object_set_new(root, "unequal",
                            json_pack("{s:f, s:f, s:i, s:s?, s:f}", "step", view->unequal.step,
                                      "equal_step", view->unequal.same, "steps",
                                      view->unequal.steps, "other", view->unequal.other,
                                      "other_step", view->unequal.other_step));
    return root;
}
