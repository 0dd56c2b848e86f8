/* Batch norm over several ranks, the ranks played one after the other by reference kernels: a batch
 * spread over ranks in any way, also with ranks that have nothing, gives what PyTorch gives for the
 * whole batch (values.def), to outputs, gradients and running statistics. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chain.h"
#include "formula.h"

enum { RANKS = 4, MOST = 4 * 16 * 9, CHANNELS = 16 };

/* How a batch is spread: samples of each rank, up to the last rank. */
struct spread {
    int ranks, samples[RANKS];
};

/* A whole batch x[B,C,plane] and what comes of it. Sample by sample, so that a rank's part is a
 * piece of each array. */
struct batch {
    struct shape shape;
    bool relu;
    struct spread spread;
    float x[MOST], dy[MOST], y[MOST], dx[MOST], scale[CHANNELS], shift[CHANNELS];
    unsigned char mask[MOST];
    float stats[RANKS * (2 * CHANNELS + 1)], sums[RANKS * 2 * CHANNELS];
    float mean[CHANNELS], var[CHANNELS], count;
    double dscale[CHANNELS], dshift[CHANNELS]; /* of all ranks */
    float running_mean[CHANNELS], running_var[CHANNELS];
    int64_t batches;
};

static void run(enum op op, const struct batch *batch, int in_count, const struct shape *shape,
                void *const in[], void *const out[]) {
    struct op_call call = {.op = op, .attrs.norm = {1e-5f, 0.1f}, .in_count = in_count};
    char why[256] = "";
    if (batch->relu && op != OP_BATCH_NORM_TRACK) call.attrs.activation = ACTIVATION_RELU;
    for (int i = 0; i < in_count; i++) call.in[i] = (struct tensor_type){DTYPE_F32, shape[i]};
    if (op == OP_BATCH_NORM_TRACK) call.in[2].dtype = DTYPE_I64;
    bool masked = op == OP_BATCH_NORM_BWD_STATS || op == OP_BATCH_NORM_BWD_APPLY;
    if (masked && batch->relu) call.in[in_count - 1].dtype = DTYPE_U8;
    cr_assert(op_infer(&call, why, sizeof why) == STATUS_OK, "%s: %s", op_def(op)->name, why);
    op_def(op)->run(&call, in, out, NULL);
}

/* Calls `part` for each rank that has samples, with the shape of its part and where it begins. */
static void each_rank(struct batch *batch,
                      void (*part)(struct batch *batch, int rank, struct shape x, int64_t at)) {
    int64_t sample = shape_span(&batch->shape, 1, batch->shape.rank), at = 0;
    for (int r = 0; r < batch->spread.ranks; r++) {
        struct shape x = batch->shape;
        x.dim[0] = batch->spread.samples[r];
        if (x.dim[0] > 0) part(batch, r, x, at);
        at += x.dim[0] * sample;
    }
}

static void give_stats(struct batch *b, int rank, struct shape x, int64_t at) {
    int64_t length = 2 * x.dim[1] + 1;
    run(OP_BATCH_NORM_STATS, b, 1, &x, (void *[]){b->x + at}, (void *[]){b->stats + rank * length});
}

static void apply(struct batch *b, int rank, struct shape x, int64_t at) {
    (void)rank;
    struct shape c = SHAPE(x.dim[1]);
    run(OP_BATCH_NORM_APPLY, b, 6, (struct shape[]){x, c, c, c, c, SHAPE(1)},
        (void *[]){b->x + at, b->scale, b->shift, b->mean, b->var, &b->count},
        (void *[]){b->y + at, b->mask + at});
}

static void give_sums(struct batch *b, int rank, struct shape x, int64_t at) {
    float dscale[CHANNELS], dshift[CHANNELS];
    struct shape c = SHAPE(x.dim[1]);
    run(OP_BATCH_NORM_BWD_STATS, b, b->relu ? 5 : 4, (struct shape[]){x, x, c, c, x},
        (void *[]){b->dy + at, b->x + at, b->mean, b->var, b->mask + at},
        (void *[]){b->sums + rank * 2 * x.dim[1], dscale, dshift});
    for (int64_t i = 0; i < x.dim[1]; i++) b->dscale[i] += dscale[i], b->dshift[i] += dshift[i];
}

static void go_back(struct batch *b, int rank, struct shape x, int64_t at) {
    (void)rank;
    struct shape c = SHAPE(x.dim[1]), sums = SHAPE(b->spread.ranks, 2 * x.dim[1]);
    run(OP_BATCH_NORM_BWD_APPLY, b, b->relu ? 8 : 7,
        (struct shape[]){x, x, c, c, c, SHAPE(1), sums, x},
        (void *[]){b->dy + at, b->x + at, b->scale, b->mean, b->var, &b->count, b->sums,
                   b->mask + at},
        (void *[]){b->dx + at});
}

static void forward(struct batch *b) {
    struct shape all = SHAPE(b->spread.ranks, 2 * b->shape.dim[1] + 1);
    memset(b->stats, 0, sizeof b->stats);
    each_rank(b, give_stats);
    run(OP_BATCH_NORM_MERGE, b, 1, &all, (void *[]){b->stats},
        (void *[]){b->mean, b->var, &b->count});
    each_rank(b, apply);
}

static void backward(struct batch *b) {
    memset(b->sums, 0, sizeof b->sums);
    memset(b->dscale, 0, sizeof b->dscale);
    memset(b->dshift, 0, sizeof b->dshift);
    each_rank(b, give_sums);
    each_rank(b, go_back);
}

static void track(struct batch *b) {
    struct shape c = SHAPE(b->shape.dim[1]);
    run(OP_BATCH_NORM_TRACK, b, 6, (struct shape[]){c, c, SHAPE_SCALAR, c, c, SHAPE(1)},
        (void *[]){b->running_mean, b->running_var, &b->batches, b->mean, b->var, &b->count},
        (void *[]){NULL});
}

/* The inputs of values.py, spread over ranks. */
static struct batch *batch_new(struct shape shape, bool relu, const struct spread *spread) {
    struct batch *b = MEM_NEW(struct batch);
    b->shape = shape;
    b->relu = relu;
    b->spread = *spread;
    for (int64_t i = 0; i < shape_count(&shape); i++) {
        b->x[i] = (float)formula(0, i);
        b->dy[i] = (float)formula(OP_MAX_IN, i);
    }
    for (int64_t c = 0; c < shape.dim[1]; c++) {
        b->scale[c] = (float)formula(1, c);
        b->shift[c] = (float)formula(2, c);
        b->running_var[c] = 1;
    }
    return b;
}

static double project(const float *x, int64_t count, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * weight(i), *size += fabs(x[i] * weight(i));
    return sum;
}

static void expect(const char *name, const char *what, const float *x, int64_t count, double want) {
    double size, have = project(x, count, &size);
    cr_expect(fabs(have - want) <= 2e-6 * size + 1e-9, "%s: %s projects to %.9g, PyTorch's to %.9g",
              name, what, have, want);
}

static const struct {
    const char *name;
    double value[1 + OP_MAX_IN]; /* of y, dx, dscale, dshift */
} values[] = {
#define VALUES(name, ...) {name, {__VA_ARGS__}},
#include "values.def"
#undef VALUES
};

static const double *values_of(const char *name) {
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (strcmp(values[i].name, name) == 0) return values[i].value;
    cr_assert_fail("no row is called %s", name);
    return NULL;
}

static void check_spread(const char *name, struct shape shape, bool relu,
                         const struct spread *spread) {
    const double *want = values_of(name);
    struct batch *b = batch_new(shape, relu, spread);
    int64_t count = shape_count(&shape), channels = shape.dim[1];
    float dscale[CHANNELS], dshift[CHANNELS];
    forward(b);
    backward(b);
    for (int64_t c = 0; c < channels; c++)
        dscale[c] = (float)b->dscale[c], dshift[c] = (float)b->dshift[c];
    expect(name, "y", b->y, count, want[0]);
    expect(name, "dx", b->dx, count, want[1]);
    expect(name, "dscale", dscale, channels, want[2]);
    expect(name, "dshift", dshift, channels, want[3]);
    cr_expect_eq(b->count, (float)(count / channels));
    free(b);
}

Test(op_sync_norm, ranks_agree_with_pytorch_on_the_whole_batch) {
    static const struct spread of_four[] = {{1, {4}},       {2, {2, 2}},       {2, {3, 1}},
                                            {2, {0, 4}},    {3, {1, 0, 3}},    {4, {1, 1, 1, 1}},
                                            {3, {4, 0, 0}}, {4, {0, 2, 0, 2}}, {4, {0, 0, 3, 1}}};
    static const struct spread of_six[] = {{2, {3, 3}}, {3, {1, 5}}, {4, {1, 0, 2, 3}}};
    for (size_t i = 0; i < sizeof of_four / sizeof of_four[0]; i++) {
        check_spread("batch_norm", SHAPE(4, 5, 3, 3), false, &of_four[i]);
        check_spread("batch_norm relu", SHAPE(4, 16, 3, 3), true, &of_four[i]);
    }
    for (size_t i = 0; i < sizeof of_six / sizeof of_six[0]; i++)
        check_spread("batch_norm flat", SHAPE(6, 9), false, &of_six[i]);
}

/* torch's formulas, word for word and in double: invstd travels, variances come back from it. */
static void torch_merge(const struct batch *b, int64_t c, double *out_mean, double *out_var) {
    int64_t channels = b->shape.dim[1], length = 2 * channels + 1;
    double mean = 0, squares = 0, n = 0;
    for (int r = 0; r < b->spread.ranks; r++) {
        const float *stats = b->stats + r * length;
        double n_j = stats[2 * channels], m_j = stats[c];
        if (n_j == 0) continue;
        double invstd = 1 / sqrt(stats[channels + c] + 1e-5);
        double var_j = (1 / (invstd * invstd) - 1e-5) * n_j;
        squares += var_j + (mean - m_j) * (mean - m_j) * n * n_j / (n + n_j);
        mean = n * mean / (n + n_j) + m_j * n_j / (n + n_j);
        n += n_j;
    }
    *out_mean = mean;
    *out_var = squares / (n - 1);
}

Test(op_sync_norm, running_statistics_are_torchs) {
    struct batch *b = batch_new(SHAPE(4, 5, 3, 3), false, &(struct spread){4, {1, 0, 2, 1}});
    forward(b);
    track(b);
    for (int64_t c = 0; c < 5; c++) {
        double mean, var;
        torch_merge(b, c, &mean, &var);
        cr_expect_float_eq(b->running_mean[c], 0.1 * mean, 1e-6);
        cr_expect_float_eq(b->running_var[c], 0.9 + 0.1 * var, 1e-6);
    }
    cr_expect_eq(b->batches, 1);
    free(b);
}

/* Values far from zero, another mean on each rank: what a merge by sums of squares would lose. */
Test(op_sync_norm, a_large_mean_does_not_cancel) {
    struct batch *b = batch_new(SHAPE(4, 5, 3, 3), false, &(struct spread){2, {1, 3}});
    double variance[5];
    for (int shifted = 0; shifted < 2; shifted++) {
        for (int64_t i = 0; shifted && i < shape_count(&b->shape); i++) b->x[i] += 4096;
        forward(b);
        for (int c = 0; c < 5; c++) {
            if (shifted) cr_expect_float_eq(b->var[c], variance[c], 1e-4 * variance[c]);
            variance[c] = b->var[c];
        }
    }
    free(b);
}

/* The slope along an element of one rank reaches the others' outputs through the statistics. */
static double objective(struct batch *b) {
    double sum = 0;
    forward(b);
    for (int64_t i = 0; i < shape_count(&b->shape); i++) sum += (double)b->y[i] * b->dy[i];
    return sum;
}

static double slope(struct batch *b, float *at, float step) {
    float x = *at;
    *at = x + step;
    double above = objective(b), high = *at;
    *at = x - step;
    double below = objective(b), low = *at;
    *at = x;
    return (above - below) / (high - low);
}

Test(op_sync_norm, gradients_agree_with_differences) {
    struct batch *b = batch_new(SHAPE(4, 5, 3, 3), false, &(struct spread){3, {1, 0, 3}});
    forward(b);
    backward(b);
    for (int64_t i = 0; i < shape_count(&b->shape); i += 7) {
        double near = slope(b, &b->x[i], 0x1p-5f), far = slope(b, &b->x[i], 0x1p-4f);
        cr_expect_float_eq((4 * near - far) / 3, b->dx[i], 2e-3, "element %d", (int)i);
    }
    for (int c = 0; c < 5; c++) {
        cr_expect_float_eq(slope(b, &b->scale[c], 0x1p-3f), b->dscale[c], 2e-3);
        cr_expect_float_eq(slope(b, &b->shift[c], 0x1p-3f), b->dshift[c], 2e-3);
    }
    free(b);
}
