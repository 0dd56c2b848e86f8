/* See events.h. */
#include "planned/events.h"

#include <string.h>

#include "exec/engine.h"

static const struct trace_track tracks[TRACK_COUNT] = {
    [TRACK_COMPUTE] = {"compute", false}, [TRACK_COMM] = {"communication", true}};

/* Three names for each instruction: itself, its post, and waiting for it. */
enum {
    NAME_SELF,
    NAME_POST = INSTR_COUNT_,
    NAME_WAIT = 2 * INSTR_COUNT_,
    NAME_COUNT = 3 * INSTR_COUNT_
};
static const char *const names[NAME_COUNT] = {
#define INSTR(NAME, ...)                                                                           \
    [NAME_SELF + INSTR_##NAME] = #NAME, [NAME_POST + INSTR_##NAME] = "post " #NAME,                \
                 [NAME_WAIT + INSTR_##NAME] = "await " #NAME,
#include "program/instr.def"
#undef INSTR
};

/* Those of instr.def's column "time", and one more. */
enum { CATEGORY_WAIT = TIME_COUNT, CATEGORY_COUNT };
static const char *const categories[CATEGORY_COUNT] = {
    [TIME_DATA] = "data",          [TIME_FORWARD] = "forward",     [TIME_BACKWARD] = "backward",
    [TIME_COMM] = "communication", [TIME_OPTIMIZER] = "optimizer", [CATEGORY_WAIT] = "wait"};

/* The operands, in the order of operand.def, between id and waiter. */
enum { ARG_ID, ARG_OPERAND, ARG_WAITER = ARG_OPERAND + OPERAND_COUNT, ARG_COUNT };
_Static_assert((int)ARG_COUNT <= (int)TRACE_MAX_ARGS,
               "events of the trace have no room for so many operands");
static const char *const args[ARG_COUNT] = {"id",
#define OPERAND(letter, field, key, words) key,
#include "program/operand.def"
#undef OPERAND
                                            "waiter"};

const struct trace_schema events_schema = {.tracks = tracks,
                                           .names = names,
                                           .categories = categories,
                                           .args = args,
                                           .track_count = TRACK_COUNT,
                                           .name_count = NAME_COUNT,
                                           .category_count = CATEGORY_COUNT,
                                           .arg_count = ARG_COUNT};

static void set_operand(struct trace_event *event, const struct instr *instr, char letter) {
    switch (letter) {
#define OPERAND(letter, field, ...)                                                                \
    case letter:                                                                                   \
        event->arg[ARG_OPERAND + OPERAND_##field] = instr->field;                                  \
        break;
#include "program/operand.def"
#undef OPERAND
    default: break; /* the mark before those that may be left out */
    }
}

/* The id, and the operands the instruction has; one that is left out does not apply. */
_Static_assert((int)INSTR_ALL == (int)TRACE_NONE, "operands left out would be written");
static void set_args(struct trace_event *event, const struct instr *instr) {
    for (int i = 0; i < TRACE_MAX_ARGS; i++) event->arg[i] = TRACE_NONE;
    event->arg[ARG_ID] = instr->id;
    for (const char *letter = instr_row(instr)->operands; *letter; letter++)
        set_operand(event, instr, *letter);
}

static struct trace_event event_of(const struct instr *instr, int name, int track, int64_t step,
                                   int64_t begin_ns, int64_t end_ns) {
    struct trace_event event = {.begin_ns = begin_ns,
                                .end_ns = end_ns,
                                .step = step + 1, /* as people count */
                                .name = name + instr->op,
                                .category = (int32_t)instr_row(instr)->time,
                                .track = track};
    set_args(&event, instr);
    return event;
}

struct trace_event events_ran(const struct instr *instr, int64_t step, int64_t begin_ns,
                              int64_t end_ns) {
    int name = instr_row(instr)->queue == QUEUE_COMM ? NAME_POST : NAME_SELF;
    return event_of(instr, name, TRACK_COMPUTE, step, begin_ns, end_ns);
}

struct trace_event events_posted(const struct instr *instr, int64_t step, int64_t begin_ns,
                                 int64_t end_ns) {
    return event_of(instr, NAME_SELF, TRACK_COMM, step, begin_ns, end_ns);
}

struct trace_event events_waited(const struct instr *waiter, const struct instr *awaited,
                                 int64_t step, int64_t begin_ns, int64_t end_ns) {
    struct trace_event event = event_of(awaited, NAME_WAIT, TRACK_COMPUTE, step, begin_ns, end_ns);
    event.category = CATEGORY_WAIT;
    if (waiter) event.arg[ARG_WAITER] = waiter->id;
    return event;
}

enum events_told events_read(const struct trace_event *event, struct instr *out) {
    *out = instr_make((enum instr_op)(event->name % INSTR_COUNT_));
    out->id = event->arg[ARG_ID];
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (strchr(instr_row(out)->operands, operand_rows[i].letter))
            instr_set_operand(out, operand_rows[i].letter, event->arg[ARG_OPERAND + i]);
    return event->name < NAME_POST ? TOLD_RAN : event->name < NAME_WAIT ? TOLD_POST : TOLD_WAIT;
}

/* A channel belongs to a pipeline, a cut of the model and a direction (instr.def). */
struct trace_message events_message(const struct instr *instr, const struct grid *grid, int rank) {
    if (instr_row(instr)->meets != MEETS_PEER) return (struct trace_message){0};
    int cuts = grid->stages * grid->chunks - 1, pipeline = grid_cell(grid, rank).first_replica;
    return (struct trace_message){.channel = 1 + 2 * pipeline * cuts + instr_channel(instr),
                                  .number = instr->micro,
                                  .arrives = instr_receives(instr)};
}

/* Each instruction once, what it posted once more, and waits. */
static size_t list_events(const struct plan *plan, enum list_name name) {
    const struct instr_list *list = program_list(plan->program, plan->config.rank, name);
    int64_t count = list->count + engine_most_waits(plan, list);
    for (int i = 0; i < list->count; i++) count += instr_row(&list->items[i])->queue == QUEUE_COMM;
    return (size_t)count;
}

static size_t step_events(const struct plan *plan) {
    size_t whole = list_events(plan, LIST_BODY), last = list_events(plan, LIST_LAST);
    return whole > last ? whole : last;
}

struct trace_config events_trace_config(const struct plan *plan, const struct options *options,
                                        int rank) {
    bool named = option_is_set(options, OPTION_trace);
    return (struct trace_config){.rank = rank,
                                 .first_step = named ? options->trace.first : 0,
                                 .last_step = named ? options->trace.last : 0,
                                 .events_per_step = step_events(plan),
                                 .events_besides = list_events(plan, LIST_DRAIN),
                                 .from_zero = strcmp(options->clock, "virtual") == 0,
                                 .schema = &events_schema};
}
