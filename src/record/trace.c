/* The ring of events and its JSON.
 *
 * Two ways of keeping: the newest N steps (old events are overwritten) or a given range (other
 * steps are not taken in; when the ring is full, newer events are lost). Losses are counted per
 * step in a small table, since only the losses of steps that are written matter to the reader. */
#include "record/trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/emit.h"

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
    int64_t newest;             /* step, -1 before the first event */
    struct lost *lost;          /* [newest_steps], or one for a range */
    struct arena names;         /* of events that came packed */
};

/* An event as it travels: names as text, which instructions have short ones of. */
struct packed_event {
    char name[24], category[16];
    int64_t begin_ns, end_ns, step;
    int32_t queue, stage, micro_batch, reserved;
};

static bool is_range(const struct trace_config *config) {
    return config->last_step >= 0;
}

static int64_t kept_steps(const struct trace_config *config) {
    if (is_range(config)) return config->last_step - config->first_step + 1;
    return config->newest_steps > 0 ? config->newest_steps : TRACE_STEPS;
}

static size_t capacity_for(const struct trace_config *config) {
    size_t per_step = config->events_per_step ? config->events_per_step : 1, all;
    if (__builtin_mul_overflow(per_step, (size_t)kept_steps(config), &all) ||
        all > TRACE_EVENT_LIMIT)
        return TRACE_EVENT_LIMIT;
    return all;
}

size_t trace_bytes(const struct trace_config *config) {
    return capacity_for(config) * sizeof(struct trace_event);
}

enum status trace_open(const struct trace_config *config, struct trace **out) {
    CHECK(kept_steps(config) > 0, "steps %" PRId64 "-%" PRId64, config->first_step,
          config->last_step);
    struct region region;
    TRY(region_map(trace_bytes(config), "trace", &region));
    struct trace *trace = MEM_NEW(struct trace);
    trace->config = *config;
    trace->config.newest_steps = kept_steps(config);
    trace->region = region;
    trace->events = region.base;
    trace->capacity = capacity_for(config);
    trace->newest = -1;
    trace->lost = MEM_ARRAY(struct lost, is_range(config) ? 1 : kept_steps(config));
    pthread_mutex_init(&trace->lock, NULL);
    *out = trace;
    return STATUS_OK;
}

void trace_free(struct trace **trace) {
    if (!*trace) return;
    pthread_mutex_destroy(&(*trace)->lock);
    region_free(&(*trace)->region);
    arena_free(&(*trace)->names);
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

void trace_record(struct trace *trace, const struct trace_event *event) {
    if (!trace) return;
    CHECK(event->step >= 0, "%s of step %" PRId64, event->name, event->step);
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
    return first > 0 ? first : 0;
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

/* Times in the file count from the earliest event: viewers handle small numbers better. */
static int64_t earliest_ns(struct trace *const *traces, int trace_count) {
    int64_t earliest = INT64_MAX;
    for (int t = 0; t < trace_count; t++)
        for (size_t i = 0; i < held(traces[t]); i++) {
            const struct trace_event *event = event_at(traces[t], i);
            if (event->step >= first_kept(traces[t]) && event->begin_ns < earliest)
                earliest = event->begin_ns;
        }
    return earliest;
}

static void emit_us(FILE *stream, const char *key, int64_t ns) {
    fprintf(stream, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void emit_event(FILE *stream, int rank, const struct trace_event *event, int64_t origin_ns) {
    int64_t duration = event->end_ns - event->begin_ns;
    fputs(",\n{\"ph\":\"X\",\"name\":", stream);
    emit_text(stream, event->name);
    fputs(",\"cat\":", stream);
    emit_text(stream, event->category);
    emit_us(stream, "ts", event->begin_ns - origin_ns);
    emit_us(stream, "dur", duration > 0 ? duration : 0);
    fprintf(stream, ",\"pid\":%d,\"tid\":%d,\"args\":{\"step\":%" PRId64, rank, event->queue,
            event->step);
    if (event->stage >= 0) fprintf(stream, ",\"stage\":%d", event->stage);
    if (event->micro_batch >= 0) fprintf(stream, ",\"micro_batch\":%d", event->micro_batch);
    fputs("}}", stream);
}

/* Process and thread names, so that rows say "rank 0" and "compute" instead of numbers. */
static void emit_names(FILE *stream, const struct trace_config *config, bool first) {
    fprintf(stream,
            "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
            "\"args\":{\"name\":\"rank %d\"}}",
            first ? "" : ",", config->rank, config->rank);
    for (int queue = 0; queue < config->queue_count; queue++) {
        fprintf(
            stream,
            ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":",
            config->rank, queue);
        emit_text(stream, config->queue_names[queue]);
        fputs("}}", stream);
    }
}

static void emit_all(FILE *stream, struct trace *const *traces, int trace_count, uint64_t dropped) {
    int64_t origin_ns = earliest_ns(traces, trace_count);
    fprintf(stream,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":%" PRIu64
            "},\n\"traceEvents\":[",
            dropped);
    for (int t = 0; t < trace_count; t++) {
        emit_names(stream, &traces[t]->config, t == 0);
        for (size_t i = 0; i < held(traces[t]); i++) {
            const struct trace_event *event = event_at(traces[t], i);
            if (event->step >= first_kept(traces[t]))
                emit_event(stream, traces[t]->config.rank, event, origin_ns);
        }
    }
    fputs("\n]}\n", stream);
}

/* --- between processes --- */

/* First how many events were lost, then those that are kept. */
struct bytes trace_pack(struct trace *trace) {
    uint64_t dropped = trace_dropped(trace);
    struct bytes out = {.count = sizeof dropped,
                        .data =
                            mem_new(sizeof dropped + held(trace) * sizeof(struct packed_event))};
    memcpy(out.data, &dropped, sizeof dropped);
    for (size_t i = 0; i < held(trace); i++) {
        const struct trace_event *event = event_at(trace, i);
        if (event->step < first_kept(trace)) continue;
        struct packed_event packed = {.begin_ns = event->begin_ns,
                                      .end_ns = event->end_ns,
                                      .step = event->step,
                                      .queue = event->queue,
                                      .stage = event->stage,
                                      .micro_batch = event->micro_batch};
        snprintf(packed.name, sizeof packed.name, "%s", event->name);
        snprintf(packed.category, sizeof packed.category, "%s", event->category);
        memcpy(out.data + out.count, &packed, sizeof packed);
        out.count += sizeof packed;
    }
    return out;
}

static bool is_sound(const struct packed_event *event, const struct trace_config *config) {
    return event->step >= 0 && event->queue >= 0 && event->queue < config->queue_count &&
           memchr(event->name, 0, sizeof event->name) &&
           memchr(event->category, 0, sizeof event->category);
}

static enum status take_packed(struct trace *trace, const char *data, size_t count,
                               int64_t shift_ns) {
    for (size_t i = 0; i < count; i++) {
        struct packed_event packed;
        memcpy(&packed, data + i * sizeof packed, sizeof packed);
        if (!is_sound(&packed, &trace->config))
            return fail(STATUS_BUG, "event %zu of rank %d's trace is none", i, trace->config.rank);
        trace_record(trace,
                     &(struct trace_event){.name = arena_text(&trace->names, packed.name),
                                           .category = arena_text(&trace->names, packed.category),
                                           .begin_ns = packed.begin_ns + shift_ns,
                                           .end_ns = packed.end_ns + shift_ns,
                                           .step = packed.step,
                                           .queue = packed.queue,
                                           .stage = packed.stage,
                                           .micro_batch = packed.micro_batch});
    }
    return STATUS_OK;
}

enum status trace_open_packed(const struct trace_config *config, const void *data, size_t bytes,
                              int64_t shift_ns, struct trace **out) {
    struct trace *trace;
    uint64_t dropped;
    if (bytes < sizeof dropped || (bytes - sizeof dropped) % sizeof(struct packed_event) != 0)
        return fail(STATUS_BUG, "rank %d's trace has %zu bytes", config->rank, bytes);
    TRY(trace_open(config, &trace));
    memcpy(&dropped, data, sizeof dropped);
    size_t count = (bytes - sizeof dropped) / sizeof(struct packed_event);
    enum status status = take_packed(trace, (const char *)data + sizeof dropped, count, shift_ns);
    if (dropped) trace->lost[0] = (struct lost){trace->newest, dropped};
    if (status == STATUS_OK)
        *out = trace;
    else
        trace_free(&trace);
    return status;
}

enum status trace_write(const char *path, struct trace *const *traces, int trace_count) {
    uint64_t dropped = 0;
    for (int t = 0; t < trace_count; t++) dropped += trace_dropped(traces[t]);
    struct file_writer writer;
    TRY(file_begin(path, &writer));
    emit_all(writer.stream, traces, trace_count, dropped);
    TRY(file_commit(&writer));
    if (dropped > 0)
        log_note("%s: %" PRIu64 " events of these steps did not fit\n"
                 "  --trace A-B with fewer steps keeps all",
                 path, dropped);
    return STATUS_OK;
}
