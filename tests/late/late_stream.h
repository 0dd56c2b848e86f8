/* Streams of the device `late`: queues and the threads that run them. */
#ifndef TESTS_LATE_LATE_STREAM_H
#define TESTS_LATE_LATE_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/reach.h"
#include "late.h"

/* Of each mapping; operations that a queue has room for; how old undemanded work gets. */
#define SPAN_BYTES ((size_t)1 << 33)
enum { QUEUE = 1024, LATEST_MS = 20, MOST_STREAMS = 8 };

struct late_device {
    struct device base;
    struct device *ref;
    char *window; /* what the host knows, without access; SPAN_BYTES behind it what streams use */
    size_t used, taken, peak; /* used: of the window, which is not used twice */
    struct stream *own;       /* the default one */
    struct stream *stream[MOST_STREAMS];
    int streams;                /* made so far */
    _Atomic enum status failed; /* of anything that it did: it does no more */
    _Atomic uint32_t marked;
};

struct late_op {
    enum late_kind kind;
    int64_t since_ns;
    struct kernel *kernel;
    void *in[OP_MAX_IN], *out[OP_MAX_OUT], *scratch;
    /* Of arrays and copies: which, and its operands. */
    enum { COPY, FILL, ADD, BLEND, SWAP, SQUARES, SUM, DECIDE, CHECK_FINITE, UPDATE, TREE } array;
    struct tree_terms *tree; /* owned */
    struct optim_limits limits;
    void *to, *flag;
    const void *from;
    size_t bytes;
    struct elements into, of;
    double number, share;
    struct optim_update update;
    struct optim_step step;
    /* Of a wait. */
    struct stream *stream;
    uint64_t until;
    uint32_t number_of_mark;
};

/* Operations are counted: `asked` of them are wanted now. */
struct stream {
    struct late_device *device;
    int number; /* -1: the default one */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct late_op queue[QUEUE];
    uint64_t posted, done, asked;
    enum late_kind last;
    enum status status;
    bool ends, blocked; /* blocked: it waits for another stream */
};

struct event {
    struct late_device *device;
    struct stream *stream; /* that it was recorded on; NULL: never */
    uint64_t after;        /* so many of its operations */
    enum late_kind behind;
};

static inline struct late_device *late_of(struct device *device) {
    return (struct late_device *)device;
}

/* Local. Puts an operation, which is copied, behind those of the stream (NULL: the default one). */
enum status late_enqueue(struct device *device, struct stream *stream, const struct late_op *op);
/* Local. The place in the queue that the next operation has. */
struct late_op *late_next(struct device *device, struct stream *stream);

/* Rows of struct backend. */
enum status late_stream_new(struct device *device, struct stream **out);
void late_stream_free(struct device *device, struct stream *stream);
enum status late_stream_wait(struct device *device, struct stream *stream);
enum status late_event_new(struct device *device, bool timed, struct event **out);
void late_event_free(struct device *device, struct event *event);
void late_event_record(struct event *event, struct stream *stream);
void late_stream_wait_event(struct stream *stream, struct event *given);
enum status late_event_wait(struct event *event);
enum status late_event_done(struct event *event, bool *done);
extern const struct backend_watch late_watch;

#endif
