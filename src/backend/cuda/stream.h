/* Streams and events as the driver has them. Internal to src/backend/cuda. */
#ifndef BACKEND_CUDA_STREAM_H
#define BACKEND_CUDA_STREAM_H

#include "backend/cuda/cuda.h"

struct stream {
    struct cuda_device *device;
    CUstream stream;
};

struct event {
    struct cuda_device *device;
    CUevent event;
};

extern const struct backend_reach cuda_reach; /* reach.c */
extern const struct backend_blend cuda_blend; /* arrays.c */

/* watch.c: what NVML tells of this process and the device. A device is open from cuda_watch_open to
 * cuda_watch_close; what memory_new gave and took back, of all devices of the process; what was
 * taken besides since then, an even part of it where several are open. */
void cuda_watch_open(struct cuda_device *device);
void cuda_watch_close(struct cuda_device *device);
void cuda_note_taken(ptrdiff_t bytes);
size_t cuda_library_bytes(struct cuda_device *device);
extern const struct backend_watch cuda_watch;

#endif
