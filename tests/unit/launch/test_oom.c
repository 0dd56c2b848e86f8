/* Counts of kills for lack of memory, from folders that look like /proc and /sys. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "../base/pretend.h"
#include "launch/oom.h"

TestSuite(launch_oom, .init = pretend_make, .fini = pretend_remove);

Test(launch_oom, nothing_known_is_no_answer) {
    struct oom_count count = oom_count(pretend_root);
    cr_expect(count.group == -1 && count.machine == -1);
    cr_expect_eq(oom_between(count, count), OOM_NO);
}

Test(launch_oom, the_own_group_is_sure) {
    pretend_put("proc/self/cgroup", "0::/job/step\n");
    pretend_put("proc/vmstat", "nr_free_pages 1\noom_kill 3\n");
    pretend_put("sys/fs/cgroup/job/step/memory.events",
                "low 0\noom 1\noom_kill 1\noom_group_kill 0\n");
    struct oom_count before = oom_count(pretend_root);
    cr_expect(before.group == 1 && before.machine == 3);
    pretend_put("sys/fs/cgroup/job/step/memory.events",
                "low 0\noom 2\noom_kill 2\noom_group_kill 0\n");
    pretend_put("proc/vmstat", "nr_free_pages 1\noom_kill 4\n");
    cr_expect_eq(oom_between(before, oom_count(pretend_root)), OOM_YES);
}

Test(launch_oom, version_one_and_a_hidden_path) {
    pretend_put("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/hidden\n");
    pretend_put("sys/fs/cgroup/memory/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
    cr_expect_eq(oom_count(pretend_root).group, 6);
}

Test(launch_oom, a_kill_elsewhere_is_only_perhaps) {
    pretend_put("proc/vmstat", "oom_kill 3\n");
    struct oom_count before = oom_count(pretend_root);
    pretend_put("proc/vmstat", "oom_kill 4\n");
    cr_expect_eq(oom_between(before, oom_count(pretend_root)), OOM_PERHAPS);
}
