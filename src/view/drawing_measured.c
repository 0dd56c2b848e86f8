/* What a trace tells of one step, as the measured version of a drawing. An interval has the id of
 * its instruction, so that it is found in the forecast by (rank, id).
 *
 * Where steps overlap the drawing shows as many as are under way at once, from the end of the step
 * before them to the end of the last one, each that of the last rank. The forecast shows the same
 * (view_forecast_draw.c), so that both are of a full pipeline.
 *
 * Posts are left out: what was posted is drawn instead. Waits are of one kind and have no id: what
 * was awaited has it. The trace knows no causes; difference.h takes those of the forecast.
 *
 * What meets others begins, as in the forecast, when the last of them has come: a receive with its
 * send, an operation of a group with its last member. The time before it is a wait, and would else
 * be taken for a slow network. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "planned/events.h"
#include "program/ahead.h"
#include "view/drawing.h"

/* --- meetings --- */

/* One end of a message, or one member's part of an operation of a group. */
struct part {
    uint64_t meeting; /* equal for all who meet */
    int run;
    bool message, arrives;
    struct timeline_interval *interval;
};

struct parts {
    struct part *item;
    size_t count, capacity;
};

static uint64_t meeting_of(const struct grid *grid, int rank, const struct trace_event *event,
                           const struct instr *instr) {
    const struct trace_message *message = &event->message;
    int32_t key[7] = {message->channel, message->number, (int32_t)event->step};
    if (!message->channel) {
        enum group_family family = (enum group_family)instr->group;
        int32_t group[7] = {instr->op,           -1 - instr->group, group_of(grid, family, rank),
                            instr->stage,        instr->bucket,     instr->grad,
                            (int32_t)event->step};
        return hash64(HASH64_START, group, sizeof group);
    }
    return hash64(HASH64_START, key, sizeof key);
}

static void add_part(struct parts *parts, const struct part *part) {
    parts->item = mem_grow(parts->item, &parts->capacity, parts->count + 1, sizeof *parts->item);
    parts->item[parts->count++] = *part;
}

static int by_meeting(const void *left, const void *right) {
    const struct part *a = left, *b = right;
    if (a->meeting != b->meeting) return a->meeting < b->meeting ? -1 : 1;
    if (a->run != b->run) return a->run < b->run ? -1 : 1;
    return a->interval->id < b->interval->id ? -1 : a->interval->id > b->interval->id;
}

/* A group may do the same several times in a step: the first time of each member is one meeting. */
static void number_meetings(struct parts *parts) {
    uint64_t before = 0;
    int run = -1, times = 0;
    if (parts->count == 0) return;
    qsort(parts->item, parts->count, sizeof *parts->item, by_meeting);
    for (size_t i = 0; i < parts->count; i++) {
        struct part *part = &parts->item[i];
        times = part->meeting == before && part->run == run ? times + 1 : 0;
        before = part->meeting;
        run = part->run;
        if (times > 0) part->meeting = hash64(before, &times, sizeof times);
    }
    qsort(parts->item, parts->count, sizeof *parts->item, by_meeting);
}

static void add_arrow(struct drawing *drawing, const struct part *from, const struct part *to) {
    drawing->measured_arrow =
        mem_grow(drawing->measured_arrow, &drawing->measured_arrow_capacity,
                 drawing->measured_arrow_count + 1, sizeof *drawing->measured_arrow);
    drawing->measured_arrow[drawing->measured_arrow_count++] =
        (struct timeline_arrow){from->run, to->run, from->interval->begin, to->interval->end};
}

/* Clocks of hosts differ: nothing begins after its own end. */
static void meet(struct drawing *drawing, struct part *part, size_t count) {
    int64_t last = part[0].interval->begin;
    const struct part *from = NULL, *to = NULL;
    for (size_t i = 0; i < count; i++) {
        if (part[i].interval->begin > last) last = part[i].interval->begin;
        if (part[i].message) *(part[i].arrives ? &to : &from) = &part[i];
    }
    for (size_t i = 0; i < count; i++) {
        struct timeline_interval *interval = part[i].interval;
        if (part[i].message && !part[i].arrives) continue; /* a send does not await its receive */
        interval->begin = last < interval->end ? last : interval->end;
    }
    if (from && to && from->run != to->run) add_arrow(drawing, from, to);
}

static void meet_all(struct drawing *drawing, struct parts *parts) {
    number_meetings(parts);
    for (size_t first = 0, end; first < parts->count; first = end) {
        for (end = first;
             end < parts->count && parts->item[end].meeting == parts->item[first].meeting;)
            end++;
        meet(drawing, &parts->item[first], end - first);
    }
}

/* --- intervals --- */

/* The events of a run's steps; the last one that is drawn whole. */
struct step_events {
    struct trace_event *item;
    size_t count;
    int64_t last;
};

/* The body that ran it, counted from that of step `last`, which is 0. An event's step is that of
 * its micro-batch. */
static int64_t body_of(const struct drawing *drawing, const struct trace_event *event,
                       const struct instr *instr, int64_t last) {
    const struct program *program = drawing->view->planned->plan->program;
    return event->step - ahead_step(program, instr, 0) - last;
}

static int wait_kind(struct drawing *drawing) {
    int last = drawing->kind_count - 1;
    if (last >= 0 && drawing->kind[last].category == TIMELINE_WAIT) return last;
    drawing->kind[drawing->kind_count] = (struct timeline_kind){"await", TIMELINE_WAIT};
    return drawing->kind_count++;
}

static struct timeline_interval interval_of(const struct drawing *drawing,
                                            const struct trace_event *event,
                                            const struct instr *instr, int64_t last) {
    bool staged = instr_row(instr)->operands[0] == 's',
         micro = staged && instr_row(instr)->needs != NULL;
    int64_t body = body_of(drawing, event, instr, last);
    return (struct timeline_interval){.begin = event->begin_ns,
                                      .end = event->end_ns,
                                      .kind = drawing->kind_of[instr->op] - 1,
                                      .stage = staged ? instr->stage : TIMELINE_NONE,
                                      .micro = micro ? drawing_micro(drawing, instr->micro, body)
                                                     : TIMELINE_NONE,
                                      .id = drawing_id(drawing, instr->id, body),
                                      .cause_row = TIMELINE_NONE,
                                      .cause_id = TIMELINE_NONE};
}

/* Instructions first: kinds are numbered as they come, and the one of waits is the last. */
static void add_ran(struct drawing *drawing, int run, const struct step_events *events,
                    struct parts *parts, struct timeline_interval *out, size_t *kept) {
    const struct grid *grid = &drawing->view->planned->plan->program->grid;
    int rank = drawing->result->rank[run].rank;
    char text[INSTR_TEXT_BYTES];
    struct instr instr;
    for (size_t i = 0; i < events->count; i++) {
        const struct trace_event *event = &events->item[i];
        if (events_read(event, &instr) != TOLD_RAN) continue;
        drawing_kind(drawing, instr.op);
        out[*kept] = interval_of(drawing, event, &instr, events->last);
        if (drawing->texts)
            out[*kept].text = arena_text(&drawing->arena, instr_text(&instr, rank, text));
        enum instr_meets meets = instr_row(&instr)->meets;
        if (meets == MEETS_PEER || (meets == MEETS_GROUP && instr.group >= 0))
            add_part(parts, &(struct part){.meeting = meeting_of(grid, rank, event, &instr),
                                           .run = run,
                                           .message = meets == MEETS_PEER,
                                           .arrives = event->message.arrives,
                                           .interval = &out[*kept]});
        ++*kept;
    }
}

static void add_waits(const struct drawing *drawing, int kind, const struct step_events *events,
                      struct timeline_interval *out, size_t *kept) {
    struct instr instr;
    for (size_t i = 0; i < events->count; i++) {
        if (events_read(&events->item[i], &instr) != TOLD_WAIT) continue;
        out[*kept] = interval_of(drawing, &events->item[i], &instr, events->last);
        out[*kept].kind = kind;
        out[(*kept)++].id = TIMELINE_NONE;
    }
}

/* --- the steps of a full pipeline --- */

static bool overlaps(const struct drawing *drawing) {
    return drawing_steps(drawing) > 1;
}

/* In the window, or cut to it: its end is that of the last body on the rank that ends it last, its
 * begin that of the body before the first one. */
static void cut_to_window(struct timeline_lane *lane, struct timeline_interval *interval,
                          const struct timeline_range *window) {
    int64_t end = window->origin + window->length;
    size_t kept = 0;
    for (size_t i = 0; i < lane->interval_count; i++) {
        struct timeline_interval cut = interval[i];
        if (cut.begin < window->origin) cut.begin = window->origin;
        if (cut.end > end) cut.end = end;
        if (cut.begin < cut.end) interval[kept++] = cut;
    }
    lane->interval_count = kept;
}

static void cut_arrows(struct drawing *drawing, const struct timeline_range *window) {
    struct timeline_arrow *arrow = drawing->measured_arrow;
    size_t kept = 0;
    for (size_t i = 0; i < drawing->measured_arrow_count; i++)
        if (arrow[i].from >= window->origin && arrow[i].to <= window->origin + window->length)
            arrow[kept++] = arrow[i];
    drawing->measured_arrow_count = kept;
}

/* When a body ended on the rank that ended it last; `body` as body_of counts. */
static int64_t end_of_body(const struct drawing *drawing, const struct step_events *events,
                           int64_t body) {
    int64_t end = INT64_MIN;
    struct instr instr;
    for (int r = 0; r < drawing->result->run_count; r++)
        for (size_t i = 0; i < events[r].count; i++) {
            const struct trace_event *event = &events[r].item[i];
            enum events_told told = events_read(event, &instr);
            if (told == TOLD_RAN && body_of(drawing, event, &instr, events[r].last) == body &&
                instr_row(&instr)->queue == QUEUE_COMPUTE && event->end_ns > end)
                end = event->end_ns;
        }
    return end;
}

static struct timeline_range window_of(const struct drawing *drawing,
                                       const struct step_events *events) {
    int64_t begin = end_of_body(drawing, events, -drawing_steps(drawing)),
            end = end_of_body(drawing, events, 0);
    return (struct timeline_range){begin, end > begin ? timeline_since(end, begin) : 0};
}

/* What is drawn is several steps; the figures are of one. */
static struct timeline_figures figures_of(const struct drawing *drawing,
                                          const struct timeline_range *window) {
    struct timeline_figures figures = timeline_figures_none,
                            all = timeline_figures(&drawing->timeline, TIMELINE_MEASURED);
    figures.step = (double)window->length / drawing_steps(drawing);
    figures.exposed = all.exposed / drawing_steps(drawing);
    return figures;
}

/* --- the whole --- */

static void add_events(struct drawing *drawing, const struct step_events *events,
                       struct timeline_interval **interval) {
    int runs = drawing->result->run_count;
    struct parts parts = {0};
    for (int r = 0; r < runs; r++) {
        interval[r] = arena_new(&drawing->arena, (events[r].count + 1) * sizeof *interval[r]);
        add_ran(drawing, r, &events[r], &parts, interval[r], &drawing->measured[r].interval_count);
    }
    meet_all(drawing, &parts);
    free(parts.item);
    int waits = wait_kind(drawing);
    for (int r = 0; r < runs; r++) {
        add_waits(drawing, waits, &events[r], interval[r], &drawing->measured[r].interval_count);
        drawing->measured[r].interval = interval[r];
    }
}

static void add_steps(struct drawing *drawing, const struct step_events *events) {
    int runs = drawing->result->run_count;
    drawing->measured = MEM_ARRAY(struct timeline_lane, runs + 1);
    SCOPED_FREE struct timeline_interval **interval =
        MEM_ARRAY(struct timeline_interval *, runs + 1);
    add_events(drawing, events, interval);
    struct timeline_range window = {0};
    if (overlaps(drawing)) {
        window = window_of(drawing, events);
        for (int r = 0; r < runs; r++) cut_to_window(&drawing->measured[r], interval[r], &window);
        cut_arrows(drawing, &window);
    }
    drawing->timeline.kind_count = (size_t)drawing->kind_count;
    struct timeline_side *side = &drawing->timeline.version[TIMELINE_MEASURED];
    *side = (struct timeline_side){.lane = drawing->measured,
                                   .arrow = drawing->measured_arrow,
                                   .arrow_count = drawing->measured_arrow_count,
                                   .figures = timeline_figures_none};
    if (overlaps(drawing)) side->figures = figures_of(drawing, &window);
}

/* The events of some steps, one after the other. */
static enum status read_steps(struct trace *trace, int64_t first, int64_t last,
                              struct step_events *out) {
    size_t capacity = 0;
    for (int64_t step = first; step <= last; step++) {
        SCOPED_FREE struct trace_event *events = NULL;
        size_t count;
        TRY(trace_step(trace, step, &events, &count));
        out->item = mem_grow(out->item, &capacity, out->count + count, sizeof *out->item);
        if (count > 0) memcpy(out->item + out->count, events, count * sizeof *events);
        out->count += count;
    }
    return STATUS_OK;
}

/* Whether a body has begun with all the steps that it may: no pause was near. */
static bool is_full(const struct drawing *drawing, const struct step_events *events, int64_t body) {
    const struct instr_list *list = program_list(drawing->view->planned->plan->program,
                                                 drawing->result->rank[0].rank, LIST_BODY);
    struct instr instr;
    int left = 0;
    for (int i = 0; i < list->count; i++) left += list->items[i].op == INSTR_F;
    for (size_t i = 0; i < events->count; i++)
        left -= events_read(&events->item[i], &instr) == TOLD_RAN && instr.op == INSTR_F &&
                body_of(drawing, &events->item[i], &instr, events->last) == body;
    return left <= 0;
}

enum status drawing_newest(const struct drawing *drawing, struct trace *trace, int64_t last,
                           int64_t *out) {
    int full = 0, wanted = drawing_steps(drawing) + 1; /* the window begins with the end of one */
    int64_t step = last, first = last - TRACE_STEPS - 2 * wanted;
    struct step_events events = {0};
    *out = last;
    if (!overlaps(drawing)) return STATUS_OK;
    enum status status = read_steps(trace, first > 1 ? first : 1, last, &events);
    for (; status == STATUS_OK && full < wanted && step > 0; step--)
        full = is_full(drawing, &events, step) ? full + 1 : 0;
    *out = full == wanted ? step + wanted : 0;
    free(events.item);
    return status;
}

enum status drawing_measured(struct drawing *drawing, struct trace *const *traces, int64_t step) {
    int runs = drawing->result->run_count, ahead = drawing_steps(drawing) - 1;
    int64_t first = ahead > 0 ? step - ahead - 1 : step;
    SCOPED_FREE struct step_events *events = MEM_ARRAY(struct step_events, runs + 1);
    enum status status = STATUS_OK;
    for (int r = 0; r < runs && status == STATUS_OK; r++) {
        events[r].last = step;
        status =
            read_steps(traces[drawing->result->rank[r].rank], first, step + 2 * ahead, &events[r]);
    }
    if (status == STATUS_OK) add_steps(drawing, events);
    for (int r = 0; r < runs; r++) free(events[r].item);
    return status;
}
