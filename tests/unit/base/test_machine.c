/* Limits of cores and memory, from folders that look like /proc and /sys. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/mem.h"

static char root[] = "/tmp/stretto-machine-XXXXXX";

static void make_root(void) {
    cr_assert(mkdtemp(root));
}

static void remove_root(void) {
    folder_remove(root);
}

static void put(const char *name, const char *text) {
    char *path = mem_format("%s/%s", root, name), *folder = mem_text(path);
    *strrchr(folder, '/') = 0;
    cr_assert_eq(folder_make(folder), STATUS_OK);
    cr_assert_eq(file_write_text(path, text), STATUS_OK);
    free(path);
    free(folder);
}

TestSuite(base_machine, .init = make_root, .fini = remove_root);

Test(base_machine, nothing_known_means_no_limit) {
    struct machine_cores cores = machine_cores(root);
    cr_expect(cores.quota == 0 && cores.usable == cores.affinity && cores.usable >= 1);
    struct machine_memory memory = machine_memory(root);
    cr_expect(memory.total_bytes == 0 && memory.limit_bytes == 0 && memory.usable_bytes == 0);
    char text[MACHINE_TEXT_BYTES];
    cr_expect_str_eq(machine_cpu_name(root, text), "unknown");
    cr_expect_eq(machine_cache_bytes(root, 2), 0);
}

Test(base_machine, cgroup_v2_takes_the_tightest_ancestor) {
    put("proc/self/cgroup", "0::/job/step\n");
    put("proc/meminfo", "MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable:   500000 kB\n");
    put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    put("sys/fs/cgroup/job/step/memory.max", "max\n");
    put("sys/fs/cgroup/job/step/memory.current", "5\n");
    put("sys/fs/cgroup/job/memory.max", "100000000\n");
    put("sys/fs/cgroup/job/memory.current", "70000000\n");
    put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 20000000\n");
    struct machine_cores cores = machine_cores(root);
    cr_expect_eq(cores.quota, 0.5);
    cr_expect_eq(cores.usable, 1);
    struct machine_memory memory = machine_memory(root);
    cr_expect_eq(memory.total_bytes, 1000000 * 1024L);
    cr_expect_eq(memory.available_bytes, 500000 * 1024L);
    cr_expect_eq(memory.limit_bytes, 100000000);
    cr_expect_eq(memory.usable_bytes, 50000000);
}

Test(base_machine, cgroup_v1) {
    put("proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n");
    put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "70000000\n");
    cr_expect_eq(machine_cores(root).quota, 1);
    cr_expect_eq(machine_memory(root).limit_bytes, 0);
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "80000000\n");
    cr_expect_eq(machine_memory(root).limit_bytes, 80000000);
    cr_expect_eq(machine_memory(root).usable_bytes, 10000000);
}

Test(base_machine, path_outside_the_container) {
    put("proc/self/cgroup", "0::/../not/visible\n");
    put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    cr_expect_eq(machine_cores(root).quota, 1);
}

Test(base_machine, cpu_and_caches) {
    put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fine CPU 7\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/type", "Instruction\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/size", "16K\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/level", "1\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/type", "Data\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/size", "32K\n");
    char text[MACHINE_TEXT_BYTES];
    cr_expect_str_eq(machine_cpu_name(root, text), "Fine CPU 7");
    cr_expect_eq(machine_cache_bytes(root, 1), 32768);
    cr_expect_eq(machine_cache_bytes(root, 3), 0);
}
