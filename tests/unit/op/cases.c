/* One row per call worth testing. Sizes are small but odd on purpose: channels that fill no vector,
 * single tokens, strides that leave a rest, 20 or 36 channels that need padding in blocks of 16. A
 * convolution that a backend may run by Winograd's method says its looser tolerance. */
#include "cases.h"

#include <math.h>

#include "base/log.h"
#include "op/user.h"

#define RELU ACT(RELU), .kinks = true
#define WINOGRAD .tolerance = 2e-4 /* its transforms cost digits */

/* --- operations of a program: a * tanh(b), and one of two outputs --- */

static int64_t own_count(const struct stretto_call *call) {
    int64_t count = 1;
    for (int d = 0; d < call->in[0].rank; d++) count *= call->in[0].dim[d];
    return count;
}

static void own_product(const struct stretto_call *call, const void *const in[],
                        void *const out[]) {
    const float *a = in[0], *b = in[1];
    for (int64_t i = 0; i < own_count(call); i++) ((float *)out[0])[i] = a[i] * tanhf(b[i]);
}

static void own_product_back(const struct stretto_call *call, const void *const in[],
                             const void *const out[], const void *const d_out[],
                             void *const d_in[]) {
    const float *a = in[0], *b = in[1], *dy = d_out[0];
    (void)out;
    for (int64_t i = 0; i < own_count(call); i++) {
        float t = tanhf(b[i]);
        if (d_in[0]) ((float *)d_in[0])[i] = dy[i] * t;
        if (d_in[1]) ((float *)d_in[1])[i] = dy[i] * a[i] * (1 - t * t);
    }
}

/* y = exp(x) and z = 3x: two outputs, of whose backward the outputs are read. */
static int own_pair_shape(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out_count = 2;
    call->out[1] = call->in[0];
    return 0;
}

static void own_pair(const struct stretto_call *call, const void *const in[], void *const out[]) {
    const float *x = in[0];
    for (int64_t i = 0; i < own_count(call); i++) {
        ((float *)out[0])[i] = expf(x[i]);
        ((float *)out[1])[i] = 3 * x[i];
    }
}

static void own_pair_back(const struct stretto_call *call, const void *const in[],
                          const void *const out[], const void *const d_out[], void *const d_in[]) {
    const float *y = out[0], *dy = d_out[0], *dz = d_out[1];
    CHECK(!in[0], "what backward does not read is not kept");
    for (int64_t i = 0; i < own_count(call); i++)
        ((float *)d_in[0])[i] = (dy ? dy[i] * y[i] : 0) + (dz ? 3 * dz[i] : 0);
}

static struct op_use own_product_use = {.op = {.name = "product",
                                               .forward = own_product,
                                               .backward = own_product_back,
                                               .backward_reads = STRETTO_READS_IN}},
                     own_pair_use = {.op = {.name = "pair",
                                            .shape = own_pair_shape,
                                            .forward = own_pair,
                                            .backward = own_pair_back,
                                            .backward_reads = STRETTO_READS_OUT}};

static const struct op_case cases[] = {
    /* convolution.c */
    {"conv 3x3", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 3, 9, 7), F(5, 3, 3, 3), F(5))},
    {"conv 3x3 wide", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(4, 32, 8, 8), F(32, 32, 3, 3)), WINOGRAD},
    {"conv 3x3 64", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 64, 6, 6), F(64, 64, 3, 3)), WINOGRAD},
    {"conv 3x3 bias relu", OP_CONV2D, CONV(1, 1, 1, 1), RELU,
     IN(F(2, 48, 11, 10), F(32, 48, 3, 3), F(32)), WINOGRAD},
    {"conv 3x3 unpadded", OP_CONV2D, CONV(1, 0, 1, 1), IN(F(4, 32, 9, 10), F(32, 32, 3, 3), F(32)),
     WINOGRAD},
    {"conv 3x3 odd", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(2, 20, 6, 6), F(36, 20, 3, 3), F(36))},
    {"conv 3x3 stride 2", OP_CONV2D, CONV(2, 1, 1, 1), IN(F(2, 16, 9, 9), F(33, 16, 3, 3))},
    {"conv 3x3 of a pixel", OP_CONV2D, CONV(2, 1, 1, 1), IN(F(6, 16, 1, 1), F(16, 16, 3, 3))},
    {"conv 3x3 to a pixel", OP_CONV2D, CONV(3, 1, 1, 1), IN(F(6, 16, 2, 2), F(16, 16, 3, 3))},
    {"conv 3x3 batch 1", OP_CONV2D, CONV(1, 1, 1, 1), IN(F(1, 1, 5, 5), F(1, 1, 3, 3), F(1))},
    {"conv 1x1", OP_CONV2D, CONV(1, 0, 1, 1), IN(F(3, 17, 5, 5), F(9, 17, 1, 1))},
    {"conv 1x1 stride 2", OP_CONV2D, CONV(2, 0, 1, 1), IN(F(2, 16, 8, 8), F(32, 16, 1, 1))},
    {"conv 5x5 lenet", OP_CONV2D, CONV(1, 2, 1, 1), IN(F(2, 1, 12, 12), F(6, 1, 5, 5), F(6))},
    {"conv 7x7 stem", OP_CONV2D, CONV(2, 3, 1, 1), IN(F(1, 3, 15, 13), F(8, 3, 7, 7))},
    {"conv patches", OP_CONV2D, CONV(4, 0, 1, 1), IN(F(2, 3, 12, 12), F(20, 3, 4, 4), F(20))},
    {"conv groups", OP_CONV2D, CONV(1, 1, 1, 3), IN(F(2, 6, 5, 6), F(9, 2, 3, 3), F(9))},
    {"conv depthwise", OP_CONV2D, CONV(2, 1, 1, 8), IN(F(2, 8, 7, 7), F(8, 1, 3, 3))},
    {"conv dilation", OP_CONV2D, CONV(1, 2, 2, 1), IN(F(2, 4, 8, 8), F(4, 4, 3, 3), F(4))},
    {"conv wide padding", OP_CONV2D, CONV(3, 4, 1, 1), IN(F(1, 2, 4, 5), F(3, 2, 3, 3))},
    {"conv uneven", OP_CONV2D, .attrs.conv = {{2, 1}, {0, 1}, {1, 2}, 1},
     IN(F(2, 3, 7, 8), F(4, 3, 1, 3), F(4))},
    {"conv relu", OP_CONV2D, CONV(1, 1, 1, 1), RELU, IN(F(2, 3, 6, 6), F(4, 3, 3, 3), F(4))},
    {"conv relu no bias", OP_CONV2D, CONV(1, 1, 1, 1), RELU, IN(F(1, 16, 4, 4), F(16, 16, 3, 3)),
     WINOGRAD},
    {"conv tanh", OP_CONV2D, CONV(2, 0, 1, 1), ACT(TANH), IN(F(2, 3, 6, 6), F(4, 3, 2, 2), F(4))},

    /* linear.c */
    {"linear", OP_LINEAR, IN(F(7, 19), F(11, 19), F(11))},
    {"linear no bias", OP_LINEAR, IN(F(4, 16), F(32, 16))},
    {"linear tokens", OP_LINEAR, IN(F(2, 5, 24), F(17, 24), F(17))},
    {"linear one row", OP_LINEAR, IN(F(1, 33), F(10, 33), F(10))},
    {"linear vector", OP_LINEAR, IN(F(6), F(3, 6), F(3))},
    {"linear relu", OP_LINEAR, RELU, IN(F(5, 12), F(9, 12), F(9))},
    {"linear tanh", OP_LINEAR, ACT(TANH), IN(F(5, 12), F(9, 12), F(9)), .tolerance = 5e-5},
    {"linear gelu", OP_LINEAR, ACT(GELU), .attrs.saves = true, IN(F(5, 12), F(9, 12), F(9))},
    {"linear gelu_tanh", OP_LINEAR, ACT(GELU_TANH), .attrs.saves = true, .attrs.across = true,
     IN(F(5, 12), F(12, 9))},
    {"linear silu", OP_LINEAR, ACT(SILU), .attrs.saves = true, IN(F(5, 12), F(9, 12), F(9))},
    {"linear gelu panels", OP_LINEAR, ACT(GELU), .attrs.saves = true,
     IN(F(270, 6), F(70, 6), F(70))},
    {"linear wide", OP_LINEAR, IN(F(65, 192), F(64, 192), F(64))},
    {"linear panels", OP_LINEAR, RELU, IN(F(270, 400), F(70, 400), F(70))}, /* groups */
    {"linear across panels", OP_LINEAR, .attrs.across = true, IN(F(260, 40), F(40, 70))},
    {"linear rows of 4 KiB, panels", OP_LINEAR, IN(F(400, 1024), F(40, 1024), F(40))}, /* chunks */
    {"linear rows of 4 KiB", OP_LINEAR, IN(F(5, 1024), F(48, 1024), F(48))},
    {"linear across", OP_LINEAR, .attrs.across = true, IN(F(7, 19), F(19, 11), F(11))},
    {"linear across tokens", OP_LINEAR, .attrs.across = true, IN(F(2, 5, 24), F(24, 17))},
    {"linear across relu", OP_LINEAR, RELU, .attrs.across = true, IN(F(5, 12), F(12, 9), F(9))},
    {"linear across rows of 4 KiB", OP_LINEAR, .attrs.across = true, IN(F(5, 48), F(48, 1024))},
    {"linear across rows of 4 KiB, panels", OP_LINEAR, .attrs.across = true,
     IN(F(256, 24), F(24, 1024), F(1024))},
    {"matmul", OP_MATMUL, .attrs.matmul = {false, false, 1}, IN(F(3, 5, 7), F(3, 7, 4))},
    {"matmul b'", OP_MATMUL, .attrs.matmul = {false, true, 0.5f}, IN(F(2, 3, 5, 8), F(2, 3, 6, 8))},
    {"matmul a'", OP_MATMUL, .attrs.matmul = {true, false, 1}, IN(F(2, 7, 5), F(2, 7, 4))},
    {"matmul a'b'", OP_MATMUL, .attrs.matmul = {true, true, 2}, IN(F(7, 5), F(4, 7))},
    {"matmul 1x1", OP_MATMUL, .attrs.matmul = {false, false, 1}, IN(F(1, 1, 1), F(1, 1, 1))},

    /* norm.c */
    {"batch_norm", OP_BATCH_NORM, NORM, IN(F(4, 5, 3, 3), F(5), F(5)), .tolerance = 5e-5},
    {"batch_norm wide", OP_BATCH_NORM, NORM, IN(F(3, 32, 4, 5), F(32), F(32)), .tolerance = 5e-5},
    {"batch_norm padded", OP_BATCH_NORM, NORM, IN(F(2, 36, 3, 3), F(36), F(36)), .tolerance = 5e-5},
    {"batch_norm flat", OP_BATCH_NORM, NORM, IN(F(6, 9), F(9), F(9)), .tolerance = 5e-5},
    {"batch_norm relu", OP_BATCH_NORM, NORM, RELU, IN(F(4, 16, 3, 3), F(16), F(16)),
     .tolerance = 5e-5},
    {"batch_norm relu odd", OP_BATCH_NORM, NORM, RELU, IN(F(3, 7, 2, 5), F(7), F(7)),
     .tolerance = 5e-5},
    {"batch_norm relu padded", OP_BATCH_NORM, NORM, RELU, IN(F(3, 20, 3, 4), F(20), F(20)),
     .tolerance = 5e-5},
    {"batch_norm add", OP_BATCH_NORM, NORM, IN(F(4, 5, 3, 3), F(5), F(5), F(4, 5, 3, 3)),
     .tolerance = 5e-5},
    {"batch_norm add relu", OP_BATCH_NORM, NORM, RELU,
     IN(F(4, 16, 3, 3), F(16), F(16), F(4, 16, 3, 3)), .tolerance = 5e-5},
    {"batch_norm add relu odd", OP_BATCH_NORM, NORM, RELU,
     IN(F(3, 7, 2, 5), F(7), F(7), F(3, 7, 2, 5)), .tolerance = 5e-5},
    {"batch_norm add relu padded", OP_BATCH_NORM, NORM, RELU,
     IN(F(3, 20, 3, 4), F(20), F(20), F(3, 20, 3, 4)), .tolerance = 5e-5},
    {"batch_norm add relu flat", OP_BATCH_NORM, NORM, RELU, IN(F(6, 9), F(9), F(9), F(6, 9)),
     .tolerance = 5e-5},
    {"batch_norm_eval add relu", OP_BATCH_NORM_EVAL, NORM, RELU,
     IN(F(2, 20, 3, 3), F(20), F(20), F(20), F(20), F(2, 20, 3, 3)), .positive = 1u << 4},
    {"batch_norm_eval add", OP_BATCH_NORM_EVAL, NORM,
     IN(F(2, 5, 3, 3), F(5), F(5), F(5), F(5), F(2, 5, 3, 3)), .positive = 1u << 4},
    {"batch_norm_eval", OP_BATCH_NORM_EVAL, NORM, IN(F(2, 5, 3, 3), F(5), F(5), F(5), F(5)),
     .positive = 1u << 4},
    {"batch_norm_eval relu", OP_BATCH_NORM_EVAL, NORM, RELU,
     IN(F(2, 16, 3, 3), F(16), F(16), F(16), F(16)), .positive = 1u << 4},
    {"batch_norm_eval padded", OP_BATCH_NORM_EVAL, NORM,
     IN(F(2, 20, 3, 3), F(20), F(20), F(20), F(20)), .positive = 1u << 4},
    {"batch_norm_track", OP_BATCH_NORM_TRACK, NORM, .attrs.like = DIMS(3, 6, 2, 2),
     IN(F(6), F(6), COUNTER, F(6), F(6)), .positive = 1u << 1 | 1u << 4},
    {"batch_norm_track two values", OP_BATCH_NORM_TRACK, NORM, .attrs.like = DIMS(2, 3),
     IN(F(3), F(3), COUNTER, F(3), F(3)), .positive = 1u << 1 | 1u << 4},
    {"batch_norm_track count", OP_BATCH_NORM_TRACK, NORM, IN(F(3), F(3), COUNTER, F(3), F(3), F(1)),
     .positive = 1u << 1 | 1u << 4 | 1u << 5},

    /* sync_norm.c */
    {"batch_norm_stats", OP_BATCH_NORM_STATS, IN(F(4, 5, 3, 3)), .tolerance = 5e-5},
    {"batch_norm_stats padded", OP_BATCH_NORM_STATS, IN(F(3, 20, 3, 4)), .tolerance = 5e-5},
    {"batch_norm_stats one value", OP_BATCH_NORM_STATS, IN(F(1, 7))},
    {"user", OP_USER, .attrs.user.use = &own_product_use, IN(F(4, 5), F(4, 5))},
    {"user of two outputs", OP_USER, .attrs.user.use = &own_pair_use, IN(F(3, 2, 2))},
    {"stats_exchange", OP_STATS_EXCHANGE, .attrs.ranks = 1, IN(F(11))},
    {"stats_exchange alone", OP_STATS_EXCHANGE, .attrs.ranks = 3, IN(F(11))},
    {"batch_norm_merge", OP_BATCH_NORM_MERGE, IN(F(3, 11)), .positive = 1},
    {"batch_norm_merge one rank", OP_BATCH_NORM_MERGE, IN(F(1, 3)), .positive = 1},
    {"batch_norm_apply", OP_BATCH_NORM_APPLY, NORM, .attrs.ranks = 2,
     IN(F(4, 5, 3, 3), F(5), F(5), F(5), F(5), F(1)), .positive = 3u << 4, .part = true,
     .tolerance = 5e-5},
    {"batch_norm_apply flat", OP_BATCH_NORM_APPLY, NORM, .attrs.ranks = 3,
     IN(F(1, 9), F(9), F(9), F(9), F(9), F(1)), .positive = 3u << 4, .part = true,
     .tolerance = 5e-5},
    {"batch_norm_apply relu", OP_BATCH_NORM_APPLY, NORM, RELU, .attrs.ranks = 4,
     IN(F(4, 16, 3, 3), F(16), F(16), F(16), F(16), F(1)), .positive = 3u << 4, .part = true,
     .tolerance = 5e-5},
    {"batch_norm_apply relu padded", OP_BATCH_NORM_APPLY, NORM, RELU, .attrs.ranks = 2,
     IN(F(3, 20, 3, 4), F(20), F(20), F(20), F(20), F(1)), .positive = 3u << 4, .part = true,
     .tolerance = 5e-5},
    {"batch_norm_apply add", OP_BATCH_NORM_APPLY, NORM, .attrs.ranks = 2,
     IN(F(4, 5, 3, 3), F(5), F(5), F(5), F(5), F(1), F(4, 5, 3, 3)), .positive = 3u << 4,
     .part = true, .tolerance = 5e-5},
    {"batch_norm_apply add relu", OP_BATCH_NORM_APPLY, NORM, RELU, .attrs.ranks = 2,
     IN(F(3, 20, 7, 11), F(20), F(20), F(20), F(20), F(1), F(3, 20, 7, 11)), .positive = 3u << 4,
     .part = true, .tolerance = 5e-5}, /* several lines of bits */
    {"batch_norm_apply add relu odd", OP_BATCH_NORM_APPLY, NORM, RELU, .attrs.ranks = 2,
     IN(F(2, 3, 30, 19), F(3), F(3), F(3), F(3), F(1), F(2, 3, 30, 19)), .positive = 3u << 4,
     .part = true, .tolerance = 5e-5},

    /* norm.c again */
    {"layer_norm", OP_LAYER_NORM, NORM, IN(F(3, 5, 24), F(24), F(24)), .tolerance = 5e-5},
    {"layer_norm odd", OP_LAYER_NORM, NORM, IN(F(7, 13), F(13), F(13)), .tolerance = 5e-5},
    {"layer_norm one row", OP_LAYER_NORM, NORM, IN(F(10), F(10), F(10)), .tolerance = 5e-5},

    /* activation.c */
    {"relu", OP_RELU, .kinks = true, IN(F(3, 17))},
    {"relu image", OP_RELU, .kinks = true, IN(F(2, 5, 3, 3))},
    {"relu padded", OP_RELU, .kinks = true, IN(F(2, 20, 3, 3))},
    {"gelu", OP_GELU, IN(F(4, 33))},
    {"gelu_tanh", OP_GELU_TANH, IN(F(4, 33))},
    {"gelu padded", OP_GELU, IN(F(2, 20, 3, 3))},
    {"tanh", OP_TANH, IN(F(4, 33)), .tolerance = 5e-5},
    {"silu", OP_SILU, IN(F(4, 33))},
    {"silu padded", OP_SILU, IN(F(2, 20, 3, 3))},
    {"dropout", OP_DROPOUT, .attrs.dropout = {0.3f, 5}, IN(F(3, 7, 9), KEY(3))},
    {"dropout long", OP_DROPOUT, .attrs.dropout = {0.1f, 5}, IN(F(2, 33, 65), KEY(2))},
    {"dropout none", OP_DROPOUT, .attrs.dropout = {0, 1}, IN(F(2, 5), KEY(2))},
    {"dropout image", OP_DROPOUT, .attrs.dropout = {0.5f, 2}, IN(F(2, 5, 3, 3), KEY(2))},
    {"dropout padded", OP_DROPOUT, .attrs.dropout = {0.5f, 2}, IN(F(2, 20, 3, 3), KEY(2))},

    /* softmax.c */
    {"softmax", OP_SOFTMAX, IN(F(3, 4, 11))},
    {"softmax one class", OP_SOFTMAX, IN(F(4, 1))},
    {"log_softmax", OP_LOG_SOFTMAX, IN(F(5, 10))},
    {"nll", OP_NLL, IN(F(6, 10), I(6)), .range = 10, .ignore_every = 4},
    {"nll smooth", OP_NLL, .attrs.loss = {0.1f}, IN(F(2, 3, 7), I(2, 3)), .range = 7},
    {"cross_entropy", OP_CROSS_ENTROPY, IN(F(6, 10), I(6)), .range = 10},
    {"cross_entropy ignore", OP_CROSS_ENTROPY, IN(F(2, 8, 33), I(2, 8)), .range = 33,
     .ignore_every = 3},
    {"cross_entropy all ignored", OP_CROSS_ENTROPY, IN(F(4, 6), I(4)), .range = 6,
     .ignore_every = 1},
    {"cross_entropy smooth", OP_CROSS_ENTROPY, .attrs.loss = {0.1f}, IN(F(7, 10), I(7)),
     .range = 10, .ignore_every = 5},
    {"top_k", OP_TOP_K, IN(F(20, 10), I(20)), .range = 10, .ignore_every = 7},
    {"top_k few classes", OP_TOP_K, IN(F(2, 5, 3), I(2, 5)), .range = 3},

    /* attention.c */
    {"attention packed", OP_ATTENTION, .attrs.attention = {.heads = 3, .packed = true},
     IN(F(2, 5, 3 * 24))},
    {"attention three", OP_ATTENTION, .attrs.attention = {.heads = 2},
     IN(F(2, 7, 16), F(2, 7, 16), F(2, 7, 16))},
    {"attention mask", OP_ATTENTION, .attrs.attention = {.heads = 2, .masked = true},
     IN(F(3, 6, 8), F(3, 6, 8), F(3, 6, 8), I(3, 6)), .range = 2},
    {"attention nothing allowed", OP_ATTENTION,
     .attrs.attention = {.heads = 2, .packed = true, .masked = true}, IN(F(2, 4, 3 * 8), I(2, 4)),
     .range = 1},
    {"attention causal", OP_ATTENTION,
     .attrs.attention = {.heads = 1, .packed = true, .causal = true}, IN(F(2, 9, 3 * 5))},
    {"attention causal mask", OP_ATTENTION,
     .attrs.attention = {.heads = 2, .masked = true, .causal = true},
     IN(F(4, 5, 6), F(4, 5, 6), F(4, 5, 6), I(4, 5)), .range = 2},
    {"attention dropout", OP_ATTENTION,
     .attrs.attention = {.heads = 2, .packed = true, .dropout = 0.2f, .place = 3},
     IN(F(2, 6, 3 * 8), KEY(2))},
    {"attention all", OP_ATTENTION,
     .attrs.attention = {.heads = 4, .masked = true, .causal = true, .dropout = 0.1f, .place = 9},
     IN(F(2, 7, 20), F(2, 7, 20), F(2, 7, 20), I(2, 7), KEY(2)), .range = 2},
    {"attention one token", OP_ATTENTION, .attrs.attention = {.heads = 2, .packed = true},
     IN(F(3, 1, 3 * 4))},
    {"attention several blocks", OP_ATTENTION, .attrs.attention = {.heads = 2, .packed = true},
     IN(F(1, 130, 3 * 40))}, /* tokens beyond the panels, queries in two blocks */
    {"attention causal blocks", OP_ATTENTION,
     .attrs.attention = {.heads = 1, .masked = true, .causal = true, .dropout = 0.1f, .place = 5},
     IN(F(2, 110, 24), F(2, 110, 24), F(2, 110, 24), I(2, 110), KEY(2)), .range = 2},
    {"attention vit", OP_ATTENTION, .attrs.attention = {.heads = 3, .packed = true},
     IN(F(1, 65, 3 * 48))},

    /* index.c */
    {"embedding", OP_EMBEDDING, IN(F(13, 6), I(3, 9)), .range = 13},
    {"embedding repeated", OP_EMBEDDING, IN(F(2, 17), I(20)), .range = 2},
    {"gather_rows", OP_GATHER_ROWS, IN(F(3, 7, 5), I(3, 4)), .range = 7},
    {"gather_rows repeated", OP_GATHER_ROWS, IN(F(2, 2, 16), I(2, 6)), .range = 2},

    /* pool.c */
    {"max_pool", OP_MAX_POOL, POOL(2, 2, 0), .kinks = true, IN(F(2, 5, 7, 6))},
    {"max_pool stem", OP_MAX_POOL, POOL(3, 2, 1), .kinks = true, IN(F(2, 16, 9, 9))},
    {"max_pool overlap", OP_MAX_POOL, POOL(3, 1, 1), .kinks = true, IN(F(1, 3, 5, 4))},
    {"max_pool padded channels", OP_MAX_POOL, POOL(2, 2, 0), .kinks = true, IN(F(2, 20, 6, 6))},
    {"avg_pool", OP_AVG_POOL, POOL(2, 2, 0), IN(F(2, 5, 7, 6))},
    {"avg_pool padded", OP_AVG_POOL, POOL(3, 2, 1), IN(F(2, 16, 8, 8))},
    {"avg_pool global", OP_AVG_POOL, ADAPT(1, 1), IN(F(3, 17, 4, 4))},
    {"avg_pool global padded channels", OP_AVG_POOL, ADAPT(1, 1), IN(F(3, 20, 4, 4))},
    {"avg_pool adaptive", OP_AVG_POOL, ADAPT(3, 2), IN(F(2, 4, 7, 5))},
    {"avg_pool adaptive larger", OP_AVG_POOL, ADAPT(5, 4), IN(F(1, 2, 3, 4))},

    /* shape.c */
    {"add", OP_ADD, IN(F(3, 17), F(3, 17))},
    {"add image relu", OP_ADD, RELU, IN(F(2, 5, 3, 3), F(2, 5, 3, 3))},
    {"add padded relu", OP_ADD, RELU, IN(F(2, 20, 3, 3), F(2, 20, 3, 3))},
    {"add image broadcast", OP_ADD, IN(F(3, 20, 3, 3), F(1, 20, 3, 3))},
    {"add broadcast", OP_ADD, IN(F(4, 5, 6), F(1, 5, 6))},
    {"add broadcast tanh", OP_ADD, ACT(TANH), IN(F(3, 7), F(1, 7)), .tolerance = 5e-5},
    {"add batch 1", OP_ADD, RELU, IN(F(1, 7), F(1, 7))},
    {"sum_batch", OP_SUM_BATCH, IN(F(5, 3, 7))},
    {"concat 2", OP_CONCAT, .attrs.concat = {1}, IN(F(2, 1, 6), F(2, 4, 6))},
    {"concat 4", OP_CONCAT, .attrs.concat = {2},
     IN(F(2, 3, 1), F(2, 3, 2), F(2, 3, 3), F(2, 3, 4))},
    {"concat channels", OP_CONCAT, .attrs.concat = {1}, IN(F(2, 3, 4, 4), F(2, 16, 4, 4))},
    {"concat padded channels", OP_CONCAT, .attrs.concat = {1}, IN(F(2, 20, 4, 4), F(2, 20, 4, 4))},
    {"concat batch", OP_CONCAT, .attrs.concat = {0}, IN(F(2, 3), F(1, 3), F(4, 3))},
    {"slice", OP_SLICE, .attrs.slice = {1, 1, 4}, IN(F(2, 6, 5))},
    {"slice class token", OP_SLICE, .attrs.slice = {1, 0, 1}, IN(F(3, 5, 8))},
    {"slice channels", OP_SLICE, .attrs.slice = {1, 3, 16}, IN(F(2, 19, 3, 3))},
    {"slice padded channels", OP_SLICE, .attrs.slice = {1, 4, 20}, IN(F(2, 20, 3, 3))},
    {"slice batch", OP_SLICE, .attrs.slice = {0, 2, 3}, IN(F(4, 5))},
    {"pad channels", OP_SLICE_BWD, .attrs.slice = {1, 0, 16}, .attrs.like = DIMS(2, 21, 3, 3),
     IN(F(2, 16, 3, 3))},
    {"pad before and behind", OP_SLICE_BWD, .attrs.slice = {1, 2, 5}, .attrs.like = DIMS(2, 9, 4),
     IN(F(2, 3, 4))},
    {"expand", OP_EXPAND, .attrs.like = DIMS(4, 2, 3), IN(F(1, 2, 3))},
    {"reshape", OP_RESHAPE, .attrs.like = DIMS(2, 12), IN(F(2, 3, 4))},
    {"transpose", OP_TRANSPOSE, .attrs.transpose = {{0, 2, 1}}, IN(F(2, 5, 7))},
    {"transpose 4", OP_TRANSPOSE, .attrs.transpose = {{2, 0, 3, 1}}, IN(F(2, 3, 4, 5))},
    {"transpose padded image", OP_TRANSPOSE, .attrs.transpose = {{0, 2, 3, 1}}, IN(F(2, 20, 3, 4))},
    {"transpose 5", OP_TRANSPOSE, .attrs.transpose = {{4, 1, 3, 0, 2}}, IN(F(2, 3, 2, 4, 3))},
    {"reorder", OP_REORDER, IN(F(2, 3, 4, 4))},
};

const struct op_case *op_cases(int *count) {
    *count = sizeof cases / sizeof cases[0];
    return cases;
}
