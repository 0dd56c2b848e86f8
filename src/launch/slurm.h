/* Slurm's compressed texts: node lists ("gnode[08-10,20],login1") and task counts ("4(x2),1").
 * Local, not blocking. */
#ifndef LAUNCH_SLURM_H
#define LAUNCH_SLURM_H

#include "base/mem.h"
#include "base/status.h"

enum { SLURM_HOSTS_MAX = 1 << 16, SLURM_HOST_BYTES = 256 };

struct slurm_hosts {
    int count;
    const char **name; /* owned by the arena */
    struct arena arena;
};

/* The names in the order of the list, zero padding kept; several bracket groups in one name give
 * every combination, the last group fastest. `variable` is for messages. The caller frees. */
enum status slurm_hosts_parse(const char *variable, const char *list, struct slurm_hosts *out);
void slurm_hosts_free(struct slurm_hosts *hosts);

/* Tasks on node `node` (from 0) of a text such as "4(x2),1". */
enum status slurm_tasks_on(const char *variable, const char *text, int node, int *out);

#endif
