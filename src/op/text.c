/* How a call's attributes are shown in listings: what a reader would want to know, and no defaults.
 */
#include "op/rule.h"
#include "op/user.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A line that grows word by word and never overflows. */
struct line {
    char *text;
    size_t used;
};

static void say(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct line *line, const char *format, ...) {
    size_t left = OP_TEXT_BYTES - line->used;
    if (line->used && left > 1) {
        line->text[line->used++] = ' ';
        line->text[line->used] = 0;
        left--;
    }
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line->text + line->used, left, format, args);
    va_end(args);
    if (length > 0) line->used += (size_t)length < left ? (size_t)length : left - 1;
}

/* "name 2", "name 2x1", nothing when both are the default. */
static void say_pair(struct line *line, const char *name, const int pair[2], int usual) {
    if (pair[0] == pair[1]) {
        if (pair[0] != usual) say(line, "%s %d", name, pair[0]);
    } else {
        say(line, "%s %dx%d", name, pair[0], pair[1]);
    }
}

static void conv_text(const struct op_call *call, struct line *line) {
    const struct shape *w =
        call->op == OP_CONV2D_BWD_WEIGHT ? &call->attrs.like : &call->in[1].shape;
    say(line, "%lldx%lld", (long long)w->dim[2], (long long)w->dim[3]);
    say_pair(line, "stride", call->attrs.conv.stride, 1);
    say_pair(line, "pad", call->attrs.conv.pad, 0);
    say_pair(line, "dilation", call->attrs.conv.dilation, 1);
    if (call->attrs.conv.groups != 1) say(line, "groups %d", call->attrs.conv.groups);
}

static void pool_text(const struct op_call *call, struct line *line) {
    if (call->attrs.pool.adaptive) {
        const struct shape *y = &(call->op == OP_AVG_POOL ? call->out : call->in)[0].shape;
        say(line, "adaptive %lldx%lld", (long long)y->dim[2], (long long)y->dim[3]);
        return;
    }
    say(line, "%dx%d", call->attrs.pool.kernel[0], call->attrs.pool.kernel[1]);
    say_pair(line, "stride", call->attrs.pool.stride, 1);
    say_pair(line, "pad", call->attrs.pool.pad, 0);
}

static void attention_text(const struct op_call *call, struct line *line) {
    const struct op_attrs *attrs = &call->attrs;
    say(line, "%d head%s", attrs->attention.heads, attrs->attention.heads == 1 ? "" : "s");
    if (attrs->attention.masked) say(line, "masked");
    if (attrs->attention.causal) say(line, "causal");
    if (attrs->attention.dropout > 0) say(line, "dropout %g", (double)attrs->attention.dropout);
}

static void transpose_text(const struct op_call *call, struct line *line) {
    char order[4 * SHAPE_MAX_RANK] = "";
    for (int d = 0, used = 0; d < call->in[0].shape.rank; d++)
        used += snprintf(order + used, sizeof order - (size_t)used, "%s%d", d ? "," : "",
                         call->attrs.transpose.order[d]);
    say(line, "order %s", order);
}

static void matmul_text(const struct op_call *call, struct line *line) {
    const struct op_attrs *attrs = &call->attrs;
    if (attrs->matmul.transpose_a) say(line, "a transposed");
    if (attrs->matmul.transpose_b) say(line, "b transposed");
    if (attrs->matmul.scale != 1) say(line, "scale %g", (double)attrs->matmul.scale);
}

static void activation_text(const struct op_call *call, struct line *line) {
    if (call->attrs.activation == ACTIVATION_RELU) say(line, "relu");
    if (call->attrs.activation == ACTIVATION_TANH) say(line, "tanh");
    if (call->attrs.activation == ACTIVATION_GELU) say(line, "gelu");
    if (call->attrs.activation == ACTIVATION_GELU_TANH) say(line, "gelu_tanh");
}

const char *op_attrs_text(const struct op_call *call, char text[OP_TEXT_BYTES]) {
    struct line line = {text, 0};
    text[0] = 0;
    switch (call->op) {
    case OP_CONV2D:
    case OP_CONV2D_BWD_DATA:
    case OP_CONV2D_BWD_WEIGHT: conv_text(call, &line); break;
    case OP_MATMUL: matmul_text(call, &line); break;
    case OP_MAX_POOL:
    case OP_MAX_POOL_BWD:
    case OP_AVG_POOL:
    case OP_AVG_POOL_BWD: pool_text(call, &line); break;
    case OP_ATTENTION:
    case OP_ATTENTION_BWD: attention_text(call, &line); break;
    case OP_DROPOUT: say(&line, "p %g", (double)call->attrs.dropout.probability); break;
    case OP_NLL:
    case OP_NLL_BWD:
    case OP_CROSS_ENTROPY:
    case OP_CROSS_ENTROPY_BWD:
        if (call->attrs.loss.smoothing > 0)
            say(&line, "smoothing %g", (double)call->attrs.loss.smoothing);
        break;
    case OP_SLICE:
    case OP_SLICE_BWD:
        say(&line, "axis %d [%lld:%lld]", call->attrs.slice.axis,
            (long long)call->attrs.slice.begin, (long long)call->attrs.slice.end);
        break;
    case OP_CONCAT: say(&line, "axis %d", call->attrs.concat.axis); break;
    case OP_TRANSPOSE: transpose_text(call, &line); break;
    case OP_USER:
    case OP_USER_BWD: say(&line, "%s", call->attrs.user.use->op.name); break;
    case OP_STATS_EXCHANGE: say(&line, "%d ranks", call->attrs.ranks); break;
    default: break;
    }
    activation_text(call, &line);
    return text;
}
