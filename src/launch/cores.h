/* How many threads a rank has by default: the usable cores divided by the ranks of this host.
 * Local, not blocking; reads /proc.
 *
 * What is to be divided depends on who started the rank. Some launchers bind each rank to cores of
 * its own (srun, mpirun by default), some let all ranks use all cores (torchrun, mpirun --bind-to
 * none, a shell), and a rank's mask does not tell which. So the cores of the launcher itself are
 * looked at: they are what its ranks have together. A rank takes its part of them, and never more
 * than its own mask and quota allow. OMP_NUM_THREADS does not count: torchrun sets it to 1,
 * whatever the machine has. */
#ifndef LAUNCH_CORES_H
#define LAUNCH_CORES_H

#include <sched.h>
#include <stdbool.h>

#include "base/machine.h"
#include "launch/identity.h"

struct cores_share {
    int usable; /* cores of this process, under its mask and quota */
    int pool;   /* cores of all ranks of this host; 0: not known */
    int ranks;  /* of this host that divide them, 1 at least */
    int said;   /* threads by whoever started the rank (our launcher, srun); 0: nothing */
};

/* Threads by default, 1 at least. Pure. */
int cores_threads(const struct cores_share *share);

/* "4 (8 usable cores / 2 local ranks)" into `text`; returns it. */
enum { CORES_TEXT_BYTES = 128 };
const char *cores_text(const struct cores_share *share, char text[CORES_TEXT_BYTES]);

/* Whether ranks of so many threads each are more than the cores; then `text` says so, with the
 * option that helps. Pure. */
enum { CORES_CROWDED_BYTES = 256 };
bool cores_crowded(const struct cores_share *share, int threads, char text[CORES_CROWDED_BYTES]);

/* The share of this process: a rank at its identity; one of `count` ranks that it will start
 * itself.
 */
void cores_of_rank(const struct launch_config *config, const struct launch_identity *identity,
                   struct cores_share *out);
void cores_of_ranks(int count, struct cores_share *out);

/* What a launcher gives each of `count` ranks: how many threads (`said`; 0: their share), and
 * whether each has cores of its own. Pure. */
struct cores_each {
    int threads;
    bool pinned;         /* ranks do not outnumber the cores, and no quota says otherwise */
    bool oversubscribed; /* ranks x threads exceed the cores: workers must not spin */
};
struct cores_each cores_each(const struct machine_cores *cores, int count, int said);

/* The cores of `all` that rank `index` of `count` gets, as many for each: neighbours by number,
 * which share caches and memory. None where there are fewer cores than ranks. Pure. */
void cores_slice(const cpu_set_t *all, int index, int count, cpu_set_t *out);

/* Cores of the launcher: the nearest process from `pid` up whose environment has no `variable`, or
 * cannot be read; a script between launcher and rank has it. 0: not known. `root` as in
 * base/machine.h. */
int cores_of_launcher(const char *root, int pid, const char *variable);

#endif
