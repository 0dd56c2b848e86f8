/* Which hosts, and how many ranks on each: --hostfile and --nodes-file. Local; hostfile_read blocks
 * on the file.
 *
 * A host file has a line a host: "name slots=4" (also "name:4"), or names alone, as `srun hostname`
 * or an MPI machine file gives them, where a name counts once for every line. Hosts are nodes in
 * the order they are first seen. A nodes file is YAML:
 *
 *     nodes:
 *       - {host: w0, workers: 8, chief: true}
 *       - {host: w1, workers: 8}
 *
 * Names follow the grammar of host names and never begin with a dash. */
#ifndef LAUNCH_HOSTFILE_H
#define LAUNCH_HOSTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/status.h"

enum { HOSTFILE_MAX_NODES = 1 << 13, HOSTFILE_MAX_SLOTS = 1 << 16, HOSTFILE_BYTES = 1 << 20 };

struct hostfile_node {
    const char *host; /* owned by the arena */
    int slots;        /* ranks */
    int servers;      /* parameter servers, of a nodes file */
};
struct hostfile {
    int count;
    struct hostfile_node *node;
    int chief; /* the node whose launcher runs the control plane: the nodes file's chief, or the
                  first */
    struct arena arena;
};

/* Texts; `name` is for messages. The caller frees. */
enum status hostfile_parse(const char *name, const char *text, size_t bytes, struct hostfile *out);
enum status hostfile_parse_yaml(const char *name, const char *text, size_t bytes,
                                struct hostfile *out);
/* A file of either kind. */
enum status hostfile_read(const char *path, bool yaml, struct hostfile *out);
void hostfile_free(struct hostfile *hosts);

/* Ranks in all, and before node `node`. */
int hostfile_ranks_before(const struct hostfile *hosts, int node);

/* Which node is this host: by its names (long, short) and addresses. -1: none, -2: several. */
int hostfile_find(const struct hostfile *hosts, bool (*is_here)(const char *host));

/* Whether a name may be a host's. */
bool hostfile_good_name(const char *name, size_t length);

#endif
