/* See cores.h. */
#include "launch/cores.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"

static int smaller(int a, int b) {
    return a < b ? a : b;
}

int cores_threads(const struct cores_share *share) {
    int threads = share->usable;
    if (share->pool > 0) threads = smaller(threads, share->pool / share->ranks);
    if (share->said > 0) threads = smaller(threads, share->said);
    return threads > 0 ? threads : 1;
}

const char *cores_text(const struct cores_share *share, char text[CORES_TEXT_BYTES]) {
    int threads = cores_threads(share);
    bool divided = share->pool > 0 && share->pool / share->ranks <= share->usable;
    if (share->said > 0 && threads == share->said)
        snprintf(text, CORES_TEXT_BYTES, "%d (from the launcher)", threads);
    else if (divided)
        snprintf(text, CORES_TEXT_BYTES, "%d (%d usable core%s / %d local rank%s)", threads,
                 share->pool, share->pool > 1 ? "s" : "", share->ranks,
                 share->ranks > 1 ? "s" : "");
    else
        snprintf(text, CORES_TEXT_BYTES, "%d (the usable cores of this rank)", threads);
    return text;
}

bool cores_crowded(const struct cores_share *share, int threads, char text[CORES_CROWDED_BYTES]) {
    int cores = share->pool > 0 ? share->pool : share->usable, fit = cores / share->ranks;
    int64_t all = (int64_t)share->ranks * threads;
    char ranks[TEXT_BYTES], each[TEXT_BYTES], usable[TEXT_BYTES], hint[64];
    if (all <= cores) return false;
    if (fit > 0)
        snprintf(hint, sizeof hint, "--threads %d gives each thread a core", fit);
    else
        snprintf(hint, sizeof hint, "-n %d gives each rank a core", cores);
    snprintf(text, CORES_CROWDED_BYTES,
             "%s x %s = %" PRId64 " threads for %s: they take turns\n  %s",
             text_count(share->ranks, "rank", ranks), text_count(threads, "thread", each), all,
             text_count(cores, "usable core", usable), hint);
    return true;
}

int cores_of_launcher(const char *root, int pid, const char *variable) {
    enum { DEPTH = 32 };
    struct machine_process process = {0};
    for (int i = 0; i < DEPTH && pid > 0; i++, pid = process.parent) {
        if (!machine_process(root, pid, &process)) return 0;
        if (!variable || !machine_process_has(root, pid, variable)) return process.affinity;
    }
    return 0;
}

/* Slurm says what the step has on this node; its own daemon may use the whole machine. */
static int pool_of(const struct launch_config *config, const struct launch_identity *identity) {
    int pool = 0;
    if (identity->source == LAUNCH_LAUNCHER) return 0; /* it has divided the cores already */
    if (identity->source == LAUNCH_SLURM &&
        launch_number(config, "SLURM_CPUS_ON_NODE", &pool) == STATUS_OK && pool > 0)
        return pool;
    return cores_of_launcher("", getppid(), identity->variable);
}

void cores_of_rank(const struct launch_config *config, const struct launch_identity *identity,
                   struct cores_share *out) {
    struct machine_cores cores = machine_cores("");
    *out = (struct cores_share){.usable = cores.usable,
                                .pool = pool_of(config, identity),
                                .ranks = identity->host_ranks,
                                .said = identity->threads};
    if (out->pool > 0 && out->pool < cores.affinity) out->pool = cores.affinity;
    if (out->pool > 0 && cores.quota > 0)
        out->pool = smaller(out->pool, (int)ceil(cores.quota - 0.01));
}

static struct cores_share share_of(int cores, int count) {
    return (struct cores_share){.usable = cores, .pool = cores, .ranks = count};
}

void cores_of_ranks(int count, struct cores_share *out) {
    *out = share_of(machine_cores("").usable, count);
}

struct cores_each cores_each(const struct machine_cores *cores, int count, int said) {
    struct cores_share share = share_of(cores->usable, count);
    struct cores_each out = {.threads = said > 0 ? said : cores_threads(&share)};
    bool quota = cores->usable < cores->affinity;
    out.oversubscribed = (int64_t)out.threads * count > cores->usable;
    out.pinned = !out.oversubscribed && !quota && count > 1;
    return out;
}

void cores_slice(const cpu_set_t *all, int index, int count, cpu_set_t *out) {
    int share = CPU_COUNT(all) / count, seen = 0;
    CPU_ZERO(out);
    for (int cpu = 0; cpu < CPU_SETSIZE && share > 0; cpu++) {
        if (!CPU_ISSET(cpu, all)) continue;
        if (seen / share == index) CPU_SET(cpu, out);
        seen++;
    }
}
