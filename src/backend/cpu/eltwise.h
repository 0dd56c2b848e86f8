/* Spans: functions of `count` elements of one or two arrays; the result may overwrite either. */
#ifndef BACKEND_CPU_ELTWISE_H
#define BACKEND_CPU_ELTWISE_H

#include <stdint.h>

#include "op/op.h"

typedef void eltwise_span(const float *first, const float *second, float *to, int64_t count);

/* Local. The function of an activation, of (x, x); NULL where there is no span of it. */
eltwise_span *eltwise_activation(enum activation activation);

#if defined(__x86_64__)
/* Local. gelu of x, the first, and its gradient of (dy, x), with AVX2 and with AVX-512. */
eltwise_span gelu_span_256, gelu_bwd_span_256, gelu_span_512, gelu_bwd_span_512;
#endif

#endif
