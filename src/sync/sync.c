/* The table of policies. */
#include "sync/sync.h"

#include <string.h>

#include "base/log.h"

#define SYNC(name) extern const struct sync_policy sync_##name;
#include "sync/sync.def"
#undef SYNC

static const struct sync_policy *const policies[] = {
#define SYNC(name) &sync_##name,
#include "sync/sync.def"
#undef SYNC
};
enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

const struct sync_policy *sync_find(const char *name) {
    for (int i = 0; i < POLICY_COUNT; i++) {
        if (strcmp(policies[i]->name, name) == 0) return policies[i];
    }
    return NULL;
}

const struct sync_policy *sync_at(int index) {
    return index < POLICY_COUNT ? policies[index] : NULL;
}

enum status sync_insert(const char *name, struct program *program,
                        const struct sync_config *config) {
    const struct sync_policy *policy = sync_find(name);
    if (!policy) return fail(STATUS_USAGE, "no sync policy is called %s", name);
    return policy->insert(program, config);
}

void sync_share(struct rank_program *rank, int group) {
    program_add(rank, LIST_START, INSTR_BCAST)->group = (int16_t)group;
    program_add(rank, LIST_EVAL_START, INSTR_STATS_ALL)->group = (int16_t)group;
    program_add(rank, LIST_EVAL_END, INSTR_STATS_OWN);
}
