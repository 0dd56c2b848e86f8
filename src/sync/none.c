/* One replica: nothing is inserted. The template of a policy. */
#include "base/log.h"
#include "sync/sync.h"

static enum status none_insert(struct program *program, const struct sync_config *config) {
    (void)config;
    if (group_size(&program->grid, GROUP_REPLICAS, 0) == 1) return STATUS_OK;
    return fail(STATUS_USAGE, "%d ranks without a sync policy would train %d models",
                program->ranks, program->ranks);
}

const struct sync_policy sync_none = {.name = "none",
                                      .help = "one replica: nothing to keep in step",
                                      .verb = "sum",
                                      .what = "gradients",
                                      .insert = none_insert};
