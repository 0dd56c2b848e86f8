/* Counts of kills for lack of memory, from folders that look like /proc and /sys. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "launch/oom.h"

static char root[] = "/tmp/stretto-oom-XXXXXX";

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

TestSuite(launch_oom, .init = make_root, .fini = remove_root);

Test(launch_oom, nothing_known_is_no_answer) {
    struct oom_count count = oom_count(root);
    cr_expect(count.group == -1 && count.machine == -1);
    cr_expect_eq(oom_between(count, count), OOM_NO);
}

Test(launch_oom, the_own_group_is_sure) {
    put("proc/self/cgroup", "0::/job/step\n");
    put("proc/vmstat", "nr_free_pages 1\noom_kill 3\n");
    put("sys/fs/cgroup/job/step/memory.events", "low 0\noom 1\noom_kill 1\noom_group_kill 0\n");
    struct oom_count before = oom_count(root);
    cr_expect(before.group == 1 && before.machine == 3);
    put("sys/fs/cgroup/job/step/memory.events", "low 0\noom 2\noom_kill 2\noom_group_kill 0\n");
    put("proc/vmstat", "nr_free_pages 1\noom_kill 4\n");
    cr_expect_eq(oom_between(before, oom_count(root)), OOM_YES);
}

Test(launch_oom, version_one_and_a_hidden_path) {
    put("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/hidden\n");
    put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
    cr_expect_eq(oom_count(root).group, 6);
}

Test(launch_oom, a_kill_elsewhere_is_only_perhaps) {
    put("proc/vmstat", "oom_kill 3\n");
    struct oom_count before = oom_count(root);
    put("proc/vmstat", "oom_kill 4\n");
    cr_expect_eq(oom_between(before, oom_count(root)), OOM_PERHAPS);
}
