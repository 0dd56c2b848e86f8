/* Which ranks run on which node, for the launcher: from -n, --nodes and --node-rank, or from a host
 * file or nodes file. Local; reads the file and may look up names. */
#ifndef LAUNCH_LAYOUT_H
#define LAUNCH_LAYOUT_H

#include "base/status.h"
#include "launch/identity.h"

enum { LAUNCH_DEFAULT_PORT = 29511 };

struct launch_layout {
    int node, nodes;
    int count, first_rank, world; /* ranks of this node among all */
    int chief;                    /* the node whose launcher runs the control plane */
    char init[320]; /* where launchers meet: --init, or the chief's default port; "" on one node */
    char how[LAUNCH_HOW_BYTES]; /* "node 1 of 2 by hosts.txt" */
};

/* `is_here` tells whether a host name is this host's (network_is_here but for tests). */
enum status launch_layout(const struct launch_config *config, bool (*is_here)(const char *host),
                          struct launch_layout *out);

#endif
