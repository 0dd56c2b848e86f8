/* Blocking copies between a device and the host. */
#ifndef BACKEND_COPY_H
#define BACKEND_COPY_H

#include "backend/backend.h"

/* Local, blocking. Bytes of device memory in or out, on the default stream; what other streams do
 * with them must be done. */
enum status device_copy_in(struct device *device, void *to, const void *host, size_t bytes);
enum status device_copy_out(struct device *device, void *host, const void *from, size_t bytes);

/* Local, blocking. Copies one tensor between host memory in plain order and device memory in
 * `layout`. */
enum status layout_to_plain(struct device *device, const struct layout *layout, const void *from,
                            void *host);
enum status layout_from_plain(struct device *device, const struct layout *layout, const void *host,
                              void *to);
/* Local. Makes the kernels of both and drops them: what the library takes for such kernels, its
 * code above all, is resident afterwards. */
enum status layout_warm_up(struct device *device, const struct layout *layout);

#endif
