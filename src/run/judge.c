/* See judge.h. */
#include "run/judge.h"

#include <string.h>

#include "base/machine.h"
#include "plan/resolve.h"

struct judge_row judge_row_of(struct planned_run *planned, const char *machine, bool answered) {
    size_t code = planned->code_bytes;
    struct judge_row row = {.memory = machine_memory("").limit_id,
                            .once = (int64_t)code,
                            .taken = (int64_t)planned_taken_bytes(planned),
                            .answered = answered};
    snprintf(row.machine, sizeof row.machine, "%s", machine);
    for (int spread = 0; spread < 2; spread++) {
        plan_use_comm(planned->plan, resolve_comm(&planned->options, spread));
        row.each[spread] = (int64_t)(plan_bytes(planned->plan) - code);
    }
    return row;
}

static bool share_memory(const struct judge_row *one, const struct judge_row *other) {
    return one->memory == other->memory && strcmp(one->machine, other->machine) == 0;
}

int judge_of(const struct judge_row *all, int world, int rank) {
    int judge = 0;
    while (judge < world && !share_memory(&all[judge], &all[rank])) judge++;
    return judge;
}

bool judge_asked(const struct judge_row *all, int world, int rank) {
    bool asked = false;
    if (judge_of(all, world, rank) != rank) return false;
    for (int r = rank; r < world && !asked; r++)
        asked = !all[r].answered && share_memory(&all[r], &all[rank]);
    return asked;
}

struct planned_met judge_sum(const struct judge_row *all, int world, int judge, int64_t *taken) {
    struct planned_met met = {.least_bytes = SIZE_MAX};
    int64_t once = 0;
    bool spread = false;
    *taken = 0;
    for (int r = 0; r < world; r++) spread |= strcmp(all[r].machine, all[judge].machine) != 0;
    for (int r = 0; r < world; r++) {
        if (!share_memory(&all[r], &all[judge])) continue;
        size_t bytes = (size_t)(all[r].each[spread] + all[r].once);
        if (bytes < met.least_bytes) met.least_bytes = bytes;
        if (bytes > met.most_bytes) met.most_bytes = bytes;
        if (all[r].once > once) once = all[r].once;
        met.need_bytes += (size_t)all[r].each[spread];
        met.ranks++;
        *taken += all[r].taken;
    }
    met.need_bytes += (size_t)once;
    return met;
}

struct judge_verdict judge_all(const struct planned_run *planned, const struct judge_row *all,
                               int world, int64_t left) {
    int64_t taken;
    struct planned_run together =
        *planned; /* the forecast counts on the ranks of the whole machine */
    together.met = judge_sum(all, world, planned->plan->config.rank, &taken);
    together.local_ranks = together.met.ranks;
    together.available_bytes = left > 0 ? left + taken : 0;
    return (struct judge_verdict){.need = (int64_t)together.met.need_bytes,
                                  .available = together.available_bytes,
                                  .refused = planned_check_memory(&together) != STATUS_OK,
                                  .ranks = together.met.ranks};
}
