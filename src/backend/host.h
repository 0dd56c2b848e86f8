/* What backends whose kernels run on this machine's processors share: memory, copies, and streams
 * and events that are nothing, because work is done when a call returns. Slots of struct backend;
 * their contracts are there. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/backend.h"

enum status host_memory_new(struct device *device, size_t bytes, const char *what, void **out);
void host_memory_free(struct device *device, void *memory, size_t bytes);
void host_copy(struct device *device, void *to, const void *from, size_t bytes);

/* Handles are NULL. */
enum status host_stream_new(struct device *device, struct stream **out);
void host_stream_free(struct device *device, struct stream *stream);
enum status host_stream_wait(struct stream *stream);
enum status host_event_new(struct device *device, struct event **out);
void host_event_free(struct device *device, struct event *event);
void host_event_record(struct event *event, struct stream *stream);
void host_stream_wait_event(struct stream *stream, struct event *event);

#endif
