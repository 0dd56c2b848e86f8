/* Instructions as events of the trace: names, tracks, and exactly the operands they have. */
#include <criterion/criterion.h>
#include <string.h>

#include "planned/events.h"

static int32_t arg(const struct trace_event *event, const char *key) {
    for (int i = 0; i < events_schema.arg_count; i++)
        if (strcmp(events_schema.args[i], key) == 0) return event->arg[i];
    cr_assert_fail("no argument %s", key);
    return 0;
}

static int given(const struct trace_event *event) {
    int count = 0;
    for (int i = 0; i < TRACE_MAX_ARGS; i++) count += event->arg[i] != TRACE_NONE;
    return count;
}

static void expect(const struct trace_event *event, const char *name, const char *category,
                   const char *track) {
    cr_expect_str_eq(events_schema.names[event->name], name);
    cr_expect_str_eq(events_schema.categories[event->category], category);
    cr_expect_str_eq(events_schema.tracks[event->track].name, track);
    cr_expect(event->step == 7 && event->begin_ns == 100 && event->end_ns == 200, "%s", name);
}

static struct instr make(enum instr_op op, int id) {
    struct instr instr = instr_make(op);
    instr.id = id;
    return instr;
}

Test(planned_events, posted_operations_are_seen_on_both_tracks) {
    struct instr reduce = make(INSTR_REDUCE, 9), norm = make(INSTR_NORM, 14);
    reduce.bucket = 3, reduce.grad = 1, reduce.group = 2;
    struct trace_event posting = events_ran(&reduce, 6, 100, 200),
                       posted = events_posted(&reduce, 6, 100, 200),
                       waited = events_waited(&norm, &reduce, 6, 100, 200),
                       at_end = events_waited(NULL, &reduce, 6, 100, 200);
    expect(&posting, "post REDUCE", "communication", "compute");
    expect(&posted, "REDUCE", "communication", "communication");
    expect(&waited, "await REDUCE", "wait", "compute");
    expect(&at_end, "await REDUCE", "wait", "compute");
    const struct trace_event *all[] = {&posting, &posted, &waited, &at_end};
    for (int i = 0; i < 4; i++) {
        cr_expect(arg(all[i], "id") == 9 && arg(all[i], "bucket") == 3);
        cr_expect(arg(all[i], "grad") == 1 && arg(all[i], "group") == 2);
        cr_expect_eq(given(all[i]), i == 2 ? 6 : 5); /* the stage too */
    }
    cr_expect_eq(arg(&waited, "waiter"), 14);
    cr_expect_eq(arg(&at_end, "waiter"), TRACE_NONE);
}

Test(planned_events, operands_left_out_are_left_out) {
    struct instr whole = make(INSTR_B, 4), part = make(INSTR_B, 5);
    part.segment = 0, part.micro = 1;
    struct trace_event a = events_ran(&whole, 6, 100, 200), b = events_ran(&part, 6, 100, 200);
    expect(&a, "B", "backward", "compute");
    cr_expect_eq(given(&a), 5); /* id, stage, micro-batch, slot, gradient buffer */
    cr_expect_eq(arg(&a, "segment"), TRACE_NONE);
    cr_expect_eq(given(&b), 6);
    cr_expect(arg(&b, "segment") == 0 && arg(&b, "micro_batch") == 1 && arg(&b, "stage") == 0);
}

/* Every row of instr.def: no operand is lost, none is invented. */
Test(planned_events, every_instruction_has_its_operands) {
    for (int op = 0; op < INSTR_COUNT_; op++) {
        struct instr instr = make((enum instr_op)op, 1);
        int operands = 0;
        for (const char *letter = instr_rows[op].operands; *letter; letter++) {
            if (*letter == '?') continue;
            instr_set_operand(&instr, *letter, ++operands);
        }
        struct trace_event event = events_ran(&instr, 6, 100, 200);
        int sum = 0;
        for (int i = 0; i < TRACE_MAX_ARGS; i++)
            if (event.arg[i] != TRACE_NONE) sum += event.arg[i];
        struct instr read;
        cr_expect_eq(events_read(&event, &read),
                     instr_rows[op].queue == QUEUE_COMM ? TOLD_POST : TOLD_RAN);
        cr_expect(read.op == op && read.id == 1, "%s", instr_rows[op].name);
        for (const char *letter = instr_rows[op].operands; *letter; letter++)
            cr_expect(*letter == '?' ||
                          instr_operand(&read, *letter) == instr_operand(&instr, *letter),
                      "%s: %c", instr_rows[op].name, *letter);
        cr_expect_eq(given(&event), 1 + operands, "%s", instr_rows[op].name);
        cr_expect_eq(sum, 1 + operands * (operands + 1) / 2, "%s", instr_rows[op].name);
        const char *name = events_schema.names[event.name];
        bool posts = instr_rows[op].queue == QUEUE_COMM;
        cr_expect_str_eq(posts ? name + strlen("post ") : name, instr_rows[op].name);
    }
}

static struct trace_message message_of(enum instr_op op, int stage, int micro,
                                       const struct grid *grid, int replica) {
    struct instr instr = make(op, 1);
    instr.stage = stage, instr.micro = micro;
    struct program program = {.grid = *grid, .micro_batches = 8};
    return events_message(&instr, &program, grid_owner(grid, stage, replica));
}

/* Both ends of a message name the same channel, and no two channels are one. */
Test(planned_events, both_ends_of_a_message_have_one_channel) {
    struct grid grid = {.stages = 3, .chunks = 2, .replicas = 2, .replicas_each = 1};
    bool seen[32] = {false};
    for (int replica = 0; replica < 2; replica++)
        for (int cut = 0; cut < 5; cut++)
            for (int back = 0; back < 2; back++) {
                struct trace_message sent = message_of(back ? INSTR_SEND_B : INSTR_SEND_F,
                                                       cut + back, 7, &grid, replica),
                                     received = message_of(back ? INSTR_RECV_B : INSTR_RECV_F,
                                                           cut + !back, 7, &grid, replica);
                cr_assert(sent.channel > 0 && sent.channel < 32);
                cr_expect_eq(sent.channel, received.channel);
                cr_expect(!seen[sent.channel], "channel %d twice", sent.channel);
                cr_expect(sent.number == 7 && received.number == 7);
                cr_expect(!sent.arrives && received.arrives);
                seen[sent.channel] = true;
            }
    cr_expect_eq(message_of(INSTR_F, 1, 0, &grid, 0).channel, 0);
}
