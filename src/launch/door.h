/* The way into a job: the control plane's address and the job's secret, however they are found; and
 * the server, where this process is the one that runs it.
 *
 * Who meets are the ranks, where another launcher started them, or the launchers of several nodes.
 * The first of them runs the server. The secret comes from --key or STRETTO_KEY; from our launcher
 * by an inherited descriptor; under srun on several hosts from a lobby (control/lobby.h), sealed by
 * MUNGE; from MPI, which mpirun or srun --mpi=pmix started; from the rendezvous file, which only
 * its owner may read. Without --init ranks of srun, mpirun and torchrun on one host meet at a file
 * named after their job in a private folder. On several those of srun meet in the lobby, those of
 * mpirun by MPI, and where there is neither, at a file in the working folder, which the nodes of a
 * cluster share. tcp:// between hosts without a key, a lobby or MPI is refused.
 *
 * With --init file:// nobody knows where the others are: the server listens on this host alone
 * until one comes from another. */
#ifndef LAUNCH_DOOR_H
#define LAUNCH_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "control/control.h"
#include "control/lobby.h"
#include "launch/layout.h"
#include "launch/place.h"

enum { LAUNCH_JOB_BYTES = 128 };

/* Who meets. */
struct launch_party {
    int index, count;                  /* this one among those that meet */
    int host;                          /* the index of the one that runs the server */
    int world;                         /* ranks of the job */
    uint32_t epoch;                    /* counts restarts */
    bool one_host;                     /* all of them are on this one */
    char job[LAUNCH_JOB_BYTES];        /* the outer launcher's name for the job, "": none */
    bool slurm;                        /* started by Slurm, whose hosts know its users */
    bool mpi;                          /* started by who may also have started MPI */
    char first[LAUNCH_HOST_BYTES];     /* srun: the node of rank 0, "": not known */
    const struct control_board *board; /* of the ranks from board_first on; or NULL */
    int board_first;
    /* From the server's thread, where it is here; may be NULL. See control_server_config. */
    void *context;
    void (*given_up)(void *context, int rank, const char *why);
};

struct launch_door {
    char address[CONTROL_ADDRESS_BYTES];
    struct control_secret secret;
    uint32_t epoch;
    struct control_server *server;   /* NULL: another runs it */
    struct control_meeting *meeting; /* or NULL */
    struct launch_far *far;          /* how hosts elsewhere are let in; or NULL */
    struct control_lobby *lobby;     /* or NULL */
};

/* Collective over the party, blocking until the one that runs the server is found, at most
 * `limit_s` (0: 60). The caller closes. */
enum status launch_door_open(const struct launch_config *config, const struct launch_party *party,
                             double limit_s, struct launch_door *out);
/* Local. Refuses what launch_door_open would refuse whoever else comes: rules, addresses and keys
 * that are none, an address that is not this host's, a way that nobody guards. May look up names.
 */
enum status launch_door_check(const struct launch_config *config, const struct launch_party *party);
/* Collective over the ranks in the same way: the door of a rank that knows its place. Takes the
 * inherited secret. */
enum status launch_door_of_rank(const struct launch_config *config,
                                const struct launch_place *place, double limit_s,
                                struct launch_door *out);
/* Local. The board of the launcher that started this rank; an empty one where another did. The
 * caller closes. */
enum status launch_board_of_rank(const struct launch_config *config,
                                 const struct launch_place *place, struct control_board *out);
/* Local; blocking where the server waits for ranks to leave. Wipes the secret. */
void launch_door_close(struct launch_door *door);

/* Local. Those who meet: the launchers of nodes, and the ranks where `place` was found. */
void launch_party_of_node(const struct launch_layout *layout, struct launch_party *out);
void launch_party_of(const struct launch_config *config, const struct launch_place *place,
                     struct launch_party *out);

#endif
