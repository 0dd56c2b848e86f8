/* Limits of cores and memory, from folders that look like /proc and /sys. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "pretend.h"

TestSuite(base_machine, .init = pretend_make, .fini = pretend_remove);

Test(base_machine, nothing_known_means_no_limit) {
    struct machine_cores cores = machine_cores(pretend_root);
    cr_expect(cores.quota == 0 && cores.usable == cores.affinity && cores.usable >= 1);
    struct machine_memory memory = machine_memory(pretend_root);
    cr_expect(memory.total_bytes == 0 && memory.limit_bytes == 0 && memory.usable_bytes == 0);
    char text[MACHINE_TEXT_BYTES];
    cr_expect_str_eq(machine_cpu_name(pretend_root, text), "unknown");
    cr_expect_eq(machine_cache_bytes(pretend_root, 2), 0);
}

Test(base_machine, cgroup_v2_takes_the_tightest_ancestor) {
    pretend_put("proc/self/cgroup", "0::/job/step\n");
    pretend_put("proc/meminfo",
                "MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable:   500000 kB\n");
    pretend_put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    pretend_put("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
    pretend_put("sys/fs/cgroup/job/step/memory.max", "max\n");
    pretend_put("sys/fs/cgroup/job/step/memory.current", "5\n");
    pretend_put("sys/fs/cgroup/job/memory.max", "100000000\n");
    pretend_put("sys/fs/cgroup/job/memory.current", "70000000\n");
    pretend_put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 20000000\n");
    struct machine_cores cores = machine_cores(pretend_root);
    cr_expect_eq(cores.quota, 0.5);
    cr_expect_eq(cores.usable, 1);
    struct machine_memory memory = machine_memory(pretend_root);
    cr_expect_eq(memory.total_bytes, 1000000 * 1024L);
    cr_expect_eq(memory.available_bytes, 500000 * 1024L);
    cr_expect_eq(memory.limit_bytes, 100000000);
    cr_expect_eq(memory.usable_bytes, 50000000);
    cr_expect_eq(memory.most_bytes, 100000000);
    /* Siblings below the cgroup that is short share its memory. */
    cr_expect_neq(memory.limit_id, 0);
    pretend_put("proc/self/cgroup", "0::/job/other\n");
    pretend_put("sys/fs/cgroup/job/other/memory.max", "max\n");
    cr_expect_eq(machine_memory(pretend_root).limit_id, memory.limit_id);
    /* One with a limit of its own that leaves less does not. */
    pretend_put("sys/fs/cgroup/job/other/memory.max", "40000000\n");
    pretend_put("sys/fs/cgroup/job/other/memory.current", "0\n");
    cr_expect_neq(machine_memory(pretend_root).limit_id, memory.limit_id);
    /* Where the machine itself has less left, all of it is shared. */
    pretend_put("proc/meminfo", "MemTotal:  1000000 kB\nMemAvailable:   1 kB\n");
    cr_expect_eq(machine_memory(pretend_root).limit_id, 0);
}

Test(base_machine, cgroup_v1) {
    pretend_put("proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n");
    pretend_put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
    pretend_put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    pretend_put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    pretend_put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    pretend_put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    pretend_put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    pretend_put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "70000000\n");
    cr_expect_eq(machine_cores(pretend_root).quota, 1);
    cr_expect_eq(machine_memory(pretend_root).limit_bytes, 0);
    pretend_put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "80000000\n");
    cr_expect_eq(machine_memory(pretend_root).limit_bytes, 80000000);
    cr_expect_eq(machine_memory(pretend_root).usable_bytes, 10000000);
}

Test(base_machine, path_outside_the_container) {
    pretend_put("proc/self/cgroup", "0::/../not/visible\n");
    pretend_put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    cr_expect_eq(machine_cores(pretend_root).quota, 1);
}

Test(base_machine, a_clock_is_of_one_start_of_the_kernel) {
    cr_expect_eq(machine_clock(pretend_root), 0);
    pretend_put("proc/sys/kernel/random/boot_id", "0a1b\n");
    uint64_t clock = machine_clock(pretend_root);
    cr_expect(clock != 0 && machine_clock(pretend_root) == clock);
    pretend_put("proc/sys/kernel/random/boot_id", "0a1c\n");
    cr_expect_neq(machine_clock(pretend_root), clock);
}

Test(base_machine, cpu_and_caches) {
    pretend_put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fine CPU 7\n");
    pretend_put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    pretend_put("sys/devices/system/cpu/cpu0/cache/index0/type", "Instruction\n");
    pretend_put("sys/devices/system/cpu/cpu0/cache/index0/size", "16K\n");
    pretend_put("sys/devices/system/cpu/cpu0/cache/index1/level", "1\n");
    pretend_put("sys/devices/system/cpu/cpu0/cache/index1/type", "Data\n");
    pretend_put("sys/devices/system/cpu/cpu0/cache/index1/size", "32K\n");
    char text[MACHINE_TEXT_BYTES];
    cr_expect_str_eq(machine_cpu_name(pretend_root, text), "Fine CPU 7");
    cr_expect_eq(machine_cache_bytes(pretend_root, 1), 32768);
    cr_expect_eq(machine_cache_bytes(pretend_root, 3), 0);
}
