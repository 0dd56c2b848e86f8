/* Joining, the key-value store, leaving and losses, with ranks as threads. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "kit.h"

static void all_join(const char *bind, int world) {
    struct kit kit;
    kit_start(&kit, world, bind, 20, 0);
    kit_join(&kit, 0, world);
    for (int i = 0; i < world; i++) cr_assert_eq(kit.rank[i].status, STATUS_OK);
    cr_assert(control_same_bits(kit.rank[0].control));
    cr_assert_eq(control_lost(kit.rank[world - 1].control), CONTROL_NOBODY);
    kit_stop(&kit);
    cr_assert_eq(kit.lost_count, 0);
}

Test(control_join, ipc) {
    all_join(NULL, 5);
}

Test(control_join, tcp) {
    all_join("tcp://127.0.0.1:0", 3);
}

Test(control_join, loopback_unless_named) {
    struct kit kit;
    kit_start(&kit, 1, "tcp://:0", 5, 0);
    cr_assert_eq(strncmp(control_server_address(kit.server), "tcp://127.0.0.1:", 16), 0);
    kit_join(&kit, 0, 1);
    cr_assert_eq(kit.rank[0].status, STATUS_OK);
    kit_stop(&kit);
}

/* The server listens at a second place while it runs; ranks come by both. */
Test(control_join, at_two_places) {
    struct kit kit;
    char address[CONTROL_ADDRESS_BYTES];
    kit_start(&kit, 4, NULL, 20, 0);
    cr_assert_eq(control_server_also(kit.server, "tcp://127.0.0.1:0", address), STATUS_OK);
    cr_assert(strncmp(address, "tcp://127.0.0.1:", 16) == 0, "%s", address);
    for (int i = 0; i < 4; i += 2) kit.rank[i].config.address = address;
    kit_join(&kit, 0, 4);
    for (int i = 0; i < 4; i++) cr_assert_eq(kit.rank[i].status, STATUS_OK);
    kit_stop(&kit);
    cr_assert_eq(kit.lost_count, 0);
}

Test(control_join, one_rank) {
    all_join(NULL, 1);
}

Test(control_join, port_in_use) {
    struct kit kit;
    struct control_server *second = NULL;
    char text[1024];
    kit_start(&kit, 1, "tcp://127.0.0.1:0", 5, 0);
    struct control_server_config config = {.bind = control_server_address(kit.server), .world = 1};
    log_capture(text, sizeof text);
    cr_assert_eq(control_server_start(&config, &second), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_assert(strstr(text, control_server_address(kit.server)), "%s", text);
    cr_expect(!strstr(text, "port 0"), "--init takes none: %s", text);
    cr_assert_null(second);
    kit_stop(&kit);
}

static void *join_one(void *argument) {
    struct kit_rank *rank = argument;
    rank->status = control_join(&rank->config, &rank->control);
    return NULL;
}

/* On a restart a rank may be quicker than the server of the start before is gone. */
Test(control_join, waits_for_the_server_of_its_own_start) {
    struct kit kit;
    char address[CONTROL_ADDRESS_BYTES];
    kit_start(&kit, 1, "tcp://127.0.0.1:0", 60, 0);
    snprintf(address, sizeof address, "%s", control_server_address(kit.server));
    struct kit_rank *rank = &kit.rank[0];
    rank->config.address = address;
    rank->config.epoch = 1;
    pthread_create(&rank->thread, NULL, join_one, rank);
    kit_sleep_ms(300); /* by now it is refused, most often */
    control_server_stop(&kit.server);
    struct control_server_config config = {
        .bind = address, .secret = kit.secret, .epoch = 1, .world = 1};
    cr_assert_eq(control_server_start(&config, &kit.server), STATUS_OK);
    pthread_join(rank->thread, NULL);
    cr_assert_eq(rank->status, STATUS_OK);
    cr_expect_eq(control_lost(rank->control), CONTROL_NOBODY);
    kit_stop(&kit);
}

/* --- servers that never answer --- */

static int listen_at(char address[CONTROL_ADDRESS_BYTES]) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&name, bytes), 0);
    cr_assert_eq(listen(fd, 64), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&name, &bytes), 0);
    snprintf(address, CONTROL_ADDRESS_BYTES, "tcp://127.0.0.1:%d", ntohs(name.sin_port));
    return fd;
}

/* Takes one connection and ends with it, as a server that is killed before its handshake. */
static void *take_one_and_die(void *argument) {
    int listener = *(int *)argument, fd = accept(listener, NULL, NULL);
    close(listener);
    close(fd);
    return NULL;
}

static void join_in_vain(const char *address, const char *says) {
    struct control_config config = {
        .address = address, .world = 2, .rank = 1, .host = "here", .join_limit_s = 3};
    struct control *control = NULL;
    char text[1024];
    log_capture(text, sizeof text);
    cr_assert_eq(control_join(&config, &control), STATUS_PEER);
    log_capture(NULL, 0);
    cr_expect(strstr(text, says), "%s", text);
    cr_expect(!strstr(text, "key"), "%s", text);
}

Test(control_join, a_server_that_dies_is_no_wrong_key) {
    char address[CONTROL_ADDRESS_BYTES];
    pthread_t thread;
    int fd = listen_at(address);
    pthread_create(&thread, NULL, take_one_and_die, &fd);
    join_in_vain(address, "is gone: it was there, and does not listen any more");
    pthread_join(thread, NULL);
}

/* The kernel takes connections for it all the same. */
Test(control_join, a_server_that_stands_still_is_no_wrong_key) {
    char address[CONTROL_ADDRESS_BYTES];
    int fd = listen_at(address);
    join_in_vain(address, "takes connections, but does not answer");
    close(fd);
}

Test(control_key_values, put_and_get) {
    struct kit kit;
    void *value;
    size_t bytes;
    kit_start(&kit, 2, NULL, 20, 0);
    kit_join(&kit, 0, 2);
    cr_assert_eq(control_put(kit.rank[0].control, "a", "first", 5), STATUS_OK);
    cr_assert_eq(control_put(kit.rank[0].control, "a", "second", 6), STATUS_OK);
    cr_assert_eq(control_put(kit.rank[1].control, "empty", NULL, 0), STATUS_OK);
    cr_assert_eq(control_get(kit.rank[1].control, "a", &value, &bytes), STATUS_OK);
    cr_assert_eq(bytes, 6);
    cr_assert_str_eq(value, "second");
    free(value);
    cr_assert_eq(control_get(kit.rank[0].control, "empty", &value, &bytes), STATUS_OK);
    cr_assert_eq(bytes, 0);
    free(value);
    kit_stop(&kit);
}

Test(control_key_values, largest_value) {
    struct kit kit;
    unsigned char *big = malloc(CONTROL_VALUE_BYTES + 1);
    void *value;
    size_t bytes;
    for (int i = 0; i < CONTROL_VALUE_BYTES; i++) big[i] = (unsigned char)(i * 7 + i / 251);
    kit_start(&kit, 1, "tcp://127.0.0.1:0", 20, 0);
    kit_join(&kit, 0, 1);
    cr_assert_eq(control_put(kit.rank[0].control, "k", big, CONTROL_VALUE_BYTES), STATUS_OK);
    cr_assert_eq(control_get(kit.rank[0].control, "k", &value, &bytes), STATUS_OK);
    cr_assert_eq(bytes, CONTROL_VALUE_BYTES);
    cr_assert_eq(memcmp(value, big, bytes), 0);
    free(value);
    cr_assert_eq(control_put(kit.rank[0].control, "k", big, CONTROL_VALUE_BYTES + 1), STATUS_USAGE);
    /* 64 MiB in all: the key-value store is full before the last of these, and says so. */
    enum status status = STATUS_OK;
    char key[16] = "k0";
    for (int i = 0; i < 70 && status == STATUS_OK; i++) {
        key[1] = (char)('0' + i);
        status = control_put(kit.rank[0].control, key, big, CONTROL_VALUE_BYTES);
    }
    cr_assert_eq(status, STATUS_USAGE);
    free(big);
    kit_stop(&kit);
}

Test(control_key_values, key_limits) {
    struct kit kit;
    char key[CONTROL_KEY_BYTES + 2];
    memset(key, 'k', sizeof key);
    key[CONTROL_KEY_BYTES + 1] = 0;
    kit_start(&kit, 1, NULL, 20, 0);
    kit_join(&kit, 0, 1);
    cr_assert_eq(control_put(kit.rank[0].control, key, "x", 1), STATUS_USAGE);
    key[CONTROL_KEY_BYTES] = 0;
    cr_assert_eq(control_put(kit.rank[0].control, key, "x", 1), STATUS_OK);
    cr_assert_eq(control_put(kit.rank[0].control, "", "x", 1), STATUS_USAGE);
    kit_stop(&kit);
}

struct getter {
    struct control *control;
    enum status status;
    void *value;
    size_t bytes;
};

static void *get_late(void *argument) {
    struct getter *getter = argument;
    getter->status = control_get(getter->control, "late", &getter->value, &getter->bytes);
    return NULL;
}

Test(control_key_values, get_waits) {
    struct kit kit;
    pthread_t thread[3];
    struct getter getter[3];
    kit_start(&kit, 2, NULL, 20, 0);
    kit_join(&kit, 0, 2);
    for (int i = 0; i < 3; i++) {
        getter[i] = (struct getter){.control = kit.rank[i % 2].control};
        pthread_create(&thread[i], NULL, get_late, &getter[i]);
    }
    kit_sleep_ms(100);
    cr_assert_eq(control_put(kit.rank[0].control, "late", "now", 3), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        cr_assert_eq(getter[i].status, STATUS_OK);
        cr_assert_str_eq(getter[i].value, "now");
        free(getter[i].value);
    }
    kit_stop(&kit);
}

Test(control_loss, ended_rank_is_news_and_ends_waits) {
    struct kit kit;
    struct getter getter;
    pthread_t thread;
    char text[256];
    kit_start(&kit, 3, NULL, 20, 0);
    kit_join(&kit, 0, 3);
    getter = (struct getter){.control = kit.rank[0].control};
    pthread_create(&thread, NULL, get_late, &getter);
    control_doing(kit.rank[2].control, 12, "#17 B s0 m5");
    kit_sleep_ms(700); /* more than a beat */
    cr_assert_str_eq(control_server_doing(kit.server, 2, text, sizeof text), "step 12 #17 B s0 m5");
    control_server_rank_ended(kit.server, 2, "killed by signal 9");
    cr_assert_geq(kit_await_loss(kit.rank[0].control, 5000), 0);
    cr_assert_geq(kit_await_loss(kit.rank[1].control, 5000), 0);
    cr_assert_eq(control_lost(kit.rank[0].control), 2);
    control_lost_text(kit.rank[1].control, text, sizeof text);
    cr_assert_str_eq(text, "rank 2 (host here) is lost: killed by signal 9");
    pthread_join(thread, NULL);
    cr_assert_eq(getter.status, STATUS_PEER);
    cr_assert_eq(control_put(kit.rank[1].control, "x", "y", 1), STATUS_PEER);
    kit_stop(&kit);
    cr_assert_eq(kit.lost_count, 1, "ranks that leave after a loss are not lost");
    cr_assert_eq(kit.lost_rank, 2);
}

Test(control_loss, who_gives_up_is_lost_and_says_why) {
    struct kit kit;
    char text[200];
    kit_start(&kit, 3, "tcp://127.0.0.1:0", 20, 0);
    kit_join(&kit, 0, 3);
    control_give_up(kit.rank[1].control, "it gave up\n with exit code 3");
    cr_assert_geq(kit_await_loss(kit.rank[0].control, 5000), 0);
    cr_assert_eq(control_lost(kit.rank[0].control), 1);
    cr_assert_eq(control_lost(kit.rank[1].control), 1);
    control_lost_text(kit.rank[0].control, text, sizeof text);
    cr_assert_str_eq(text, "rank 1 (host here) is lost: it gave up? with exit code 3");
    control_leave(&kit.rank[1].control);
    kit_stop(&kit);
    cr_assert(kit.lost_count == 1 && kit.lost_rank == 1);
}

Test(control_loss, clean_leave_is_none) {
    struct kit kit;
    kit_start(&kit, 3, "tcp://127.0.0.1:0", 20, 0);
    kit_join(&kit, 0, 3);
    control_leave(&kit.rank[1].control);
    control_server_rank_ended(kit.server, 1, "exit code 0");
    kit_sleep_ms(400);
    cr_assert_eq(control_lost(kit.rank[0].control), CONTROL_NOBODY);
    kit_stop(&kit);
    cr_assert_eq(kit.lost_count, 0);
}

Test(control_loss, server_stopped) {
    struct kit kit;
    kit_start(&kit, 2, NULL, 20, 0);
    kit_join(&kit, 0, 2);
    control_server_stop(&kit.server);
    cr_assert_geq(kit_await_loss(kit.rank[0].control, 5000), 0);
    cr_assert_eq(control_lost(kit.rank[0].control), CONTROL_SERVER);
    cr_assert_geq(kit_await_loss(kit.rank[1].control, 5000), 0);
    kit_stop(&kit);
}
