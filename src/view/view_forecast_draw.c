/* The last step of a forecast as a timeline, for the drawings. */
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "record/draw.h"
#include "view/drawing.h"

/* By the columns of the instruction's row; the halves of backward have colours of their own. */
static enum timeline_category category_of(int op) {
    const struct instr_row *row = &instr_rows[op];
    if (row->meets == MEETS_PEER || row->meets == MEETS_CALL) return TIMELINE_MESSAGE;
    if (row->queue == QUEUE_COMM) return TIMELINE_COLLECTIVE;
    if (op == INSTR_R) return TIMELINE_RECOMPUTE;
    if (op == INSTR_I) return TIMELINE_INPUT;
    if (op == INSTR_W) return TIMELINE_WEIGHT;
    switch (row->time) {
    case TIME_DATA: return TIMELINE_DATA;
    case TIME_FORWARD: return TIMELINE_FORWARD;
    case TIME_BACKWARD: return TIMELINE_BACKWARD;
    case TIME_OPTIMIZER: return TIMELINE_OPTIMIZER;
    default: return TIMELINE_OTHER;
    }
}

static const struct instr_list *body_of(const struct drawing *drawing, int run) {
    return program_list(drawing->view->planned->plan->program, drawing->result->rank[run].rank,
                        LIST_BODY);
}

static int64_t whole(const struct drawing *drawing, double time) {
    return (int64_t)llround(time * drawing->scale);
}

/* The least power of ten that makes whole numbers of all costs. */
static double scale_of(const struct view_forecast *view) {
    double scale = 1;
    if (!view->costs.units) return 1;
    for (bool all = false; !all && scale < 1e4; scale *= all ? 1 : 10) {
        all = true;
        for (int k = 0; k < COST_COUNT; k++) {
            double scaled = view->costs.units->of[k] * scale;
            all &= fabs(scaled - round(scaled)) < 1e-9;
        }
    }
    return scale;
}

int drawing_kind(struct drawing *drawing, int op) {
    int *kind = &drawing->kind_of[op];
    if (!*kind) {
        drawing->kind[drawing->kind_count] =
            (struct timeline_kind){instr_rows[op].name, category_of(op)};
        *kind = ++drawing->kind_count;
    }
    return *kind - 1;
}

/* --- steps that overlap --- */

/* In a pipeline that is never flushed each rank runs its last body at another time. What lies
 * between is drawn as well: bodies follow one another at the distance of a step, so the last one is
 * drawn as often as it fits, earlier and later, into a window of as many steps as are under way at
 * once. */
struct window {
    double begin, end, step;
};

static bool overlaps(const struct drawing *drawing) {
    return drawing->view->planned->plan->program->ahead > 0;
}

int drawing_steps(const struct drawing *drawing) {
    return drawing->view->planned->plan->program->ahead + 1;
}

/* Bodies that reach into the window end at most `ahead` steps before its end, or behind it; one
 * more on either side is cut off. */
int32_t drawing_id(const struct drawing *drawing, int32_t id, int64_t body) {
    return overlaps(drawing) ? id + (int32_t)(body + drawing_steps(drawing) + 1) * drawing->ids
                             : id;
}

int32_t drawing_micro(const struct drawing *drawing, int32_t micro, int64_t body) {
    const struct program *program = drawing->view->planned->plan->program;
    if (!overlaps(drawing)) return micro;
    int64_t number = (body + program->ahead) * program->micro_batches + micro;
    return number < 0 ? TIMELINE_NONE : (int32_t)number;
}

static int32_t ids_of(const struct program *program) {
    int32_t most = 0;
    for (int k = 0; k < program->kind_count; k++)
        for (int i = 0; i < program->kinds[k].list[LIST_BODY].count; i++)
            if (program->kinds[k].list[LIST_BODY].items[i].id > most)
                most = program->kinds[k].list[LIST_BODY].items[i].id;
    return most + 1;
}

static struct window window_of(const struct drawing *drawing) {
    struct window window = {.step = drawing->result->step};
    for (int r = 0; r < drawing->result->run_count; r++)
        if (drawing->result->rank[r].end > window.end) window.end = drawing->result->rank[r].end;
    window.begin = window.end - drawing_steps(drawing) * window.step;
    return window;
}

/* The first and the last of the copies of a rank's body that reach into the window, counted in
 * steps from the one that is recorded. */
static void copies_of(const struct drawing *drawing, int run, int *first, int *last) {
    const struct sim_rank *rank = &drawing->result->rank[run];
    struct window window = window_of(drawing);
    *first = *last = 0;
    if (!overlaps(drawing) || window.step <= 0) return;
    *last = (int)floor((window.end - rank->end) / window.step + 1e-9) + 1;
    *first = *last - drawing_steps(drawing) - 1;
}

/* False: nothing of it is in the window, or no more than rounding leaves there. */
static bool clip_to_window(const struct drawing *drawing, struct timeline_interval *interval) {
    if (!overlaps(drawing)) return true;
    struct window window = window_of(drawing);
    int64_t begin = whole(drawing, window.begin), end = whole(drawing, window.end),
            rounding = whole(drawing, window.step * 1e-6);
    if (interval->end - begin <= rounding || end - interval->begin <= rounding) return false;
    if (interval->begin < begin) interval->begin = begin;
    if (interval->end > end) interval->end = end;
    return interval->begin < interval->end;
}

/* Where steps overlap one body is recorded, so a cause that came later than what it let begin is
 * the one of the body before. */
static bool is_of_body_before(const struct drawing *drawing, const struct sim_record *record) {
    const struct sim_record *cause =
        &drawing->result->rank[record->cause_run].record[record->cause_at];
    return record->cause_before || (overlaps(drawing) && cause->issued >= record->issued);
}

static void set_cause(const struct drawing *drawing, const struct sim_record *record, int steps,
                      struct timeline_interval *interval) {
    if (record->cause_run < 0) return;
    bool before = is_of_body_before(drawing, record);
    if (before && !overlaps(drawing)) return;
    interval->cause_row = record->cause_run;
    interval->cause_id = drawing_id(
        drawing, body_of(drawing, record->cause_run)->items[record->cause_at].id, steps - before);
}

/* Of the body that is so many steps behind the recorded one. */
static struct timeline_interval interval_of(struct drawing *drawing, int run, int at, int steps) {
    const struct sim_record *record = &drawing->result->rank[run].record[at];
    const struct instr *instr = &body_of(drawing, run)->items[at];
    bool staged = instr_row(instr)->operands[0] == 's',
         micro = staged && instr_row(instr)->needs != NULL;
    int64_t by = whole(drawing, steps * drawing->result->step);
    char text[INSTR_TEXT_BYTES];
    struct timeline_interval interval = {
        .begin = whole(drawing, record->begin) + by,
        .end = whole(drawing, record->end) + by,
        .kind = drawing_kind(drawing, instr->op),
        .stage = staged ? instr->stage : TIMELINE_NONE,
        .micro = micro ? drawing_micro(drawing, instr->micro, steps) : TIMELINE_NONE,
        .id = drawing_id(drawing, instr->id, steps),
        .cause_row = TIMELINE_NONE,
        .cause_id = TIMELINE_NONE};
    set_cause(drawing, record, steps, &interval);
    if (drawing->texts)
        interval.text =
            arena_text(&drawing->arena, instr_text(instr, drawing->result->rank[run].rank, text));
    return interval;
}

static void add_arrow(struct drawing *drawing, int run, int at) {
    const struct sim_record *record = &drawing->result->rank[run].record[at];
    const struct instr *instr = &body_of(drawing, run)->items[at];
    enum instr_meets meets = instr_row(instr)->meets;
    bool message = meets == MEETS_PEER || meets == MEETS_CALL;
    if (!message || record->peer_run < 0 || record->peer_run == run) return;
    drawing->arrow = mem_grow(drawing->arrow, &drawing->arrow_capacity, drawing->arrow_count + 1,
                              sizeof *drawing->arrow);
    drawing->arrow[drawing->arrow_count++] = (struct timeline_arrow){
        record->peer_run, run, whole(drawing, record->begin), whole(drawing, record->end)};
}

static void add_intervals(struct drawing *drawing, int run, const bool *critical) {
    int count = body_of(drawing, run)->count, kept = 0, first, last;
    copies_of(drawing, run, &first, &last);
    struct timeline_interval *interval =
        arena_new(&drawing->arena, (size_t)(count * (last - first + 1)) * sizeof *interval);
    for (int i = 0; i < count && !overlaps(drawing); i++) add_arrow(drawing, run, i);
    for (int i = 0; i < count * (last - first + 1); i++) {
        int at = i % count, steps = first + i / count;
        const struct sim_record *record = &drawing->result->rank[run].record[at];
        if (record->end <= record->begin) continue;
        interval[kept] = interval_of(drawing, run, at, steps);
        interval[kept].critical = critical[at] && steps == 0;
        kept += clip_to_window(drawing, &interval[kept]);
    }
    drawing->lane[run].interval = interval;
    drawing->lane[run].interval_count = (size_t)kept;
}

/* What is kept counts from an instruction's begin, what is freed from its end. Where steps overlap
 * a slot that is freed is taken again at once. */
static void add_memory(struct drawing *drawing, int run) {
    const struct sim_input *input = &drawing->view->forecast.input;
    const struct instr_list *body = body_of(drawing, run);
    int rank = drawing->result->rank[run].rank, class = cost_device_of(&input->net, rank).class;
    const struct sim_costs *costs = &input->costs[class];
    struct timeline_point *point =
        arena_new(&drawing->arena, (size_t)(body->count + 1) * sizeof *point);
    int64_t live = overlaps(drawing) ? drawing->result->rank[run].peak_bytes
                                     : sim_fixed_bytes(input->program, costs, rank);
    size_t kept = 1;
    point[0] = (struct timeline_point){
        whole(drawing, overlaps(drawing) ? window_of(drawing).begin : drawing->result->begin),
        live};
    for (int i = 0; i < body->count && !overlaps(drawing); i++) {
        int64_t change = sim_memory_change(input->program, costs, rank, &body->items[i]);
        const struct sim_record *record = &drawing->result->rank[run].record[i];
        if (change == 0) continue;
        live += change;
        point[kept++] =
            (struct timeline_point){whole(drawing, change > 0 ? record->begin : record->end), live};
    }
    drawing->lane[run].point = point;
    drawing->lane[run].point_count = kept;
}

/* "rank 2 and 3 like it · stage 2, 5" */
static char *label_of(const struct drawing *drawing, const struct sim_rank *rank) {
    const struct grid *grid = &drawing->view->planned->plan->program->grid;
    struct grid_cell cell = grid_cell(grid, rank->rank);
    char *label = rank->like > 1 ? mem_format("rank %d and %d like it", rank->rank, rank->like - 1)
                                 : mem_format("rank %d", rank->rank);
    for (int c = 0; cell.role == GRID_STAGE && c < grid->chunks; c++) {
        char *longer =
            mem_format("%s%s%d", label, c ? ", " : " · stage ", grid_stage(grid, cell.position, c));
        free(label);
        label = longer;
    }
    return label;
}

static void add_row(struct drawing *drawing, int run) {
    const struct sim_rank *rank = &drawing->result->rank[run];
    const struct cluster *cluster = drawing->view->costs.cluster;
    SCOPED_FREE char *label = label_of(drawing, rank);
    drawing->row[run].label = arena_text(&drawing->arena, label);
    const struct options *options = &drawing->view->planned->options;
    if (option_is_set(options, OPTION_memory_limit_bytes))
        drawing->row[run].limit_bytes = options->memory_limit_bytes;
    else if (cluster)
        drawing->row[run].limit_bytes = cluster_memory_bytes(cluster, rank->rank);
}

/* --- the whole --- */

/* Per run and instruction: it is on the critical path. */
static bool **critical_of(const struct drawing *drawing) {
    const struct sim_path *path = &drawing->view->forecast.path;
    bool **critical = MEM_ARRAY(bool *, drawing->result->run_count + 1);
    for (int r = 0; r < drawing->result->run_count; r++)
        critical[r] = MEM_ARRAY(bool, body_of(drawing, r)->count + 1);
    for (int i = 0; i < path->count; i++) critical[path->item[i].run][path->item[i].at] = true;
    return critical;
}

static void fill(struct drawing *drawing) {
    int runs = drawing->result->run_count;
    SCOPED_FREE bool **critical = critical_of(drawing);
    drawing->lane = MEM_ARRAY(struct timeline_lane, runs + 1);
    drawing->row = MEM_ARRAY(struct timeline_row, runs + 1);
    for (int r = 0; r < runs; r++) {
        add_intervals(drawing, r, critical[r]);
        add_memory(drawing, r);
        add_row(drawing, r);
        free(critical[r]);
    }
}

static struct timeline_figures figures_of(const struct drawing *drawing) {
    const struct forecast *forecast = &drawing->view->forecast;
    bool sure = forecast->low == forecast->high;
    return (struct timeline_figures){.step = forecast->result.step * drawing->scale,
                                     .step_low = sure ? NAN : forecast->low * drawing->scale,
                                     .step_high = sure ? NAN : forecast->high * drawing->scale,
                                     .bubble = forecast->result.bubble,
                                     .span_bubble = forecast->result.span_bubble,
                                     .exposed = forecast->result.exposed * drawing->scale,
                                     .peak_bytes = (double)forecast->result.peak_bytes};
}

static void set_texts(struct drawing *drawing) {
    const struct run_config *config = &drawing->view->planned->plan->config;
    const struct view_forecast *view = drawing->view;
    SCOPED_FREE char *title = mem_format("%s, %s: forecast of a step", config->model->name,
                                         view->planned->options.strategy),
                     *ranks = view_forecast_shape_text(view),
                     *shape = mem_format("ranks: %s", ranks),
                     *unit = mem_format("times in 1/%g of the units of --costs", drawing->scale),
                     *path = view_forecast_path_text(view),
                     *words = mem_format("Critical path of the prediction: %s", path);
    drawing->title = arena_text(&drawing->arena, title);
    drawing->subtitle[0] = arena_text(&drawing->arena, shape);
    drawing->subtitle[1] = arena_text(&drawing->arena, unit);
    drawing->sentence[0] = arena_text(&drawing->arena, words);
}

static void set_timeline(struct drawing *drawing) {
    drawing->timeline =
        (struct timeline){.title = drawing->title,
                          .subtitle = drawing->subtitle,
                          .subtitle_count = drawing->scale > 1 ? 2 : 1,
                          .steps = drawing_steps(drawing),
                          .unit = drawing->view->forecast.units ? TIMELINE_UNITS : TIMELINE_NS,
                          .kind = drawing->kind,
                          .kind_count = (size_t)drawing->kind_count,
                          .row = drawing->row,
                          .row_count = (size_t)drawing->result->run_count,
                          .version = {{.lane = drawing->lane,
                                       .arrow = drawing->arrow,
                                       .arrow_count = drawing->arrow_count,
                                       .figures = figures_of(drawing)}},
                          .sentence = drawing->sentence,
                          .sentence_count = 1};
}

void drawing_open(const struct view_forecast *view, struct drawing *out) {
    const struct forecast *forecast = &view->forecast;
    CHECK(forecast->input.record, "a forecast that kept no instructions");
    *out = (struct drawing){.view = view,
                            .result = &forecast->result,
                            .scale = scale_of(view),
                            .texts =
                                forecast->result.instructions / forecast->input.steps <= DRAW_TEXTS,
                            .ids = ids_of(view->planned->plan->program)};
    fill(out);
    set_texts(out);
    set_timeline(out);
}

void drawing_close(struct drawing *drawing) {
    free(drawing->lane);
    free(drawing->row);
    free(drawing->arrow);
    free(drawing->measured);
    free(drawing->measured_arrow);
    arena_free(&drawing->arena);
}

enum status view_forecast_draw(const struct view_forecast *view, const char *path) {
    const struct forecast *forecast = &view->forecast;
    if (view->planned->plan->config.chooses)
        return fail(
            STATUS_USAGE,
            "--draw %s: with --sync %s each replica is at a step of its own, and there is none "
            "to draw\n"
            "  --sync allreduce",
            path, view->planned->plan->config.sync);
    if (!forecast->input.record)
        return fail(STATUS_USAGE,
                    "--draw %s: %lld instructions a step are too many to draw\n"
                    "  fewer ranks or micro-batches",
                    path, (long long)(forecast->result.instructions / forecast->input.steps));
    SCOPED(drawing_close) struct drawing drawing = {0};
    drawing_open(view, &drawing);
    return draw_write(path, &drawing.timeline);
}
