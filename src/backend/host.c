/* See host.h. */
#include "backend/host.h"

#include <string.h>

#include "base/mem.h"

enum status host_memory_new(struct device *device, size_t bytes, const char *what, void **out) {
    (void)device;
    struct region region;
    TRY(region_map(bytes, what, &region));
    *out = region.base;
    return STATUS_OK;
}

void host_memory_free(struct device *device, void *memory, size_t bytes) {
    (void)device;
    struct region region = {memory, bytes ? bytes : 1}; /* whole pages go, as they came */
    region_free(&region);
}

enum status host_copy(struct device *device, void *to, const void *from, size_t bytes,
                      struct stream *stream) {
    (void)device, (void)stream;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

enum status host_pin(struct device *device, void *memory, size_t bytes) {
    (void)device, (void)memory, (void)bytes;
    return STATUS_OK;
}

void host_unpin(struct device *device, void *memory, size_t bytes) {
    (void)device, (void)memory, (void)bytes;
}

enum status host_stream_new(struct device *device, struct stream **out) {
    (void)device;
    *out = NULL;
    return STATUS_OK;
}

void host_stream_free(struct device *device, struct stream *stream) {
    (void)device, (void)stream;
}

enum status host_stream_wait(struct device *device, struct stream *stream) {
    (void)device, (void)stream;
    return STATUS_OK;
}

enum status host_event_new(struct device *device, bool timed, struct event **out) {
    (void)device, (void)timed;
    *out = NULL;
    return STATUS_OK;
}

void host_event_free(struct device *device, struct event *event) {
    (void)device, (void)event;
}

void host_event_record(struct event *event, struct stream *stream) {
    (void)event, (void)stream;
}

void host_stream_wait_event(struct stream *stream, struct event *event) {
    (void)stream, (void)event;
}

enum status host_event_wait(struct event *event) {
    (void)event;
    return STATUS_OK;
}

enum status host_event_done(struct event *event, bool *done) {
    (void)event;
    *done = true;
    return STATUS_OK;
}

enum status host_event_ns(struct event *begin, struct event *end, int64_t *ns) {
    (void)begin, (void)end;
    *ns = 0;
    return STATUS_OK;
}
