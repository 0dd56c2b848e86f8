/* What the two files of batch norm share: x as planes, checks of shapes, sums of a channel.
 * Internal to src/op. All calls are local. */
#ifndef OP_NORM_H
#define OP_NORM_H

#include "op/rule.h"

/* x[B,C,...]: `batch` times `channels` planes of `plane` elements. */
struct norm_planes {
    int64_t batch, channels, plane;
};

static inline struct norm_planes norm_planes_of(const struct shape *x) {
    return (struct norm_planes){x->dim[0], x->dim[1], shape_span(x, 2, x->rank)};
}

static inline int64_t norm_plane_at(const struct norm_planes *p, int64_t b, int64_t c) {
    return (b * p->channels + c) * p->plane;
}

/* Inputs [first, last] are per-channel vectors; input `index`, where there is one, is of x's shape;
 * epsilon is positive; no activation but relu. */
enum status norm_want_channels(const struct op_call *call, const struct op_operand *operands,
                               int first, int last, int64_t channels, char *why, size_t why_bytes);
enum status norm_want_residual(const struct op_call *call, int index, char *why, size_t why_bytes);
enum status norm_check_epsilon(const struct op_call *call, char *why, size_t why_bytes);
enum status norm_check_relu(const struct op_call *call, char *why, size_t why_bytes);

/* Mean and biased variance of a channel, in two passes. */
void norm_moments(const struct norm_planes *p, const float *x, int64_t c, double *out_mean,
                  double *out_var);
/* With g the gradient behind the mask (NULL: none) and n = (x - mean) * inverse: dshift = sum g,
 * dscale = sum g n. */
void norm_bwd_sums(const struct norm_planes *p, int64_t c, const float *dy, const float *x,
                   const unsigned char *mask, double mean, double inverse, double *dscale,
                   double *dshift);

#endif
