/* See oom.h. */
#include "launch/oom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/mem.h"

/* The number after `key` at the beginning of a line; -1 when the file or the key is not there. */
static int64_t count_in(const char *path, const char *key) {
    char line[256];
    int64_t found = -1;
    size_t length = strlen(key);
    FILE *file = fopen(path, "re");
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            found = strtoll(line + length, NULL, 10);
    }
    if (file) fclose(file);
    return found;
}

static int64_t count_of(const char *root, const char *controller, const char *name) {
    SCOPED_FREE char *folder = machine_cgroup(root, controller);
    if (!folder) return -1;
    SCOPED_FREE char *path = mem_format("%s/%s", folder, name);
    return count_in(path, "oom_kill");
}

static int64_t group_count(const char *root) {
    int64_t count = count_of(root, "", "memory.events");
    return count >= 0 ? count : count_of(root, "memory", "memory.oom_control");
}

struct oom_count oom_count(const char *root) {
    SCOPED_FREE char *path = mem_format("%s/proc/vmstat", root);
    struct oom_count count = {group_count(root), count_in(path, "oom_kill")};
    return count;
}

enum oom_answer oom_between(struct oom_count before, struct oom_count after) {
    if (before.group >= 0 && after.group > before.group) return OOM_YES;
    if (before.machine >= 0 && after.machine > before.machine) return OOM_PERHAPS;
    return OOM_NO;
}
