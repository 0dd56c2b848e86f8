/* Whether the ranks of a Slurm job can use the MUNGE bootstrap (control/munge_bootstrap.h), and at
 * which host. Local; asks MUNGE's daemon and looks the host's name up, which may block. */
#ifndef LAUNCH_SLURM_MUNGE_H
#define LAUNCH_SLURM_MUNGE_H

#include "launch/network.h"
#include "launch/rendezvous.h"

struct launch_bootstrap {
    struct control_seal seal;
    char host[LAUNCH_HOST_BYTES]; /* of rank 0, as the others know it */
    char how[LAUNCH_HOW_BYTES];   /* for people: where; or why there is none */
};

/* `host` is that of --init, or NULL: the node of rank 0. Every rank of a job comes to the same
 * answer where its nodes are alike: MUNGE runs and the name has an address on all, or on none. */
bool launch_bootstrap_find(const struct launch_config *config, const struct launch_peers *peers,
                           const char *host, struct launch_bootstrap *out);
/* Where rank 0 listens for those who look for it by that name: its own address of that name, or, as
 * a host may know itself by a loopback address, the network chosen. */
enum status launch_bootstrap_address(const struct launch_config *config,
                                     const struct launch_bootstrap *bootstrap,
                                     struct network_address *out);

/* Local. The socket of MUNGE's daemon that Slurm uses: MUNGE_SOCKET, or AuthInfo of slurm.conf; ""
 * where they say nothing, which is the default one. */
void launch_munge_socket(const struct launch_config *config, char path[CONTROL_SEAL_PATH]);

#endif
