/* Rendezvous: how a process gets the control server's address and the job's secret; and the server
 * itself, where this process is the one that runs it.
 *
 * The peers of a rendezvous are the ranks, where another launcher started them, or the launchers of
 * several nodes. The first of them runs the server. The secret comes from --key or STRETTO_KEY;
 * from our launcher by an inherited descriptor; under srun on several hosts from the MUNGE
 * bootstrap (control/munge_bootstrap.h); from MPI, where mpirun or srun --mpi=pmix started the
 * ranks; from the rendezvous file, which only its owner may read. Without --init, ranks of srun,
 * mpirun and torchrun on one host use a file named after their job in a private folder. On several
 * hosts, those of srun use the bootstrap and those of mpirun use MPI; where there is neither, they
 * use a file in the working folder, which the nodes of a cluster share. Ranks started by hand use
 * MASTER_ADDR and MASTER_PORT, where these are set. tcp:// between hosts without a key, MUNGE or
 * MPI is refused.
 *
 * With --init file:// no peer knows where the others are: the server listens on this host alone
 * until one comes from another. */
#ifndef LAUNCH_RENDEZVOUS_H
#define LAUNCH_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "control/control.h"
#include "control/munge_bootstrap.h"
#include "launch/identity.h"
#include "launch/layout.h"

enum { LAUNCH_JOB_BYTES = 128 };

/* The processes of a rendezvous, as one of them sees them. */
struct launch_peers {
    int index, count;              /* this process among the peers */
    int host;                      /* the index of the one that runs the server */
    int world;                     /* ranks of the job */
    uint32_t epoch;                /* counts restarts */
    bool one_host;                 /* all of them are on this one */
    char job[LAUNCH_JOB_BYTES];    /* the outer launcher's name for the job, "": none */
    bool slurm;                    /* started by Slurm, whose hosts know its users */
    bool mpi;                      /* started by who may also have started MPI */
    bool by_hand;                  /* started by a person: MASTER_ADDR and MASTER_PORT count */
    char first[LAUNCH_HOST_BYTES]; /* srun: the node of rank 0, "": not known */
    const struct control_status_table
        *status_table; /* of the ranks from status_table_first on; or NULL */
    int status_table_first;
    /* From the server's thread, where it is here; may be NULL. See control_server_config. */
    void *context;
    void (*given_up)(void *context, int rank, const char *why);
};

struct launch_rendezvous {
    char address[CONTROL_ADDRESS_BYTES];
    struct control_secret secret;
    uint32_t epoch;
    struct control_server *server;       /* NULL: another runs it */
    struct control_rendezvous *file;     /* or NULL */
    struct launch_remote *remote;        /* how ranks on other hosts are let in; or NULL */
    struct control_bootstrap *bootstrap; /* or NULL */
};

/* Collective over the peers, blocking until the one that runs the server is found, at most
 * `limit_s` (0: 60). The caller closes. */
enum status launch_rendezvous_open(const struct launch_config *config,
                                   const struct launch_peers *peers, double limit_s,
                                   struct launch_rendezvous *out);
/* Local. Refuses what launch_rendezvous_open would refuse in any case: rules, addresses and
 * keys that are none, an address that is not this host's, tcp:// between hosts without a secret.
 * May look up names.
 */
enum status launch_rendezvous_check(const struct launch_config *config,
                                    const struct launch_peers *peers);
/* Collective over the ranks in the same way: the rendezvous of a rank whose identity is known.
 * Takes the inherited secret. */
enum status launch_rendezvous_of_rank(const struct launch_config *config,
                                      const struct launch_identity *identity, double limit_s,
                                      struct launch_rendezvous *out);
/* Local. The status table of the launcher that started this rank; an empty one where another did.
 * The caller closes. */
enum status launch_status_table_of_rank(const struct launch_config *config,
                                        const struct launch_identity *identity,
                                        struct control_status_table *out);
/* Local; blocking where the server waits for ranks to leave. Wipes the secret. */
void launch_rendezvous_close(struct launch_rendezvous *rendezvous);

/* Local. The peers: the launchers of nodes; the ranks where `identity` was found. */
void launch_peers_of_node(const struct launch_layout *layout, struct launch_peers *out);
void launch_peers_of(const struct launch_config *config, const struct launch_identity *identity,
                     struct launch_peers *out);

#endif
