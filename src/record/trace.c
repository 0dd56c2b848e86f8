/* The ring of events and its JSON.
 *
 * Two ways of keeping: the newest N steps (old events are overwritten) or a given range (other
 * steps are not taken in; when the ring is full, newer events are lost). Losses are counted per
 * step in a small table, since only the losses of steps that are written matter to the reader. */
#include "record/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "record/put_json.h"

struct lost {
    int64_t step;
    uint64_t count;
};

struct trace {
    struct trace_config config;
    pthread_mutex_t lock;
    struct region region;
    struct trace_event *events; /* [capacity], in the region */
    size_t capacity, taken;     /* taken counts all events ever taken in */
    int64_t newest;             /* step, 0 before the first event */
    struct lost *lost;          /* [newest_steps], or one for a range */
    bool is_stored;             /* the events are in a file, and in the region only while needed */
    struct trace_stored stored;
};

static bool is_range(const struct trace_config *config) {
    return config->last_step > 0;
}

static int64_t kept_steps(const struct trace_config *config) {
    if (is_range(config)) return config->last_step - config->first_step + 1;
    return config->newest_steps > 0 ? config->newest_steps : TRACE_STEPS;
}

static size_t capacity_for(const struct trace_config *config) {
    size_t per_step = config->events_per_step ? config->events_per_step : 1, all;
    if (__builtin_mul_overflow(per_step, (size_t)kept_steps(config), &all) ||
        __builtin_add_overflow(all, config->events_besides, &all) || all > TRACE_EVENT_LIMIT)
        return TRACE_EVENT_LIMIT;
    return all;
}

size_t trace_bytes(const struct trace_config *config) {
    return capacity_for(config) * sizeof(struct trace_event);
}

static enum status open_empty(const struct trace_config *config, struct trace **out) {
    CHECK(kept_steps(config) > 0, "steps %" PRId64 "-%" PRId64, config->first_step,
          config->last_step);
    CHECK(config->schema->arg_count <= TRACE_MAX_ARGS, "%d arguments", config->schema->arg_count);
    struct trace *trace = MEM_NEW(struct trace);
    trace->config = *config;
    trace->config.newest_steps = kept_steps(config);
    trace->lost = MEM_ARRAY(struct lost, is_range(config) ? 1 : kept_steps(config));
    pthread_mutex_init(&trace->lock, NULL);
    *out = trace;
    return STATUS_OK;
}

static enum status map_ring(struct trace *trace, size_t capacity) {
    TRY(region_map(capacity * sizeof(struct trace_event), "trace", &trace->region));
    trace->events = trace->region.base;
    trace->capacity = capacity;
    return STATUS_OK;
}

enum status trace_open(const struct trace_config *config, struct trace **out) {
    SCOPED(trace_free) struct trace *trace = NULL;
    TRY(open_empty(config, &trace));
    TRY(map_ring(trace, capacity_for(config)));
    *out = trace;
    trace = NULL;
    return STATUS_OK;
}

void trace_free(struct trace **trace) {
    if (!*trace) return;
    pthread_mutex_destroy(&(*trace)->lock);
    region_free(&(*trace)->region);
    free((*trace)->lost);
    free(*trace);
    *trace = NULL;
}

static void count_lost(struct trace *trace, int64_t step) {
    size_t row = is_range(&trace->config) ? 0 : (size_t)(step % trace->config.newest_steps);
    struct lost *lost = &trace->lost[row];
    if (!is_range(&trace->config) && lost->step != step) *lost = (struct lost){step, 0};
    lost->count++;
}

static void record_range(struct trace *trace, const struct trace_event *event) {
    if (event->step < trace->config.first_step || event->step > trace->config.last_step) return;
    if (trace->taken == trace->capacity)
        count_lost(trace, event->step);
    else
        trace->events[trace->taken++] = *event;
}

static void record_newest(struct trace *trace, const struct trace_event *event) {
    struct trace_event *slot = &trace->events[trace->taken % trace->capacity];
    bool kept = slot->step > trace->newest - trace->config.newest_steps;
    if (trace->taken >= trace->capacity && kept) count_lost(trace, slot->step);
    *slot = *event;
    trace->taken++;
}

static bool is_sound(const struct trace_event *event, const struct trace_schema *schema) {
    return event->step >= 1 && event->name >= 0 && event->name < schema->name_count &&
           event->category >= 0 && event->category < schema->category_count && event->track >= 0 &&
           event->track < schema->track_count;
}

void trace_record(struct trace *trace, const struct trace_event *event) {
    if (!trace) return;
    CHECK(is_sound(event, trace->config.schema), "name %d of step %" PRId64, event->name,
          event->step);
    pthread_mutex_lock(&trace->lock);
    if (event->step > trace->newest) trace->newest = event->step;
    if (is_range(&trace->config))
        record_range(trace, event);
    else
        record_newest(trace, event);
    pthread_mutex_unlock(&trace->lock);
}

/* First and last step that would be written. */
static int64_t first_kept(const struct trace *trace) {
    if (is_range(&trace->config)) return trace->config.first_step;
    int64_t first = trace->newest - trace->config.newest_steps + 1;
    return first > 1 ? first : 1;
}

uint64_t trace_dropped(struct trace *trace) {
    pthread_mutex_lock(&trace->lock);
    uint64_t sum = 0;
    if (is_range(&trace->config)) {
        sum = trace->lost[0].count;
    } else {
        for (int64_t i = 0; i < trace->config.newest_steps; i++)
            if (trace->lost[i].step >= first_kept(trace)) sum += trace->lost[i].count;
    }
    pthread_mutex_unlock(&trace->lock);
    return sum;
}

static size_t held(const struct trace *trace) {
    return trace->taken < trace->capacity ? trace->taken : trace->capacity;
}

/* The i-th oldest event in the ring. */
static const struct trace_event *event_at(const struct trace *trace, size_t i) {
    size_t start = trace->taken > trace->capacity ? trace->taken % trace->capacity : 0;
    return &trace->events[(start + i) % trace->capacity];
}

int64_t trace_last_step(const struct trace *trace) {
    int64_t last = 0;
    for (size_t i = 0; i < held(trace); i++)
        if (event_at(trace, i)->step > last) last = event_at(trace, i)->step;
    return last;
}

static struct trace_event *copy_step(const struct trace *trace, int64_t step, size_t *count) {
    size_t most = 0;
    for (size_t i = 0; i < held(trace); i++) most += event_at(trace, i)->step == step;
    struct trace_event *events = MEM_ARRAY(struct trace_event, most + 1);
    *count = 0;
    for (size_t i = 0; i < held(trace); i++)
        if (event_at(trace, i)->step == step) events[(*count)++] = *event_at(trace, i);
    return events;
}

/* --- between processes --- */

size_t trace_kept(const struct trace *trace) {
    size_t count = 0;
    for (size_t i = 0; i < held(trace); i++) count += event_at(trace, i)->step >= first_kept(trace);
    return count;
}

size_t trace_copy(const struct trace *trace, size_t *at, size_t most, struct trace_event *out) {
    size_t copied = 0;
    for (; *at < held(trace) && copied < most; ++*at)
        if (event_at(trace, *at)->step >= first_kept(trace)) out[copied++] = *event_at(trace, *at);
    return copied;
}

enum status trace_open_stored(const struct trace_config *config, const struct trace_stored *stored,
                              struct trace **out) {
    struct trace *trace;
    TRY(open_empty(config, &trace));
    trace->is_stored = true;
    trace->stored = *stored;
    trace->lost[0] = (struct lost){INT64_MAX, stored->dropped}; /* all of steps that are kept */
    *out = trace;
    return STATUS_OK;
}

static enum status read_events(const struct trace *trace, const struct trace_stored *stored) {
    size_t bytes = stored->count * sizeof *trace->events;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(stored->file, (char *)trace->events + done, bytes - done,
                            (off_t)(stored->at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return fail(STATUS_DATA, "the trace of rank %d cannot be read again: %s",
                        trace->config.rank, got < 0 ? strerror(errno) : "its file is short");
        done += (size_t)got;
    }
    return STATUS_OK;
}

static enum status take_events(struct trace *trace, const struct trace_stored *stored) {
    TRY(read_events(trace, stored));
    for (; trace->taken < stored->count; trace->taken++) {
        struct trace_event *event = &trace->events[trace->taken];
        if (!is_sound(event, trace->config.schema))
            return fail(STATUS_BUG, "event %zu of rank %d's trace is none", trace->taken,
                        trace->config.rank);
        event->begin_ns += stored->shift_ns;
        event->end_ns += stored->shift_ns;
        if (event->step > trace->newest) trace->newest = event->step;
    }
    return STATUS_OK;
}

/* Events are in memory between these two. */
static void put_away(struct trace *trace) {
    if (!trace->is_stored) return;
    region_free(&trace->region);
    trace->events = NULL;
    trace->capacity = trace->taken = 0;
}

static enum status fetch(struct trace *trace) {
    if (!trace->is_stored) return STATUS_OK;
    TRY(map_ring(trace, trace->stored.count));
    enum status status = take_events(trace, &trace->stored);
    if (status != STATUS_OK) put_away(trace);
    return status;
}

enum status trace_step(struct trace *trace, int64_t step, struct trace_event **out, size_t *count) {
    TRY(fetch(trace));
    *out = copy_step(trace, step, count);
    put_away(trace);
    return STATUS_OK;
}

/* --- the picture --- */

/* The kept events of a trace in the order they are written, and how many lines each track has. */
struct drawn {
    const struct trace_event *event;
    int line; /* of its track */
};
struct picture {
    const struct trace *trace;
    struct drawn *items;
    size_t count;
    int *lines; /* per track */
};

/* By track, then begin; of two that begin together the longer first: it has the other inside. */
static int by_begin(const void *left, const void *right) {
    const struct trace_event *a = ((const struct drawn *)left)->event,
                             *b = ((const struct drawn *)right)->event;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    if (a->begin_ns != b->begin_ns) return a->begin_ns < b->begin_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

/* Each event of a track goes to the first line that is free. Viewers drop what overlaps on a line.
 */
static int lines_of_track(struct drawn *items, size_t count) {
    SCOPED_FREE int64_t *busy_until = MEM_ARRAY(int64_t, count + 1);
    int lines = 1; /* also of a track without events: it has a name */
    for (size_t i = 0; i < count; i++) {
        int line = 0;
        while (line < lines && busy_until[line] > items[i].event->begin_ns) line++;
        if (line == lines) lines++;
        busy_until[line] = items[i].event->end_ns;
        items[i].line = line;
    }
    return lines;
}

static void lay_out(struct picture *picture) {
    const struct trace_schema *schema = picture->trace->config.schema;
    size_t begin = 0, end;
    for (int track = 0; track < schema->track_count; track++, begin = end) {
        for (end = begin; end < picture->count && picture->items[end].event->track == track;) end++;
        picture->lines[track] = 1;
        if (schema->tracks[track].overlapping)
            picture->lines[track] = lines_of_track(picture->items + begin, end - begin);
    }
}

static struct picture picture_of(const struct trace *trace) {
    struct picture picture = {.trace = trace,
                              .items = MEM_ARRAY(struct drawn, held(trace) + 1),
                              .lines = MEM_ARRAY(int, trace->config.schema->track_count)};
    for (size_t i = 0; i < held(trace); i++)
        if (event_at(trace, i)->step >= first_kept(trace))
            picture.items[picture.count++].event = event_at(trace, i);
    qsort(picture.items, picture.count, sizeof *picture.items, by_begin);
    lay_out(&picture);
    return picture;
}

/* --- its JSON --- */

/* The number of a line among all lines of the rank: the viewer's thread. */
static int thread_of(const struct picture *picture, int track, int line) {
    for (int before = 0; before < track; before++) line += picture->lines[before];
    return line;
}

/* Times in the file count from the earliest event: viewers handle small numbers better. */
static enum status find_earliest(struct trace *trace, int64_t *earliest_ns) {
    if (trace->config.from_zero) *earliest_ns = 0;
    if (trace->config.from_zero) return STATUS_OK;
    TRY(fetch(trace));
    for (size_t i = 0; i < held(trace); i++) {
        const struct trace_event *event = event_at(trace, i);
        if (event->step >= first_kept(trace) && event->begin_ns < *earliest_ns)
            *earliest_ns = event->begin_ns;
    }
    put_away(trace);
    return STATUS_OK;
}

static void emit_us(FILE *stream, const char *key, int64_t ns) {
    fprintf(stream, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void emit_event(FILE *stream, const struct picture *picture, const struct drawn *drawn,
                       int64_t origin_ns) {
    const struct trace_schema *schema = picture->trace->config.schema;
    const struct trace_event *event = drawn->event;
    int64_t duration = event->end_ns - event->begin_ns;
    fputs(",\n{\"ph\":\"X\",\"name\":", stream);
    put_json_text(stream, schema->names[event->name]);
    fputs(",\"cat\":", stream);
    put_json_text(stream, schema->categories[event->category]);
    emit_us(stream, "ts", event->begin_ns - origin_ns);
    emit_us(stream, "dur", duration > 0 ? duration : 0);
    fprintf(stream, ",\"pid\":%d,\"tid\":%d,\"args\":{\"step\":%" PRId64,
            picture->trace->config.rank, thread_of(picture, event->track, drawn->line),
            event->step);
    for (int i = 0; i < schema->arg_count; i++) {
        if (event->arg[i] == TRACE_NONE) continue;
        fputc(',', stream);
        put_json_text(stream, schema->args[i]);
        fprintf(stream, ":%" PRId32, event->arg[i]);
    }
    fputs("}}", stream);
}

/* One end of a message's arrow: from the begin of the send into the last nanosecond of the receive,
 * which may be posted long before. Both must lie inside the event that they belong to. */
static void emit_message(FILE *stream, const struct picture *picture, const struct drawn *drawn,
                         int64_t origin_ns) {
    const struct trace_event *event = drawn->event;
    const struct trace_message *message = &event->message;
    int64_t at_ns = event->begin_ns;
    if (message->channel == 0) return;
    if (message->arrives && event->end_ns - 1 > at_ns) at_ns = event->end_ns - 1;
    fprintf(
        stream,
        ",\n{\"ph\":\"%s\",\"name\":\"message\",\"cat\":\"message\",\"id\":\"%d/%" PRId64 "/%d\"",
        message->arrives ? "f\",\"bp\":\"e" : "s", message->channel, event->step, message->number);
    emit_us(stream, "ts", at_ns - origin_ns);
    fprintf(stream, ",\"pid\":%d,\"tid\":%d}", picture->trace->config.rank,
            thread_of(picture, event->track, drawn->line));
}

/* The name of a rank or of one of its lines. */
static void emit_name(FILE *stream, const char *what, int rank, int thread, const char *name) {
    fprintf(stream,
            "\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, rank,
            thread);
    put_json_text(stream, name);
    fputs("}}", stream);
}

/* Process and thread names, so that lines say "rank 0" and "compute" instead of numbers. */
static void emit_names(FILE *stream, const struct picture *picture) {
    const struct trace_config *config = &picture->trace->config;
    char name[32];
    snprintf(name, sizeof name, "rank %d", config->rank);
    emit_name(stream, "process_name", config->rank, 0, name);
    for (int track = 0; track < config->schema->track_count; track++)
        for (int line = 0; line < picture->lines[track]; line++) {
            fputc(',', stream);
            emit_name(stream, "thread_name", config->rank, thread_of(picture, track, line),
                      config->schema->tracks[track].name);
        }
}

static enum status emit_trace(FILE *stream, struct trace *trace, int64_t origin_ns) {
    TRY(fetch(trace));
    struct picture picture = picture_of(trace);
    emit_names(stream, &picture);
    for (size_t i = 0; i < picture.count; i++) {
        emit_event(stream, &picture, &picture.items[i], origin_ns);
        emit_message(stream, &picture, &picture.items[i], origin_ns);
    }
    free(picture.items);
    free(picture.lines);
    put_away(trace);
    return STATUS_OK;
}

/* One after the other: the traces of many ranks are many times this one's. */
static enum status emit_traces(FILE *stream, struct trace *const *traces, int count,
                               uint64_t dropped) {
    int64_t origin_ns = INT64_MAX;
    for (int t = 0; t < count; t++) TRY(find_earliest(traces[t], &origin_ns));
    fprintf(stream,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":%" PRIu64
            "},\n\"traceEvents\":[",
            dropped);
    for (int t = 0; t < count; t++) {
        if (t > 0) fputc(',', stream);
        TRY(emit_trace(stream, traces[t], origin_ns));
    }
    fputs("\n]}\n", stream);
    return STATUS_OK;
}

/* --- the file --- */

enum status trace_write(const char *path, struct trace *const *traces, int trace_count) {
    uint64_t dropped = 0;
    char count[TEXT_BYTES];
    for (int t = 0; t < trace_count; t++) dropped += trace_dropped(traces[t]);
    struct file_writer writer;
    TRY(file_begin(path, &writer));
    enum status status = emit_traces(writer.stream, traces, trace_count, dropped);
    if (status != STATUS_OK) {
        file_abandon(&writer);
        return status;
    }
    TRY(file_commit(&writer));
    if (dropped > 0)
        log_note("%s: %s of these steps did not fit\n"
                 "  --trace A-B with fewer steps keeps all",
                 path, text_count((int64_t)dropped, "event", count));
    return STATUS_OK;
}
