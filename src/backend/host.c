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

enum status host_copy(struct device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

bool host_has_memory_of(const struct backend *backend) {
    return backend->copy_in == host_copy && backend->copy_out == host_copy;
}

enum status host_stream_new(struct device *device, struct stream **out) {
    (void)device;
    *out = NULL;
    return STATUS_OK;
}

void host_stream_free(struct device *device, struct stream *stream) {
    (void)device, (void)stream;
}

enum status host_stream_wait(struct stream *stream) {
    (void)stream;
    return STATUS_OK;
}

enum status host_event_new(struct device *device, struct event **out) {
    (void)device;
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
