/* See load.h. */
#include "base/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

static int64_t time_ns(struct timeval time) {
    return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000;
}

static int64_t own_ns(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
}

/* "time on a core, time waiting for one, turns" of the thread. */
static int64_t wait_ns(const char *root) {
    SCOPED_FREE char *path = mem_format("%s/proc/thread-self/schedstat", root);
    FILE *file = fopen(path, "re");
    int64_t ran, waited = -1;
    if (file && fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2) waited = -1;
    if (file) fclose(file);
    return waited;
}

/* "cpu user nice system idle iowait irq softirq steal ...", in ticks. */
static void read_machine(const char *root, struct load *out) {
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COUNT };
    SCOPED_FREE char *path = mem_format("%s/proc/stat", root);
    FILE *file = fopen(path, "re");
    int64_t part[COUNT], tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    int found = file ? fscanf(file,
                              "cpu %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
                              " %" SCNd64 " %" SCNd64 " %" SCNd64,
                              &part[USER], &part[NICE], &part[SYSTEM], &part[IDLE], &part[IOWAIT],
                              &part[IRQ], &part[SOFTIRQ], &part[STEAL])
                     : 0;
    out->busy_ns = out->stolen_ns = -1;
    if (found == COUNT) {
        out->busy_ns =
            tick_ns * (part[USER] + part[NICE] + part[SYSTEM] + part[IRQ] + part[SOFTIRQ]);
        out->stolen_ns = tick_ns * part[STEAL];
    }
    if (file) fclose(file);
}

struct load load_now(const char *root) {
    struct load load = {.at_ns = clock_ns(), .own_ns = own_ns(), .wait_ns = wait_ns(root)};
    read_machine(root, &load);
    return load;
}

static int64_t between(int64_t begin, int64_t end) {
    return begin < 0 || end < begin ? -1 : end - begin;
}

struct load load_between(const struct load *begin, const struct load *end) {
    return (struct load){.at_ns = between(begin->at_ns, end->at_ns),
                         .own_ns = between(begin->own_ns, end->own_ns),
                         .wait_ns = between(begin->wait_ns, end->wait_ns),
                         .busy_ns = between(begin->busy_ns, end->busy_ns),
                         .stolen_ns = between(begin->stolen_ns, end->stolen_ns)};
}
