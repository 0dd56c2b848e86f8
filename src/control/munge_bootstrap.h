/* MUNGE bootstrap: ranks get the control server's address and the job's secret from rank 0 when
 * they share a user and a network, but no file system and no key: under srun, with MUNGE.
 *
 * Rank 0 is the server. It listens at one of a few ports that follow from the job's name. A client
 * sends a nonce; the reply is the rendezvous record (rendezvous_record.h) with that nonce, under a
 * seal (seal.h) that only this user can open. Anyone else who asks, listens or relays gets nothing
 * that he can read, and cannot make a client accept anything: a record sealed by another user, of
 * another job or with another nonce is refused. At most 64 clients are served at once, for two
 * seconds and 49 bytes each; a further one replaces the oldest. */
#ifndef CONTROL_MUNGE_BOOTSTRAP_H
#define CONTROL_MUNGE_BOOTSTRAP_H

#include "control/control.h"
#include "control/seal.h"

enum { CONTROL_BOOTSTRAP_PORTS = 4 };

struct control_bootstrap_config {
    struct control_seal seal;
    const char *job;     /* names it to all its ranks, and no other job */
    const char *address; /* server: its own, to listen on; client: the server's name or address */
    int world;
    double limit_s; /* server: closes by itself then; client: looks for the server so long */
};

struct control_bootstrap;

/* Local. The ports of a job's bootstrap server, in the order they are tried. */
void control_bootstrap_ports(const char *job, int port[CONTROL_BOOTSTRAP_PORTS]);
/* Local; a thread of its own answers. The caller closes. STATUS_USAGE when no port is free. */
enum status control_bootstrap_serve(const struct control_bootstrap_config *config,
                                    const struct control_rendezvous_info *info,
                                    struct control_bootstrap **out);
/* Local. The port it listens at. */
int control_bootstrap_port(const struct control_bootstrap *bootstrap);
/* Blocking until the server replies, at most limit_s (STATUS_PEER). */
enum status control_bootstrap_fetch(const struct control_bootstrap_config *config,
                                    struct control_rendezvous_info *out);
/* Local. Accepts NULL. */
void control_bootstrap_close(struct control_bootstrap **bootstrap);

#endif
