/* Winograd's F(4x4,3x3) of our own, where oneDNN has none (version 3, or without AVX-512).
 *
 * A 4x4 tile of the output needs a 6x6 tile of the input. Both are polynomials' values at six
 * points (0, +-a, +-b, infinity): transforming the input tile, transforming the weights once,
 * multiplying point by point and transforming back takes 36 multiplications where the direct method
 * takes 144. The products over channels at one point are a matrix product [tiles, C] [C, O], so the
 * middle is a batched matmul of 36 by oneDNN.
 *
 * Points 3/4 and 3/2 keep the rounding error at half of what the usual 1 and 2 give (7e-7 of the
 * rms against 16e-7 with 64 channels); all their powers are exact. Images go through in groups
 * small enough for the cache. The gradient of the input is the same convolution with the weights
 * turned round; the gradient of the weights sums V'Y over the tiles, with dy brought to the six
 * points by the transpose of the way back. Weights are kept as [kh,kw,C,O], so that vectors run
 * along O. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/clones.h"

enum { TILE = 4, WINDOW = 6, POINTS = WINDOW * WINDOW, WIDE = 16, GROUP_BYTES = 2 << 20 };

#define A 0.75f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)
#define GA (1.0f / (2.0f * AA * (AA - BB)))
#define GB (1.0f / (2.0f * BB * (BB - AA)))
#define G0 (1.0f / (AA * BB))

/* Sixteen channels of one pixel; with blocks of eight, those of two neighbouring blocks. */
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));

/* One direction's view: a source image brought to the points, and what comes out. */
struct winograd {
    struct cpu_image from, to; /* forward x, y; backward data dy, dx; backward weights x, dy */
    int64_t rows, columns;     /* tiles of an image */
    int64_t pad[2], group, tiles;
    float *u, *v, *m; /* [36][C][O], [36][tiles][C], [36][tiles][O], C and O of this direction */
};

/* --- one-dimensional transforms: n vectors of 6, 4 or 3 elements a step apart --- */

#define LINE static inline __attribute__((always_inline)) void

/* B': window to points; may be done in place. */
LINE to_points(const vec *d, int step, vec *p) {
    vec even = d[4 * step] - BB * d[2 * step], odd = A * (d[3 * step] - BB * d[step]);
    vec even_b = d[4 * step] - AA * d[2 * step], odd_b = B * (d[3 * step] - AA * d[step]);
    vec first = AA * BB * d[0] - (AA + BB) * d[2 * step] + d[4 * step];
    vec last = AA * BB * d[step] - (AA + BB) * d[3 * step] + d[5 * step];
    p[0] = first;
    p[step] = even + odd;
    p[2 * step] = even - odd;
    p[3 * step] = even_b + odd_b;
    p[4 * step] = even_b - odd_b;
    p[5 * step] = last;
}

/* A': points to the four outputs. */
LINE from_points(const vec *p, int step, vec *y, int y_step) {
    vec sum = p[step] + p[2 * step], difference = p[step] - p[2 * step];
    vec sum_b = p[3 * step] + p[4 * step], difference_b = p[3 * step] - p[4 * step];
    y[0] = p[0] + sum + sum_b;
    y[y_step] = A * difference + B * difference_b;
    y[2 * y_step] = AA * sum + BB * sum_b;
    y[3 * y_step] = AA * A * difference + BB * B * difference_b + p[5 * step];
}

/* A, its transpose: four outputs' gradients to points. */
LINE spread(const vec *y, int y_step, vec *p, int step) {
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
LINE weights_to_points(const vec *w, int w_step, vec *p, int step) {
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
LINE points_to_weights(const vec *p, int step, vec *w, int w_step) {
    vec sum = GA * (p[step] + p[2 * step]), sum_b = GB * (p[3 * step] + p[4 * step]);
    vec difference = GA * A * (p[step] - p[2 * step]);
    vec difference_b = GB * B * (p[3 * step] - p[4 * step]);
    w[0] = G0 * p[0] + sum + sum_b;
    w[w_step] = difference + difference_b;
    w[2 * w_step] = AA * sum + BB * sum_b + p[5 * step];
}

/* --- images --- */

/* Sixteen channels, or zeros outside the image. */
LINE load(const float *at, int64_t half_step, bool inside, vec *out) {
    vec value = {0};
    if (inside) {
        memcpy(&value, at, 32);
        memcpy((char *)&value + 32, at + half_step, 32);
    }
    *out = value;
}

LINE store(float *at, int64_t half_step, const vec *value) {
    memcpy(at, value, 32);
    memcpy(at + half_step, (const char *)value + 32, 32);
}

/* Floats from the first eight of sixteen channels to the second eight; from one sixteen to the
 * next. */
static int64_t half_step(const struct cpu_image *image) {
    return image->lanes == 16 ? 8 : image->pixels * 8;
}

static int64_t group_step(const struct cpu_image *image) {
    return image->pixels * WIDE;
}

/* Where tile `tile` of the group lies: image and upper left output pixel. */
struct corner {
    int64_t image, row, column;
};

static struct corner corner_of(const struct winograd *w, int64_t tile) {
    int64_t inside = tile % (w->rows * w->columns);
    return (struct corner){tile / (w->rows * w->columns), inside / w->columns * TILE,
                           inside % w->columns * TILE};
}

/* Reads a tile's 6x6 window for sixteen channels, zero outside the image. */
LINE read_window(const struct cpu_image *image, const float *from, int64_t row, int64_t column,
                 vec d[POINTS]) {
    int64_t half = half_step(image), lanes = image->lanes;
    for (int64_t i = 0; i < WINDOW; i++)
        for (int64_t j = 0; j < WINDOW; j++) {
            int64_t r = row + i, c = column + j;
            bool inside = r >= 0 && r < image->height && c >= 0 && c < image->width;
            load(from + (r * image->width + c) * lanes, half, inside, &d[i * WINDOW + j]);
        }
}

VECTOR_CLONES static void window_to_points(const struct winograd *w, const float *source,
                                           int64_t tile) {
    const struct cpu_image *image = &w->from;
    struct corner at = corner_of(w, tile);
    int64_t C = image->channels;
    source += at.image * image->pixels * C;
    for (int64_t c = 0; c < C; c += WIDE, source += group_step(image)) {
        vec d[POINTS], p[POINTS];
        read_window(image, source, at.row - w->pad[0], at.column - w->pad[1], d);
        for (int j = 0; j < WINDOW; j++) to_points(d + j, WINDOW, d + j);
        for (int i = 0; i < WINDOW; i++) to_points(d + i * WINDOW, 1, p + i * WINDOW);
        for (int k = 0; k < POINTS; k++) *(vec *)(w->v + (k * w->tiles + tile) * C + c) = p[k];
    }
}

VECTOR_CLONES static void points_to_output(const struct winograd *w, float *target,
                                           const float *bias, bool relu, int64_t tile) {
    const struct cpu_image *image = &w->to;
    struct corner at = corner_of(w, tile);
    int64_t O = image->channels, half = half_step(image);
    target += at.image * image->pixels * O;
    for (int64_t o = 0; o < O; o += WIDE, target += group_step(image)) {
        vec p[POINTS], t[TILE * WINDOW], y[TILE * TILE],
            add = bias ? *(const vec *)(bias + o) : (vec){0};
        for (int k = 0; k < POINTS; k++)
            p[k] = *(const vec *)(w->m + (k * w->tiles + tile) * O + o);
        for (int j = 0; j < WINDOW; j++) from_points(p + j, WINDOW, t + j, WINDOW);
        for (int i = 0; i < TILE; i++) from_points(t + i * WINDOW, 1, y + i * TILE, 1);
        for (int64_t i = 0; i < TILE && at.row + i < image->height; i++)
            for (int64_t j = 0; j < TILE && at.column + j < image->width; j++) {
                vec value = y[i * TILE + j] + add;
                for (int l = 0; relu && l < WIDE; l++) value[l] = value[l] < 0.0f ? 0.0f : value[l];
                store(target + ((at.row + i) * image->width + at.column + j) * image->lanes, half,
                      &value);
            }
    }
}

/* dy to points, for the gradient of the weights. */
VECTOR_CLONES static void output_to_points(const struct winograd *w, const float *source,
                                           int64_t tile) {
    const struct cpu_image *image = &w->to;
    struct corner at = corner_of(w, tile);
    int64_t O = image->channels, half = half_step(image);
    source += at.image * image->pixels * O;
    for (int64_t o = 0; o < O; o += WIDE, source += group_step(image)) {
        vec y[TILE * TILE], t[WINDOW * TILE], p[POINTS];
        for (int64_t i = 0; i < TILE; i++)
            for (int64_t j = 0; j < TILE; j++) {
                int64_t r = at.row + i, c = at.column + j;
                bool inside = r < image->height && c < image->width;
                load(source + (r * image->width + c) * image->lanes, half, inside,
                     &y[i * TILE + j]);
            }
        for (int j = 0; j < TILE; j++) spread(y + j, TILE, t + j, TILE);
        for (int i = 0; i < WINDOW; i++) spread(t + i * TILE, 1, p + i * WINDOW, 1);
        for (int k = 0; k < POINTS; k++) *(vec *)(w->m + (k * w->tiles + tile) * O + o) = p[k];
    }
}

/* --- weights, [kh,kw,C,O] --- */

/* Row c of U[36][C][O]; `turned` rotates the kernel by half a turn. */
VECTOR_CLONES static void weight_row(const float *weights, int64_t C, int64_t O, int64_t c,
                                     bool turned, float *u) {
    for (int64_t o = 0; o < O; o += WIDE) {
        vec w[9], t[WINDOW * 3], p[POINTS];
        for (int k = 0; k < 9; k++)
            w[k] = *(const vec *)(weights + ((turned ? 8 - k : k) * C + c) * O + o);
        for (int j = 0; j < 3; j++) weights_to_points(w + j, 3, t + j, 3);
        for (int i = 0; i < WINDOW; i++) weights_to_points(t + i * 3, 1, p + i * WINDOW, 1);
        for (int k = 0; k < POINTS; k++) *(vec *)(u + (k * C + c) * O + o) = p[k];
    }
}

VECTOR_CLONES static void weight_row_bwd(const float *u, int64_t C, int64_t O, int64_t c,
                                         float *weights) {
    for (int64_t o = 0; o < O; o += WIDE) {
        vec w[9], t[3 * WINDOW], p[POINTS];
        for (int k = 0; k < POINTS; k++) p[k] = *(const vec *)(u + (k * C + c) * O + o);
        for (int j = 0; j < WINDOW; j++) points_to_weights(p + j, WINDOW, t + j, WINDOW);
        for (int i = 0; i < 3; i++) points_to_weights(t + i * WINDOW, 1, w + i * 3, 1);
        for (int k = 0; k < 9; k++) *(vec *)(weights + (k * C + c) * O + o) = w[k];
    }
}

/* --- kernels --- */

static int64_t tiles_across(int64_t size) {
    return (size + TILE - 1) / TILE;
}

static int64_t weight_floats(const struct winograd *w) {
    return POINTS * w->from.channels * w->to.channels;
}

/* Images in a group: the largest divisor of the batch whose points fit the cache, or twice the
 * transformed weights where those are larger: they are read once a group. */
static int64_t group_of(const struct winograd *w) {
    int64_t channels = w->from.channels + w->to.channels, group = 1;
    int64_t bytes = POINTS * w->rows * w->columns * channels * (int64_t)sizeof(float);
    int64_t limit = 2 * weight_floats(w) * (int64_t)sizeof(float);
    if (limit < GROUP_BYTES) limit = GROUP_BYTES;
    for (int64_t g = 1; g <= w->from.batch; g++)
        if (w->from.batch % g == 0 && g * bytes <= limit) group = g;
    return group;
}

static struct winograd winograd_of(const struct cpu_kernel *kernel, float *scratch) {
    const struct op_call *call = &kernel->call;
    struct winograd w = {.from = kernel->image, .to = kernel->image_out};
    bool turned = call->op == OP_CONV2D_BWD_DATA;
    for (int i = 0; i < 2; i++)
        w.pad[i] = turned ? 2 - call->attrs.conv.pad[i] : call->attrs.conv.pad[i];
    w.rows = tiles_across(w.to.height);
    w.columns = tiles_across(w.to.width);
    w.group = group_of(&w);
    w.tiles = w.group * w.rows * w.columns;
    w.u = scratch;
    w.v = w.u + weight_floats(&w);
    w.m = w.v + POINTS * w.tiles * w.from.channels;
    return w;
}

static enum status run_winograd(const struct cpu_kernel *kernel, void *const in[],
                                void *const out[], void *scratch) {
    struct winograd w = winograd_of(kernel, scratch);
    bool turned = kernel->call.op == OP_CONV2D_BWD_DATA,
         relu = kernel->call.attrs.activation == ACTIVATION_RELU;
    const float *bias = !turned && kernel->call.in_count == 3 ? in[2] : NULL;
    int64_t C = turned ? w.to.channels : w.from.channels,
            O = turned ? w.from.channels : w.to.channels;
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < C; c++) weight_row(in[1], C, O, c, turned, w.u);
    for (int64_t n = 0; n < w.from.batch; n += w.group) {
        const float *source = (const float *)in[0] + n * w.from.pixels * w.from.channels;
        float *target = (float *)out[0] + n * w.to.pixels * w.to.channels;
#pragma omp parallel for schedule(static)
        for (int64_t t = 0; t < w.tiles; t++) window_to_points(&w, source, t);
        TRY(cpu_run_inner(kernel, in, out, scratch));
#pragma omp parallel for schedule(static)
        for (int64_t t = 0; t < w.tiles; t++)
            points_to_output(&w, target, bias, !turned && relu, t);
    }
    return STATUS_OK;
}

static enum status run_winograd_weight(const struct cpu_kernel *kernel, void *const in[],
                                       void *const out[], void *scratch) {
    struct winograd w = winograd_of(kernel, scratch);
    int64_t C = w.from.channels, O = w.to.channels;
    memset(w.u, 0, (size_t)weight_floats(&w) * sizeof(float));
    for (int64_t n = 0; n < w.from.batch; n += w.group) {
        const float *x = (const float *)in[0] + n * w.from.pixels * C;
        const float *dy = (const float *)in[1] + n * w.to.pixels * O;
#pragma omp parallel for schedule(static)
        for (int64_t t = 0; t < w.tiles; t++) {
            window_to_points(&w, x, t);
            output_to_points(&w, dy, t);
        }
        TRY(cpu_run_inner(kernel, in, out, scratch));
    }
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < C; c++) weight_row_bwd(w.u, C, O, c, out[0]);
    return STATUS_OK;
}

/* 36 matrices [rows, columns], or their transposes as they are stored. */
static const struct dnn_md *matrices(int64_t rows, int64_t columns, bool transposed) {
    int64_t dim[] = {POINTS, rows, columns};
    int64_t stride[] = {rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
    return dnn_md_new(DTYPE_F32, 3, dim, stride);
}

/* The matmul in the middle: M = V U, or for the gradient of the weights U += V' M. */
static enum status create_product(struct cpu_kernel *kernel, const struct winograd *w) {
    int64_t C = w->from.channels, O = w->to.channels;
    size_t u = 0, v = (size_t)weight_floats(w) * sizeof(float);
    size_t m = v + (size_t)(POINTS * w->tiles * C) * sizeof(float);
    struct dnn_spec spec = {.kind = DNN_MATMUL};
    struct cpu_bind bind[] = {{DNNL_ARG_SRC, CPU_SCRATCH, 0, v},
                              {DNNL_ARG_WEIGHTS, CPU_SCRATCH, 0, u},
                              {DNNL_ARG_DST, CPU_SCRATCH, 0, m}};
    if (kernel->call.op == OP_CONV2D_BWD_WEIGHT) {
        spec.accumulate = true;
        spec.src = matrices(C, w->tiles, true);
        spec.weights = matrices(w->tiles, O, false);
        spec.dst = matrices(C, O, false);
        bind[1].offset_bytes = m;
        bind[2].offset_bytes = u;
    } else {
        spec.src = matrices(w->tiles, C, false);
        spec.weights = matrices(C, O, kernel->call.op == OP_CONV2D_BWD_DATA);
        spec.dst = matrices(w->tiles, O, false);
    }
    enum status status = cpu_step(kernel, &spec, 3, bind);
    dnn_md_free(spec.src);
    dnn_md_free(spec.weights);
    dnn_md_free(spec.dst);
    return status;
}

/* Images in blocks of as many channels as a vector has, weights as [kh,kw,C,O]. */
static const struct layout *image_layout(struct cpu_kernel *kernel,
                                         const struct tensor_type *type) {
    struct cpu_image blocks = {.lanes = cpu_has_avx512() ? 16 : 8};
    return cpu_layout_like(cpu_device_of(kernel), type, &blocks);
}

static const struct layout *weight_layout(struct cpu_kernel *kernel,
                                          const struct tensor_type *type) {
    int64_t O = type->shape.dim[0], C = type->shape.dim[1], stride[] = {1, O, 3 * C * O, C * O};
    const struct dnn_md *md = dnn_md_new(DTYPE_F32, 4, type->shape.dim, stride);
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
    base->in[0] = image_layout(kernel, &call->in[0]);
    base->in[1] = weight ? image_layout(kernel, &call->in[1]) : weight_layout(kernel, &call->in[1]);
    base->out[0] =
        weight ? weight_layout(kernel, &call->out[0]) : image_layout(kernel, &call->out[0]);
    cpu_image(base->in[0], &kernel->image);
    cpu_image(weight ? base->in[1] : base->out[0], &kernel->image_out);
    struct winograd w = winograd_of(kernel, NULL);
    int64_t floats = weight_floats(&w) + POINTS * w.tiles * (w.from.channels + w.to.channels);
    cpu_scratch(kernel, (size_t)floats * sizeof(float));
    TRY(create_product(kernel, &w));
    cpu_name(kernel, "winograd:%s", cpu_has_avx512() ? "16" : "8");
    kernel->inner = true;
    cpu_step_outer(kernel, weight ? run_winograd_weight : run_winograd);
    return STATUS_OK;
}
