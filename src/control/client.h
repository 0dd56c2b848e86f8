/* Inside a client. Private to src/control.
 *
 * The client's thread owns the socket. Other threads hand it requests through a list under the lock
 * and sleep on the condition until theirs is done; the descriptor `wake` gets the thread out of its
 * poll. */
#ifndef CONTROL_CLIENT_H
#define CONTROL_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "control/agree.h"
#include "control/control.h"
#include "control/message.h"
#include "control/socket.h"
#include "control/stall_message.h"

struct control_request {
    struct control_request *next;
    struct control_message message;
    bool sent, done;
    enum status status;
    char text[CONTROL_WHY_BYTES]; /* when refused */
    void *value;                  /* malloced; the asker's when done */
    size_t bytes;
};

/* What became of the newest try to connect. */
enum control_try {
    CONTROL_UNTRIED,
    CONTROL_REFUSED,    /* nobody listens there */
    CONTROL_CONNECTED,  /* somebody does, and has not answered yet */
    CONTROL_UNANSWERED, /* nor did in the time of a handshake */
    CONTROL_OTHER_KEY,  /* closed the connection in the middle of the handshake */
};

enum control_phase { CONTROL_JOINING, CONTROL_MEMBER, CONTROL_OUT };

struct control {
    int rank, world, server_pid;
    uint32_t epoch;
    char address[CONTROL_ADDRESS_BYTES], host[CONTROL_HOST_BYTES];
    void *zmq, *dealer, *monitor;
    int wake;
    pthread_t thread;

    pthread_mutex_t lock; /* of all up to `lost` */
    pthread_cond_t changed;
    enum control_phase phase;
    enum status status;          /* when out: why join failed */
    char why[CONTROL_WHY_BYTES]; /* the same for people; or who is lost */
    char
        there[CONTROL_WHY_BYTES]; /* "host h1 (ranks 0-1)": of the server; "": not known, or here */
    struct control_request *first; /* open requests */
    uint64_t next_id;
    bool stop, greeted, same_bits; /* greeted: connected, HELLO said */
    enum control_try newest;
    int64_t newest_ns;        /* when that was seen */
    int connects, other_keys; /* how many of them */
    int64_t silent_limit_ns;
    struct control_stall stall;
    _Atomic int lost;

    struct control_row *row, own_row; /* what the rank does: the launcher's row, or its own */

    /* The thread's own. */
    struct control_message in, hello, beat;
    bool hello_sent;
    bool known;       /* the server has spoken, and is of this start */
    int64_t hello_ns; /* HELLO is not said again before */
    int64_t heard_ns, beat_ns;
    struct control_watch watch;
};

/* Blocking, until done, lost, or `limit_s` passed (0: no limit). `what` names the wait in the
 * stall message after ten seconds. The request's message is set up by the caller and freed here. */
enum status control_ask(struct control *control, struct control_request *request, double limit_s,
                        const char *what);
void control_lose(struct control *control, int rank, const char *why);
void *control_client_run(void *argument);

#endif
