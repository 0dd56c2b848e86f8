/* Which ranks are on this machine, and whether all of them fit: see rank.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/text.h"
#include "comm/link_share.h"
#include "launch/cores.h"
#include "plan/resolve.h"
#include "run/judge.h"
#include "run/rank.h"

static bool has_own_limit(const struct rank *rank) {
    return option_is_set(rank->options, OPTION_memory_limit_bytes);
}

static enum status share_neighbours(struct rank *rank, struct judge_row *all) {
    struct judge_row own = judge_row_of(&rank->session.planned, rank->identity->machine,
                                        has_own_limit(rank) || run_rank_is_judged(rank));
    int world = rank->identity->world;
    struct bytes *values = MEM_ARRAY(struct bytes, world), mine = {(void *)&own, sizeof own};
    enum status status =
        comm_link_share(&rank->link, "machine", rank->identity->rank, world, &mine, values);
    for (int r = 0; r < world && status == STATUS_OK; r++) {
        CHECK(values[r].count == sizeof all[r], "rank %d told %zu bytes of itself", r,
              values[r].count);
        memcpy(&all[r], values[r].data, sizeof all[r]);
    }
    comm_link_share_free(values, world);
    free(values);
    return status;
}

/* Ranks started by hand learn only now how many share their host, after the plan was made for a
 * number of threads. One of a host speaks for all; our launcher has spoken already. */
static void warn_crowded(const struct rank *rank) {
    const struct planned_run *planned = &rank->session.planned;
    struct cores_share share = planned->cores;
    int threads = planned->plan->config.threads;
    char text[CORES_CROWDED_BYTES], each[TEXT_BYTES], cores[TEXT_BYTES];
    bool unseen = rank->here > share.ranks && !option_is_set(rank->options, OPTION_threads);
    share.ranks = rank->here;
    if (!rank->first_here || rank->identity->source == LAUNCH_LAUNCHER ||
        !cores_crowded(&share, threads, text))
        return;
    if (!unseen)
        log_warning("host %s: %-s", rank->identity->host, text);
    else
        log_warning("%d ranks of host %s have %s each, for %s\n"
                    "  give --threads %d, or set LOCAL_WORLD_SIZE to %d",
                    share.ranks, rank->identity->host, text_count(threads, "thread", each),
                    text_count(share.pool > 0 ? share.pool : share.usable, "core", cores),
                    cores_threads(&share), share.ranks);
}

static int count_machine(const struct rank *rank, const struct judge_row *all,
                         const char *machine) {
    int count = 0;
    for (int r = 0; r < rank->identity->world; r++) count += strcmp(all[r].machine, machine) == 0;
    return count;
}

static bool is_first_here(const struct rank *rank, const struct judge_row *all) {
    int first = 0, own = rank->identity->rank;
    while (first < own && strcmp(all[first].machine, rank->identity->machine) != 0) first++;
    return first == own;
}

static enum status get_verdict(struct rank *rank, int judge, struct judge_verdict *out) {
    SCOPED_FREE void *value = NULL;
    size_t bytes;
    char key[32];
    snprintf(key, sizeof key, "memory/%d", judge);
    TRY(control_get(rank->control, key, &value, &bytes));
    CHECK(bytes == sizeof *out, "%s has %zu bytes", key, bytes);
    memcpy(out, value, bytes);
    return STATUS_OK;
}

/* The judge has said it itself, with more. */
static enum status say_refused(const struct rank *rank, int judge, bool mine,
                               const struct judge_verdict *verdict) {
    char need[TEXT_BYTES], there[TEXT_BYTES];
    if (judge == rank->identity->rank) return STATUS_MEMORY;
    if (!mine)
        return fail(STATUS_MEMORY, "the machine of rank %d has too little memory for its %d ranks",
                    judge, verdict->ranks);
    return fail(STATUS_MEMORY,
                "the %d ranks of this machine would need %s, what is available is %s\n"
                "  rank %d says what they need most for, and what would fit",
                verdict->ranks, text_size(verdict->need, need),
                text_size(verdict->available, there), judge);
}

/* None takes more memory before all have heard that all fit. All come to the same answer, so that
 * none is taken for lost. */
static enum status hear_verdicts(struct rank *rank, const struct judge_row *all) {
    int own = rank->identity->rank, world = rank->identity->world, refused = -1;
    struct judge_verdict verdict, first = {0};
    char key[32];
    if (judge_asked(all, world, own)) {
        verdict = judge_all(&rank->session.planned, all, world, machine_memory("").usable_bytes);
        snprintf(key, sizeof key, "memory/%d", own);
        TRY(control_put(rank->control, key, &verdict, sizeof verdict));
    }
    for (int r = 0; r < world; r++) {
        if (!judge_asked(all, world, r)) continue;
        TRY(get_verdict(rank, r, &verdict));
        if (verdict.refused && refused < 0) refused = r, first = verdict;
    }
    if (refused < 0) return STATUS_OK;
    rank->agreed = true;
    return say_refused(rank, refused, judge_of(all, world, own) == refused, &first);
}

/* Ranks started by hand or as an array learn only here how many share their machine. */
static void take_neighbours(struct rank *rank, const struct judge_row *all) {
    rank->here = count_machine(rank, all, rank->identity->machine);
    rank->first_here = is_first_here(rank, all);
    rank->session.planned.local_ranks = rank->here; /* the forecast counts with them */
    struct machine_process launcher;
    if (rank->identity->source == LAUNCH_LAUNCHER && machine_process("", getppid(), &launcher))
        rank->session.host_cores = launcher.affinity; /* this rank may be bound to its own */
    plan_use_comm(rank->session.planned.plan,
                  resolve_comm(rank->options, rank->here < rank->identity->world));
}

enum status run_rank_check_neighbours(struct rank *rank) {
    struct judge_row *all = MEM_ARRAY(struct judge_row, rank->identity->world);
    enum status status = share_neighbours(rank, all);
    if (status == STATUS_OK) take_neighbours(rank, all);
    if (status == STATUS_OK && has_own_limit(rank) && !run_rank_is_judged(rank))
        status = planned_check_memory(&rank->session.planned);
    if (status == STATUS_OK) status = hear_verdicts(rank, all);
    free(all);
    if (status == STATUS_OK) warn_crowded(rank);
    return status;
}
