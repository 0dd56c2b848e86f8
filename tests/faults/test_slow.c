/* The slow ones: connections that say little or nothing are closed in time, however they spread
 * their bytes; a member that does not read what it asked for costs a bounded queue, and no other
 * rank waits for it. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/keys.h"
#include "control/message.h"
#include "process.h"

static struct control_server *serve(struct process_job *job, int world, double silent_s) {
    struct control_server *server = NULL;
    log_quiet(true); /* before there are threads */
    process_job(job, world, 60, silent_s);
    snprintf(job->address, sizeof job->address, "tcp://127.0.0.1:0");
    struct control_server_config config = process_server_config(job);
    cr_assert_eq(control_server_start(&config, &server), STATUS_OK);
    snprintf(job->address, sizeof job->address, "%s", control_server_address(server));
    return server;
}

static int connect_to(const struct process_job *job) {
    int port = atoi(strrchr(job->address, ':') + 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* What the server says is read and thrown away; true once it has closed. */
static bool closed_within(int fd, int limit_ms) {
    char text[256];
    struct pollfd item = {.fd = fd, .events = POLLIN};
    while (poll(&item, 1, limit_ms) > 0)
        if (recv(fd, text, sizeof text, 0) <= 0) return true;
    return false;
}

/* The greeting of ZMTP 3 with CURVE: signature, version, mechanism, padding. */
static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE";

/* Silent at once, or after so many bytes of a greeting: closed, without a word more from us. The
 * time is ZeroMQ's (CONTROL_HANDSHAKE_MS); here it only must not be for ever. */
Test(faults_slow, silent_after_a_few_bytes, .timeout = 100) {
    static const size_t said[] = {0, 1, 10, 11, 63, 64};
    struct process_job job;
    struct control_server *server = serve(&job, 1, 0);
    int fd[sizeof said / sizeof said[0]];
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        fd[i] = connect_to(&job);
        cr_assert_eq(send(fd[i], greeting, said[i], 0), (ssize_t)said[i]);
    }
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        cr_expect(closed_within(fd[i], 60000), "after %zu bytes", said[i]);
        close(fd[i]);
    }
    control_server_stop(&server);
}

/* A byte now and then does not buy time: the limit is on the handshake, not on a pause in it. The
 * bytes of a greeting would last for 64 seconds. */
Test(faults_slow, a_byte_a_second, .timeout = 100) {
    struct process_job job;
    struct control_server *server = serve(&job, 1, 0);
    int fd = connect_to(&job);
    size_t sent = 0;
    bool closed = false;
    while (!closed && sent < sizeof greeting) {
        closed = send(fd, greeting + sent++, 1, MSG_NOSIGNAL) != 1 || closed_within(fd, 1000);
    }
    cr_assert(closed, "open after %zu bytes", sent);
    close(fd);
    control_server_stop(&server);
}

/* --- a member that does not read --- */

struct deaf {
    void *zmq, *dealer;
    struct control_message out;
};

static void say(struct deaf *deaf, enum control_message_type type) {
    deaf->out.type = type;
    deaf->out.rank = 1;
    deaf->out.id++;
    while (control_message_send(deaf->dealer, NULL, &deaf->out) != 0) process_sleep_ms(1);
    deaf->out.bytes = 0;
}

/* Joins as rank 1 of 2 by hand. Takes in one message itself, so that the rest stay at the server.
 */
static void deaf_open(struct deaf *deaf, const struct process_job *job) {
    struct control_keys keys;
    int none = 0, one = 1, small = 4096;
    *deaf = (struct deaf){.zmq = zmq_ctx_new()};
    deaf->dealer = zmq_socket(deaf->zmq, ZMQ_DEALER);
    cr_assert_eq(control_keys_derive(&job->secret, &keys), STATUS_OK);
    zmq_setsockopt(deaf->dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(deaf->dealer, ZMQ_RCVHWM, &one, sizeof one);
    zmq_setsockopt(deaf->dealer, ZMQ_RCVBUF, &small, sizeof small);
    zmq_setsockopt(deaf->dealer, ZMQ_CURVE_SERVERKEY, keys.server_public, CONTROL_KEY_TEXT);
    zmq_setsockopt(deaf->dealer, ZMQ_CURVE_PUBLICKEY, keys.client_public, CONTROL_KEY_TEXT);
    zmq_setsockopt(deaf->dealer, ZMQ_CURVE_SECRETKEY, keys.client_secret, CONTROL_KEY_TEXT);
    cr_assert_eq(zmq_connect(deaf->dealer, job->address), 0);
    control_pack_u32(&deaf->out, 2);
    control_pack_u32(&deaf->out, (uint32_t)getpid());
    control_pack_text(&deaf->out, "here", 63);
    control_pack_u32(&deaf->out, 0);
    say(deaf, CONTROL_HELLO);
}

static void deaf_close(struct deaf *deaf) {
    zmq_close(deaf->dealer);
    zmq_ctx_term(deaf->zmq);
    control_message_free(&deaf->out);
}

/* Two thousand answers of a megabyte would be two gigabytes. */
Test(faults_slow, member_that_does_not_read, .timeout = 100) {
    enum { ASKED = 2000, MOST = 256 << 20 };
    struct process_job job;
    struct deaf deaf;
    struct control *control = NULL;
    struct control_server *server = serve(&job, 2, 5);
    char *big = mem_new(CONTROL_VALUE_BYTES), text[512];
    void *value;
    size_t bytes;
    deaf_open(&deaf, &job);
    struct control_config config = process_rank_config(&job, 0);
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    cr_assert_eq(control_put(control, "big", big, CONTROL_VALUE_BYTES), STATUS_OK);
    mem_reset_peak();
    size_t before = mem_resident_bytes();
    for (int i = 0; i < ASKED; i++) {
        control_pack_text(&deaf.out, "big", CONTROL_KEY_BYTES);
        say(&deaf, CONTROL_GET);
    }
    /* The others are served meanwhile; the key it puts last says that all were answered. */
    control_pack_text(&deaf.out, "last", CONTROL_KEY_BYTES);
    control_pack_bytes(&deaf.out, "x", 1);
    say(&deaf, CONTROL_PUT);
    cr_assert_eq(control_put(control, "small", "x", 1), STATUS_OK);
    cr_assert_eq(control_get(control, "last", &value, &bytes), STATUS_OK);
    free(value);
    size_t now = mem_peak_bytes();
    fprintf(stderr, "grown by %zu MiB\n", (now - before) >> 20);
    if (!process_sanitized) cr_expect_lt(now - before, MOST);
    /* It does not beat either: in the end it is given up, and the others hear of it. */
    while (control_lost(control) == CONTROL_NOBODY) process_sleep_ms(20);
    cr_expect_eq(control_lost(control), 1);
    cr_expect(strstr(control_lost_text(control, text, sizeof text), "silent"), "%s", text);
    control_leave(&control);
    deaf_close(&deaf);
    control_server_stop(&server);
    free(big);
}
