/* The table of update rules. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#define OPTIMIZER(name) extern const struct optim_rule optim_##name;
#include "optim/optim.def"
#undef OPTIMIZER

static const struct optim_rule *const rules[] = {
#define OPTIMIZER(name) &optim_##name,
#include "optim/optim.def"
#undef OPTIMIZER
};

const struct optim_rule *optim_find(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i]->name, name) == 0) return rules[i];
    }
    return NULL;
}

const struct optim_rule *const *optim_all(int *count) {
    *count = (int)(sizeof rules / sizeof rules[0]);
    return rules;
}

void optim_decide(double squares, const struct optim_limits *limits, struct optim_decision *out,
                  int32_t *stop) {
    double norm = sqrt(squares) * limits->unscale;
    double scale = limits->clip > 0 ? limits->clip / (norm + 1e-6) : 1;
    bool bad = !isfinite(squares);
    if (bad && !limits->leaves) *stop = 1;
    *out = (struct optim_decision){norm, (scale < 1 ? (float)scale : 1) * (float)limits->unscale,
                                   *stop || bad};
}
