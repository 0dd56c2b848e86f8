/* Layouts, interned per device: a layout is its type and oneDNN's memory descriptor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/log.h"
#include "base/mem.h"

const struct dnn_md *cpu_md(const struct layout *layout) {
    return ((const struct cpu_layout *)layout)->md;
}

static struct cpu_layout *intern(struct cpu_device *device, const struct tensor_type *type) {
    struct cpu_layout *layout = MEM_NEW(struct cpu_layout);
    layout->base = (struct layout){.type = *type, .text = layout->text};
    layout->next = device->layouts;
    device->layouts = layout;
    return layout;
}

static const struct layout *plain(struct cpu_device *device, const struct tensor_type *type) {
    for (struct cpu_layout *l = device->layouts; l; l = l->next)
        if (l->base.plain && tensor_type_equal(&l->base.type, type)) return &l->base;
    struct cpu_layout *layout = intern(device, type);
    layout->base.plain = true;
    layout->base.bytes = tensor_type_bytes(type);
    snprintf(layout->text, sizeof layout->text, "plain");
    if (type->shape.rank > 0 && dnn_has_dtype(type->dtype))
        layout->md = dnn_md_new(type->dtype, type->shape.rank, type->shape.dim, NULL);
    return &layout->base;
}

const struct layout *cpu_layout(struct cpu_device *device, const struct tensor_type *type,
                                const struct dnn_md *md) {
    if (!md || dnn_md_plain(md)) return plain(device, type);
    for (struct cpu_layout *l = device->layouts; l; l = l->next)
        if (!l->base.plain && l->md && tensor_type_equal(&l->base.type, type) &&
            dnn_md_equal(l->md, md))
            return &l->base;
    struct cpu_layout *layout = intern(device, type);
    layout->md = dnn_md_copy(md);
    layout->base.bytes = dnn_md_bytes(md);
    dnn_md_text(md, layout->text);
    return &layout->base;
}

const struct layout *cpu_layout_private(struct cpu_device *device, const struct tensor_type *type,
                                        size_t bytes, const char *text) {
    for (struct cpu_layout *l = device->layouts; l; l = l->next)
        if (!l->base.plain && !l->md && tensor_type_equal(&l->base.type, type) &&
            strcmp(l->text, text) == 0)
            return &l->base;
    struct cpu_layout *layout = intern(device, type);
    layout->base.bytes = bytes;
    snprintf(layout->text, sizeof layout->text, "%s", text);
    return &layout->base;
}

const struct layout *cpu_layout_like(struct cpu_device *device, const struct tensor_type *type,
                                     const struct cpu_image *image) {
    const int64_t *dim = type->shape.dim, C = dim[1], W = dim[3];
    if (image->lanes == 1) return plain(device, type);
    int64_t channels_last[] = {C * dim[2] * W, 1, C * W, C};
    const struct dnn_md *md = image->channels_last ? dnn_md_new(type->dtype, 4, dim, channels_last)
                                                   : dnn_md_blocked(type->dtype, dim, image->lanes);
    const struct layout *layout = cpu_layout(device, type, md);
    dnn_md_free(md);
    return layout;
}

/* Are the dimensions after the channels dense, the last one stepping by `lanes`? */
static bool pixels_dense(const struct dnn_blocks *b, int64_t lanes) {
    int64_t stride = lanes;
    for (int i = b->rank - 1; i >= 2; i--) {
        if (b->dim[i] != 1 && b->stride[i] != stride) return false;
        stride *= b->dim[i];
    }
    return true;
}

bool cpu_image(const struct layout *layout, struct cpu_image *out) {
    struct dnn_blocks b;
    if (layout->type.shape.rank < 2 || !cpu_md(layout) || !dnn_md_blocks(cpu_md(layout), &b))
        return false;
    if (b.rank != layout->type.shape.rank || b.inner_count > 1) return false;
    const struct shape *shape = &layout->type.shape;
    struct cpu_image image = {.batch = b.dim[0], .channels = b.dim[1]};
    image.pixels = shape_span(shape, 2, shape->rank);
    image.width = shape->rank > 2 ? shape->dim[shape->rank - 1] : 1;
    image.height = image.pixels / image.width;
    if (b.inner_count)
        image.lanes = b.inner_dim[0] == 1 ? b.inner_size[0] : 0;
    else
        image.lanes = layout->plain ? 1 : b.dim[1];
    image.channels_last = !b.inner_count && !layout->plain;
    if (image.lanes == 0 || !pixels_dense(&b, image.lanes)) return false;
    image.blocks = b.padded[1] / image.lanes;
    if (image.batch != 1 && b.stride[0] != image.blocks * image.pixels * image.lanes) return false;
    if (image.blocks > 1 && b.stride[1] != image.pixels * image.lanes) return false;
    if (!b.inner_count && image.lanes > 1 && b.stride[1] != 1) return false;
    *out = image;
    return true;
}

void cpu_layouts_free(struct cpu_device *device) {
    while (device->layouts) {
        struct cpu_layout *next = device->layouts->next;
        dnn_md_free(device->layouts->md);
        free(device->layouts);
        device->layouts = next;
    }
}
