/* See rank.h. */
#include "launch/rank.h"

#include <stdlib.h>

#include "base/mem.h"

enum { STALL_AFTER_S = 10 };

static enum status put(void *context, const char *key, const void *value, size_t bytes) {
    struct launch_rank *rank = context;
    return control_put(rank->control, key, value, bytes);
}

static enum status get(void *context, const char *key, void **value, size_t *bytes) {
    struct launch_rank *rank = context;
    return control_get(rank->control, key, value, bytes);
}

/* A lost server is no rank, but everybody's loss. */
static int lost(void *context) {
    struct launch_rank *rank = context;
    int who = control_lost(rank->control);
    return who == CONTROL_SERVER ? 0 : who;
}

static void waiting(void *context, int whom, const char *what, int64_t since_ns) {
    struct launch_rank *rank = context;
    control_waiting(rank->control, whom, what, since_ns, rank->stall_after_s);
}

static enum status join(const struct launch_rank_config *config, struct launch_rank *rank) {
    struct control_config control = {.address = rank->door.address,
                                     .secret = rank->door.secret,
                                     .rank = config->place->rank,
                                     .world = config->place->world,
                                     .epoch = rank->door.epoch,
                                     .host = config->place->host,
                                     .facts = config->facts,
                                     .fact_count = config->fact_count,
                                     .join_limit_s = config->join_limit_s};
    enum status status = control_join(&control, &rank->control);
    control_secret_wipe(&control.secret);
    return status;
}

enum status launch_rank_open(const struct launch_rank_config *config, struct launch_rank **out) {
    struct launch_rank *rank = MEM_NEW(struct launch_rank);
    rank->stall_after_s = config->stall_after_s > 0 ? config->stall_after_s : STALL_AFTER_S;
    rank->link = (struct comm_link){
        .context = rank, .put = put, .get = get, .lost = lost, .waiting = waiting};
    enum status status =
        launch_door_of_rank(config->launch, config->place, config->join_limit_s, &rank->door);
    if (status == STATUS_OK) status = join(config, rank);
    if (status == STATUS_OK)
        *out = rank;
    else
        launch_rank_close(&rank);
    return status;
}

void launch_rank_close(struct launch_rank **rank) {
    if (!*rank) return;
    control_leave(&(*rank)->control);
    launch_door_close(&(*rank)->door);
    free(*rank);
    *rank = NULL;
}
