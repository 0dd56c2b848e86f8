/* What ran when: events of the last steps, written as trace.json for Perfetto or chrome://tracing.
 *
 * Recording must not disturb what it measures: all memory is taken at the start, a record is a copy
 * into a ring under a lock that nobody holds for longer than that. A ring that turns out too small
 * loses events; how many of the steps that are written is counted, and said in the file and to the
 * user.
 *
 * What events there are is the caller's matter: an event holds numbers, and the schema has the
 * words for them. So events of other processes travel as they are. */
#ifndef RECORD_TRACE_H
#define RECORD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { TRACE_STEPS = 20, TRACE_EVENT_LIMIT = 1 << 20, TRACE_MAX_ARGS = 13, TRACE_NONE = -1 };

/* A track is a line of the picture. Events of a track follow one another or lie one inside the
 * other; where they may overlap otherwise the track has as many lines as it takes. */
struct trace_track {
    const char *name;
    bool overlapping;
};

/* The words for the numbers in events; equal on all ranks; all of it lives until trace_write. */
struct trace_schema {
    const struct trace_track *tracks;
    const char *const *names, *const *categories, *const *args;
    int track_count, name_count, category_count, arg_count;
};

/* What an event sends or receives: viewers draw an arrow from the one to the other. */
struct trace_message {
    int32_t channel; /* counted from 1, equal at both ends; 0: the event is no message */
    int32_t number;  /* among the messages of the channel in the step */
    bool arrives;    /* received here; else sent */
};

struct trace_event {
    int64_t begin_ns, end_ns;      /* clock_ns() */
    int64_t step;                  /* counted from 1 */
    int32_t name, category, track; /* rows of the schema */
    int32_t arg[TRACE_MAX_ARGS];   /* [arg_count] of the schema; TRACE_NONE: does not apply */
    struct trace_message message;
};

struct trace_config {
    int rank;
    int64_t first_step,
        last_step;        /* keep exactly these steps (--trace A-B); last_step 0: the newest ones */
    int64_t newest_steps; /* how many those are; 0: TRACE_STEPS */
    size_t events_per_step; /* expected; the ring holds this many for each kept step */
    size_t events_besides;  /* and these */
    bool from_zero;         /* times are written as they are: of a clock that begins at 0 */
    const struct trace_schema *schema;
};

struct trace;

/* Local. Takes all memory (trace_bytes of it), at most TRACE_EVENT_LIMIT events. The caller frees.
 */
enum status trace_open(const struct trace_config *config, struct trace **out);
size_t trace_bytes(const struct trace_config *config);
/* Local, does not block but for another recorder, allocates nothing. Any thread. Accepts a NULL
 * trace. */
void trace_record(struct trace *trace, const struct trace_event *event);
/* Local. Events that were lost from the steps that would be written now. */
uint64_t trace_dropped(struct trace *trace);
/* Local, blocking. Writes the events of all `traces` (one a rank) into one file, atomically; notes
 * it when some were lost. Nobody records meanwhile. */
enum status trace_write(const char *path, struct trace *const *traces, int trace_count);
/* Local. The newest step with events, 0 without any. Nobody records meanwhile. */
int64_t trace_last_step(const struct trace *trace);
/* Local, blocking where the events are in a file. The events of a step, which the caller frees.
 * STATUS_DATA where the file cannot be read, STATUS_BUG for events that no trace has made. */
enum status trace_step(struct trace *trace, int64_t step, struct trace_event **out, size_t *count);
/* Local. Traces of other processes come as events that lie in a file, so that of all ranks' one at
 * a time takes memory. How many events would be written; copies up to `most` of them, returns how
 * many, and moves `at`, which begins as 0, behind them. */
size_t trace_kept(const struct trace *trace);
size_t trace_copy(const struct trace *trace, size_t *at, size_t most, struct trace_event *out);
struct trace_stored {
    int file;
    size_t at, count; /* bytes, events */
    uint64_t dropped;
    int64_t shift_ns; /* added to their times */
};
/* Local. Such a trace can only be written, or asked for a step, both of which read the file; it has
 * room for what came, whatever the configuration expects. The file is the caller's, and outlives
 * it. */
enum status trace_open_stored(const struct trace_config *config, const struct trace_stored *stored,
                              struct trace **out);
/* Local. Accepts NULL. */
void trace_free(struct trace **trace);

#endif
