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

#endif
