/* Arithmetic of averages that are not gradients: a part of the table of a backend, for replicas
 * that train apart. */
#ifndef BACKEND_BLEND_H
#define BACKEND_BLEND_H

#include "backend/backend.h"

/* Local, asynchronous on the stream. Arrays of f32 in device memory, of equal counts.
 *
 *     blend  into = keep * into + share * from, each product rounded, then the sum; `from` NULL:
 * the first product alone swap   what is in one is in the other */
struct backend_blend {
    enum status (*blend)(struct device *device, const struct elements *into, float keep,
                         const struct elements *from, float share, struct stream *stream);
    enum status (*swap)(struct device *device, const struct elements *one,
                        const struct elements *other, struct stream *stream);
};

/* Where memory is the host's. */
extern const struct backend_blend backend_host_blend;

#endif
