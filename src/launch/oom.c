/* See oom.h. */
#include "launch/oom.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A line of /proc/self/cgroup is "0::/path" (version 2) or "9:memory:/path"; where a container
 * hides the outer path, the mount itself is the group. */
static int64_t count_of_line(const char *root, char *line) {
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return -1;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    bool second = controllers[1] == 0;
    if (!second && strcmp(controllers + 1, "memory") != 0) return -1;
    const char *mount = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char *name = second ? "memory.events" : "memory.oom_control";
    char *inside = mem_format("%s%s%s/%s", root, mount, strcmp(path, "/") ? path : "", name),
         *top = mem_format("%s%s/%s", root, mount, name);
    int64_t count = count_in(inside, "oom_kill");
    if (count < 0) count = count_in(top, "oom_kill");
    free(inside);
    free(top);
    return count;
}

static int64_t group_count(const char *root) {
    char line[4096];
    int64_t count = -1;
    char *path = mem_format("%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && count < 0 && fgets(line, sizeof line, file)) count = count_of_line(root, line);
    if (file) fclose(file);
    free(path);
    return count;
}

struct oom_count oom_count(const char *root) {
    char *path = mem_format("%s/proc/vmstat", root);
    struct oom_count count = {group_count(root), count_in(path, "oom_kill")};
    free(path);
    return count;
}

enum oom_answer oom_between(struct oom_count before, struct oom_count after) {
    if (before.group >= 0 && after.group > before.group) return OOM_YES;
    if (before.machine >= 0 && after.machine > before.machine) return OOM_PERHAPS;
    return OOM_NO;
}
