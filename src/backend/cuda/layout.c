/* Layouts: plain, and "nhwc", an image with the channels last, which is what cuDNN's tensor-core
 * engines want and what lets a warp read neighbouring channels. Where one of the two orders equals
 * the other (one channel, one pixel) there is plain alone. */
#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "base/mem.h"

static const char nhwc[] = "nhwc";

static const struct layout *intern(struct device *device, const struct tensor_type *type,
                                   bool plain) {
    struct cuda_device *self = cuda_device_of(device);
    for (struct cuda_layout *l = self->layouts; l; l = l->next)
        if (l->base.plain == plain && tensor_type_equal(&l->base.type, type)) return &l->base;
    struct cuda_layout *layout = MEM_NEW(struct cuda_layout);
    layout->base = (struct layout){.type = *type,
                                   .bytes = tensor_type_bytes(type),
                                   .plain = plain,
                                   .text = plain ? "plain" : nhwc};
    layout->next = self->layouts;
    self->layouts = layout;
    return &layout->base;
}

const struct layout *cuda_plain(struct device *device, const struct tensor_type *type) {
    return intern(device, type, true);
}

const struct layout *cuda_image(struct device *device, const struct tensor_type *type) {
    const int64_t *dim = type->shape.dim;
    bool same = type->shape.rank != 4 || dim[1] == 1 || dim[2] * dim[3] == 1;
    return intern(device, type, same);
}

bool cuda_is_image(const struct layout *layout) {
    return layout && layout->text == nhwc;
}

const struct layout *cuda_like(struct device *device, const struct tensor_type *type,
                               const struct layout *like) {
    return cuda_is_image(like) ? cuda_image(device, type) : cuda_plain(device, type);
}

void cuda_steps(const struct layout *layout, int64_t step[SHAPE_MAX_RANK]) {
    const struct shape *shape = &layout->type.shape;
    for (int d = 0; d < shape->rank; d++) step[d] = shape_span(shape, d + 1, shape->rank);
    if (!cuda_is_image(layout)) return;
    step[1] = 1;
    step[3] = shape->dim[1];
    step[2] = shape->dim[1] * shape->dim[3];
}

struct cuda_planes cuda_planes_of(const struct layout *layout) {
    const struct shape *x = &layout->type.shape;
    return (struct cuda_planes){.batch = x->rank > 0 ? x->dim[0] : 1,
                                .channels = x->rank > 1 ? x->dim[1] : 1,
                                .plane = x->rank > 1 ? shape_span(x, 2, x->rank) : 1,
                                .last = cuda_is_image(layout)};
}
