/* The identity of a rank: its number, its host and how many there are. A process finds it from what
 * started it: our own launcher, --rank by hand, srun, a Slurm array job, mpirun, torchrun. All
 * local; launch_identity and its parts do not block.
 *
 * Nothing is guessed: variables that are half set, are no numbers or contradict --rank are refused.
 * What looks like a rank but is none (a Slurm batch script outside srun, an array job without
 * --init) is a single process, and `how` says so. */
#ifndef LAUNCH_IDENTITY_H
#define LAUNCH_IDENTITY_H

#include <stdbool.h>

#include "base/option.h"
#include "base/status.h"

enum launch_source {
#define SOURCE(ID, ...) LAUNCH_##ID,
#include "launch/sources.def"
    LAUNCH_SOURCE_ROWS, /* the rest have no row of variables */
    LAUNCH_HAND = LAUNCH_SOURCE_ROWS,
    LAUNCH_ARRAY,
    LAUNCH_ALONE
};

/* What the options say of ranks and networks. Texts belong to the options. */
struct launch_config {
    int local_ranks;                           /* -n: ranks to start here; 0: not given */
    bool derived;                              /* nobody typed -n: --stages and --replicas say it */
    int rank, world;                           /* --rank, --world-size; -1: not given */
    int nodes, node_rank;                      /* --nodes, --node-rank; -1: not given */
    const char *init;                          /* --init, or NULL */
    const char *interface;                     /* --interface, or NULL */
    const char *hostfile;                      /* --hostfile, or NULL */
    const char *nodes_file;                    /* --nodes-file, or NULL */
    const char *key;                           /* --key, or NULL */
    const char *(*variable)(const char *name); /* the environment; NULL: getenv */
};

enum { LAUNCH_HOST_BYTES = 256, LAUNCH_MACHINE_BYTES = 96, LAUNCH_HOW_BYTES = 256 };

struct launch_identity {
    enum launch_source source;
    int rank, world; /* alone: 0 of 1 */
    int local_rank,
        local_world; /* among the ranks of this host, as far as the source says; else 0 of 1 */
    int node, nodes; /* as far as the source says; by hand and in array jobs every rank counts as a
                        node */
    int host_ranks;  /* ranks of this host, which divide its cores: local_world, or what is known
                        beyond it (LOCAL_WORLD_SIZE alone; all, where --init names loopback) */
    int threads;     /* meant for this rank; 0: not said */
    const char *variable;               /* that gives the rank; NULL: none does */
    char host[LAUNCH_HOST_BYTES];       /* for people */
    char machine[LAUNCH_MACHINE_BYTES]; /* equal where ranks can share memory: one boot of one
                                           machine, one network namespace */
    char how[LAUNCH_HOW_BYTES];         /* "srun: SLURM_PROCID 3, SLURM_STEP_NUM_TASKS 8" */
};

enum status launch_identity(const struct launch_config *config, struct launch_identity *out);

/* Whether nobody started the rank but a person, who gave its number: --rank, or RANK. */
bool launch_is_by_hand(const struct launch_identity *identity);

/* What the options of group "ranks" say. */
void launch_config_of(const struct options *options, struct launch_config *out);

/* A variable of the config's environment, NULL when unset or empty. */
const char *launch_variable(const struct launch_config *config, const char *name);
/* A number of the environment into *out; untouched where the variable is unset. Refused when it is
 * no number from 0. */
enum status launch_number(const struct launch_config *config, const char *name, int *out);

/* Host name and machine of this process alone. */
void launch_identity_here(struct launch_identity *out);

#endif
