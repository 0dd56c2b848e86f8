/* The trace ring: what is kept, what is lost and counted, and that the file is good JSON. */
#include "folder.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/trace.h"

TestSuite(record_trace, .init = make_folder, .fini = remove_folder);

static const struct trace_schema schema = {
    .tracks = (const struct trace_track[]){{"compute", false}, {"communication", true}},
    .names = (const char *const[]){"F", "REDUCE"},
    .categories = (const char *const[]){"forward", "wait"},
    .args = (const char *const[]){"id", "stage", "micro_batch"},
    .track_count = 2,
    .name_count = 2,
    .category_count = 2,
    .arg_count = 3};

static struct trace *open_trace(int64_t first, int64_t last, int64_t steps, size_t per_step) {
    struct trace_config config = {.rank = 3,
                                  .first_step = first,
                                  .last_step = last,
                                  .newest_steps = steps,
                                  .events_per_step = per_step,
                                  .schema = &schema};
    struct trace *trace;
    cr_assert_eq(trace_open(&config, &trace), STATUS_OK);
    return trace;
}

/* Each step has `count` events of 500 ns, a microsecond apart. */
static void record_steps(struct trace *trace, int64_t first, int64_t last, int count) {
    for (int64_t step = first; step <= last; step++)
        for (int i = 0; i < count; i++) {
            int64_t begin = 5000000 + (step * count + i) * 1000;
            trace_record(trace,
                         &(struct trace_event){.begin_ns = begin,
                                               .end_ns = begin + 500,
                                               .step = step,
                                               .track = i % 2,
                                               .arg = {i, i ? 0 : TRACE_NONE, i ? i : TRACE_NONE}});
        }
}

static json_t *written(struct trace **traces, int count) {
    char *path = mem_format("%s/trace.json", folder);
    cr_assert_eq(trace_write(path, traces, count), STATUS_OK);
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert(root, "%s", error.text);
    free(path);
    return root;
}

/* Counts the X events of a step (or of all: -1). */
static int count_events(json_t *root, int64_t step) {
    size_t i;
    json_t *event;
    int count = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        json_t *args = json_object_get(event, "args");
        int64_t of = json_integer_value(json_object_get(args, "step"));
        count += step < 0 || of == step;
    }
    return count;
}

static int64_t dropped_in(json_t *root) {
    return json_integer_value(
        json_object_get(json_object_get(root, "otherData"), "dropped_events"));
}

Test(record_trace, file_has_the_fields_viewers_need) {
    struct trace *trace = open_trace(0, 0, 0, 4);
    record_steps(trace, 1, 1, 2);
    json_t *root = written(&trace, 1), *events = json_object_get(root, "traceEvents");
    cr_assert_eq(json_array_size(events), 5); /* process, two tracks, two events */
    const char *ph, *name, *cat;
    double ts, dur;
    int pid, tid, step, id, stage, micro_batch;
    cr_assert_eq(json_unpack(json_array_get(events, 4),
                             "{s:s,s:s,s:s,s:F,s:F,s:i,s:i,s:{s:i,s:i,s:i,s:i}}", "ph", &ph, "name",
                             &name, "cat", &cat, "ts", &ts, "dur", &dur, "pid", &pid, "tid", &tid,
                             "args", "step", &step, "id", &id, "stage", &stage, "micro_batch",
                             &micro_batch),
                 0);
    cr_assert_str_eq(ph, "X");
    cr_assert_str_eq(name, "F");
    cr_assert_str_eq(cat, "forward");
    cr_assert(ts == 1 && dur == 0.5 && pid == 3 && tid == 1 && step == 1 && id == 1);
    cr_assert(stage == 0 && micro_batch == 1);
    json_t *first = json_object_get(json_array_get(events, 3), "args");
    cr_assert_eq(json_integer_value(json_object_get(first, "id")), 0, "0 is a number");
    cr_assert_null(json_object_get(first, "micro_batch"));
    cr_assert_eq(json_unpack(json_array_get(events, 2), "{s:s,s:{s:s}}", "name", &name, "args",
                             "name", &cat),
                 0);
    cr_assert_str_eq(name, "thread_name");
    cr_assert_str_eq(cat, "communication");
    json_decref(root);
    trace_free(&trace);
    trace_free(&trace);
}

/* The thread of the event with this id; and the name of a thread. */
static int thread_of(json_t *root, int id) {
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        json_t *of = json_object_get(json_object_get(event, "args"), "id");
        if (of && json_integer_value(of) == id)
            return (int)json_integer_value(json_object_get(event, "tid"));
    }
    cr_assert_fail("no event %d", id);
    return -1;
}

static const char *thread_name(json_t *root, int thread) {
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "name")), "thread_name") == 0 &&
            json_integer_value(json_object_get(event, "tid")) == thread)
            return json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    }
    return "none";
}

/* A viewer drops an event that begins on its line before another ends and ends after it. */
Test(record_trace, overlapping_events_have_lines_of_their_own) {
    struct trace *trace = open_trace(0, 0, 0, 10);
    static const struct {
        int track, begin_us, end_us;
    } events[] = {
        {1, 40, 50}, /* recorded when it was awaited, not when it began */
        {1, 10, 30}, /* two that overlap, */
        {1, 20, 40}, /* and one that begins where the last one ends */
        {0, 0, 30},
        {0, 5, 9} /* one inside the other */
    };
    for (int i = 0; i < 5; i++)
        trace_record(trace, &(struct trace_event){.begin_ns = events[i].begin_us * 1000,
                                                  .end_ns = events[i].end_us * 1000,
                                                  .step = 1,
                                                  .name = events[i].track,
                                                  .track = events[i].track,
                                                  .arg = {i, TRACE_NONE, TRACE_NONE}});
    json_t *root = written(&trace, 1);
    cr_expect_eq(thread_of(root, 3), 0);
    cr_expect_eq(thread_of(root, 4), 0, "what lies inside stays on the line");
    cr_expect_eq(thread_of(root, 1), 1);
    cr_expect_eq(thread_of(root, 2), 2);
    cr_expect_eq(thread_of(root, 0), 1, "a line that is free again is used again");
    cr_expect_str_eq(thread_name(root, 0), "compute");
    cr_expect_str_eq(thread_name(root, 1), "communication");
    cr_expect_str_eq(thread_name(root, 2), "communication");
    cr_expect_str_eq(thread_name(root, 3), "none");
    json_decref(root);
    trace_free(&trace);
}

/* The arrow ends of a message ("s" or "f"), or NULL; fails where there are several. */
static json_t *end_of(json_t *root, const char *kind, const char *id) {
    size_t i;
    json_t *event, *found = NULL;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), kind) != 0 ||
            strcmp(json_string_value(json_object_get(event, "id")), id) != 0)
            continue;
        cr_assert_null(found, "two ends %s of %s", kind, id);
        found = event;
    }
    return found;
}

static void record_message(struct trace *trace, int64_t begin_ns, int64_t end_ns, bool arrives) {
    trace_record(trace, &(struct trace_event){.begin_ns = begin_ns,
                                              .end_ns = end_ns,
                                              .step = 2,
                                              .name = 1,
                                              .track = 1,
                                              .arg = {0, TRACE_NONE, TRACE_NONE},
                                              .message = {.channel = 5, .number = 3, arrives}});
}

/* An arrow begins and ends inside the events of its message, on their lines. */
Test(record_trace, messages_have_arrows) {
    struct trace *traces[2] = {open_trace(0, 0, 0, 4), NULL};
    struct trace_config other = {.rank = 4, .events_per_step = 4, .schema = &schema};
    cr_assert_eq(trace_open(&other, &traces[1]), STATUS_OK);
    record_steps(traces[0], 1, 1, 2);
    record_message(traces[0], 6000000, 6002000, false);
    record_message(traces[1], 5999000, 6004000, true);
    json_t *root = written(traces, 2), *from = end_of(root, "s", "5/2/3"),
           *to = end_of(root, "f", "5/2/3");
    cr_assert(from && to);
    cr_expect_eq(json_integer_value(json_object_get(from, "pid")), 3);
    cr_expect_eq(json_integer_value(json_object_get(to, "pid")), 4);
    cr_expect_eq(json_integer_value(json_object_get(from, "tid")), 1);
    cr_expect_eq(json_integer_value(json_object_get(to, "tid")), 1);
    cr_expect_str_eq(json_string_value(json_object_get(to, "bp")), "e");
    double sent = json_number_value(json_object_get(from, "ts")),
           received = json_number_value(json_object_get(to, "ts"));
    cr_expect_float_eq(received - sent, 3.999, 1e-6, "from begin to end: %g", received - sent);
    cr_expect_eq(count_events(root, -1), 4, "arrows are no events of their own");
    json_decref(root);
    for (int t = 0; t < 2; t++) trace_free(&traces[t]);
}

Test(record_trace, keeps_the_last_20_steps) {
    struct trace *trace = open_trace(0, 0, 0, 4);
    record_steps(trace, 1, 100, 4);
    json_t *root = written(&trace, 1);
    cr_assert_eq(count_events(root, -1), 80);
    for (int64_t step = 81; step <= 100; step++) cr_assert_eq(count_events(root, step), 4);
    cr_assert_eq(dropped_in(root), 0);
    json_decref(root);
    trace_free(&trace);
}

Test(record_trace, smaller_steps_than_planned_do_not_keep_older_ones) {
    struct trace *trace = open_trace(0, 0, 5, 100);
    record_steps(trace, 1, 100, 3);
    json_t *root = written(&trace, 1);
    cr_assert_eq(count_events(root, -1), 15);
    cr_assert_eq(count_events(root, 95), 0);
    json_decref(root);
    trace_free(&trace);
}

Test(record_trace, too_small_a_ring_counts_what_it_lost) {
    char said[512];
    struct trace *trace = open_trace(0, 0, 5, 4);
    record_steps(trace, 1, 50, 10);
    log_capture(said, sizeof said);
    json_t *root = written(&trace, 1);
    cr_assert_eq(count_events(root, -1), 20);
    cr_assert_eq(dropped_in(root), 5 * 10 - 20);
    cr_assert(strstr(said, "30 events"), "%s", said);
    json_decref(root);
    trace_free(&trace);
}

Test(record_trace, events_besides_the_steps_have_room) {
    struct trace_config config = {
        .newest_steps = 5, .events_per_step = 4, .events_besides = 3, .schema = &schema};
    struct trace *trace;
    cr_assert_eq(trace_open(&config, &trace), STATUS_OK);
    cr_assert_eq(trace_bytes(&config), 23 * sizeof(struct trace_event));
    record_steps(trace, 1, 5, 4);
    record_steps(trace, 5, 5, 3);
    cr_assert_eq(trace_dropped(trace), 0);
    record_steps(trace, 5, 5, 1);
    cr_assert_eq(trace_dropped(trace), 1);
    trace_free(&trace);
}

Test(record_trace, range_keeps_its_steps_only) {
    struct trace *trace = open_trace(10, 12, 0, 4);
    record_steps(trace, 1, 50, 4);
    json_t *root = written(&trace, 1);
    cr_assert_eq(count_events(root, -1), 12);
    for (int64_t step = 10; step <= 12; step++) cr_assert_eq(count_events(root, step), 4);
    cr_assert_eq(dropped_in(root), 0);
    json_decref(root);
    trace_free(&trace);
}

Test(record_trace, full_range_counts_what_it_lost) {
    char said[512];
    struct trace *trace = open_trace(10, 12, 0, 4);
    record_steps(trace, 1, 50, 5);
    log_capture(said, sizeof said);
    json_t *root = written(&trace, 1);
    cr_assert_eq(count_events(root, -1), 12);
    cr_assert_eq(dropped_in(root), 3);
    json_decref(root);
    trace_free(&trace);
}

Test(record_trace, empty_trace_is_good_json) {
    struct trace *trace = open_trace(0, 0, 0, 4);
    json_t *root = written(&trace, 1);
    cr_assert_eq(count_events(root, -1), 0);
    json_decref(root);
    root = written(NULL, 0);
    cr_assert_eq(json_array_size(json_object_get(root, "traceEvents")), 0);
    json_decref(root);
    trace_free(&trace);
}

Test(record_trace, several_threads_and_ranks) {
    struct trace *traces[2] = {open_trace(0, 0, 4, 1000), open_trace(0, 0, 4, 1000)};
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 4; i++) record_steps(traces[i % 2], 1, 4, 500);
    json_t *root = written(traces, 2);
    cr_assert_eq(count_events(root, -1), 2 * 4 * 1000);
    cr_assert_eq(dropped_in(root), 0);
    json_decref(root);
    trace_free(&traces[0]);
    trace_free(&traces[1]);
    trace_record(NULL, &(struct trace_event){0});
}

static void store(const struct trace_stored *stored, const struct trace_event *events) {
    size_t bytes = stored->count * sizeof *events;
    cr_assert_eq(pwrite(stored->file, events, bytes, (off_t)stored->at), (ssize_t)bytes);
}

Test(record_trace, other_ranks_lie_in_a_file) {
    struct trace *traces[2] = {open_trace(0, 0, 5, 4), NULL};
    struct trace_config other = {.rank = 7,
                                 .newest_steps = 5,
                                 .events_per_step = 1, /* of this rank; the other's may be longer */
                                 .schema = &schema};
    record_steps(traces[0], 1, 50, 10);
    struct trace_event sent[21];
    size_t at = 0, count = trace_copy(traces[0], &at, 7, sent); /* in pieces */
    cr_assert_eq(count, 7);
    count += trace_copy(traces[0], &at, 14, sent + count);
    cr_assert_eq(count, 20);
    cr_assert_eq(trace_kept(traces[0]), 20);
    FILE *file = tmpfile();
    struct trace_stored stored = {.file = fileno(file),
                                  .at = 5,
                                  .count = count,
                                  .dropped = trace_dropped(traces[0]),
                                  .shift_ns = 1000000};
    store(&stored, sent);
    cr_assert_eq(trace_open_stored(&other, &stored, &traces[1]), STATUS_OK);
    char said[512];
    log_capture(said, sizeof said);
    json_t *root = written(traces, 2), *event;
    size_t i;
    int theirs = 0;
    cr_assert_eq(dropped_in(root), 2 * 30, "what they lost counts too");
    double own = 0, moved = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
        bool other_rank = json_integer_value(json_object_get(event, "pid")) == 7;
        *(other_rank ? &moved : &own) = json_number_value(json_object_get(event, "ts"));
        theirs += other_rank;
    }
    cr_assert_eq(theirs, 20);
    cr_assert_float_eq(moved - own, 1000, 1e-6, "the other clock is set");
    json_decref(root);
    log_capture(said, sizeof said);
    struct trace_event *of_step = NULL;
    cr_assert_eq(trace_step(traces[1], 50, &of_step, &count), STATUS_OK);
    cr_assert_eq(count, 10);
    cr_assert_eq(of_step[9].begin_ns, sent[19].begin_ns + 1000000);
    free(of_step);
    log_capture(NULL, 0);
    fclose(file);
    for (int t = 0; t < 2; t++) trace_free(&traces[t]);
}

Test(record_trace, what_lies_in_a_file_is_checked) {
    struct trace *traces[2] = {open_trace(0, 0, 5, 4), NULL};
    struct trace_config other = {.rank = 7, .newest_steps = 5, .schema = &schema};
    struct trace_event sent[20], *of_step;
    size_t begin = 0, count;
    char said[512];
    FILE *file = tmpfile();
    struct trace_stored stored = {.file = fileno(file), .count = 20};
    record_steps(traces[0], 1, 5, 4);
    cr_assert_eq(trace_copy(traces[0], &begin, 20, sent), 20);
    cr_assert_eq(trace_open_stored(&other, &stored, &traces[1]), STATUS_OK);
    log_capture(said, sizeof said);
    const size_t fields[] = {offsetof(struct trace_event, step), offsetof(struct trace_event, name),
                             offsetof(struct trace_event, category),
                             offsetof(struct trace_event, track)};
    for (int i = 0; i < 4; i++) {
        char *at = (char *)&sent[3] + fields[i], kept = at[3];
        at[3] = (char)0x80; /* far out of range, or negative */
        if (i == 0) at[7] = (char)0x80;
        store(&stored, sent);
        cr_assert_eq(trace_step(traces[1], 5, &of_step, &count), STATUS_BUG);
        at[3] = kept;
        if (i == 0) at[7] = 0;
    }
    cr_assert_eq(ftruncate(stored.file, 100), 0);
    cr_assert_eq(trace_step(traces[1], 5, &of_step, &count), STATUS_DATA);
    char *path = mem_format("%s/short.json", folder);
    cr_assert_eq(trace_write(path, traces, 2), STATUS_DATA);
    cr_assert_not(file_exists(path), "part of a trace was written");
    free(path);
    log_capture(NULL, 0);
    fclose(file);
    for (int t = 0; t < 2; t++) trace_free(&traces[t]);
}
