/* file:// rendezvous: publishers and clients as processes that die, stale and damaged records, two
 * jobs.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/rendezvous_record.h"
#include "kit.h"

static char folder[64], path[96], lock_path[112];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/stretto-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/meet", folder);
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
}

static void remove_folder(void) {
    folder_remove(folder);
}

static struct control_rendezvous_info some_info(void) {
    struct control_rendezvous_info info = {.address = "tcp://127.0.0.1:4242"};
    cr_assert_eq(control_secret_new(&info.secret), STATUS_OK);
    return info;
}

TestSuite(control_rendezvous, .init = make_folder, .fini = remove_folder);

Test(control_rendezvous, publisher_and_clients) {
    struct control_rendezvous_info info = some_info(), got;
    struct control_rendezvous *publisher = NULL, *client[2] = {NULL};
    cr_assert_eq(control_rendezvous_publish(path, NULL, 3, &info, &publisher), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 5, &got, &client[i]), STATUS_OK);
        cr_assert_str_eq(got.address, info.address);
        cr_assert_arr_eq(got.secret.bytes, info.secret.bytes, 32);
    }
    control_rendezvous_leave(&client[0]);
    control_rendezvous_leave(&publisher);
    cr_assert(file_exists(path), "client 1 has not left yet");
    control_rendezvous_leave(&client[1]);
    cr_assert(!file_exists(path) && !file_exists(lock_path), "the last one removes the files");
    cr_assert_eq(rmdir(folder), 0, "nothing else is left");
}

static void *host_later(void *argument) {
    struct control_rendezvous_info info = {.address = "tcp://127.0.0.1:1"};
    kit_sleep_ms(150);
    control_rendezvous_publish(path, "7", 2, &info, argument);
    return NULL;
}

Test(control_rendezvous, client_first) {
    struct control_rendezvous *publisher = NULL, *client = NULL;
    struct control_rendezvous_info got;
    pthread_t thread;
    pthread_create(&thread, NULL, host_later, &publisher);
    cr_assert_eq(control_rendezvous_wait(path, NULL, "7", 10, &got, &client), STATUS_OK);
    pthread_join(thread, NULL);
    control_rendezvous_leave(&publisher);
    control_rendezvous_leave(&client);
    cr_assert(!file_exists(path));
}

static pid_t host_process(const char *job, int world) {
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct control_rendezvous_info info = {.address = "tcp://127.0.0.1:2"};
        struct control_rendezvous *publisher = NULL;
        if (control_rendezvous_publish(path, job, world, &info, &publisher) != STATUS_OK) _exit(1);
        if (write(ready[1], "x", 1) != 1) _exit(2);
        while (true) pause();
    }
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void end_process(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(control_rendezvous, two_jobs) {
    struct control_rendezvous_info info = some_info();
    struct control_rendezvous *second = NULL, *client = NULL;
    char text[1024], pid_text[32];
    pid_t pid = host_process("one", 2);
    log_capture(text, sizeof text);
    cr_assert_eq(control_rendezvous_publish(path, "two", 2, &info, &second), STATUS_USAGE);
    snprintf(pid_text, sizeof pid_text, "process %d", (int)pid);
    cr_assert(strstr(text, pid_text) && strstr(text, "job one"), "%s", text);
    log_capture(text, sizeof text);
    cr_assert_eq(control_rendezvous_wait(path, NULL, "two", 1, &info, &client), STATUS_USAGE);
    cr_assert(strstr(text, "job one") && strstr(text, "job two"), "%s", text);
    log_capture(NULL, 0);
    cr_assert(file_exists(path), "the first job's record is untouched");
    end_process(pid);
}

Test(control_rendezvous, dead_host) {
    struct control_rendezvous_info info = some_info(), got;
    struct control_rendezvous *publisher = NULL, *client = NULL;
    char text[1024];
    end_process(host_process(NULL, 2));
    cr_assert(file_exists(path));
    log_capture(text, sizeof text);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 0.3, &got, &client), STATUS_PEER);
    cr_assert(strstr(text, "dead job"), "%s", text);
    log_capture(NULL, 0);
    cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &publisher), STATUS_OK);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 5, &got, &client), STATUS_OK);
    cr_assert_str_eq(got.address, info.address);
    control_rendezvous_leave(&client);
    control_rendezvous_leave(&publisher);
    cr_assert(!file_exists(path));
}

/* A record as another machine would write it: without our boot, and no lock we could see. */
static void write_foreign_at(const char *nonce, const char *address) {
    struct control_rendezvous_info info = {.address = ""};
    struct control_rendezvous_record record;
    char text[CONTROL_RENDEZVOUS_BYTES];
    snprintf(info.address, sizeof info.address, "%s", address);
    cr_assert_eq(control_rendezvous_record_new(NULL, 2, &info, &record), STATUS_OK);
    snprintf(record.boot, sizeof record.boot, "another-boot");
    snprintf(record.host, sizeof record.host, "elsewhere");
    snprintf(record.nonce, sizeof record.nonce, "%s", nonce);
    size_t bytes = control_rendezvous_record_print(&record, text);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
    chmod(path, 0600);
}

static void write_foreign(const char *nonce) {
    write_foreign_at(nonce, "tcp://10.0.0.9:5");
}

static void *touch_on(void *argument) {
    volatile bool *stop = argument;
    while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
        kit_sleep_ms(200);
        utimensat(0, path, NULL, 0);
    }
    return NULL;
}

Test(control_rendezvous, host_elsewhere) {
    struct control_rendezvous_info got, info = some_info();
    struct control_rendezvous *client = NULL, *publisher = NULL;
    pthread_t thread;
    bool stop = false;
    char text[1024];
    write_foreign("aa");
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 1, &got, &client), STATUS_PEER,
                 "not touched");
    pthread_create(&thread, NULL, touch_on, &stop);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 10, &got, &client), STATUS_OK);
    cr_assert_str_eq(got.address, "tcp://10.0.0.9:5");
    control_rendezvous_leave(&client);
    write_foreign("bb");
    log_capture(text, sizeof text);
    cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &publisher), STATUS_USAGE,
                 "it lives");
    log_capture(NULL, 0);
    cr_assert(strstr(text, "elsewhere"), "%s", text);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &publisher), STATUS_OK,
                 "it is dead");
    control_rendezvous_leave(&publisher);
}

/* --- servers that listen on their own machine alone --- */

static bool lock_says(const char *words) {
    char text[256] = "";
    FILE *file = fopen(lock_path, "r");
    if (!file) return false;
    bool found = fgets(text, sizeof text, file) && strcmp(text, words) == 0;
    fclose(file);
    return found;
}

/* The publisher's part: it acts on the client's request. */
static void *answer_elsewhere(void *stop) {
    while (!lock_says("remotedd\n")) kit_sleep_ms(5);
    write_foreign_at("dd", "tcp://10.0.0.9:6");
    return touch_on(stop);
}

Test(control_rendezvous, a_client_on_another_host_requests_a_network) {
    struct control_rendezvous_info got;
    struct control_rendezvous *client = NULL;
    pthread_t thread[2];
    bool stop = false;
    write_foreign_at("dd", "ipc://@there");
    fclose(fopen(lock_path, "w"));
    pthread_create(&thread[0], NULL, touch_on, &stop);
    pthread_create(&thread[1], NULL, answer_elsewhere, &stop);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 60, &got, &client), STATUS_OK);
    cr_assert_str_eq(got.address, "tcp://10.0.0.9:6");
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    control_rendezvous_leave(&client);
}

static enum status open_network(void *context, char address[CONTROL_ADDRESS_BYTES]) {
    ++*(int *)context;
    snprintf(address, CONTROL_ADDRESS_BYTES, "tcp://10.0.0.1:7");
    return STATUS_OK;
}

static void read_record(struct control_rendezvous_record *record) {
    char text[CONTROL_RENDEZVOUS_BYTES];
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    cr_assert_eq(control_rendezvous_record_parse(text, bytes, record), CONTROL_RENDEZVOUS_GOOD);
}

static void request_remote(const char *nonce) {
    FILE *file = fopen(lock_path, "r+");
    cr_assert_not_null(file);
    fprintf(file, "remote%s\n", nonce);
    fclose(file);
}

/* Clients of this machine do not open the network; nor does a request for another job's record. */
Test(control_rendezvous, a_publisher_opens_its_network_on_request, .timeout = 60) {
    struct control_rendezvous_info info = some_info(), got;
    struct control_rendezvous *publisher = NULL, *client = NULL;
    struct control_rendezvous_record record;
    int opened = 0;
    snprintf(info.address, sizeof info.address, "ipc://@here");
    cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &publisher), STATUS_OK);
    read_record(&record);
    request_remote("00");
    control_rendezvous_remote(publisher, &opened, open_network);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 5, &got, &client), STATUS_OK);
    cr_assert_str_eq(got.address, "ipc://@here");
    control_rendezvous_leave(&client);
    request_remote(record.nonce);
    while (strcmp(record.info.address, "tcp://10.0.0.1:7") != 0) read_record(&record);
    cr_assert_arr_eq(record.info.secret.bytes, info.secret.bytes, 32);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 5, &got, &client), STATUS_OK,
                 "it still lives");
    cr_assert_str_eq(got.address, "tcp://10.0.0.1:7");
    control_rendezvous_remote(publisher, NULL, NULL);
    cr_expect_eq(opened, 1);
    control_rendezvous_leave(&client);
    control_rendezvous_leave(&publisher);
    cr_assert(!file_exists(path) && !file_exists(lock_path));
}

Test(control_rendezvous, not_ours_is_not_touched) {
    struct control_rendezvous_info info = some_info(), got;
    struct control_rendezvous *rendezvous = NULL;
    struct bytes bytes;
    cr_assert_eq(file_write_text(path, "my thesis\n"), STATUS_OK);
    chmod(path, 0600);
    cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &rendezvous), STATUS_USAGE);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 1, &got, &rendezvous), STATUS_USAGE);
    cr_assert_eq(file_read(path, 100, &bytes), STATUS_OK);
    cr_assert_str_eq((char *)bytes.data, "my thesis\n");
    bytes_free(&bytes);
    chmod(path, 0644);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 1, &got, &rendezvous), STATUS_USAGE,
                 "its mode");
}

/* Nor what lies beside it under the names of the lock and of a new record. */
Test(control_rendezvous, files_beside_it_are_not_touched) {
    static const char *const endings[] = {".lock", ".new"};
    struct control_rendezvous_info info = some_info();
    struct control_rendezvous *rendezvous = NULL;
    for (int i = 0; i < 2; i++) {
        struct bytes bytes;
        char *beside = mem_format("%s%s", path, endings[i]);
        cr_assert_eq(file_write_text(beside, "my thesis\n"), STATUS_OK);
        cr_expect_eq(control_rendezvous_publish(path, NULL, 2, &info, &rendezvous), STATUS_USAGE,
                     "%s", endings[i]);
        cr_assert_eq(file_read(beside, 100, &bytes), STATUS_OK);
        cr_expect_str_eq((char *)bytes.data, "my thesis\n");
        bytes_free(&bytes);
        cr_assert_eq(unlink(beside), 0);
        free(beside);
    }
}

Test(control_rendezvous, deleted_while_in_use) {
    struct control_rendezvous_info info = some_info(), got;
    struct control_rendezvous *publisher = NULL, *client = NULL;
    cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &publisher), STATUS_OK);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 0.2, &got, &client), STATUS_PEER);
    cr_assert_eq(unlink(lock_path), 0);
    control_rendezvous_leave(&publisher);
    cr_assert_eq(rmdir(folder), 0);
}

Test(control_rendezvous, no_folder) {
    struct control_rendezvous_info info = some_info();
    struct control_rendezvous *publisher = NULL;
    char text[1024];
    log_capture(text, sizeof text);
    cr_assert_eq(control_rendezvous_publish("/nowhere/at/all", NULL, 2, &info, &publisher),
                 STATUS_DATA);
    log_capture(NULL, 0);
    cr_assert(strstr(text, "/nowhere/at/all"), "%s", text);
}

/* Every truncation and every flipped bit is noticed; the seed is a real record. */
Test(control_rendezvous_record, damage) {
    struct control_rendezvous_info info = some_info();
    struct control_rendezvous_record record, got;
    char text[CONTROL_RENDEZVOUS_BYTES], damaged[CONTROL_RENDEZVOUS_BYTES];
    cr_assert_eq(control_rendezvous_record_new("job-1", 8, &info, &record), STATUS_OK);
    size_t bytes = control_rendezvous_record_print(&record, text);
    cr_assert_eq(control_rendezvous_record_parse(text, bytes, &got), CONTROL_RENDEZVOUS_GOOD);
    cr_assert_str_eq(got.job, "job-1");
    cr_assert_eq(got.world, 8);
    cr_assert_eq(got.pid, getpid());
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(control_rendezvous_record_parse(text, i, &got), CONTROL_RENDEZVOUS_TORN,
                     "cut at %zu", i);
    for (size_t i = 0; i < 8 * bytes; i++) {
        memcpy(damaged, text, bytes);
        damaged[i / 8] ^= (char)(1 << (i % 8));
        cr_assert_neq(control_rendezvous_record_parse(damaged, bytes, &got),
                      CONTROL_RENDEZVOUS_GOOD, "bit %zu", i);
    }
    memcpy(damaged, text, bytes);
    damaged[bytes] = '\n';
    cr_assert_neq(control_rendezvous_record_parse(damaged, bytes + 1, &got),
                  CONTROL_RENDEZVOUS_GOOD);
}

/* A torn record is waited out by clients and replaced by hosts. */
Test(control_rendezvous, torn_record) {
    struct control_rendezvous_info info = some_info(), got;
    struct control_rendezvous *publisher = NULL, *client = NULL;
    for (int cut = 0; cut < 200; cut += 40) {
        write_foreign("cc");
        cr_assert_eq(truncate(path, cut), 0);
        cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 0.05, &got, &client), STATUS_PEER);
        cr_assert_eq(control_rendezvous_publish(path, NULL, 2, &info, &publisher), STATUS_OK);
        cr_assert_eq(control_rendezvous_wait(path, NULL, NULL, 5, &got, &client), STATUS_OK);
        control_rendezvous_leave(&publisher);
        control_rendezvous_leave(&client);
    }
}
