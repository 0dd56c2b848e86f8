/* Cores and memory as the kernel tells them. Files are read afresh at each call: limits can change.
 */
#include "base/machine.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

enum { LINE_BYTES = 512 };

/* The first line of a small file of the kernel, without its newline; false when there is none. */
static bool read_line(const char *path, char line[LINE_BYTES]) {
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool found = fgets(line, LINE_BYTES, file);
    fclose(file);
    if (found) line[strcspn(line, "\n")] = 0;
    return found;
}

/* The text after "key" and a colon or blank in a file of such lines. */
static bool read_key(const char *path, const char *key, char value[LINE_BYTES]) {
    FILE *file = fopen(path, "r");
    char line[LINE_BYTES];
    size_t length = strlen(key);
    bool found = false;
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) != 0 || !strchr(" \t:", line[length])) continue;
        const char *text = line + length + strspn(line + length, " \t:");
        snprintf(value, LINE_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
        found = true;
    }
    fclose(file);
    return found;
}

static int64_t read_key_number(const char *path, const char *key) {
    char value[LINE_BYTES];
    return read_key(path, key, value) ? strtoll(value, NULL, 10) : 0;
}

/* ---- cgroups ---- */

char *machine_cgroup(const char *root, const char *controller) {
    char *list = mem_format("%s/proc/self/cgroup", root), line[LINE_BYTES], *place = NULL;
    FILE *file = fopen(list, "r");
    free(list);
    while (file && !place && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        names++;
        path[strcspn(path, "\n")] = 0;
        bool ours = *controller ? false : !*names;
        for (char *name; *controller && (name = strsep(&names, ","));)
            ours |= !strcmp(name, controller);
        if (ours) place = mem_format("%s/sys/fs/cgroup/%s%s", root, controller, path);
    }
    if (file) fclose(file);
    if (place && access(place, F_OK) != 0) {
        free(place);
        place = mem_format("%s/sys/fs/cgroup/%s", root, controller);
    }
    return place;
}

/* Calls `read` on the folder and on each above it up to the mount; limits of all of them apply. */
static void each_ancestor(const char *root, const char *controller,
                          void (*read)(const char *folder, void *context), void *context) {
    SCOPED_FREE char *folder = machine_cgroup(root, controller);
    if (!folder) return;
    size_t top = strlen(root) + strlen("/sys/fs/cgroup");
    for (;;) {
        read(folder, context);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < top) break;
        *slash = 0;
    }
}

static void read_quota(const char *folder, void *context) {
    double *quota = context, microseconds = 0, period = 0;
    char line[LINE_BYTES], *path = mem_format("%s/cpu.max", folder);
    bool found = read_line(path, line) && sscanf(line, "%lf %lf", &microseconds, &period) == 2;
    free(path);
    if (!found) {
        path = mem_format("%s/cpu.cfs_quota_us", folder);
        SCOPED_FREE char *period_path = mem_format("%s/cpu.cfs_period_us", folder);
        found = read_line(path, line) && sscanf(line, "%lf", &microseconds) == 1 &&
                read_line(period_path, line) && sscanf(line, "%lf", &period) == 1;
        free(path);
    }
    if (!found || microseconds <= 0 || period <= 0) return; /* "max" or -1: no limit here */
    if (*quota == 0 || microseconds / period < *quota) *quota = microseconds / period;
}

/* Told to bind, OpenMP has tied this thread to one of its places by now, but runs a team on all of
 * them. The program has cleared such settings; one that links the library may have them. */
static void add_places(cpu_set_t *set) {
    for (int place = 0; place < omp_get_num_places(); place++) {
        int count = omp_get_place_num_procs(place), *cpus = MEM_ARRAY(int, count);
        omp_get_place_proc_ids(place, cpus);
        for (int i = 0; i < count; i++) CPU_SET((size_t)cpus[i], set);
        free(cpus);
    }
}

bool machine_mask(cpu_set_t *out) {
    if (sched_getaffinity(0, sizeof *out, out) != 0) return false;
    add_places(out);
    return true;
}

struct machine_cores machine_cores(const char *root) {
    struct machine_cores cores = {.online = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    cpu_set_t set;
    cores.affinity = machine_mask(&set) ? CPU_COUNT(&set) : cores.online;
    each_ancestor(root, "", read_quota, &cores.quota);
    each_ancestor(root, "cpu", read_quota, &cores.quota);
    cores.usable = cores.affinity;
    if (cores.quota > 0 && cores.quota < cores.usable) cores.usable = (int)ceil(cores.quota - 0.01);
    if (cores.usable < 1) cores.usable = 1;
    return cores;
}

/* ---- other processes ---- */

/* Bits of a mask as the kernel prints it: "ff,ffffffff". */
static int count_bits(const char *hex) {
    int count = 0;
    for (; *hex; hex++) {
        const char digit[] = {*hex, 0};
        if (isxdigit((unsigned char)*hex)) count += __builtin_popcountl(strtoul(digit, NULL, 16));
    }
    return count;
}

bool machine_process(const char *root, int pid, struct machine_process *out) {
    char *path = mem_format("%s/proc/%d/status", root, pid), mask[LINE_BYTES];
    bool found = read_key(path, "Cpus_allowed", mask);
    if (found)
        *out = (struct machine_process){.parent = (int)read_key_number(path, "PPid"),
                                        .affinity = count_bits(mask)};
    free(path);
    return found;
}

bool machine_process_has(const char *root, int pid, const char *variable) {
    SCOPED_FREE char *path = mem_format("%s/proc/%d/environ", root, pid), *entry = NULL;
    FILE *file = fopen(path, "re");
    size_t capacity = 0, length = strlen(variable);
    bool found = false;
    while (file && !found && getdelim(&entry, &capacity, 0, file) > 0)
        found = strncmp(entry, variable, length) == 0 && entry[length] == '=';
    if (file) fclose(file);
    return found;
}

/* ---- memory ---- */

struct memory_limit {
    int64_t limit, left; /* -1: none */
    uint64_t id;         /* of the folder with so much left */
};

/* The kernel numbers the folders of all cgroups of a machine, whatever path a container sees. */
static uint64_t folder_id(const char *folder) {
    struct stat about;
    return stat(folder, &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* Pages of files that nobody uses are given up when memory is short, so they do not count as used.
 */
static void read_memory(const char *folder, void *context) {
    static const struct {
        const char *limit, *used, *idle;
    } names[] = {
        {"memory.max", "memory.current", "inactive_file"},
        {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    };
    struct memory_limit *memory = context;
    for (int i = 0; i < 2; i++) {
        char limit[LINE_BYTES], used[LINE_BYTES],
            *limit_path = mem_format("%s/%s", folder, names[i].limit);
        char *used_path = mem_format("%s/%s", folder, names[i].used),
             *stat_path = mem_format("%s/memory.stat", folder);
        bool found = read_line(limit_path, limit) && read_line(used_path, used) &&
                     isdigit((unsigned char)*limit);
        int64_t bytes = found ? strtoll(limit, NULL, 10) : 0;
        if (found && bytes > 0 &&
            bytes < INT64_C(1) << 60) { /* v1 writes a huge number for "none" */
            int64_t left =
                bytes - strtoll(used, NULL, 10) + read_key_number(stat_path, names[i].idle);
            if (left < 0) left = 0;
            if (memory->limit < 0 || bytes < memory->limit) memory->limit = bytes;
            if (memory->left < 0 || left < memory->left)
                memory->left = left, memory->id = folder_id(folder);
        }
        free(limit_path);
        free(used_path);
        free(stat_path);
    }
}

struct machine_memory machine_memory(const char *root) {
    char *path = mem_format("%s/proc/meminfo", root);
    struct machine_memory memory = {
        .total_bytes = read_key_number(path, "MemTotal") * 1024,
        .available_bytes = read_key_number(path, "MemAvailable") * 1024,
    };
    free(path);
    struct memory_limit limit = {-1, -1, 0};
    each_ancestor(root, "", read_memory, &limit);
    each_ancestor(root, "memory", read_memory, &limit);
    memory.limit_bytes = limit.limit < 0 ? 0 : limit.limit;
    memory.usable_bytes = memory.available_bytes;
    if (limit.left >= 0 && (memory.available_bytes == 0 || limit.left < memory.available_bytes))
        memory.usable_bytes = limit.left, memory.limit_id = limit.id;
    memory.most_bytes = memory.total_bytes;
    if (limit.limit > 0 && (memory.total_bytes == 0 || limit.limit < memory.total_bytes))
        memory.most_bytes = limit.limit;
    return memory;
}

uint64_t machine_clock(const char *root) {
    char path[LINE_BYTES], boot[LINE_BYTES] = "", space[LINE_BYTES] = "";
    snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", root);
    if (!read_line(path, boot)) return 0;
    snprintf(path, sizeof path, "%s/proc/self/ns/time", root); /* older kernels have none */
    ssize_t got = readlink(path, space, sizeof space - 1);
    uint64_t clock = hash64(HASH64_START, boot, strlen(boot));
    return got > 0 ? hash64(clock, space, (size_t)got) : clock;
}

const char *machine_cpu_name(const char *root, char text[MACHINE_TEXT_BYTES]) {
    char *path = mem_format("%s/proc/cpuinfo", root), value[LINE_BYTES];
    bool found = read_key(path, "model name", value);
    free(path);
    snprintf(text, MACHINE_TEXT_BYTES, "%.*s", MACHINE_TEXT_BYTES - 1, found ? value : "unknown");
    return text;
}

int64_t machine_cache_bytes(const char *root, int level) {
    for (int index = 0; index < 8; index++) {
        char value[3][LINE_BYTES] = {{0}};
        static const char *const names[] = {"level", "type", "size"};
        bool found = true;
        for (int i = 0; i < 3; i++) {
            SCOPED_FREE char *path = mem_format("%s/sys/devices/system/cpu/cpu0/cache/index%d/%s",
                                                root, index, names[i]);
            found = found && read_line(path, value[i]);
        }
        if (!found || atoi(value[0]) != level || value[1][0] == 'I')
            continue; /* not for instructions */
        char *unit;
        int64_t size = strtoll(value[2], &unit, 10);
        return *unit == 'K' ? size * 1024 : *unit == 'M' ? size * 1024 * 1024 : size;
    }
    return 0;
}
