/* The schedules: a file each under schedules/, a row each here. */
#include <string.h>

#include "base/log.h"
#include "program/program.h"

extern const struct schedule schedule_single;

static const struct schedule *const schedules[] = {&schedule_single};

const struct schedule *schedule_find(const char *name) {
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        if (strcmp(schedules[i]->name, name) == 0) return schedules[i];
    }
    return NULL;
}

enum status schedule_build(const char *name, const struct schedule_config *config,
                           struct program **out) {
    const struct schedule *schedule = schedule_find(name);
    if (!schedule) return fail(STATUS_USAGE, "no schedule is called %s", name);
    return schedule->build(config, out);
}
