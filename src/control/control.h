/* The control plane: how the ranks of a job find one another, agree, and hear of trouble. Small messages only, over ZeroMQ.
 *
 * One server (in the launcher, or in a thread of rank 0 where another launcher started the ranks) knows every rank: who joined, what each
 * was told (contract 9), what it is doing, whether it lives. Each rank has a client with a thread of its own, so that a rank that computes
 * still answers. Sockets use CURVE with keys derived from the job's secret; on one host they are IPC sockets. A lost rank is news at once:
 * the server hears it from the launcher (a process ended), from the socket (it closed) or from silence, and tells all clients.
 *
 * Nobody joins uninvited: see SECURITY.md. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { CONTROL_SECRET_BYTES = 32, CONTROL_ADDRESS_BYTES = 256, CONTROL_VALUE_BYTES = 1 << 20 };

struct control_secret {
    unsigned char bytes[CONTROL_SECRET_BYTES];
};

/* A field all ranks must agree on before step 0 (fixed), or whose difference only switches bit-equality off. */
struct control_fact {
    const char *key, *value;
    bool fixed;
};

/* --- server ------------------------------------------------------------------------------------------------------------------------ */
struct control_server;

struct control_server_config {
    const char *bind; /* "ipc://PATH", "tcp://ADDRESS:PORT"; port 0: any free one, published by control_server_address */
    struct control_secret secret;
    int world;
    double join_limit_s; /* ranks that have not come by then are named, and the job fails */
    double silent_limit_s; /* a rank unheard of for so long is lost */
    /* Called from the server's thread; may be NULL. */
    void *context;
    void (*lost)(void *context, int rank, const char *why);
};

/* Local. Starts the server's thread; the caller stops it. Port in use: the message names the address. */
enum status control_server_start(const struct control_server_config *config, struct control_server **out);
void control_server_stop(struct control_server **server);
/* Local. Where clients connect to; static until the stop. */
const char *control_server_address(const struct control_server *server);
/* Local, any thread. A rank's process ended: tells everybody at once. `why` is for people: "killed by signal 9". */
void control_server_rank_ended(struct control_server *server, int rank, const char *why);
/* Local, any thread. What a rank was last seen doing ("step 12 #17 r0 B s0 m5"), for the launcher's obituary; returns `text`. */
const char *control_server_doing(struct control_server *server, int rank, char *text, size_t bytes);

/* --- client ------------------------------------------------------------------------------------------------------------------------ */
struct control;

struct control_config {
    const char *address;
    struct control_secret secret;
    int rank, world;
    const char *host;
    const struct control_fact *facts;
    int fact_count;
    double join_limit_s;
};

/* Collective over the job, blocking until all have joined and agree on the facts (a difference: STATUS_USAGE on every rank, with the field,
 * both values and the ranks), or the limit passes (missing ranks are named). The caller leaves. */
enum status control_join(const struct control_config *config, struct control **out);
/* Local. A clean leave is no loss. Accepts NULL. */
void control_leave(struct control **control);

/* Blocking. Key-value store of the job; get waits for the key (the caller frees the value). STATUS_PEER when a rank is lost meanwhile. */
enum status control_put(struct control *control, const char *key, const void *value, size_t bytes);
enum status control_get(struct control *control, const char *key, void **value, size_t *bytes);

/* Local, any thread, cheap. The rank known to be lost, or -1; why, as text. */
int control_lost(const struct control *control);
const char *control_lost_text(const struct control *control, char *text, size_t bytes);

/* Local, cheap enough for every instruction: what this rank is doing now; `text` is copied (cut at 95 bytes). */
void control_doing(struct control *control, int64_t step, const char *text);

/* Local. Called in a wait that lasts: after `limit_s` says once, and then at growing intervals, who waits, at what, for whom, where that
 * rank is now, slow or dead. */
void control_waiting(struct control *control, int rank, const char *what, int64_t since_ns, double limit_s);
/* Local. Prints what every rank is doing (SIGUSR1). */
void control_print_all(struct control *control);

/* --- secrets and rendezvous ---------------------------------------------------------------------------------------------------------- */
/* Local. A new secret from the system; text form (64 hex digits) to and from. */
enum status control_secret_new(struct control_secret *out);
void control_secret_text(const struct control_secret *secret, char text[2 * CONTROL_SECRET_BYTES + 1]);
enum status control_secret_parse(const char *name, const char *text, struct control_secret *out);
/* Local. From a file that only its owner may read (else refused). */
enum status control_secret_file(const char *path, struct control_secret *out);

/* Blocking. file:// rendezvous on a shared file system: rank 0 (or the first node's launcher) publishes address and secret under `path`, others
 * wait for it. Safe against stale files of dead jobs, two jobs on one path and torn writes; removed by the last to leave. `job` tells runs apart
 * where the launcher gives an id (NULL: none). */
struct control_meeting;
struct control_meeting_info {
    char address[CONTROL_ADDRESS_BYTES];
    struct control_secret secret;
};
enum status control_meet_host(const char *path, const char *job, int world, const struct control_meeting_info *info,
                              struct control_meeting **out);
enum status control_meet_guest(const char *path, const char *job, int world, double limit_s, struct control_meeting_info *info,
                               struct control_meeting **out);
void control_meet_leave(struct control_meeting **meeting);

#endif
