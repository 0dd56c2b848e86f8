/* Threads of a rank by default: the arithmetic, and whose cores are divided. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/pretend.h"
#include "base/machine.h"
#include "launch/cores.h"

TestSuite(launch_cores, .init = pretend_make, .fini = pretend_remove);

Test(launch_cores, threads) {
    static const struct {
        struct cores_share share;
        int threads;
        const char *why;
    } cases[] = {
        {{64, 64, 1, 0}, 64, "(64 usable cores / 1 local rank)"},
        {{64, 64, 8, 0}, 8, "(64 usable cores / 8 local ranks)"},
        {{64, 64, 6, 0}, 10, "(64 usable cores / 6 local ranks)"},
        {{2, 2, 4, 0}, 1, "(2 usable cores / 4 local ranks)"},
        /* bound by the launcher: to cores of its own; to a socket that ranks share; to one core */
        {{8, 64, 8, 0}, 8, "(64 usable cores / 8 local ranks)"},
        {{32, 64, 8, 0}, 8, "(64 usable cores / 8 local ranks)"},
        {{1, 64, 8, 0}, 1, "(the usable cores of this rank)"},
        /* the launcher's cores are not known */
        {{16, 0, 4, 0}, 16, "(the usable cores of this rank)"},
        /* our launcher has divided them; srun -c 4, of 16 that the step's ranks may use; a mask
         * below what was said; srun said 8 but gave the step 4 */
        {{8, 0, 8, 8}, 8, "(from the launcher)"},
        {{16, 16, 4, 4}, 4, "(from the launcher)"},
        {{4, 64, 4, 8}, 4, "(the usable cores of this rank)"},
        {{4, 4, 4, 8}, 1, "(4 usable cores / 4 local ranks)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[CORES_TEXT_BYTES];
        cr_expect_eq(cores_threads(&cases[i].share), cases[i].threads, "case %zu: %d", i,
                     cores_threads(&cases[i].share));
        cores_text(&cases[i].share, text);
        cr_expect(atoi(text) == cases[i].threads && strstr(text, cases[i].why), "case %zu: %s", i,
                  text);
    }
}

static void put_process(int pid, int parent, const char *mask, const char *environment) {
    char name[64], text[256];
    snprintf(name, sizeof name, "proc/%d/status", pid);
    snprintf(text, sizeof text, "Name:\tx\nPPid:\t%d\nCpus_allowed:\t%s\nCpus_allowed_list:\t0-9\n",
             parent, mask);
    pretend_put(name, text);
    snprintf(name, sizeof name, "proc/%d/environ", pid);
    if (environment) pretend_put(name, environment);
}

/* mpirun (20) on 64 cores binds a script (30) to eight; the shell above it has 72. */
Test(launch_cores, launcher) {
    put_process(10, 1, "ff,ffffffff,ffffffff", "PATH=/bin");
    put_process(20, 10, "ffffffff,ffffffff", "NO_OMPI_RANK=3");
    put_process(30, 20, "000000ff,00000000", "OMPI_RANK=3");
    put_process(40, 5, "f", "OMPI_RANK=3");
    cr_expect_eq(cores_of_launcher(pretend_root, 30, "OMPI_RANK"), 64);
    cr_expect_eq(cores_of_launcher(pretend_root, 20, "OMPI_RANK"), 64);
    cr_expect_eq(cores_of_launcher(pretend_root, 30, NULL), 8);
    cr_expect_eq(cores_of_launcher(pretend_root, 40, "OMPI_RANK"), 0); /* 5 is not to be seen */
    put_process(40, 50, "f", "OMPI_RANK=3");
    put_process(50, 40, "ff", NULL); /* of another user: its environment cannot be read */
    cr_expect_eq(cores_of_launcher(pretend_root, 40, "OMPI_RANK"), 8);
    put_process(50, 40, "ff", "OMPI_RANK=3");
    cr_expect_eq(cores_of_launcher(pretend_root, 40, "OMPI_RANK"), 0); /* a circle ends */
}

static const char *slurm_step(const char *name) {
    return strcmp(name, "SLURM_CPUS_ON_NODE") == 0 ? "48" : NULL;
}

Test(launch_cores, who_says) {
    int usable = machine_cores("").usable;
    struct launch_config config = {.rank = -1, .world = -1, .variable = slurm_step};
    struct launch_identity identity = {.source = LAUNCH_LAUNCHER,
                                       .world = 2 * usable,
                                       .host_ranks = 2 * usable,
                                       .threads = usable};
    struct cores_share share;
    cores_of_rank(&config, &identity, &share);
    cr_expect_eq(cores_threads(&share), usable);
    identity.source = LAUNCH_SLURM, identity.threads = 0;
    cores_of_rank(&config, &identity, &share);
    cr_expect(share.pool == 48 || share.pool == usable, "%d", share.pool);
    identity.source = LAUNCH_TORCHRUN;
    cores_of_rank(&config, &identity, &share);
    cr_expect(share.pool >= usable && share.said == 0);
    cores_of_ranks(2, &share);
    cr_expect_eq(cores_threads(&share), usable > 1 ? usable / 2 : 1);
}

Test(launch_cores, cores_of_each_rank) {
    static const struct {
        int cores;
        bool quota;
        int count, threads;
        struct cores_each share;
    } cases[] = {
        {8, false, 2, 0, {4, true, false}}, {8, false, 3, 0, {2, true, false}},
        {2, false, 4, 0, {1, false, true}}, {8, false, 4, 3, {3, false, true}},
        {8, true, 4, 0, {2, false, false}}, {8, false, 1, 0, {8, false, false}},
        {4, false, 4, 1, {1, true, false}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine_cores cores = {.usable = cases[i].cores,
                                      .affinity = cases[i].cores + cases[i].quota};
        struct cores_each share = cores_each(&cores, cases[i].count, cases[i].threads);
        cr_expect(share.threads == cases[i].share.threads &&
                      share.pinned == cases[i].share.pinned &&
                      share.oversubscribed == cases[i].share.oversubscribed,
                  "case %zu", i);
    }
}

/* Cores as text, such as "0-7,16". */
static const char *set_text(const cpu_set_t *set, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int last = cpu;
        if (!CPU_ISSET(cpu, set)) continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set)) last++;
        used += (size_t)snprintf(text + used, bytes - used, last > cpu ? "%s%d-%d" : "%s%d",
                                 used ? "," : "", cpu, last);
        cpu = last;
    }
    return text;
}

Test(launch_cores, slices_of_cores) {
    static const struct {
        int first, last, hole; /* cores given; one that is not */
        int index, count;
        const char *slice;
    } cases[] = {
        {0, 63, -1, 0, 8, "0-7"},
        {0, 63, -1, 7, 8, "56-63"},
        {0, 63, -1, 5, 6, "50-59"},
        {16, 31, -1, 1, 2, "24-31"},
        {8, 16, 10, 0, 2, "8-9,11-12"},
        {8, 16, 10, 1, 2, "13-16"},
        {0, 1, -1, 1, 2, "1"},
        {0, 1, -1, 0, 3, ""},
        {960, 1023, -1, 1, 2, "992-1023"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cpu_set_t all, slice;
        char text[128];
        CPU_ZERO(&all);
        for (int cpu = cases[i].first; cpu <= cases[i].last; cpu++)
            if (cpu != cases[i].hole) CPU_SET((size_t)cpu, &all);
        cores_slice(&all, cases[i].index, cases[i].count, &slice);
        cr_expect_str_eq(set_text(&slice, text, sizeof text), cases[i].slice);
    }
}

Test(launch_cores, more_threads_than_cores) {
    static const struct {
        struct cores_share share;
        int threads;
        const char *text; /* NULL: they fit */
    } rows[] = {
        {{.usable = 8, .pool = 8, .ranks = 4}, 2, NULL},
        {{.usable = 2, .pool = 16, .ranks = 8}, 2, NULL},
        {{.usable = 8, .pool = 8, .ranks = 4},
         3,
         "4 ranks x 3 threads = 12 threads for 8 usable cores: they take turns\n"
         "  --threads 2 gives each thread a core"},
        {{.usable = 2, .pool = 2, .ranks = 4},
         1,
         "4 ranks x 1 thread = 4 threads for 2 usable cores: they take turns\n"
         "  -n 2 gives each rank a core"},
        {{.usable = 1, .ranks = 1},
         2,
         "1 rank x 2 threads = 2 threads for 1 usable core: they take turns\n"
         "  --threads 1 gives each thread a core"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[CORES_CROWDED_BYTES] = "";
        cr_expect_eq(cores_crowded(&rows[i].share, rows[i].threads, text), rows[i].text != NULL);
        cr_expect_str_eq(text, rows[i].text ? rows[i].text : "");
    }
}
