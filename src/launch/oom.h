/* Was a process killed for lack of memory? The kernel counts such kills, for this process's cgroup
 * and for the whole machine; its log needs rights that a user does not have. Local; reads /proc and
 * /sys below `root` ("" but for tests). Private to src/launch. */
#ifndef LAUNCH_OOM_H
#define LAUNCH_OOM_H

#include <stdint.h>

struct oom_count {
    int64_t group, machine; /* kills so far; -1: not known */
};

struct oom_count oom_count(const char *root);

enum oom_answer { OOM_NO, OOM_PERHAPS, OOM_YES };
/* What the counts before and after a SIGKILL say: our cgroup's own is sure; the machine's may be
 * about somebody else. */
enum oom_answer oom_between(struct oom_count before, struct oom_count after);

#endif
