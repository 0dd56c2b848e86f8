/* See scale.h. The rule is that of torch's GradScaler. */
#include "exec/scale.h"

#include <math.h>

#include "base/log.h"

static const double first_scale = 65536, least_scale = 1.0 / 65536, most_scale = 16777216;
enum { GROWS_AFTER = 2000 };

bool scale_acts(const struct engine *engine) {
    return engine->plan->config.dtype == DTYPE_F16 && !engine->plan->config.forward;
}

void scale_begin(struct engine *engine, struct step *step) {
    struct loss_scale *scale = &engine->state->done.scale;
    if (scale_acts(engine) && !(scale->scale > 0)) scale->scale = first_scale;
    step->loss_scale = scale_acts(engine) ? scale->scale : 1;
    step->left_out = false;
}

enum status scale_next(struct engine *engine, struct step *step, bool finite) {
    struct loss_scale *scale = &engine->state->done.scale;
    step->left_out = !finite;
    if (finite && ++scale->good < GROWS_AFTER) return STATUS_OK;
    scale->good = 0;
    if (finite) {
        if (scale->scale < most_scale) scale->scale *= 2;
        return STATUS_OK;
    }
    scale->skipped++;
    scale->scale /= 2;
    if (scale->scale >= least_scale) return STATUS_OK;
    return fail(STATUS_NUMERIC,
                "step %lld: the gradients are not finite, however small the loss is made (--dtype "
                "f16, scale %g)\n  --dtype bf16 has the range of f32; a lower --lr may help",
                (long long)step->number + 1, step->loss_scale);
}
