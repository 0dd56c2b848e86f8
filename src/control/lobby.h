/* The lobby: where ranks learn the control server's address and the job's secret when they share a
 * user and a network, but no file system and no key: under srun, with MUNGE.
 *
 * The host listens at one of a few ports that follow from the job's name. A guest sends a number
 * never used before; it is answered with the record of the meeting (record.h), which carries that
 * number, under a seal (seal.h) that only this user can open. Whoever else asks, listens or passes
 * it on gets nothing he can read, and nothing he can make a guest believe: a record closed by
 * another user, of another job or with another number is refused. At most 64 askers are heard at
 * once, for two seconds and 49 bytes each; more push out the oldest. */
#ifndef CONTROL_LOBBY_H
#define CONTROL_LOBBY_H

#include "control/control.h"
#include "control/seal.h"

enum { CONTROL_LOBBY_PORTS = 4 };

struct control_lobby_config {
    struct control_seal seal;
    const char *job;     /* names it to all its ranks, and no other job */
    const char *address; /* host: its own, to listen on; guest: the host's name or address */
    int world;
    double limit_s; /* host: closes by itself then; guest: looks for the host so long */
};

struct control_lobby;

/* Local. The ports at which a job's lobby may be, in the order they are tried. */
void control_lobby_ports(const char *job, int port[CONTROL_LOBBY_PORTS]);
/* Local; a thread of its own answers. The caller closes. STATUS_USAGE when no port is free. */
enum status control_lobby_host(const struct control_lobby_config *config,
                               const struct control_meeting_info *info, struct control_lobby **out);
/* Local. The port it listens at. */
int control_lobby_port(const struct control_lobby *lobby);
/* Blocking until the host answers, at most limit_s (STATUS_PEER). */
enum status control_lobby_guest(const struct control_lobby_config *config,
                                struct control_meeting_info *out);
/* Local. Accepts NULL. */
void control_lobby_close(struct control_lobby **lobby);

#endif
