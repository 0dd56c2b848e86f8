/* MUNGE bootstrap: a client finds its server although others reply at the job's ports, accepts no
 * other reply, and is served among many other connections. The seal here is one of our own, so that
 * its user can be chosen; test_munge.c has the real one. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/munge_bootstrap.h"
#include "control/rendezvous_record.h"

static char job[32];

/* Ports follow from the job, and tests run beside one another. */
static void name_job(void) {
    snprintf(job, sizeof job, "job-%d", (int)getpid());
}

TestSuite(control_bootstrap, .init = name_job);

/* "USER TEXT in hexadecimal" */
static char *sealed_by(const char *user, const char *data, size_t bytes) {
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    fprintf(stream, "%s ", user);
    for (size_t i = 0; i < bytes; i++) fprintf(stream, "%02x", (unsigned char)data[i]);
    fclose(stream);
    return text;
}

static enum status close_as_me(const struct control_seal *seal, const void *data, size_t bytes,
                               char **text) {
    (void)seal;
    *text = sealed_by("me", data, bytes);
    return STATUS_OK;
}

static bool open_as_me(const struct control_seal *seal, const char *text, char **data,
                       size_t *bytes, char why[CONTROL_SEAL_WHY]) {
    (void)seal;
    if (strncmp(text, "me ", 3) != 0) {
        snprintf(why, CONTROL_SEAL_WHY, "not closed by me");
        return false;
    }
    *bytes = strlen(text + 3) / 2;
    *data = mem_new(*bytes + 1);
    for (size_t i = 0; i < *bytes; i++) {
        unsigned byte = 0;
        sscanf(text + 3 + 2 * i, "%2x", &byte);
        (*data)[i] = (char)byte;
    }
    return true;
}

static struct control_bootstrap_config a_config(double limit_s) {
    return (struct control_bootstrap_config){.seal = {.close = close_as_me, .open = open_as_me},
                                             .job = job,
                                             .address = "127.0.0.1",
                                             .world = 2,
                                             .limit_s = limit_s};
}

static struct control_rendezvous_info an_info(void) {
    struct control_rendezvous_info info = {.address = "tcp://127.0.0.1:4242"};
    memset(info.secret.bytes, 0x5a, sizeof info.secret.bytes);
    return info;
}

static void client_finds(const struct control_rendezvous_info *info) {
    struct control_bootstrap_config config = a_config(20);
    struct control_rendezvous_info got = {.address = ""};
    cr_assert_eq(control_bootstrap_fetch(&config, &got), STATUS_OK);
    cr_assert_str_eq(got.address, info->address);
    cr_assert_arr_eq(got.secret.bytes, info->secret.bytes, sizeof got.secret.bytes);
}

Test(control_bootstrap, server_and_clients) {
    struct control_bootstrap *bootstrap = NULL;
    struct control_rendezvous_info info = an_info();
    struct control_bootstrap_config config = a_config(60);
    cr_assert_eq(control_bootstrap_serve(&config, &info, &bootstrap), STATUS_OK);
    for (int i = 0; i < 3; i++) client_finds(&info);
    control_bootstrap_close(&bootstrap);
    cr_assert_null(bootstrap);
}

Test(control_bootstrap, nobody_there) {
    struct control_bootstrap_config config = a_config(0.2);
    struct control_rendezvous_info got;
    char text[1024];
    log_capture(text, sizeof text);
    cr_assert_eq(control_bootstrap_fetch(&config, &got), STATUS_PEER);
    log_capture(NULL, 0);
    cr_assert(strstr(text, "rank 0 of this job did not reply at 127.0.0.1"), "%s", text);
}

/* --- others at the job's ports --- */

struct impostor {
    int listener;
    const char *kind;
    pthread_t thread;
};

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int listen_on(int port) {
    struct sockaddr_in address = loopback(port);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0, "port %d", port);
    cr_assert_eq(listen(fd, 16), 0);
    return fd;
}

/* What one who knows everything but how to close the seal as this user may say; and what this user
 * may have said before, or in another job. */
static char *lie(const char *kind, const char *number) {
    struct control_rendezvous_record record;
    char text[CONTROL_RENDEZVOUS_BYTES];
    struct control_rendezvous_info info = {.address = "tcp://127.0.0.1:666"};
    bool other_job = strcmp(kind, "another job") == 0, old = strcmp(kind, "old") == 0;
    control_rendezvous_record_new(other_job ? "41.0" : job, 2, &info, &record);
    if (!old) snprintf(record.nonce, sizeof record.nonce, "%.32s", number);
    size_t bytes = control_rendezvous_record_print(&record, text);
    if (strcmp(kind, "torn") == 0) bytes -= 3;
    return sealed_by(strcmp(kind, "another user") == 0 ? "him" : "me", text, bytes);
}

static void *deceive(void *argument) {
    struct impostor *impostor = argument;
    char question[64] = "";
    while (true) {
        int fd = accept(impostor->listener, NULL, NULL);
        if (fd < 0) return NULL;
        ssize_t got = recv(fd, question, 49, MSG_WAITALL);
        char *text = strcmp(impostor->kind, "garbage") == 0
                         ? mem_text("HTTP/1.1 400 Bad Request\r\n\r\n")
                     : strcmp(impostor->kind, "flood") == 0 ? memset(mem_new(1 << 20), 'x', 1 << 20)
                                                            : lie(impostor->kind, question + 16);
        size_t bytes = strcmp(impostor->kind, "flood") == 0 ? 1 << 20 : strlen(text);
        if (got == 49 && send(fd, text, bytes, MSG_NOSIGNAL) < 0) got = -1;
        free(text);
        close(fd);
    }
}

static const struct {
    const char *kind, *says;
} lies[] = {
    {"another user", "not closed by me"},
    {"another job", "of another job"},
    {"old", "an old reply"},
    {"torn", "cannot be read"},
    {"garbage", "not closed by me"},
    {"flood", "not closed"},
};

/* The impostor has the first port, so the host takes the next; the client asks at both. */
Test(control_bootstrap, impostors_are_passed_over) {
    int port[CONTROL_BOOTSTRAP_PORTS];
    struct control_bootstrap *bootstrap = NULL;
    struct control_rendezvous_info info = an_info();
    struct control_bootstrap_config config = a_config(60);
    char text[2048];
    control_bootstrap_ports(job, port);
    struct impostor impostor = {.listener = listen_on(port[0]), .kind = lies[0].kind};
    pthread_create(&impostor.thread, NULL, deceive, &impostor);
    cr_assert_eq(control_bootstrap_serve(&config, &info, &bootstrap), STATUS_OK);
    cr_expect_eq(control_bootstrap_port(bootstrap), port[1]);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        impostor.kind = lies[i].kind;
        log_capture(text, sizeof text);
        client_finds(&info);
        log_capture(NULL, 0);
        cr_expect(strstr(text, lies[i].says), "%s: %s", lies[i].kind, text);
    }
    shutdown(impostor.listener, SHUT_RDWR);
    pthread_join(impostor.thread, NULL);
    close(impostor.listener);
    control_bootstrap_close(&bootstrap);
}

Test(control_bootstrap, impostor_alone_is_not_believed) {
    int port[CONTROL_BOOTSTRAP_PORTS];
    struct control_bootstrap_config config = a_config(0.3);
    struct control_rendezvous_info got;
    char text[2048];
    control_bootstrap_ports(job, port);
    struct impostor impostor = {.listener = listen_on(port[2]), .kind = "another user"};
    pthread_create(&impostor.thread, NULL, deceive, &impostor);
    log_capture(text, sizeof text);
    cr_assert_eq(control_bootstrap_fetch(&config, &got), STATUS_PEER);
    log_capture(NULL, 0);
    cr_expect(strstr(text, "replies, but is refused: not closed by me"), "%s", text);
    shutdown(impostor.listener, SHUT_RDWR);
    pthread_join(impostor.thread, NULL);
    close(impostor.listener);
}

Test(control_bootstrap, no_free_port) {
    int port[CONTROL_BOOTSTRAP_PORTS], taken[CONTROL_BOOTSTRAP_PORTS];
    struct control_bootstrap *bootstrap = NULL;
    struct control_rendezvous_info info = an_info();
    struct control_bootstrap_config config = a_config(60);
    char text[1024];
    control_bootstrap_ports(job, port);
    for (int i = 0; i < CONTROL_BOOTSTRAP_PORTS; i++) taken[i] = listen_on(port[i]);
    log_capture(text, sizeof text);
    cr_assert_eq(control_bootstrap_serve(&config, &info, &bootstrap), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_assert_null(bootstrap);
    cr_expect(strstr(text, "no free port for the MUNGE bootstrap"), "%s", text);
    for (int i = 0; i < CONTROL_BOOTSTRAP_PORTS; i++) close(taken[i]);
}

/* --- many clients --- */

static int connect_to(int port, const char *words) {
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_geq(send(fd, words, strlen(words), MSG_NOSIGNAL), 0);
    return fd;
}

Test(control_bootstrap, many_clients) {
    enum { CLIENTS = 300 };
    static const char *const words[] = {"", "stretto munge 1 0123", "GET / HTTP/1.1\r\n\r\n"};
    static int fd[CLIENTS];
    int port[CONTROL_BOOTSTRAP_PORTS];
    struct control_bootstrap *bootstrap = NULL;
    struct control_rendezvous_info info = an_info();
    struct control_bootstrap_config config = a_config(60);
    control_bootstrap_ports(job, port);
    cr_assert_eq(control_bootstrap_serve(&config, &info, &bootstrap), STATUS_OK);
    for (int i = 0; i < CLIENTS; i++) fd[i] = connect_to(port[0], words[i % 3]);
    client_finds(&info);
    /* What is no question gets no answer. */
    int bad = connect_to(port[0], "stretto munge 1 0123456789ABCDEF0123456789abcdef\n");
    char byte;
    cr_expect_eq(recv(bad, &byte, 1, 0), 0);
    close(bad);
    /* The oldest were pushed out long before their time. */
    struct pollfd first = {.fd = fd[0], .events = POLLIN};
    cr_expect_eq(poll(&first, 1, 10000), 1);
    for (int i = 0; i < CLIENTS; i++) close(fd[i]);
    control_bootstrap_close(&bootstrap);
}

/* A host closes by itself when its time is over: nobody can join any more. */
Test(control_bootstrap, closes_by_itself) {
    int port[CONTROL_BOOTSTRAP_PORTS];
    struct control_bootstrap *bootstrap = NULL;
    struct control_rendezvous_info info = an_info();
    struct control_bootstrap_config config = a_config(0.1);
    control_bootstrap_ports(job, port);
    cr_assert_eq(control_bootstrap_serve(&config, &info, &bootstrap), STATUS_OK);
    struct sockaddr_in address = loopback(port[0]);
    int answers = 0, tries = 0;
    do {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        usleep(20000);
    } while (answers && tries++ < 2000);
    cr_assert(!answers);
    control_bootstrap_close(&bootstrap);
}
