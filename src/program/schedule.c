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

static enum status check_size(const struct schedule_config *config) {
    int64_t micros = (int64_t)config->replicas * config->micro_batches;
    if (micros <= PROGRAM_MAX_MICROS && config->ranks <= PROGRAM_MAX_RANKS) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%d replicas x %d micro-batches are %lld micro-batches in a step, at most %d\n"
                "  larger micro-batches (--micro-batch-size), or a smaller --batch",
                config->replicas, config->micro_batches, (long long)micros, PROGRAM_MAX_MICROS);
}

enum status schedule_build(const char *name, const struct schedule_config *config,
                           struct program **out) {
    const struct schedule *schedule = schedule_find(name);
    if (!schedule) return fail(STATUS_USAGE, "no schedule is called %s", name);
    TRY(check_size(config));
    return schedule->build(config, out);
}
