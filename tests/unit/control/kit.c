/* See kit.h. */
#include "kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static void heard_loss(void *context, int rank, const char *why) {
    struct kit *kit = context;
    pthread_mutex_lock(&kit->lock);
    if (kit->lost_count++ == 0) {
        kit->lost_rank = rank;
        snprintf(kit->lost_why, sizeof kit->lost_why, "%s", why);
    }
    pthread_mutex_unlock(&kit->lock);
}

void kit_start(struct kit *kit, int world, const char *bind, double join_s, double silent_s) {
    *kit = (struct kit){.world = world, .lost_rank = -1};
    pthread_mutex_init(&kit->lock, NULL);
    cr_assert_eq(control_secret_new(&kit->secret), STATUS_OK);
    struct control_server_config config = {.bind = bind,
                                           .secret = kit->secret,
                                           .world = world,
                                           .join_limit_s = join_s,
                                           .silent_limit_s = silent_s,
                                           .leave_limit_s = 0.5,
                                           .context = kit,
                                           .lost = heard_loss};
    cr_assert_eq(control_server_start(&config, &kit->server), STATUS_OK);
    for (int i = 0; i < KIT_RANKS; i++)
        kit->rank[i].config =
            (struct control_config){.address = control_server_address(kit->server),
                                    .secret = kit->secret,
                                    .rank = i,
                                    .world = world,
                                    .host = "here",
                                    .join_limit_s = join_s};
}

static void *join_one(void *argument) {
    struct kit_rank *rank = argument;
    rank->status = control_join(&rank->config, &rank->control);
    return NULL;
}

void kit_join(struct kit *kit, int first, int last) {
    for (int i = first; i < last; i++)
        pthread_create(&kit->rank[i].thread, NULL, join_one, &kit->rank[i]);
    for (int i = first; i < last; i++) pthread_join(kit->rank[i].thread, NULL);
}

void kit_stop(struct kit *kit) {
    for (int i = 0; i < KIT_RANKS; i++) control_leave(&kit->rank[i].control);
    control_server_stop(&kit->server);
    pthread_mutex_destroy(&kit->lock);
}

int kit_lost_count(struct kit *kit) {
    pthread_mutex_lock(&kit->lock);
    int count = kit->lost_count;
    pthread_mutex_unlock(&kit->lock);
    return count;
}

void kit_sleep_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

int kit_await_loss(struct control *control, int limit_ms) {
    int64_t begin = clock_ns();
    while (control_lost(control) == CONTROL_NOBODY) {
        if (clock_ns() - begin > limit_ms * 1000000LL) return -1;
        kit_sleep_ms(2);
    }
    return (int)((clock_ns() - begin) / 1000000);
}

void kit_await_doing(struct kit *kit, int rank, const char *begin) {
    char seen[200];
    for (;;) {
        control_server_doing(kit->server, rank, seen, sizeof seen);
        if (strncmp(seen, begin, strlen(begin)) == 0) return;
        kit_sleep_ms(2);
    }
}
