/* See fit.h. */
#include "view/fit.h"

#include "base/mem.h"
#include "base/text.h"

/* "its device (fast of rack.yml) has 40.0 GiB", or what stands in for it. */
static char *limit_text(const struct planned_run *planned, const struct planned_fit *fit) {
    char size[TEXT_BYTES];
    text_size((int64_t)fit->has_bytes, size);
    if (!fit->limited)
        return mem_format("its device (%s of %s) has %s", fit->class, planned->options.cluster,
                          size);
    if (!fit->class) return mem_format("--memory-limit is %s", size);
    return mem_format("--memory-limit, which stands in for the memory in %s, is %s",
                      planned->options.cluster, size);
}

void fit_print(const struct planned_run *planned, int columns, FILE *out) {
    struct planned_fit fit;
    char size[TEXT_BYTES], others[TEXT_BYTES + 32] = "";
    int ranks = planned->plan->config.ranks;
    if (!planned_fit(planned, &fit)) return;
    SCOPED_FREE char *limit = limit_text(planned, &fit);
    if (!fit.fits && ranks > 1)
        snprintf(others, sizeof others, "; %d of %d ranks do not fit", fit.lacking, ranks);
    text_row(out, "fits", columns, "%s: rank %d%s needs %s, %s%s", fit.fits ? "yes" : "no",
             fit.rank, !fit.fits || ranks == 1 ? "" : ", which has least room,",
             text_size((int64_t)fit.need_bytes, size), limit, others);
}

json_t *fit_json(const struct planned_run *planned) {
    struct planned_fit fit;
    return planned_fit(planned, &fit) ? json_boolean(fit.fits) : json_null();
}
