/* What backends whose kernels run on this machine's processors share: memory, copies, arithmetic on
 * arrays, and streams and events that are nothing, because work is done when a call returns. Slots
 * of struct backend; their contracts are there. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/backend.h"

enum status host_memory_new(struct device *device, size_t bytes, const char *what, void **out);
void host_memory_free(struct device *device, void *memory, size_t bytes);
enum status host_copy(struct device *device, void *to, const void *from, size_t bytes,
                      struct stream *stream);
enum status host_pin(struct device *device, void *memory, size_t bytes);
void host_unpin(struct device *device, void *memory, size_t bytes);

/* On one thread, the definition. */
enum status host_array_copy(struct device *device, void *to, const void *from, size_t bytes,
                            struct stream *stream);
enum status host_array_fill(struct device *device, const struct elements *to, float value,
                            struct stream *stream);
enum status host_array_add(struct device *device, const struct elements *into,
                           const struct elements *from, struct stream *stream);
enum status host_array_squares(struct device *device, const struct elements *of, double *sums,
                               struct stream *stream);
enum status host_array_sum(struct device *device, const double *sums, int64_t count,
                           struct exact_sum *total, struct stream *stream);
enum status host_array_decide(struct device *device, const struct exact_sum *squares,
                              const struct exact_sum *losses, const struct optim_limits *limits,
                              struct optim_decision *out, int32_t *stop, struct stream *stream);
enum status host_array_check(struct device *device, const struct elements *of, int32_t *bad,
                             struct stream *stream);
enum status host_array_update(struct device *device, const struct optim_update *update,
                              int32_t *bad, struct stream *stream);

/* Its parts, for those who spread them over a team: the sum of squares of a whole block; whether
 * all are finite; an update of chunk `chunk` of a span, and whether its parameters are finite
 * afterwards; whether the arrays of an update fit. */
enum { HOST_CHUNK = 16384 };
double host_block_squares(const float *values);
bool host_all_finite(const float *values, int64_t count);
bool host_update_chunk(const struct optim_update *update, const struct optim_span *span,
                       int64_t chunk);
void host_check_update(const struct optim_update *update);
/* What was decided for it, as an update without a decision: `step` is that one's; false: nothing is
 * updated. */
bool host_decided(const struct optim_update *update, struct optim_step *step,
                  struct optim_update *out);

/* Handles are NULL, and everything is done. */
enum status host_stream_new(struct device *device, struct stream **out);
void host_stream_free(struct device *device, struct stream *stream);
enum status host_stream_wait(struct device *device, struct stream *stream);
enum status host_event_new(struct device *device, bool timed, struct event **out);
void host_event_free(struct device *device, struct event *event);
void host_event_record(struct event *event, struct stream *stream);
void host_stream_wait_event(struct stream *stream, struct event *event);
enum status host_event_wait(struct event *event);
enum status host_event_done(struct event *event, bool *done);
enum status host_event_ns(struct event *begin, struct event *end, int64_t *ns);

#endif
