/* Operations on numbers that a program defines by a function each: uses of stretto_apply. */
#include "base/mem.h"
#include "model/own.h"

/* Either of the two. */
struct map {
    float (*f)(float x, float *slope);
    float (*loss)(float x, float wanted, float *slope);
};

static void map_forward(const struct stretto_call *call, const void *const in[],
                        void *const out[]) {
    const struct map *map = call->context;
    const float *x = in[0];
    float *y = out[0], slope;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++) y[i] = map->f(x[i], &slope);
}

static void map_backward(const struct stretto_call *call, const void *const in[],
                         const void *const out[], const void *const d_out[], void *const d_in[]) {
    const struct map *map = call->context;
    const float *x = in[0], *dy = d_out[0];
    float *dx = d_in[0], slope;
    (void)out;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++) {
        map->f(x[i], &slope);
        dx[i] = dy[i] * slope;
    }
}

static int loss_shape(struct stretto_call *call, char *why, size_t bytes) {
    const struct stretto_type *x = &call->in[0], *wanted = &call->in[1];
    call->out[0] = (struct stretto_type){.dtype = STRETTO_F64};
    if (x->dtype == STRETTO_F32 && wanted->dtype == STRETTO_F32 &&
        stretto_elements(x) == stretto_elements(wanted))
        return 0;
    snprintf(why, bytes, "%lld elements are compared with %lld, both must be f32 and as many",
             (long long)stretto_elements(x), (long long)stretto_elements(wanted));
    return 1;
}

static void loss_forward(const struct stretto_call *call, const void *const in[],
                         void *const out[]) {
    const struct map *map = call->context;
    const float *x = in[0], *wanted = in[1];
    float slope;
    double sum = 0;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++)
        sum += (double)map->loss(x[i], wanted[i], &slope);
    *(double *)out[0] = sum;
}

static void loss_backward(const struct stretto_call *call, const void *const in[],
                          const void *const out[], const void *const d_out[], void *const d_in[]) {
    const struct map *map = call->context;
    const float *x = in[0], *wanted = in[1], *factor = d_out[0];
    float *dx = d_in[0], slope;
    (void)out;
    for (int64_t i = 0; i < stretto_elements(&call->in[0]); i++) {
        map->loss(x[i], wanted[i], &slope);
        dx[i] = *factor * slope;
    }
}

static const struct stretto_op map_op = {.size = sizeof map_op,
                                         .name = "map",
                                         .forward = map_forward,
                                         .backward = map_backward,
                                         .backward_reads = STRETTO_READS_IN};
static const struct stretto_op loss_op = {.size = sizeof loss_op,
                                          .name = "map_loss",
                                          .shape = loss_shape,
                                          .forward = loss_forward,
                                          .backward = loss_backward,
                                          .backward_reads = STRETTO_READS_IN};

static struct map *keep(struct stretto_graph *own, const struct map *map) {
    struct map *kept = arena_new(&own->graph->arena, sizeof *kept);
    *kept = *map;
    return kept;
}

stretto_value stretto_map(struct stretto_graph *own, const char *name, stretto_value x,
                          float (*f)(float x, float *slope)) {
    struct map map = {.f = f};
    if (!own_given(own, "stretto_map")) return -1;
    if (!f) return stretto_refuse(own, name, "its function is missing"), -1;
    if (own_is(own, x) && own->graph->values[x].type.dtype != DTYPE_F32)
        return stretto_refuse(own, name, "its input is not of f32"), -1;
    return stretto_apply(own, name, &map_op, keep(own, &map), 1, &x, NULL);
}

void stretto_map_loss(struct stretto_graph *own, const char *name, stretto_value x,
                      stretto_value wanted, float (*f)(float x, float wanted, float *slope)) {
    struct map map = {.loss = f};
    stretto_value in[] = {x, wanted};
    if (!own_given(own, "stretto_map_loss")) return;
    if (!f) {
        stretto_refuse(own, name, "its function is missing");
        return;
    }
    stretto_value sum = stretto_apply(own, name, &loss_op, keep(own, &map), 2, in, NULL);
    stretto_loss(own, name, sum, wanted);
}
