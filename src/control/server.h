/* Inside the server: what it knows of each rank. Private to src/control.
 *
 * The server's thread alone changes anything here; it holds the lock while it changes what other
 * threads may read (rows' state and doing, the queue of ended ranks). */
#ifndef CONTROL_SERVER_H
#define CONTROL_SERVER_H

#include <pthread.h>

#include "control/agree.h"
#include "control/control.h"
#include "control/key_values.h"
#include "control/message.h"
#include "control/socket.h"

enum control_state {
    CONTROL_ABSENT,
    CONTROL_JOINED, /* its HELLO was taken */
    CONTROL_LEFT,
    CONTROL_LOST,
};

struct control_member {
    enum control_state state;
    struct control_peer peer;
    int fd, pid;
    char host[CONTROL_HOST_BYTES];
    struct control_facts facts;
    int64_t heard_ns;  /* of the watch */
    int64_t closed_ns; /* its connection closed then; 0: it did not */
    int64_t beat_ns;   /* of the watch: it said then what it does, */
    int64_t doing_ns;  /* and that it had been doing it for so long */
    struct control_doing doing;
};

struct control_ended {
    struct control_ended *next;
    int rank;
    char why[CONTROL_WHY_BYTES];
};

/* A request to listen at a further address. */
struct control_also {
    const char *bind;
    char *address;
    enum status status;
    bool done;
};

struct control_server {
    struct control_server_config config;
    char address[CONTROL_ADDRESS_BYTES];
    char client_public[CONTROL_KEY_TEXT];
    void *zmq, *router, *zap, *monitor;
    int wake; /* eventfd */
    pthread_t thread;
    pthread_mutex_t lock;
    struct control_ended *ended; /* newest first */
    bool stop, print;            /* requests of other threads */
    struct control_also *also;   /* another; NULL: none */
    pthread_cond_t also_done;
    struct control_member *member; /* [world] */
    int joined;                    /* that came, whatever became of them */
    bool said_missing;             /* for whom it waits */
    bool welcome;                  /* all came and agree */
    bool failed;                   /* nobody will be welcome any more */
    /* Of ranks that were told another world: how many came, the least and the most ranks they speak
     * of; how many of them have a number outside of ours, and when the last of these came. */
    int claims, least_claimed, most_claimed, outside;
    int64_t outside_ns;
    enum status failed_status;
    char failed_why[CONTROL_WHY_BYTES];
    struct control_key_values *key_values;
    struct control_message in, out;
    struct control_watch watch;
    int64_t now_ns, begin_ns, unauthenticated_logged_ns;
    long unauthenticated;
};

struct control_where;

/* The server's thread, not blocking. */
/* What is known of a rank now; the texts are those of its row. */
void control_server_where(struct control_server *server, int rank, struct control_where *out);
/* The rank's row of the status table, which a launcher here has for its own ranks; NULL: none. */
struct control_row *control_server_row(const struct control_server *server, int rank);
void control_server_message(struct control_server *server);
void control_server_closed(struct control_server *server, int fd);
void control_server_timers(struct control_server *server);
void control_server_lose(struct control_server *server, int rank, const char *why);
void control_server_fail(struct control_server *server, enum status status, const char *why);
/* Reads the events of the socket; a HELLO is taken only after those before it. */
void control_server_events(struct control_server *server);
void control_server_found(void *context, int rank, uint64_t id, const void *value, size_t bytes);
void control_facts_free(struct control_facts *facts);

#endif
