/* Winograd's F(4x4,3x3): what its files share (winograd.c says how it works).
 *
 * winograd_points.c brings images and weights to the points and back, winograd.c has forward and
 * the gradient of the input, winograd_weight.c the gradient of the weights. */
#ifndef BACKEND_CPU_WINOGRAD_H
#define BACKEND_CPU_WINOGRAD_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/product.h"
#include "backend/cpu/tiling.h"

enum {
    TILE = 4,
    WINDOW = 6,
    POINTS = WINDOW * WINDOW,
    WIDE = CPU_PRODUCT_WIDE,
    TAPS = 9,
    BLOCK = WIDE * WIDE, /* a tap or a point of 16 by 16 channels */
    U_PITCH = WIDE + 1,  /* rows between points: odd, as the pitch below */
    DEPTH_BLOCKS = 2,    /* blocks of weights that are made at once */
    STRIP_TILES = 64,
    BLOCK_FLOATS = POINTS * U_PITCH * WIDE /* of a block of weights at the points */
};

/* One direction's view: a source image brought to the points, and what comes out. Tiles are
 * numbered through the batch and go through in strips. Where there are enough of them, each thread
 * has strips of its own; otherwise the team does `abreast` of them at a time, so that all find work
 * (winograd_weight.c says how the gradient of the weights does). At the points 16 channels of a
 * strip lie together: [36][pitch][16]. */
struct winograd {
    struct cpu_image from, to; /* forward x, y; backward data dy, dx; backward weights x, dy */
    int64_t rows, columns;     /* tiles of an image */
    int64_t pad[2];
    int64_t tiles, strip, strips, abreast;
    bool apart;    /* a thread has strips of its own */
    int64_t pitch; /* odd, so that a tile's points fall into different cache sets */
    int threads;   /* of the device: scratch is for so many, whatever thread runs the kernel */
    cpu_product_loop *product;
};

/* What comes of the points, with bias and relu. */
struct finish {
    const float *bias; /* or NULL */
    bool relu;
};

static inline int64_t blocks_of(const struct cpu_image *image) {
    return image->channels / WIDE;
}

/* Floats of sixteen channels of a strip at the points. */
static inline int64_t strip_floats(const struct winograd *w) {
    return POINTS * w->pitch * WIDE;
}

/* Tiles of a strip, the last one of which may be shorter; none behind it. */
static inline int64_t strip_count(const struct winograd *w, int64_t strip) {
    int64_t rest = w->tiles - strip * w->strip;
    return rest < 0 ? 0 : least(rest, w->strip);
}

/* Local. The sizes of a call in any direction. */
struct winograd winograd_of(const struct cpu_kernel *kernel);

/* Local. Sixteen channels of `count` tiles from `first` on, to v[36][pitch][16]. */
void winograd_windows_to_points(const struct winograd *w, const float *source, int64_t block,
                                int64_t first, int64_t count, float *v);
/* Local. And from there to the output. */
void winograd_points_to_outputs(const struct winograd *w, float *target,
                                const struct finish *finish, int64_t block, int64_t first,
                                int64_t count, const float *m);
/* Local. dy to points, for the gradient of the weights. */
void winograd_outputs_to_points(const struct winograd *w, const float *source, int64_t block,
                                int64_t first, int64_t count, float *m);
/* Local. A block of weights [3][3][16 of C][16 of O] at the points: [36][16][16], with a row of
 * room between points; and back, for gradients. */
void winograd_weights_to_block(const float *weights, float *u);
void winograd_block_to_weights(const float *u, float *weights);
/* Local. A block with the kernel rotated by half a turn and its channels exchanged. */
void winograd_turn_block(const float *weights, float *turned);

/* Local. The gradient of the weights, and the floats of scratch that it needs. */
cpu_loop winograd_weight;
int64_t winograd_weight_floats(const struct cpu_kernel *kernel);

#endif
