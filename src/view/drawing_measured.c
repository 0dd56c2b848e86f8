/* What a trace tells of one step, as the measured version of a drawing. An interval has the id of
 * its instruction, so that it is found in the forecast by (rank, id).
 *
 * Posts are left out: what was posted is drawn instead. Waits are of one kind and have no id: what
 * was awaited has it. The trace knows no causes; difference.h takes those of the forecast.
 *
 * What meets others begins, as in the forecast, when the last of them has come: a receive with its
 * send, an operation of a group with its last member. The time before it is a wait, and would else
 * be taken for a slow network. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "planned/events.h"
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
    int32_t key[6] = {message->channel, message->number};
    if (!message->channel) {
        enum group_family family = (enum group_family)instr->group;
        int32_t group[6] = {instr->op,    -1 - instr->group, group_of(grid, family, rank),
                            instr->stage, instr->bucket,     instr->grad};
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

static int wait_kind(struct drawing *drawing) {
    int last = drawing->kind_count - 1;
    if (last >= 0 && drawing->kind[last].category == TIMELINE_WAIT) return last;
    drawing->kind[drawing->kind_count] = (struct timeline_kind){"await", TIMELINE_WAIT};
    return drawing->kind_count++;
}

static struct timeline_interval interval_of(const struct drawing *drawing,
                                            const struct trace_event *event,
                                            const struct instr *instr) {
    bool staged = instr_row(instr)->operands[0] == 's',
         micro = staged && instr_row(instr)->needs != NULL;
    return (struct timeline_interval){.begin = event->begin_ns,
                                      .end = event->end_ns,
                                      .kind = drawing->kind_of[instr->op] - 1,
                                      .stage = staged ? instr->stage : TIMELINE_NONE,
                                      .micro = micro ? instr->micro : TIMELINE_NONE,
                                      .id = instr->id,
                                      .cause_row = TIMELINE_NONE,
                                      .cause_id = TIMELINE_NONE};
}

/* Instructions first: kinds are numbered as they come, and the one of waits is the last. */
static void add_ran(struct drawing *drawing, int run, const struct trace_event *events,
                    size_t count, struct parts *parts, struct timeline_interval *out,
                    size_t *kept) {
    const struct grid *grid = &drawing->view->planned->plan->program->grid;
    int rank = drawing->result->rank[run].rank;
    char text[INSTR_TEXT_BYTES];
    struct instr instr;
    for (size_t i = 0; i < count; i++) {
        if (events_read(&events[i], &instr) != TOLD_RAN) continue;
        drawing_kind(drawing, instr.op);
        out[*kept] = interval_of(drawing, &events[i], &instr);
        if (drawing->texts)
            out[*kept].text = arena_text(&drawing->arena, instr_text(&instr, rank, text));
        enum instr_meets meets = instr_row(&instr)->meets;
        if (meets == MEETS_PEER || (meets == MEETS_GROUP && instr.group >= 0))
            add_part(parts, &(struct part){.meeting = meeting_of(grid, rank, &events[i], &instr),
                                           .run = run,
                                           .message = meets == MEETS_PEER,
                                           .arrives = events[i].message.arrives,
                                           .interval = &out[*kept]});
        ++*kept;
    }
}

static void add_waits(const struct drawing *drawing, int kind, const struct trace_event *events,
                      size_t count, struct timeline_interval *out, size_t *kept) {
    struct instr instr;
    for (size_t i = 0; i < count; i++) {
        if (events_read(&events[i], &instr) != TOLD_WAIT) continue;
        out[*kept] = interval_of(drawing, &events[i], &instr);
        out[*kept].kind = kind;
        out[(*kept)++].id = TIMELINE_NONE;
    }
}

/* The events of a step, per run. */
struct step_events {
    struct trace_event *item;
    size_t count;
};

static void add_step(struct drawing *drawing, const struct step_events *events) {
    int runs = drawing->result->run_count;
    struct parts parts = {0};
    drawing->measured = MEM_ARRAY(struct timeline_lane, runs + 1);
    struct timeline_interval **interval = MEM_ARRAY(struct timeline_interval *, runs + 1);
    for (int r = 0; r < runs; r++) {
        interval[r] = arena_new(&drawing->arena, (events[r].count + 1) * sizeof *interval[r]);
        add_ran(drawing, r, events[r].item, events[r].count, &parts, interval[r],
                &drawing->measured[r].interval_count);
    }
    meet_all(drawing, &parts);
    free(parts.item);
    int waits = wait_kind(drawing);
    for (int r = 0; r < runs; r++) {
        add_waits(drawing, waits, events[r].item, events[r].count, interval[r],
                  &drawing->measured[r].interval_count);
        drawing->measured[r].interval = interval[r];
    }
    free(interval);
    drawing->timeline.kind_count = (size_t)drawing->kind_count;
    drawing->timeline.version[TIMELINE_MEASURED] =
        (struct timeline_side){.lane = drawing->measured,
                               .arrow = drawing->measured_arrow,
                               .arrow_count = drawing->measured_arrow_count,
                               .figures = timeline_figures_none};
}

enum status drawing_measured(struct drawing *drawing, struct trace *const *traces, int64_t step) {
    int runs = drawing->result->run_count;
    SCOPED_FREE struct step_events *events = MEM_ARRAY(struct step_events, runs + 1);
    enum status status = STATUS_OK;
    for (int r = 0; r < runs && status == STATUS_OK; r++)
        status = trace_step(traces[drawing->result->rank[r].rank], step, &events[r].item,
                            &events[r].count);
    if (status == STATUS_OK) add_step(drawing, events);
    for (int r = 0; r < runs; r++) free(events[r].item);
    return status;
}
