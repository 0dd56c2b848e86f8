/* ZeroMQ sockets with every limit set, and threads that take no signals. Private to src/control. */
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "control/keys.h"

enum { CONTROL_ZMQ_THREADS = 2 }; /* ZeroMQ's own */
enum { CONTROL_HANDSHAKE_MS = 2000, CONTROL_BEAT_MS = 500 };

/* Local. A ROUTER that lets in who has the client key, bound to `bind` (see
 * control_server_config); the address clients use goes to `address`. */
enum status control_socket_listen(void *zmq, const char *bind, const struct control_keys *keys,
                                  double silent_limit_s, char address[CONTROL_ADDRESS_BYTES],
                                  void **out);
/* Local, of the thread that has the socket. Binds that ROUTER to one more place. */
enum status control_socket_also(void *socket, const char *bind,
                                char address[CONTROL_ADDRESS_BYTES]);
/* Local. A DEALER that connects, and goes on trying; its events arrive on `monitor`, which watches
 * before it connects: a connection made sooner than that would never be heard of. */
enum status control_socket_connect(void *zmq, const char *address, const struct control_keys *keys,
                                   int events, void **out, void **monitor);
/* Local. A socket on which the events of `socket` arrive. */
enum status control_socket_monitor(void *zmq, void *socket, int events, void **out);
/* Local, not blocking. The next event and its value (a descriptor or errno); false: none. */
bool control_socket_event(void *monitor, int *event, int *value);
/* Local. The socket ZeroMQ asks whether a client key is known, and the answer to what it asks. */
enum status control_zap_open(void *zmq, void **out);
void control_zap_answer(void *zap, const char client_public[CONTROL_KEY_TEXT]);

/* A clock for silence: the time this process was paused (stopped, suspended, starved) is taken out
 * of it. Call often, at least each CONTROL_BEAT_MS; a gap above a second counts as a pause. */
struct control_watch {
    int64_t last_ns, paused_ns;
};
int64_t control_watch_ns(struct control_watch *watch);

#endif
