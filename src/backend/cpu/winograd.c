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
 * micro-batch) cost little more a tile than many. */
#include "backend/cpu/winograd.h"

#include <string.h>

#include "backend/cpu/team.h"

struct winograd winograd_of(const struct cpu_kernel *kernel) {
    const struct op_call *call = &kernel->call;
    struct winograd w = {.from = kernel->image, .to = kernel->image_out, .abreast = 1};
    bool turned = call->op == OP_CONV2D_BWD_DATA;
    for (int i = 0; i < 2; i++)
        w.pad[i] = turned ? 2 - call->attrs.conv.pad[i] : call->attrs.conv.pad[i];
    w.rows = parts(w.to.height, TILE);
    w.columns = parts(w.to.width, TILE);
    w.tiles = w.to.batch * w.rows * w.columns;
    w.strips = parts(w.tiles, STRIP_TILES);
    w.strip = parts(w.tiles, w.strips);
    w.pitch = w.strip | 1;
    w.threads = kernel->base.device->threads;
    bool weight = call->op == OP_CONV2D_BWD_WEIGHT;
    w.apart = !weight && (w.strips % w.threads == 0 || w.strips >= 4 * w.threads);
    int64_t blocks = blocks_of(&w.to) + (weight ? blocks_of(&w.from) : 0),
            wanted = 4 * w.threads; /* blocks a phase */
    w.abreast = w.apart || w.threads == 1 ? w.threads : parts(wanted, blocks);
    if (w.abreast > w.strips && !w.apart) w.abreast = w.strips;
    w.product = cpu_product_of();
    return w;
}

/* Forward and the gradient of the input: scratch is v[abreast][C/16], then for each thread u and m.
 */
struct pass {
    struct winograd w;
    const float *source, *weights;
    float *target, *v, *own;
    struct finish finish;
    bool turned;
    int64_t strip; /* the first under way, where the team does them together */
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
        winograd_turn_block(block, near);
    else
        memcpy(near, block, TAPS * BLOCK * sizeof(float));
    winograd_weights_to_block(near, u);
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
static void strip_out(const struct pass *pass, const float *v, int64_t strip, int64_t out,
                      int thread) {
    const struct winograd *w = &pass->w;
    int64_t count = strip_count(w, strip), blocks = blocks_of(&w->from);
    float *u = pass->own + thread * own_floats(w), *near = u + DEPTH_BLOCKS * BLOCK_FLOATS,
          *m = near + BLOCK_FLOATS;
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
    winograd_points_to_outputs(w, pass->target, &pass->finish, out, strip * w->strip, count, m);
}

static void strip_apart(const void *work, int64_t strip, int thread) {
    const struct pass *pass = work;
    const struct winograd *w = &pass->w;
    int64_t from = blocks_of(&w->from), to = blocks_of(&w->to);
    float *v = pass->v + thread * from * strip_floats(w);
    for (int64_t in = 0; in < from; in++)
        winograd_windows_to_points(w, pass->source, in, strip * w->strip, strip_count(w, strip),
                                   v + in * strip_floats(w));
    for (int64_t out = 0; out < to; out++) strip_out(pass, v, strip, out, thread);
}

/* One block of the strips that the team has under way, on its way in and out. */
static void block_in(const void *work, int64_t i, int thread) {
    (void)thread;
    const struct pass *pass = work;
    const struct winograd *w = &pass->w;
    int64_t from = blocks_of(&w->from), strip = pass->strip + i / from;
    winograd_windows_to_points(w, pass->source, i % from, strip * w->strip, strip_count(w, strip),
                               pass->v + i * strip_floats(w));
}

static void block_out(const void *work, int64_t i, int thread) {
    const struct pass *pass = work;
    int64_t from = blocks_of(&pass->w.from), to = blocks_of(&pass->w.to);
    strip_out(pass, pass->v + i / to * from * strip_floats(&pass->w), pass->strip + i / to, i % to,
              thread);
}

static void run_together(struct pass *pass) {
    const struct winograd *w = &pass->w;
    for (pass->strip = 0; pass->strip < w->strips; pass->strip += w->abreast) {
        cpu_team_run(w->threads, w->abreast * blocks_of(&w->from), block_in, pass);
        cpu_team_run(w->threads, w->abreast * blocks_of(&w->to), block_out, pass);
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
        cpu_team_run(w->threads, w->strips, strip_apart, &pass);
    else
        run_together(&pass);
}

static int64_t scratch_floats(const struct cpu_kernel *kernel) {
    if (kernel->call.op == OP_CONV2D_BWD_WEIGHT) return winograd_weight_floats(kernel);
    struct winograd w = winograd_of(kernel);
    return w.abreast * blocks_of(&w.from) * strip_floats(&w) + w.threads * own_floats(&w);
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
    cpu_step_loop(kernel, weight ? winograd_weight : run_winograd);
    return STATUS_OK;
}
