/* Where stages and replicas run: --placement FILE.yml. All local; only stage_placement_read blocks,
 * on the file. docs/placement.md has the format.
 *
 * A file is a list of stages; a stage is a list of places "host:index", one for each replica, so
 * that column r is pipeline r. Index counts the ranks of a host. The order in which ranks are
 * numbered is the launcher's: host by host, and by index on each.
 * (struct placement of graph/memory.h is another thing: tensors in memory.) */
#ifndef PLAN_PLACEMENT_H
#define PLAN_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum {
    PLACEMENT_RANKS_MAX = 1 << 20,
    PLACEMENT_HOSTS_MAX = 1 << 13,
    PLACEMENT_BYTES_MAX = 32 << 20
};

/* A host and how many ranks it has. */
struct stage_placement_host {
    const char *name;
    int64_t ranks;
};

struct stage_placement_cell {
    int host;      /* number in placement->host */
    int64_t index; /* of the ranks of that host */
    int line;      /* of the file */
    int column;
};

struct stage_placement {
    const char *name; /* of the file, for messages */
    int64_t stages, replicas;
    struct stage_placement_cell *cell; /* [stages][replicas] */
    struct stage_placement_host *host; /* in the order they are first named */
    int host_count;
    struct arena arena; /* texts; the arrays are freed one by one */
};

/* The caller frees. Refused (STATUS_USAGE), with the line: stages of unequal length, a place that
 * is given twice, a host whose indices are not 0, 1, 2, ... */
enum status stage_placement_parse(const char *name, const void *text, size_t bytes,
                                  struct stage_placement *out);
enum status stage_placement_read(const char *path, struct stage_placement *out);
void stage_placement_free(struct stage_placement *placement);

#endif
