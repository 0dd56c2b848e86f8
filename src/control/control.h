/* The control plane: how the ranks of a job find one another, agree, and hear of trouble. Small
 * messages only, over ZeroMQ.
 *
 * One server (in the launcher, or in a thread of rank 0 where another launcher started the ranks)
 * knows every rank: who joined, what each was told (contract 9), what it is doing, whether it
 * lives. Each rank has a client with a thread of its own, so that a rank that computes still
 * answers. Sockets use CURVE with keys derived from the job's secret; on one host they are IPC
 * sockets. A lost rank is reported at once: the server learns it from the launcher (a process
 * ended), from the socket (it closed) or from silence, and tells all clients. Clients notice a lost
 * server too. Durations are of the monotonic clock, and whoever was paused itself blames nobody for
 * the silence.
 *
 * Nobody joins uninvited: see SECURITY.md. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "control/status_table.h"

enum {
    CONTROL_SECRET_BYTES = 32,
    CONTROL_ADDRESS_BYTES = 256,
    CONTROL_KEY_BYTES = 256, /* of a key in the store, at most */
    CONTROL_VALUE_BYTES = 1 << 20,
    CONTROL_SERVER = -2, /* control_lost: the server is; CONTROL_NOBODY: nobody is */
};

struct control_secret {
    unsigned char bytes[CONTROL_SECRET_BYTES];
};

/* A field all ranks must agree on before the first step (fixed), or whose difference only switches
 * bit-equality off. Keys below 64 bytes, values below 512, at most 128 facts. */
struct control_fact {
    const char *key, *value;
    bool fixed;
};

/* --- server --- */
struct control_server;

struct control_server_config {
    /* NULL: an IPC socket without a file, for ranks of this host and user; "ipc://PATH";
     * "tcp://ADDRESS:PORT", port 0: any free one, no address: loopback. */
    const char *bind;
    struct control_secret secret;
    int world;
    uint32_t epoch; /* which start of the job this is; clients of an earlier are refused, of a later
                       wait */
    double join_limit_s;   /* ranks that have not come by then are named, the job fails; 0: 60 */
    double silent_limit_s; /* a rank unheard of for so long is lost; 0: 15 */
    double leave_limit_s;  /* how long the stop waits for ranks that have not left; 0: 5 */
    const struct control_status_table
        *status_table; /* of ranks from status_table_first on; outlives the server; or NULL */
    int status_table_first;
    /* Called from the server's thread, once for each rank; may be NULL. Must not stop the server.
     */
    void *context;
    void (*lost)(void *context, int rank, const char *why);
    /* The same way: the job goes on or ends without this rank, whose process may well be there: it
     * was silent too long, or did not come. */
    void (*given_up)(void *context, int rank, const char *why);
};

/* Local. Starts the server's thread; the caller stops it. Port in use: the message names the
 * address. May raise the soft limit of open files to have room for uninvited connections. */
enum status control_server_start(const struct control_server_config *config,
                                 struct control_server **out);
/* Local, blocking until joined ranks have left or are lost, at most leave_limit_s. Accepts NULL. */
void control_server_stop(struct control_server **server);
/* Local. Where clients connect to; static until the stop. */
const char *control_server_address(const struct control_server *server);
/* Local, any thread, not blocking. A rank's process ended: tells everybody at once, unless the rank
 * had left. `why` is for people: "killed by signal 9". */
void control_server_rank_ended(struct control_server *server, int rank, const char *why);
/* Local, any thread, blocking until the server's thread has done it. Listens at `bind` too (see
 * control_server_config), and says where that is. */
enum status control_server_also(struct control_server *server, const char *bind,
                                char address[CONTROL_ADDRESS_BYTES]);
/* Local, any thread. What a rank was last seen doing ("step 12 #17 r0 B s0 m5"), for the launcher's
 * exit report: exact where the status table has the rank, else as of its last beat; returns `text`.
 */
const char *control_server_doing(struct control_server *server, int rank, char *text, size_t bytes);

/* Local, any thread. A line for every rank, where it is (SIGUSR1 to the launcher). */
void control_server_print_all(struct control_server *server);

/* --- client --- */
struct control;

struct control_config {
    const char *address;
    struct control_secret secret;
    int rank, world;
    uint32_t epoch; /* the server's; one of an earlier start is waited out */
    const char *host;
    struct control_row *row; /* of the launcher's status table, outlives the client; NULL: none */
    const struct control_fact *facts;
    int fact_count;
    double join_limit_s; /* 0: 60 */
    int server_pid;      /* where the server is a process of this machine, 0: not known. While that
                            process is stopped, its silence is no loss */
};

/* Collective over the job, blocking until all have joined and agree on the facts (a difference:
 * STATUS_USAGE on every rank, with the field, both values and the ranks), or the limit passes
 * (STATUS_PEER; missing ranks are named). The caller leaves. */
enum status control_join(const struct control_config *config, struct control **out);
/* Local, blocking for two seconds at most. A clean leave is no loss. Accepts NULL. */
void control_leave(struct control **control);
/* Local, blocking for two seconds at most. This rank has failed by itself and goes no further: all
 * others hear that it is lost, and why. What is left to do is to leave. */
void control_give_up(struct control *control, const char *why);
/* Local. Whether the facts that are not fixed agree too: bits may be expected to be equal. */
bool control_same_bits(const struct control *control);

/* Blocking, any thread. Key-value store of the job; a second put replaces the value; get waits for
 * the key (the caller frees the value, which a zero byte follows) and says so when that lasts.
 * STATUS_PEER when a rank or the server is lost meanwhile. */
enum status control_put(struct control *control, const char *key, const void *value, size_t bytes);
enum status control_get(struct control *control, const char *key, void **value, size_t *bytes);

/* Local, any thread, cheap. The first rank known to be lost, CONTROL_SERVER, or CONTROL_NOBODY;
 * why, as text ("rank 3 is lost: killed by signal 9"); returns `text`. */
int control_lost(const struct control *control);
const char *control_lost_text(struct control *control, char *text, size_t bytes);

/* Local, one thread at a time, cheap enough for every instruction: what this rank is doing now;
 * `text` is copied (cut at 95 bytes). A negative step is not shown. */
void control_doing(struct control *control, int64_t step, const char *text);

/* Local. Called in a wait that lasts, as often as liked: after `limit_s`, and then at doubling
 * intervals, says who waits, at what, for whom, where that rank is now, slow or dead. Returns at
 * once but when it speaks: then it asks the server, for one second at most. `rank` -1: for all of
 * them; names those furthest behind. `since_ns` tells waits apart. */
void control_waiting(struct control *control, int rank, const char *what, int64_t since_ns,
                     double limit_s);
/* Local, blocking for one second at most; not from a signal handler. Prints what every rank is
 * doing (SIGUSR1). */
void control_print_all(struct control *control);

/* --- secrets --- */
/* Local. A new secret from the system; text form (64 hex digits) to and from; `name` is for
 * messages. Whoever holds a secret wipes it when it is used. */
enum status control_secret_new(struct control_secret *out);
void control_secret_wipe(struct control_secret *secret);
void control_secret_text(const struct control_secret *secret,
                         char text[2 * CONTROL_SECRET_BYTES + 1]);
enum status control_secret_parse(const char *name, const char *text, struct control_secret *out);
/* Local. From a file that is the user's own and that nobody else may read (else refused); to a new
 * file of that kind (an old one is not overwritten). */
enum status control_secret_file(const char *path, struct control_secret *out);
enum status control_secret_save(const char *path, const struct control_secret *secret);
/* Local. From launcher to ranks: a sealed memory file, close-on-exec until the launcher clears that
 * in the child; the caller closes it. All ranks may inherit one; receive closes the rank's. */
enum status control_secret_share(const struct control_secret *secret, int *fd);
enum status control_secret_receive(int fd, struct control_secret *out);

/* --- file:// rendezvous --- */
/* On a shared file system: rank 0 (or the first node's launcher) publishes address and secret under
 * `path`, others wait for it. Safe against stale files of dead jobs, two jobs on one path and torn
 * writes; removed by the last to leave. `job` tells runs apart where the launcher gives an id
 * (NULL: none). */
struct control_rendezvous;
struct control_rendezvous_info {
    char address[CONTROL_ADDRESS_BYTES];
    struct control_secret secret;
};
/* Blocking: at once, or some seconds where a record of another host must be seen to be dead.
 * STATUS_USAGE when another live job has the path. */
enum status control_rendezvous_publish(const char *path, const char *job, int world,
                                       const struct control_rendezvous_info *info,
                                       struct control_rendezvous **out);
/* Blocking until a live host's record is there, at most limit_s. Whether the world is the same is
 * the server's to say, to all. `name` is what the message calls a file that the user did not name,
 * on this machine; NULL: its path. */
enum status control_rendezvous_wait(const char *path, const char *name, const char *job,
                                    double limit_s, struct control_rendezvous_info *info,
                                    struct control_rendezvous **out);
/* Local; of a host whose address is a socket without a file ("ipc://@"), which others of this host
 * alone can reach. From now on a client on another host causes a call of `open`, once, from a
 * thread of the rendezvous: it makes the server listen on a network, and the record then has that
 * address. NULL ends it, and blocks while it is being called: before the server stops. */
void control_rendezvous_remote(struct control_rendezvous *rendezvous, void *context,
                               enum status (*open)(void *context,
                                                   char address[CONTROL_ADDRESS_BYTES]));
/* Local. Accepts NULL. */
void control_rendezvous_leave(struct control_rendezvous **rendezvous);

#endif
