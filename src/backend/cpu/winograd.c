/* Winograd's F(4x4,3x3) of our own.
 *
 * A 4x4 tile of the output needs a 6x6 tile of the input. Both are polynomials' values at six
 * points (0, +-a, +-b, infinity): transforming the input tile, transforming the weights,
 * multiplying point by point and transforming back takes 36 multiplications where the direct method
 * takes 144. The products over channels at one point are a matrix product [tiles, C] [C, O].
 *
 * Points 3/4 and 3/2 keep the rounding error at half of what the usual 1 and 2 give (7e-7 of the
 * rms against 16e-7 with 64 channels); all their powers are exact. The gradient of the input is the
 * same convolution with the weights turned round; the gradient of the weights sums V'Y over the
 * tiles, with dy brought to the six points by the transpose of the way back.
 *
 * Transformed weights are four times as large as the weights, and with many channels larger than
 * any cache. So they are never written to memory: a block of them (32 channels of the input by 16
 * of the output) is made in the cache, multiplied at once with all tiles of a strip, and made again
 * for the next strip, which takes no longer than reading it would. So few tiles (a small
 * micro-batch) cost little more a tile than many.
 *
 * The transforms may join a multiplication and an addition, other than all else here: one rounding
 * less each, which keeps the error under four times that of the direct method where padding makes
 * up much of a tile (4x4 images). */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#include <omp.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/product.h"
#include "base/clones.h"

enum {
    TILE = 4,
    WINDOW = 6,
    POINTS = WINDOW * WINDOW,
    WIDE = CPU_PRODUCT_WIDE,
    TAPS = 9,
    BLOCK = WIDE * WIDE, /* a tap or a point of 16 by 16 channels */
    U_PITCH = WIDE + 1,  /* rows between points: odd, as the pitch below */
    DEPTH_BLOCKS = 2,    /* blocks of weights that are made at once */
    STRIP_TILES = 64
};

#define A 0.75f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)
#define GA (1.0f / (2.0f * AA * (AA - BB)))
#define GB (1.0f / (2.0f * BB * (BB - AA)))
#define G0 (1.0f / (AA * BB))

/* Sixteen channels of one pixel; with blocks of eight, those of two neighbouring blocks. */
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));

/* One direction's view: a source image brought to the points, and what comes out. Tiles are
 * numbered through the batch and go through in strips. Where there are enough of them, each thread
 * has strips of its own; otherwise, and for the gradient of the weights, whose sums go through the
 * strips in order, the team does `abreast` of them at a time, so that all find work. At the points
 * 16 channels of a strip lie together: [36][pitch][16]. */
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

/* --- one-dimensional transforms: n vectors of 6, 4 or 3 elements a step apart --- */

/* Arrays of vectors stay in registers where the loops over them are unrolled. */
#define UNROLLED _Pragma("GCC unroll 16")

#define LINE static inline __attribute__((always_inline)) void

/* B': window to points; may be done in place. */
LINE to_points(const vec *d, int step, vec *p, int64_t p_step) {
    vec even = d[4 * step] - BB * d[2 * step], odd = A * (d[3 * step] - BB * d[step]);
    vec even_b = d[4 * step] - AA * d[2 * step], odd_b = B * (d[3 * step] - AA * d[step]);
    vec first = AA * BB * d[0] - (AA + BB) * d[2 * step] + d[4 * step];
    vec last = AA * BB * d[step] - (AA + BB) * d[3 * step] + d[5 * step];
    p[0] = first;
    p[p_step] = even + odd;
    p[2 * p_step] = even - odd;
    p[3 * p_step] = even_b + odd_b;
    p[4 * p_step] = even_b - odd_b;
    p[5 * p_step] = last;
}

/* A': points to the four outputs. */
LINE from_points(const vec *p, int64_t step, vec *y, int y_step) {
    vec sum = p[step] + p[2 * step], difference = p[step] - p[2 * step];
    vec sum_b = p[3 * step] + p[4 * step], difference_b = p[3 * step] - p[4 * step];
    y[0] = p[0] + sum + sum_b;
    y[y_step] = A * difference + B * difference_b;
    y[2 * y_step] = AA * sum + BB * sum_b;
    y[3 * y_step] = AA * A * difference + BB * B * difference_b + p[5 * step];
}

/* A, its transpose: four outputs' gradients to points. */
LINE spread(const vec *y, int y_step, vec *p, int64_t step) {
    vec even = y[0] + AA * y[2 * y_step], odd = A * (y[y_step] + AA * y[3 * y_step]);
    vec even_b = y[0] + BB * y[2 * y_step], odd_b = B * (y[y_step] + BB * y[3 * y_step]);
    vec last = y[3 * y_step];
    p[0] = y[0];
    p[step] = even + odd;
    p[2 * step] = even - odd;
    p[3 * step] = even_b + odd_b;
    p[4 * step] = even_b - odd_b;
    p[5 * step] = last;
}

/* G: three weights to points. */
LINE weights_to_points(const vec *w, int w_step, vec *p, int64_t step) {
    vec even = GA * (w[0] + AA * w[2 * w_step]), odd = GA * A * w[w_step];
    vec even_b = GB * (w[0] + BB * w[2 * w_step]), odd_b = GB * B * w[w_step];
    p[0] = G0 * w[0];
    p[step] = even + odd;
    p[2 * step] = even - odd;
    p[3 * step] = even_b + odd_b;
    p[4 * step] = even_b - odd_b;
    p[5 * step] = w[2 * w_step];
}

/* G': points' gradients to those of the three weights. */
LINE points_to_weights(const vec *p, int64_t step, vec *w, int w_step) {
    vec sum = GA * (p[step] + p[2 * step]), sum_b = GB * (p[3 * step] + p[4 * step]);
    vec difference = GA * A * (p[step] - p[2 * step]);
    vec difference_b = GB * B * (p[3 * step] - p[4 * step]);
    w[0] = G0 * p[0] + sum + sum_b;
    w[w_step] = difference + difference_b;
    w[2 * w_step] = AA * sum + BB * sum_b + p[5 * step];
}

/* --- images --- */

/* Sixteen channels; the second eight lie half_step floats behind the first. */
LINE load(const float *at, int64_t half_step, vec *out) {
    memcpy(out, at, 32);
    memcpy((char *)out + 32, at + half_step, 32);
}

LINE store(float *at, int64_t half_step, const vec *value) {
    memcpy(at, value, 32);
    memcpy(at + half_step, (const char *)value + 32, 32);
}

/* Floats from the first eight of sixteen channels to the second eight. */
static int64_t half_step(const struct cpu_image *image) {
    return image->lanes == 16 ? 8 : image->pixels * 8;
}

/* Where a tile lies: image and upper left output pixel. */
struct corner {
    int64_t image, row, column;
};

static struct corner corner_of(const struct winograd *w, int64_t tile) {
    int64_t inside = tile % (w->rows * w->columns);
    return (struct corner){tile / (w->rows * w->columns), inside / w->columns * TILE,
                           inside % w->columns * TILE};
}

/* Where sixteen channels of an image begin. */
static int64_t channels_at(const struct cpu_image *image, int64_t number, int64_t block) {
    return (number * image->channels + block * WIDE) * image->pixels;
}

/* Reads size by size pixels of sixteen channels, zero outside the image. */
LINE read_square(const struct cpu_image *image, const float *from, int64_t row, int64_t column,
                 int size, vec *d) {
    int64_t half = half_step(image), lanes = image->lanes, H = image->height, W = image->width;
    from += (row * W + column) * lanes;
    if (row >= 0 && column >= 0 && row + size <= H && column + size <= W) {
        if (lanes == WIDE)
            for (int i = 0; i < size; i++)
                memcpy(d + i * size, from + i * W * WIDE, (size_t)size * sizeof *d);
        else
            for (int i = 0; i < size; i++)
                for (int j = 0; j < size; j++)
                    load(from + (i * W + j) * lanes, half, &d[i * size + j]);
        return;
    }
    memset(d, 0, (size_t)(size * size) * sizeof *d);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size && row + i >= 0 && row + i < H; j++)
            if (column + j >= 0 && column + j < W)
                load(from + (i * W + j) * lanes, half, &d[i * size + j]);
}

/* Sixteen channels of `count` tiles from `first` on, to v[36][pitch][16]. */
FUSED_CLONES static void windows_to_points(const struct winograd *w, const float *source,
                                           int64_t block, int64_t first, int64_t count, float *v) {
    for (int64_t t = 0; t < count; t++) {
        vec d[POINTS], *p = (vec *)v + t;
        struct corner at = corner_of(w, first + t);
        read_square(&w->from, source + channels_at(&w->from, at.image, block), at.row - w->pad[0],
                    at.column - w->pad[1], WINDOW, d);
        UNROLLED
        for (int j = 0; j < WINDOW; j++) to_points(d + j, WINDOW, d + j, WINDOW);
        UNROLLED
        for (int i = 0; i < WINDOW; i++)
            to_points(d + i * WINDOW, 1, p + i * WINDOW * w->pitch, w->pitch);
    }
}

/* What comes of the points, with bias and relu. */
struct finish {
    const float *bias; /* or NULL */
    bool relu;
};

FUSED_CLONES static void points_to_outputs(const struct winograd *w, float *target,
                                           const struct finish *finish, int64_t block,
                                           int64_t first, int64_t count, const float *m) {
    const struct cpu_image *image = &w->to;
    int64_t half = half_step(image);
    vec add = finish->bias ? *(const vec *)(finish->bias + block * WIDE) : (vec){0};
    for (int64_t t = 0; t < count; t++) {
        const vec *p = (const vec *)m + t;
        vec turned[TILE * WINDOW], y[TILE * TILE];
        struct corner at = corner_of(w, first + t);
        float *to = target + channels_at(image, at.image, block);
        UNROLLED
        for (int j = 0; j < WINDOW; j++)
            from_points(p + j * w->pitch, WINDOW * w->pitch, turned + j, WINDOW);
        UNROLLED
        for (int i = 0; i < TILE; i++) from_points(turned + i * WINDOW, 1, y + i * TILE, 1);
        for (int64_t i = 0; i < TILE && at.row + i < image->height; i++)
            for (int64_t j = 0; j < TILE && at.column + j < image->width; j++) {
                vec value = y[i * TILE + j] + add;
                for (int l = 0; finish->relu && l < WIDE; l++)
                    value[l] = value[l] < 0.0f ? 0.0f : value[l];
                store(to + ((at.row + i) * image->width + at.column + j) * image->lanes, half,
                      &value);
            }
    }
}

/* dy to points, for the gradient of the weights. */
FUSED_CLONES static void outputs_to_points(const struct winograd *w, const float *source,
                                           int64_t block, int64_t first, int64_t count, float *m) {
    for (int64_t t = 0; t < count; t++) {
        vec y[TILE * TILE], turned[WINDOW * TILE], *p = (vec *)m + t;
        struct corner at = corner_of(w, first + t);
        read_square(&w->to, source + channels_at(&w->to, at.image, block), at.row, at.column, TILE,
                    y);
        UNROLLED
        for (int j = 0; j < TILE; j++) spread(y + j, TILE, turned + j, TILE);
        UNROLLED
        for (int i = 0; i < WINDOW; i++)
            spread(turned + i * TILE, 1, p + i * WINDOW * w->pitch, w->pitch);
    }
}

/* --- weights: blocks [3][3][16 of C][16 of O], those of one sixteen of O together --- */

static int64_t blocks_of(const struct cpu_image *image) {
    return image->channels / WIDE;
}

/* A block at the points: [36][16][16], with a row of room between points. */
FUSED_CLONES static void weights_to_block(const float *weights, float *u) {
    for (int c = 0; c < WIDE; c++) {
        vec w[TAPS], t[WINDOW * 3], *p = (vec *)u + c;
        UNROLLED
        for (int k = 0; k < TAPS; k++) w[k] = ((const vec *)(weights + k * BLOCK))[c];
        UNROLLED
        for (int j = 0; j < 3; j++) weights_to_points(w + j, 3, t + j, 3);
        UNROLLED
        for (int i = 0; i < WINDOW; i++)
            weights_to_points(t + i * 3, 1, p + i * WINDOW * U_PITCH, U_PITCH);
    }
}

FUSED_CLONES static void block_to_weights(const float *u, float *weights) {
    for (int c = 0; c < WIDE; c++) {
        const vec *p = (const vec *)u + c;
        vec w[TAPS], t[3 * WINDOW];
        UNROLLED
        for (int j = 0; j < WINDOW; j++)
            points_to_weights(p + j * U_PITCH, WINDOW * U_PITCH, t + j, WINDOW);
        UNROLLED
        for (int i = 0; i < 3; i++) points_to_weights(t + i * WINDOW, 1, w + i * 3, 1);
        UNROLLED
        for (int k = 0; k < TAPS; k++) ((vec *)(weights + k * BLOCK))[c] = w[k];
    }
}

/* Four rounds of interleaving rows i and i + 8 transpose 16 by 16. */
LINE interleave(const vec *from, vec *to) {
    UNROLLED
    for (int i = 0; i < WIDE / 2; i++) {
        vec a = from[i], b = from[i + WIDE / 2];
        to[2 * i] =
            __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        to[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
    }
}

/* A block with the kernel rotated by half a turn and its channels exchanged. */
FUSED_CLONES static void turn_block(const float *weights, float *turned) {
    for (int k = 0; k < TAPS; k++) {
        vec a[WIDE], b[WIDE];
        interleave((const vec *)(weights + (TAPS - 1 - k) * BLOCK), a);
        interleave(a, b);
        interleave(b, a);
        interleave(a, (vec *)(turned + k * BLOCK));
    }
}

/* --- kernels --- */

static int64_t tiles_across(int64_t size) {
    return (size + TILE - 1) / TILE;
}

/* Floats of sixteen channels of a strip at the points; of a block of weights there. */
static int64_t strip_floats(const struct winograd *w) {
    return POINTS * w->pitch * WIDE;
}

enum { BLOCK_FLOATS = POINTS * U_PITCH * WIDE };

static struct winograd winograd_of(const struct cpu_kernel *kernel) {
    const struct op_call *call = &kernel->call;
    struct winograd w = {.from = kernel->image, .to = kernel->image_out, .abreast = 1};
    bool turned = call->op == OP_CONV2D_BWD_DATA;
    for (int i = 0; i < 2; i++)
        w.pad[i] = turned ? 2 - call->attrs.conv.pad[i] : call->attrs.conv.pad[i];
    w.rows = tiles_across(w.to.height);
    w.columns = tiles_across(w.to.width);
    w.tiles = w.to.batch * w.rows * w.columns;
    w.strips = (w.tiles + STRIP_TILES - 1) / STRIP_TILES;
    w.strip = (w.tiles + w.strips - 1) / w.strips;
    w.pitch = w.strip | 1;
    w.threads = kernel->base.device->threads;
    bool weight = call->op == OP_CONV2D_BWD_WEIGHT;
    w.apart = !weight && (w.strips % w.threads == 0 || w.strips >= 4 * w.threads);
    int64_t blocks = blocks_of(&w.to) + (weight ? blocks_of(&w.from) : 0),
            wanted = weight ? 2 * w.threads : w.threads; /* blocks a phase */
    w.abreast = w.apart || w.threads == 1 ? w.threads : (wanted + blocks - 1) / blocks;
    if (w.abreast > w.strips && !w.apart) w.abreast = w.strips;
    w.product = cpu_product_of();
    return w;
}

/* Tiles of a strip, the last one of which may be shorter; none behind it. */
static int64_t strip_count(const struct winograd *w, int64_t strip) {
    int64_t rest = w->tiles - strip * w->strip;
    return rest < 0 ? 0 : rest < w->strip ? rest : w->strip;
}

/* Forward and the gradient of the input: scratch is v[abreast][C/16], then for each thread u and m.
 */
struct pass {
    struct winograd w;
    const float *source, *weights;
    float *target, *v, *own;
    struct finish finish;
    bool turned;
};

static int64_t own_floats(const struct winograd *w) {
    return (DEPTH_BLOCKS + 1) * BLOCK_FLOATS + strip_floats(w);
}

static const float *block_of(const struct pass *pass, int64_t in, int64_t out) {
    int64_t C = blocks_of(pass->turned ? &pass->w.to : &pass->w.from);
    return pass->weights + (pass->turned ? in * C + out : out * C + in) * TAPS * BLOCK;
}

/* One block of weights at the points, by way of `near`: of it nine lines 1 KiB apart are read at a
 * time, which is slow from memory. */
static void make_block(const struct pass *pass, int64_t in, int64_t out, float *near, float *u) {
    const float *block = block_of(pass, in, out);
    if (pass->turned)
        turn_block(block, near);
    else
        memcpy(near, block, TAPS * BLOCK * sizeof(float));
    weights_to_block(near, u);
}

/* The weights that are needed next come from memory: they are on their way while the points are
 * multiplied, a share at each. */
static void fetch_share(const struct pass *pass, int64_t in, int64_t out, int64_t point) {
    enum { LINES = TAPS * BLOCK / WIDE / POINTS };
    for (int64_t b = in; b < in + DEPTH_BLOCKS && b < blocks_of(&pass->w.from); b++) {
        const float *share = block_of(pass, b, out) + point * LINES * WIDE;
        for (int i = 0; i < LINES; i++) __builtin_prefetch(share + i * WIDE);
    }
}

/* Sixteen output channels of a strip whose source is at the points. */
static void strip_out(const struct pass *pass, const float *v, int64_t strip, int64_t out) {
    const struct winograd *w = &pass->w;
    int64_t count = strip_count(w, strip), blocks = blocks_of(&w->from);
    float *u = pass->own + omp_get_thread_num() * own_floats(w),
          *near = u + DEPTH_BLOCKS * BLOCK_FLOATS, *m = near + BLOCK_FLOATS;
    for (int64_t in = 0; in < blocks; in += DEPTH_BLOCKS) {
        int64_t depth = blocks - in < DEPTH_BLOCKS ? blocks - in : DEPTH_BLOCKS;
        for (int64_t b = 0; b < depth; b++)
            make_block(pass, in + b, out, near, u + b * BLOCK_FLOATS);
        for (int64_t k = 0; k < POINTS; k++) {
            fetch_share(pass, in + depth, out, k);
            w->product(&(struct cpu_product){.v = v + in * strip_floats(w) + k * w->pitch * WIDE,
                                             .u = u + k * U_PITCH * WIDE,
                                             .m = m + k * w->pitch * WIDE,
                                             .v_step = strip_floats(w),
                                             .u_step = BLOCK_FLOATS,
                                             .blocks = (int)depth,
                                             .depth = WIDE,
                                             .rows = (int)count,
                                             .fresh = in == 0});
        }
    }
    points_to_outputs(w, pass->target, &pass->finish, out, strip * w->strip, count, m);
}

static void run_apart(const struct pass *pass) {
    const struct winograd *w = &pass->w;
    int64_t from = blocks_of(&w->from), to = blocks_of(&w->to);
#pragma omp parallel for num_threads(w->threads) schedule(static)
    for (int64_t strip = 0; strip < w->strips; strip++) {
        float *v = pass->v + omp_get_thread_num() * from * strip_floats(w);
        for (int64_t in = 0; in < from; in++)
            windows_to_points(w, pass->source, in, strip * w->strip, strip_count(w, strip),
                              v + in * strip_floats(w));
        for (int64_t out = 0; out < to; out++) strip_out(pass, v, strip, out);
    }
}

static void run_together(const struct pass *pass) {
    const struct winograd *w = &pass->w;
    int64_t from = blocks_of(&w->from), to = blocks_of(&w->to);
#pragma omp parallel num_threads(w->threads)
    for (int64_t strip = 0; strip < w->strips; strip += w->abreast) {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < w->abreast * from; i++)
            windows_to_points(w, pass->source, i % from, (strip + i / from) * w->strip,
                              strip_count(w, strip + i / from), pass->v + i * strip_floats(w));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < w->abreast * to; i++)
            strip_out(pass, pass->v + i / to * from * strip_floats(w), strip + i / to, i % to);
    }
}

static void run_winograd(const struct cpu_kernel *kernel, void *const in[], void *const out[],
                         void *scratch) {
    struct pass pass = {.w = winograd_of(kernel),
                        .source = in[0],
                        .weights = in[1],
                        .target = out[0],
                        .v = scratch,
                        .turned = kernel->call.op == OP_CONV2D_BWD_DATA};
    const struct winograd *w = &pass.w;
    if (!pass.turned)
        pass.finish = (struct finish){kernel->call.in_count == 3 ? in[2] : NULL,
                                      kernel->call.attrs.activation == ACTIVATION_RELU};
    pass.own = pass.v + w->abreast * blocks_of(&w->from) * strip_floats(w);
    if (w->apart)
        run_apart(&pass);
    else
        run_together(&pass);
}

/* The product of two blocks of a strip at the points, added to the sums. */
static void add_strip(const struct winograd *w, int64_t strip, const float *v, int64_t from,
                      int64_t to, float *sums) {
    for (int64_t k = 0; k < POINTS; k++)
        w->product(&(struct cpu_product){.v = v + from * strip_floats(w) + k * w->pitch * WIDE,
                                         .u = v + to * strip_floats(w) + k * w->pitch * WIDE,
                                         .m = sums + k * U_PITCH * WIDE,
                                         .blocks = 1,
                                         .depth = (int)strip_count(w, strip),
                                         .rows = WIDE,
                                         .turned = true,
                                         .fresh = strip == 0});
}

/* The gradient of the weights: scratch is [abreast] of v[C/16] and y[O/16], and the sums of all
 * blocks, or of one block a thread where all strips go at once. */
static void run_winograd_weight(const struct cpu_kernel *kernel, void *const in[],
                                void *const out[], void *scratch) {
    const struct winograd w = winograd_of(kernel);
    int64_t C = blocks_of(&w.from), O = blocks_of(&w.to), step = strip_floats(&w);
    float *v = scratch, *u = v + w.abreast * (C + O) * step;
#pragma omp parallel num_threads(w.threads)
    for (int64_t strip = 0; strip < w.strips; strip += w.abreast) {
        int64_t end = strip + w.abreast < w.strips ? strip + w.abreast : w.strips;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < (end - strip) * (C + O); i++) {
            int64_t at = strip + i / (C + O), block = i % (C + O), first = at * w.strip,
                    count = strip_count(&w, at);
            if (block < C)
                windows_to_points(&w, in[0], block, first, count, v + i * step);
            else
                outputs_to_points(&w, in[1], block - C, first, count, v + i * step);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < O * C; i++) {
            float *sums = u + (w.abreast == w.strips ? omp_get_thread_num() : i) * BLOCK_FLOATS;
            for (int64_t at = strip; at < end; at++)
                add_strip(&w, at, v + (at - strip) * (C + O) * step, i % C, C + i / C, sums);
            if (end == w.strips) block_to_weights(sums, (float *)out[0] + i * TAPS * BLOCK);
        }
    }
}

static int64_t scratch_floats(const struct cpu_kernel *kernel) {
    struct winograd w = winograd_of(kernel);
    int64_t C = blocks_of(&w.from), O = blocks_of(&w.to);
    if (kernel->call.op == OP_CONV2D_BWD_WEIGHT)
        return w.abreast * (C + O) * strip_floats(&w) +
               (w.abreast == w.strips ? w.threads : C * O) * BLOCK_FLOATS;
    return w.abreast * C * strip_floats(&w) + w.threads * own_floats(&w);
}

/* Images in blocks of as many channels as a vector has, weights in blocks of 16 by 16. */
static const struct layout *image_layout(struct cpu_kernel *kernel,
                                         const struct tensor_type *type) {
    struct cpu_image blocks = {.lanes = cpu_has_avx512() ? 16 : 8};
    return cpu_layout_like(cpu_device_of(kernel), type, &blocks);
}

static const struct layout *weight_layout(struct cpu_kernel *kernel,
                                          const struct tensor_type *type) {
    const struct dnn_md *md = dnn_md_weights(DTYPE_F32, type->shape.dim);
    const struct layout *layout = cpu_layout(cpu_device_of(kernel), type, md);
    dnn_md_free(md);
    return layout;
}

enum status cpu_winograd(struct cpu_kernel *kernel, const struct layout *const in[]) {
    (void)in;
    struct kernel *base = &kernel->base;
    const struct op_call *call = &kernel->call;
    bool weight = call->op == OP_CONV2D_BWD_WEIGHT;
    if (call->attrs.activation == ACTIVATION_TANH || (weight && call->attrs.has_bias))
        return STATUS_NO;
    if (call->in[0].dtype != DTYPE_F32) return STATUS_NO;
    base->in[0] = image_layout(kernel, &call->in[0]);
    base->in[1] = weight ? image_layout(kernel, &call->in[1]) : weight_layout(kernel, &call->in[1]);
    base->out[0] =
        weight ? weight_layout(kernel, &call->out[0]) : image_layout(kernel, &call->out[0]);
    cpu_image(base->in[0], &kernel->image);
    cpu_image(weight ? base->in[1] : base->out[0], &kernel->image_out);
    cpu_scratch(kernel, (size_t)scratch_floats(kernel) * sizeof(float));
    cpu_name(kernel, "winograd:%s", cpu_has_avx512() ? "16" : "8");
    cpu_step_loop(kernel, weight ? run_winograd_weight : run_winograd);
    return STATUS_OK;
}
