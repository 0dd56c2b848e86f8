/* What a trace measured, beside the forecast: by rank and id, and from when all had come. */
#include <criterion/criterion.h>
#include <string.h>

#include "../exec/kit.h"
#include "planned/events.h"
#include "view/drawing.h"

static struct options options;
static struct planned_run planned;
static struct view_forecast view;
static struct drawing drawing;
static struct trace *traces[4];
static const struct trace_config empty;

/* Two pipelines of two stages, with a trace for each rank. */
static void set_up(void) {
    struct rank_info info = {.ranks = 4, .local_ranks = 4};
    kit_options("--model mlp --device ref --threads 1 --batch 64 --micro-batches 2 -n 4 --strategy "
                "1f1b --stages 2 --data synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    cr_assert_eq(view_forecast_open(&planned, true, &view), STATUS_OK);
    drawing_open(&view, &drawing);
    for (int r = 0; r < 4; r++) {
        struct trace_config config = empty;
        config.rank = r, config.events_per_step = 100, config.schema = &events_schema;
        cr_assert_eq(trace_open(&config, &traces[r]), STATUS_OK);
    }
}

static void tear_down(void) {
    for (int r = 0; r < 4; r++) trace_free(&traces[r]);
    drawing_close(&drawing);
    view_forecast_close(&view);
    planned_close(&planned);
    options_free(&options);
}

TestSuite(view_drawing, .init = set_up, .fini = tear_down);

/* The first instruction of a kind in a rank's program. */
static const struct instr *first_of(int rank, enum instr_op op) {
    const struct instr_list *body = program_list(planned.plan->program, rank, LIST_BODY);
    for (int i = 0; i < body->count; i++)
        if (body->items[i].op == op) return &body->items[i];
    cr_assert_fail("rank %d has no %s", rank, instr_rows[op].name);
    return NULL;
}

/* As the executor tells it, of step 1. */
static void tell(int rank, enum instr_op op, int64_t begin_ns, int64_t end_ns) {
    const struct instr *instr = first_of(rank, op);
    bool posts = instr_row(instr)->queue == QUEUE_COMM;
    struct trace_event event = (posts ? events_posted : events_ran)(instr, 0, begin_ns, end_ns);
    event.message = events_message(instr, planned.plan->program, rank);
    trace_record(traces[rank], &event);
}

/* The measured interval of a kind. */
static const struct timeline_interval *measured(int rank, enum instr_op op) {
    const struct timeline_lane *lane = &drawing.timeline.version[TIMELINE_MEASURED].lane[rank];
    for (size_t i = 0; i < lane->interval_count; i++)
        if (strcmp(drawing.timeline.kind[lane->interval[i].kind].name, instr_rows[op].name) == 0)
            return &lane->interval[i];
    return NULL;
}

Test(view_drawing, every_rank_has_a_row) {
    cr_assert_eq(drawing.timeline.row_count, 4);
    for (int r = 0; r < 4; r++) cr_expect_eq(view.forecast.result.rank[r].rank, r);
}

Test(view_drawing, a_receive_begins_with_its_send) {
    tell(1, INSTR_RECV_F, 100, 900);
    tell(0, INSTR_F, 200, 690);
    tell(0, INSTR_SEND_F, 700, 800);
    tell(3, INSTR_RECV_F, 150, 950); /* of another pipeline: its send was not traced */
    cr_assert_eq(drawing_measured(&drawing, traces, 1), STATUS_OK);
    const struct timeline_side *side = &drawing.timeline.version[TIMELINE_MEASURED];
    cr_expect_eq(measured(1, INSTR_RECV_F)->begin, 700);
    cr_expect_eq(measured(1, INSTR_RECV_F)->end, 900);
    cr_expect_eq(measured(0, INSTR_SEND_F)->begin, 700);
    cr_expect_eq(measured(3, INSTR_RECV_F)->begin, 150);
    cr_expect_eq(measured(0, INSTR_F)->id, first_of(0, INSTR_F)->id);
    cr_assert_eq(side->arrow_count, 1);
    cr_expect(side->arrow[0].from_row == 0 && side->arrow[0].to_row == 1);
    cr_expect(side->arrow[0].from == 700 && side->arrow[0].to == 900);
}

/* COUNT is of all ranks, REDUCE of the replicas of a stage. */
Test(view_drawing, groups_begin_with_their_last_member) {
    static const int64_t begin[4] = {100, 400, 300, 200};
    for (int r = 0; r < 4; r++) tell(r, INSTR_REPORT, begin[r], r == 2 ? 350 : 500);
    for (int r = 0; r < 4; r++) tell(r, INSTR_REDUCE, begin[r], 500);
    cr_assert_eq(drawing_measured(&drawing, traces, 1), STATUS_OK);
    for (int r = 0; r < 4; r++) {
        cr_expect_eq(measured(r, INSTR_REPORT)->begin, r == 2 ? 350 : 400, "never after its end");
        cr_expect_eq(measured(r, INSTR_REDUCE)->begin, r % 2 ? 400 : 300);
    }
}

Test(view_drawing, posts_are_left_out_and_waits_have_no_id) {
    const struct instr *recv = first_of(1, INSTR_RECV_F), *f = first_of(1, INSTR_F);
    struct trace_event post = events_ran(recv, 0, 10, 20), wait = events_waited(f, recv, 0, 20, 80);
    trace_record(traces[1], &post);
    trace_record(traces[1], &wait);
    cr_assert_eq(drawing_measured(&drawing, traces, 1), STATUS_OK);
    const struct timeline_lane *lane = &drawing.timeline.version[TIMELINE_MEASURED].lane[1];
    cr_assert_eq(lane->interval_count, 1);
    cr_expect_eq(lane->interval[0].id, TIMELINE_NONE);
    cr_expect_eq(drawing.timeline.kind[lane->interval[0].kind].category, TIMELINE_WAIT);
}
