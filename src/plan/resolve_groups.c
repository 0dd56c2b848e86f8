/* Rules by which replicas choose whom they average with: from options to what src/sync is told. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/option.h"
#include "plan/resolve.h"
#include "plan/strategy.h"

/* --- --group-wait --- */

static bool read_ns(const char *text, int64_t *out) {
    double seconds;
    if (!number_duration(text, &seconds) || seconds < 0 || seconds > 3600) return false;
    *out = (int64_t)(seconds * 1e9 + 0.5);
    return true;
}

/* "least=10us", or a time alone: the first wait. */
static bool read_part(const char *part, struct group_wait *out) {
    static const char *const names[] = {"least", "most", "grow", "shrink"};
    const char *equals = strchr(part, '=');
    if (!equals) return read_ns(part, &out->first_ns);
    int name = 0;
    while (name < 4 && (strlen(names[name]) != (size_t)(equals - part) ||
                        strncmp(part, names[name], strlen(names[name])) != 0))
        name++;
    switch (name) {
    case 0: return read_ns(equals + 1, &out->least_ns);
    case 1: return read_ns(equals + 1, &out->most_ns);
    case 2: return number_real(equals + 1, &out->grow);
    case 3: return number_real(equals + 1, &out->shrink);
    default: return false;
    }
}

/* What is not said stays as it is without the option; the first wait then is within the others. */
static enum status read_wait(const char *text, struct group_wait *out) {
    *out = (struct group_wait){1000000, 10000, 10000000, 2, 0.9};
    SCOPED_FREE char *rest = mem_format("%s", text);
    for (char *part = rest, *next; part; part = next) {
        next = strchr(part, ',');
        if (next) *next++ = 0;
        if (read_part(part, out)) continue;
        return fail(STATUS_USAGE,
                    "--group-wait %s: \"%s\" is not understood\n"
                    "  a time up to 1h, then least=TIME, most=TIME, grow=X, shrink=X, as "
                    "1ms,most=100ms",
                    text, part);
    }
    return STATUS_OK;
}

/* --- --group-weights --- */

static enum status read_weights(const char *text, double *age) {
    *age = 0;
    if (strcmp(text, "equal") == 0) return STATUS_OK;
    *age = 0.9;
    if (strcmp(text, "age") == 0) return STATUS_OK;
    if (strncmp(text, "age=", 4) == 0 && number_real(text + 4, age) && *age > 0 && *age < 1)
        return STATUS_OK;
    return fail(STATUS_USAGE,
                "--group-weights %s: expected equal, age, or age=X with X above 0 and below 1",
                text);
}

/* --- all --- */

static enum status check_by_stage(const struct run_config *config) {
    if (config->grid.chunks == 1) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--group-by stage: schedule %s has several stages on each rank\n"
                "  --group-by replica, or --schedule 1f1b",
                config->schedule);
}

enum status resolve_groups(struct options *options, struct run_config *config) {
    struct groups_config *groups = &config->groups;
    config->groups_by_stage = strcmp(options->group_by, "stage") == 0;
    if (config->groups_by_stage) TRY(check_by_stage(config));
    *groups = (struct groups_config){.rule = options->group,
                                     .replicas = config->replicas,
                                     .keys = config->groups_by_stage ? config->grid.stages : 1,
                                     .size = (int)options->group_size};
    TRY(read_wait(options->group_wait, &groups->wait));
    TRY(read_weights(options->group_weights, &groups->age));
    if (!option_is_set(options, OPTION_group_connect)) {
        options->group_connect = groups_usual_connect(groups);
        option_derive(options, OPTION_group_connect);
    }
    groups->connect = (int)options->group_connect;
    return groups_check(groups);
}
