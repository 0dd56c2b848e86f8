/* What this process may use of the machine: cores and memory, under affinity masks and cgroup
 * limits (v1 and v2), which containers and batch systems set and which the plain totals ignore. All
 * local; reads /proc and /sys.
 *
 * `root` is put before /proc and /sys: "" but for tests. What cannot be read counts as no limit. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct machine_cores {
    int online;   /* of the machine */
    int affinity; /* this process may be scheduled on */
    double quota; /* of the cgroups, in cores; 0: none */
    int usable;   /* the smallest of them, at least 1: how many threads make sense */
};
struct machine_cores machine_cores(const char *root);

/* The cores of `affinity`, by number; false where the kernel does not say. */
bool machine_mask(cpu_set_t *out);

/* Another process of this machine: its parent and the cores it may be scheduled on; false where it
 * cannot be read. Whether it was started with a variable in its environment; false also where that
 * cannot be read. */
struct machine_process {
    int parent, affinity;
};
bool machine_process(const char *root, int pid, struct machine_process *out);
bool machine_process_has(const char *root, int pid, const char *variable);

struct machine_memory {
    int64_t total_bytes;     /* of the machine; 0: unknown */
    int64_t available_bytes; /* without swapping, over the whole machine */
    int64_t limit_bytes;     /* of the cgroups; 0: none */
    int64_t usable_bytes;    /* the smaller of what is available and what is left below the limit */
    int64_t most_bytes; /* that could ever be usable: the smaller of total and limit; 0: unknown */
    uint64_t limit_id;  /* of the cgroup that leaves least, where it leaves less than the machine;
                           0: the machine. Processes of one machine with the same share memory */
};
struct machine_memory machine_memory(const char *root);

/* The folder of this process's cgroup under a controller of version 1 ("cpu", "memory"), or of
 * version 2 (""); NULL: there is none. Where a container shows a path that it cannot see, its own
 * root is the place. The caller frees it. */
char *machine_cgroup(const char *root, const char *controller);

/* Which clock clock_ns() reads: processes with the same one, other than 0, see the same time. It is
 * of one start of a kernel, and of a namespace of times; 0: unknown. */
uint64_t machine_clock(const char *root);

/* "AMD EPYC 7763" into `text`, "unknown" where the kernel does not say; returns `text`. */
enum { MACHINE_TEXT_BYTES = 128 };
const char *machine_cpu_name(const char *root, char text[MACHINE_TEXT_BYTES]);

/* Bytes of the data or unified cache of `level` that core 0 sees; 0: none or unknown. */
int64_t machine_cache_bytes(const char *root, int level);

#endif
