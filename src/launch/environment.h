/* What the launcher tells a rank: by the environment, but the secret by a descriptor whose number
 * alone is told, since others may read a process's environment and arguments. Private to
 * src/launch. All local. */
#ifndef LAUNCH_ENVIRONMENT_H
#define LAUNCH_ENVIRONMENT_H

#include <stdbool.h>

struct environment_config {
    int rank, world, local_rank, local_world, node, nodes, threads, attempt;
    bool passive;             /* OpenMP's workers wait without spinning */
    bool settled;             /* the rank is this program, which openmp_settle has prepared */
    const char *isa;          /* see launch/local.h */
    const char *address;      /* of the control plane, or NULL */
    int secret, status_table; /* descriptors, -1: none */
};

/* The environment of this process with the rank's variables in place of any older ones, as execve
 * wants it. The caller frees. */
char **environment_new(const struct environment_config *config);
void environment_free(char **environment);

#endif
