/* A job inside one process for the tests of the control plane: a server, and ranks as threads. */
#ifndef TESTS_CONTROL_KIT_H
#define TESTS_CONTROL_KIT_H

#include <pthread.h>

#include "control/control.h"

enum { KIT_RANKS = 64 };

struct kit_rank {
    struct control_config config;
    struct control *control;
    enum status status;
    pthread_t thread;
};

struct kit {
    struct control_secret secret;
    struct control_server *server;
    struct kit_rank rank[KIT_RANKS];
    int world;
    /* What the callback heard. */
    pthread_mutex_t lock;
    int lost_count, lost_rank;
    char lost_why[256];
};

/* Starts a server for `world` ranks and prepares each rank's config; nobody joins yet. Limits of 0
 * are the defaults. */
void kit_start(struct kit *kit, int world, const char *bind, double join_s, double silent_s);
/* Joins ranks [first, last) at once, each in a thread, and awaits them all. */
void kit_join(struct kit *kit, int first, int last);
/* All that joined leave, then the server stops. */
void kit_stop(struct kit *kit);
int kit_lost_count(struct kit *kit);
void kit_sleep_ms(int ms);
/* Awaits that the rank hears of a loss; the milliseconds it took, or -1 after `limit_ms`. */
int kit_await_loss(struct control *control, int limit_ms);

/* Awaits a beat that tells the server that the rank is at something that begins so. */
void kit_await_doing(struct kit *kit, int rank, const char *begin);

#endif
